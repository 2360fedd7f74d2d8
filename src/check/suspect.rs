//! Pods with GPUs that move bytes by TCP and own no queue pair: a fallback that no log shows.
//!
//! A fold over looks: pure, each verdict derived from the previous one and the current facts. It says
//! *suspect* and never more than that: data may be loaded, models served and checkpoints written by
//! TCP, too. Missing facts make a pod unknown, never suspect.

mod evidence;

use super::{ReasonDoc, policy::Nccl};
use crate::observe::{GpuPod, Moved, NodeRdma, OwnedQps, PodQps, PodTraffic, TrafficLook};
use crate::units::Millis;
use evidence::{evidence, rate_text};
use serde::Serialize;
use std::collections::BTreeMap;

/// RDMA ports that move less than this share of the threshold do not carry a job's traffic.
const MOVES_SHARE: f64 = 0.01;

/// Interfaces that move this many times the bytes of IP carry traffic that bypasses the IP layer.
const WITHOUT_IP: f64 = 2.0;

/// Traffic this many times larger one way looks like a download or a server, not like collectives.
const ONE_WAY: f64 = 10.0;

/// The state of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectState {
    /// It owns queue pairs, and their ports move bytes.
    Cleared,
    /// It has moved bytes by TCP without a queue pair for long enough.
    Suspect,
    /// The pod moves less than the threshold.
    Idle,
    /// Facts are missing, or were not observed for long enough.
    Unknown,
}

/// The verdict on one pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suspect {
    /// UID of the pod.
    pub uid: String,
    /// Its name, job and GPUs.
    #[serde(skip)]
    pub pod: GpuPod,
    /// Suspect, cleared, idle or unknown.
    pub state: SuspectState,
    /// When the state last changed.
    #[serde(skip)]
    pub since: Millis,
    /// The reason in CamelCase: `TcpOnly`, `RdmaMoves`, `LittleTraffic`, `Watching`, `HostNetwork` …
    pub reason: String,
    /// One sentence that says why.
    pub message: String,
    /// What to do; empty unless suspect.
    pub remedy: String,
    /// The numbers behind it.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// Since when it has moved bytes by TCP without a queue pair.
    #[serde(skip)]
    pub above_since: Option<Millis>,
}

/// Verdicts by the UID of the pod.
pub type Suspects = BTreeMap<String, Suspect>;

impl Suspect {
    /// `namespace/pod`, or the UID where the name is unknown.
    pub fn subject(&self) -> String {
        match self.pod.name.is_empty() {
            true => self.uid.clone(),
            false => format!("{}/{}", self.pod.namespace, self.pod.name),
        }
    }
}

/// The verdicts on all pods, from the previous ones and one sample.
pub fn judge_all(before: &Suspects, look: &TrafficLook, policy: &Nccl) -> Suspects {
    let judged = look.pods.iter().map(|(uid, pod)| {
        let suspect = judge(before.get(uid), &look.node, pod, policy);
        (uid.clone(), suspect)
    });
    judged.collect()
}

/// The verdict on one pod, from the previous one and one sample.
fn judge(before: Option<&Suspect>, node: &NodeRdma, pod: &PodTraffic, policy: &Nccl) -> Suspect {
    let (state, reason, message) = weigh(node, pod, policy);
    let mut suspect = Suspect {
        uid: pod.uid.clone(),
        pod: pod.pod.clone(),
        state,
        since: pod.at,
        reason: reason.to_string(),
        message,
        remedy: String::new(),
        evidence: evidence(node, pod),
        above_since: None,
    };
    if state == SuspectState::Suspect {
        let since = before.and_then(|before| before.above_since);
        let since = since.or(pod.from).unwrap_or(pod.at);
        suspect.above_since = Some(since);
        let stood = pod.at.since(since);
        (suspect.evidence).insert("for_seconds".into(), stood.as_secs().into());
        if stood < policy.suspect_after.0 {
            (suspect.state, suspect.reason) = (SuspectState::Unknown, "Watching".into());
        } else {
            suspect.remedy = ReasonDoc::of("NcclSuspect").remedy().into();
        }
    }
    if let Some(before) = before.filter(|before| before.state == suspect.state) {
        suspect.since = before.since;
    }
    suspect
}

