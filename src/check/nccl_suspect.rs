//! Pods with GPUs that move bytes by TCP and own no queue pair: a fallback that no log shows.
//!
//! A fold over looks: pure, each verdict derived from the previous one and the current facts. It says
//! *suspect* and never more than that: data may be loaded, models served and checkpoints written by
//! TCP, too. Missing facts make a pod unknown, never suspect.

mod evidence;

use super::policy::Nccl;
use super::{Candidate, Check, Context, ReasonDoc, Status, Timing, Weight};
use crate::observe::traffic::{GpuPod, Moved, NodeRdma, OwnedQps, PodQps, PodTraffic, TrafficLook};
use crate::units::Millis;
use evidence::{evidence, rate_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const ID: &str = "nccl_suspect";

/// The finding about a suspect.
const SUSPECT: ReasonDoc = ReasonDoc {
    reason: "NcclSuspect",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A pod with GPUs moves many bytes by TCP while its processes own no RDMA queue pair: NCCL may have fallen back to sockets without logging it.",
    remedy: "Run the job with NCCL_DEBUG=INFO (or with selvage's sidecar) and pass its log to `selvage nccl`. If the traffic is a data set, a checkpoint or requests, this is not a fallback.",
};

/// Registers the check.
pub const CHECK: Check = Check {
    id: ID,
    title: "NCCL without a log",
    what: "Pods that hold GPUs, own no RDMA queue pair and move many bytes by TCP: a fallback that no log shows. A suspicion, never more than a notice.",
    reasons: &[SUSPECT],
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let suspects = context.jobs.iter().flat_map(|jobs| jobs.suspects.values());
    suspects.filter_map(Suspect::candidate).collect()
}

/// RDMA ports that move less than this share of the threshold do not carry a job's traffic.
const MOVES_SHARE: f64 = 0.01;

/// Interfaces that move this many times the bytes of IP carry traffic that bypasses the IP layer.
const WITHOUT_IP: f64 = 2.0;

/// Traffic this many times larger one way looks like a download or a server, not like collectives.
const ONE_WAY: f64 = 10.0;

/// The state of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// UID of the pod.
    pub uid: String,
    /// Its name, job and GPUs.
    pub pod: GpuPod,
    /// Suspect, cleared, idle or unknown.
    pub state: State,
    /// When the state last changed.
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
    pub above_since: Option<Millis>,
}

impl Suspect {
    /// `namespace/pod`, or the UID where the name is unknown.
    pub fn subject(&self) -> String {
        match self.pod.name.is_empty() {
            true => self.uid.clone(),
            false => format!("{}/{}", self.pod.namespace, self.pod.name),
        }
    }

    /// The finding about a suspect; `None` in every other state.
    pub fn candidate(&self) -> Option<Candidate> {
        let timing = Timing {
            raise_after: Duration::ZERO,
            clear_after: Duration::ZERO,
        };
        (self.state == State::Suspect).then(|| {
            let id = (self.uid.clone(), self.subject());
            let mut candidate = SUSPECT.candidate(ID, id, timing, self.message.clone());
            candidate.evidence = self.evidence.clone();
            candidate
        })
    }
}

/// The verdicts on all pods, from the previous ones and one sample.
pub fn judge_all(
    before: &BTreeMap<String, Suspect>,
    look: &TrafficLook,
    policy: &Nccl,
) -> BTreeMap<String, Suspect> {
    let judged = look.pods.iter().map(|(uid, pod)| {
        let suspect = judge(before.get(uid), &look.node, pod, policy);
        (uid.clone(), suspect)
    });
    judged.collect()
}

/// The verdict on one pod, from the previous one and one sample.
pub fn judge(
    before: Option<&Suspect>,
    node: &NodeRdma,
    pod: &PodTraffic,
    policy: &Nccl,
) -> Suspect {
    let opinion = weigh(node, pod, policy);
    let mut suspect = Suspect {
        uid: pod.uid.clone(),
        pod: pod.pod.clone(),
        state: opinion.state,
        since: pod.at,
        reason: opinion.reason.to_string(),
        message: opinion.message,
        remedy: String::new(),
        evidence: evidence(node, pod),
        above_since: None,
    };
    if opinion.state == State::Suspect {
        let since = before.and_then(|before| before.above_since);
        let since = since.or(pod.from).unwrap_or(pod.at);
        suspect.above_since = Some(since);
        let stood = pod.at.since(since);
        suspect
            .evidence
            .insert("for_seconds".into(), stood.as_secs().into());
        if stood < policy.suspect_after.0 {
            suspect.state = State::Unknown;
            suspect.reason = "Watching".into();
        } else {
            suspect.remedy = SUSPECT.remedy.into();
        }
    }
    if let Some(before) = before
        && before.state == suspect.state
    {
        suspect.since = before.since;
    }
    suspect
}

struct Opinion {
    state: State,
    reason: &'static str,
    message: String,
}

fn opinion(state: State, reason: &'static str, message: impl Into<String>) -> Opinion {
    Opinion {
        state,
        reason,
        message: message.into(),
    }
}