/// A state, its reason and a sentence that says why.
type Opinion = (SuspectState, &'static str, String);

const NO_PROCESS: &str = "none of its processes is visible: it has ended, or the agent lacks the node's PID namespace (hostPID)";
const SHARED_NETWORK: &str =
    "it shares the node's network namespace: its traffic cannot be separated from the node's";
const UNKNOWN_NETWORK: &str =
    "whether it shares the node's network namespace is unknown, and so is whose traffic this is";

/// Judges the facts of one look; *suspect* regardless of how long.
fn weigh(node: &NodeRdma, pod: &PodTraffic, policy: &Nccl) -> Opinion {
    let unknown = |reason, message: &str| (SuspectState::Unknown, reason, message.to_string());
    if pod.processes == 0 {
        return unknown("NoProcess", NO_PROCESS);
    }
    let threshold = policy.suspect_bytes_per_second as f64;
    if let PodQps::Known(owned) = &pod.qps
        && owned.rc + owned.other > 0
    {
        return with_queue_pairs(pod, owned, threshold);
    }
    if let Some(why) = &pod.unreadable {
        let message = format!("what it moves cannot be read: {why}");
        return unknown("Unreadable", &message);
    }
    let Some(moved) = &pod.per_second else {
        let message = "it was observed once: rates need two observations";
        return unknown("FirstLook", message);
    };
    if moved.tcp.total() <= threshold {
        return little(pod, moved, threshold);
    }
    match pod.host_network {
        Some(false) => by_tcp(node, pod, moved),
        Some(true) if pod.pod.alone => by_tcp(node, pod, moved),
        Some(true) => unknown("HostNetwork", SHARED_NETWORK),
        None => unknown("HostNetwork", UNKNOWN_NETWORK),
    }
}

/// A pod that moves much by TCP: suspect, unless queue pairs may be its own or none could be.
fn by_tcp(node: &NodeRdma, pod: &PodTraffic, moved: &Moved) -> Opinion {
    let rate = rate_text(moved.tcp.total());
    let unknown = |reason, why: &str| {
        let message = format!("it moves {rate} by TCP{why}");
        (SuspectState::Unknown, reason, message)
    };
    if let Some(why) = &node.unknown {
        return unknown("RdmaUnknown", &format!("; RDMA devices are unknown: {why}"));
    }
    if node.exclusive == Some(true) {
        let why = "; RDMA devices are bound to network namespaces (exclusive mode), and its own are not visible from here";
        return unknown("ExclusiveDevices", why);
    }
    if node.devices.is_empty() {
        let why = "; this node has no RDMA device to use instead";
        return unknown("NoRdmaDevice", why);
    }
    match &pod.qps {
        PodQps::NotListed => unknown("NotListed", "; queue pairs were not listed"),
        PodQps::Unknown(why) => {
            let why = format!("; whether it owns queue pairs is unknown: {why}");
            unknown("QueuePairsUnknown", &why)
        }
        PodQps::Known(OwnedQps { datagram, .. }) if *datagram > 0 => {
            let which = "which of the two carries its data is unknown";
            let why = format!(", and owns {datagram} datagram queue pairs: {which}");
            unknown("DatagramOnly", &why)
        }
        PodQps::Known(_) => {
            let (processes, way) = (pod.processes, one_way(moved));
            let whose = match (pod.pod.alone, pod.pod.gpus) {
                (true, _) => "on a host with GPUs and no other job".to_string(),
                (false, gpus) => format!("with {gpus} GPUs"),
            };
            let message = format!(
                "{processes} processes {whose} move {rate} by TCP and own no RDMA queue pair{way}"
            );
            (SuspectState::Suspect, "TcpOnly", message)
        }
    }
}

/// A pod that owns queue pairs by which NCCL may move bytes is never a suspect.
fn with_queue_pairs(pod: &PodTraffic, owned: &OwnedQps, threshold: f64) -> Opinion {
    let (count, devices) = (owned.rc + owned.other, owned.devices.join(", "));
    let owns = |state, reason, how: &str| {
        let message = format!("owns {count} queue pairs of {devices}{how}");
        (state, reason, message)
    };
    let above = (pod.per_second.as_ref()).is_some_and(|moved| moved.tcp.total() > threshold);
    match pod.rdma_per_second {
        Some(rate) if owned.ready > 0 && rate > threshold * MOVES_SHARE => {
            let how = format!(", whose ports move {}", rate_text(rate));
            owns(SuspectState::Cleared, "RdmaMoves", &how)
        }
        None => {
            let how = "; what their ports move is not yet known";
            owns(SuspectState::Unknown, "RdmaRateUnknown", how)
        }
        Some(_) if above => {
            let how = ", whose ports are quiet while it moves bytes by TCP";
            owns(SuspectState::Unknown, "RdmaSilent", how)
        }
        Some(_) => {
            let how = ", and moves little either way";
            owns(SuspectState::Idle, "LittleTraffic", how)
        }
    }
}

/// Little TCP; but traffic that bypasses its namespace's IP layer is not visible.
fn little(pod: &PodTraffic, moved: &Moved, threshold: f64) -> Opinion {
    let links = moved.links.total();
    if pod.host_network != Some(true) && links > threshold && links > moved.ip.total() * WITHOUT_IP
    {
        let message = format!(
            "its interfaces move {} that bypass its network namespace's IP layer, as for a virtual machine or RDMA",
            rate_text(links)
        );
        return (SuspectState::Unknown, "NoIpLayer", message);
    }
    let message = format!("moves {} by TCP", rate_text(moved.tcp.total()));
    (SuspectState::Idle, "LittleTraffic", message)
}

fn one_way(moved: &Moved) -> &'static str {
    match moved.tcp {
        tcp if tcp.received > tcp.sent * ONE_WAY => "; nearly all of it received, as in a download",
        tcp if tcp.sent > tcp.received * ONE_WAY => "; nearly all of it sent, as in an upload",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