/// Judges the facts of one look; *suspect* regardless of how long.
fn weigh(node: &NodeRdma, pod: &PodTraffic, policy: &Nccl) -> Opinion {
    let unknown = |reason, message: &str| opinion(State::Unknown, reason, message);
    if pod.processes == 0 {
        return unknown(
            "NoProcess",
            "none of its processes is visible: it has ended, or the agent lacks the node's PID namespace (hostPID)",
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "rates need no last byte")]
    let threshold = policy.suspect_bytes_per_second as f64;
    if let PodQps::Known(owned) = &pod.qps
        && owned.rc + owned.other > 0
    {
        return with_queue_pairs(pod, owned, threshold);
    }
    if let Some(why) = &pod.unreadable {
        return unknown(
            "Unreadable",
            &format!("what it moves cannot be read: {why}"),
        );
    }
    let Some(moved) = &pod.per_second else {
        return unknown(
            "FirstLook",
            "it was observed once: rates need two observations",
        );
    };
    let rate = moved.tcp.total();
    if rate <= threshold {
        return little(pod, moved, threshold);
    }
    if pod.host_network != Some(false) {
        let of = match pod.host_network {
            Some(true) => {
                "it shares the node's network namespace: its traffic cannot be separated from the node's"
            }
            _ => {
                "whether it shares the node's network namespace is unknown, and so is whose traffic this is"
            }
        };
        return unknown("HostNetwork", of);
    }
    let by_tcp = format!("moves {} by TCP", rate_text(rate));
    if let Some(why) = &node.unknown {
        return unknown(
            "RdmaUnknown",
            &format!("it {by_tcp}; RDMA devices are unknown: {why}"),
        );
    }
    if node.exclusive == Some(true) {
        return unknown(
            "ExclusiveDevices",
            &format!(
                "it {by_tcp}; RDMA devices are bound to network namespaces (exclusive mode), and its own are not visible from here"
            ),
        );
    }
    if node.devices.is_empty() {
        return unknown(
            "NoRdmaDevice",
            &format!("it {by_tcp}; this node has no RDMA device to use instead"),
        );
    }
    match &pod.qps {
        PodQps::NotListed => unknown(
            "NotListed",
            &format!("it {by_tcp}; queue pairs were not listed"),
        ),
        PodQps::Unknown(why) => unknown(
            "QueuePairsUnknown",
            &format!("it {by_tcp}; whether it owns queue pairs is unknown: {why}"),
        ),
        PodQps::Known(owned) if owned.datagram > 0 => unknown(
            "DatagramOnly",
            &format!(
                "it {by_tcp}, and owns {} datagram queue pairs: which of the two carries its data is unknown",
                owned.datagram
            ),
        ),
        PodQps::Known(_) => opinion(
            State::Suspect,
            "TcpOnly",
            format!(
                "{} processes with {} GPUs move {} by TCP and own no RDMA queue pair{}",
                pod.processes,
                pod.pod.gpus,
                rate_text(rate),
                one_way(moved)
            ),
        ),
    }
}

/// A pod that owns queue pairs by which NCCL may move bytes is never a suspect.
fn with_queue_pairs(pod: &PodTraffic, owned: &OwnedQps, threshold: f64) -> Opinion {
    let count = owned.rc + owned.other;
    let devices = owned.devices.join(", ");
    let above = (pod.per_second.as_ref()).is_some_and(|moved| moved.tcp.total() > threshold);
    match pod.rdma_per_second {
        Some(rate) if owned.ready > 0 && rate > threshold * MOVES_SHARE => opinion(
            State::Cleared,
            "RdmaMoves",
            format!(
                "owns {count} queue pairs of {devices}, whose ports move {}",
                rate_text(rate)
            ),
        ),
        None => opinion(
            State::Unknown,
            "RdmaRateUnknown",
            format!(
                "owns {count} queue pairs of {devices}; what their ports move is not yet known"
            ),
        ),
        Some(_) if above => opinion(
            State::Unknown,
            "RdmaSilent",
            format!(
                "owns {count} queue pairs of {devices}, whose ports are quiet while it moves bytes by TCP"
            ),
        ),
        Some(_) => opinion(
            State::Idle,
            "LittleTraffic",
            format!("owns {count} queue pairs of {devices}, and moves little either way"),
        ),
    }
}

/// Little TCP; but traffic that bypasses its namespace's IP layer is not visible.
fn little(pod: &PodTraffic, moved: &Moved, threshold: f64) -> Opinion {
    let links = moved.links.total();
    if pod.host_network != Some(true) && links > threshold && links > moved.ip.total() * WITHOUT_IP
    {
        return opinion(
            State::Unknown,
            "NoIpLayer",
            format!(
                "its interfaces move {} that bypass its network namespace's IP layer, as for a virtual machine or RDMA",
                rate_text(links)
            ),
        );
    }
    opinion(
        State::Idle,
        "LittleTraffic",
        format!("moves {} by TCP", rate_text(moved.tcp.total())),
    )
}

fn one_way(moved: &Moved) -> &'static str {
    let (received, sent) = (moved.tcp.received, moved.tcp.sent);
    if received > sent * ONE_WAY {
        "; nearly all of it received, as in a download"
    } else if sent > received * ONE_WAY {
        "; nearly all of it sent, as in an upload"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
