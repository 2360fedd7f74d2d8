//! Pods with GPUs that move bytes by TCP and own no queue pair: the fallback that no log admits.
//!
//! A fold over looks: pure, each verdict made of the one before and the facts of now. It says
//! *suspect* and never more than that: data may be loaded, models served and checkpoints written by
//! TCP, too. Whatever cannot be told is unknown, and unknown is no suspicion.

mod evidence;

use super::policy::Nccl;
use super::{Candidate, ReasonDoc, Status, Timing, Weight};
use crate::observe::traffic::{GpuPod, Moved, NodeRdma, OwnedQps, PodQps, PodTraffic, TrafficLook};
use crate::units::Millis;
use evidence::{evidence, rate_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const ID: &str = "nccl_suspect";

/// What a suspect is told as.
pub const SUSPECT: ReasonDoc = ReasonDoc {
    reason: "NcclSuspect",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A pod with GPUs moves many bytes by TCP while its processes own no RDMA queue pair: NCCL may have fallen back to sockets without a word in any log.",
    remedy: "Ask NCCL itself: run the job with NCCL_DEBUG=INFO (or with selvage's sidecar) and give its log to `selvage nccl`. If the bytes are a data set, a checkpoint or requests, this is no fallback.",
};

/// RDMA ports that move less than this share of the threshold do not move a job's bytes.
const MOVES_SHARE: f64 = 0.01;

/// Bytes that pass a namespace without its IP layer are told when they are this many times those of
/// IP.
const WITHOUT_IP: f64 = 2.0;

/// One way is this many times the other: more like a download or a server than like collectives.
const ONE_WAY: f64 = 10.0;

/// What is thought of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Owns queue pairs, and their ports move bytes.
    Cleared,
    /// Moves bytes by TCP and owns no queue pair, for long enough.
    Suspect,
    /// Moves little.
    Idle,
    /// Cannot be told, or not yet.
    Unknown,
}

/// The verdict on one pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// UID.
    pub uid: String,
    /// Who it is.
    pub pod: GpuPod,
    /// What is thought of it.
    pub state: State,
    /// Since when that is thought.
    pub since: Millis,
    /// Why, in CamelCase: `TcpOnly`, `RdmaMoves`, `LittleTraffic`, `Watching`, `HostNetwork` …
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// What to do; empty where there is nothing.
    pub remedy: String,
    /// Numbers that it rests on.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// Since when it moves bytes by TCP without a queue pair.
    pub above_since: Option<Millis>,
}

impl Suspect {
    /// `namespace/pod`, or the UID where nobody tells the name.
    pub fn subject(&self) -> String {
        match self.pod.name.is_empty() {
            true => self.uid.clone(),
            false => format!("{}/{}", self.pod.namespace, self.pod.name),
        }
    }

    /// The finding about a suspect; none in every other state.
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

/// The verdicts on all pods, from those before and one look.
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

/// The verdict on one pod.
pub fn judge(
    before: Option<&Suspect>,
    node: &NodeRdma,
    pod: &PodTraffic,
    policy: &Nccl,
) -> Suspect {
    let told = weigh(node, pod, policy);
    let mut suspect = Suspect {
        uid: pod.uid.clone(),
        pod: pod.pod.clone(),
        state: told.state,
        since: pod.at,
        reason: told.reason.to_string(),
        message: told.message,
        remedy: String::new(),
        evidence: evidence(node, pod),
        above_since: None,
    };
    if told.state == State::Suspect {
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

struct Told {
    state: State,
    reason: &'static str,
    message: String,
}

fn told(state: State, reason: &'static str, message: impl Into<String>) -> Told {
    Told {
        state,
        reason,
        message: message.into(),
    }
}

/// What the facts of one look say; *suspect* without regard to how long.
fn weigh(node: &NodeRdma, pod: &PodTraffic, policy: &Nccl) -> Told {
    let unknown = |reason, message: &str| told(State::Unknown, reason, message);
    if pod.processes == 0 {
        return unknown(
            "NoProcess",
            "none of its processes is seen: it has ended, or the agent lacks the node's PID namespace (hostPID)",
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
        return unknown("FirstLook", "it was looked at once: rates take two looks");
    };
    let rate = moved.tcp.total();
    if rate <= threshold {
        return little(pod, moved, threshold);
    }
    if pod.host_network != Some(false) {
        let of = match pod.host_network {
            Some(true) => {
                "it shares the node's network namespace: its bytes are not told from the node's"
            }
            _ => {
                "whether it shares the node's network namespace cannot be told, and so not whose its bytes are"
            }
        };
        return unknown("HostNetwork", of);
    }
    let by_tcp = format!("moves {} by TCP", rate_text(rate));
    if let Some(why) = &node.unknown {
        return unknown(
            "RdmaUnknown",
            &format!("it {by_tcp}; RDMA devices are not known: {why}"),
        );
    }
    if node.exclusive == Some(true) {
        return unknown(
            "ExclusiveDevices",
            &format!(
                "it {by_tcp}; RDMA devices are bound to network namespaces (exclusive mode), and its own are not seen from here"
            ),
        );
    }
    if node.devices.is_empty() {
        return unknown(
            "NoRdmaDevice",
            &format!("it {by_tcp}; this node has no RDMA device that it could use instead"),
        );
    }
    match &pod.qps {
        PodQps::NotListed => unknown(
            "NotListed",
            &format!("it {by_tcp}; queue pairs were not listed"),
        ),
        PodQps::Unknown(why) => unknown(
            "QueuePairsUnknown",
            &format!("it {by_tcp}; whether it owns queue pairs is not known: {why}"),
        ),
        PodQps::Known(owned) if owned.datagram > 0 => unknown(
            "DatagramOnly",
            &format!(
                "it {by_tcp}, and owns {} datagram queue pairs: by which its bytes go cannot be told",
                owned.datagram
            ),
        ),
        PodQps::Known(_) => told(
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
fn with_queue_pairs(pod: &PodTraffic, owned: &OwnedQps, threshold: f64) -> Told {
    let count = owned.rc + owned.other;
    let devices = owned.devices.join(", ");
    let above = (pod.per_second.as_ref()).is_some_and(|moved| moved.tcp.total() > threshold);
    match pod.rdma_per_second {
        Some(rate) if owned.ready > 0 && rate > threshold * MOVES_SHARE => told(
            State::Cleared,
            "RdmaMoves",
            format!(
                "owns {count} queue pairs of {devices}, whose ports move {}",
                rate_text(rate)
            ),
        ),
        None => told(
            State::Unknown,
            "RdmaRateUnknown",
            format!(
                "owns {count} queue pairs of {devices}; what their ports move is not known yet"
            ),
        ),
        Some(_) if above => told(
            State::Unknown,
            "RdmaSilent",
            format!(
                "owns {count} queue pairs of {devices}, whose ports are quiet while it moves bytes by TCP"
            ),
        ),
        Some(_) => told(
            State::Idle,
            "LittleTraffic",
            format!("owns {count} queue pairs of {devices}, and moves little either way"),
        ),
    }
}

/// Little TCP; but of bytes that pass its namespace without the IP layer nothing is known.
fn little(pod: &PodTraffic, moved: &Moved, threshold: f64) -> Told {
    let links = moved.links.total();
    if pod.host_network != Some(true) && links > threshold && links > moved.ip.total() * WITHOUT_IP
    {
        return told(
            State::Unknown,
            "NoIpLayer",
            format!(
                "its interfaces move {} that its network namespace's IP layer does not see, as of a virtual machine or by RDMA",
                rate_text(links)
            ),
        );
    }
    told(
        State::Idle,
        "LittleTraffic",
        format!("moves {} by TCP", rate_text(moved.tcp.total())),
    )
}

fn one_way(moved: &Moved) -> &'static str {
    let (received, sent) = (moved.tcp.received, moved.tcp.sent);
    if received > sent * ONE_WAY {
        "; nearly all of it is received, as of a download"
    } else if sent > received * ONE_WAY {
        "; nearly all of it is sent, as of an upload"
    } else {
        ""
    }
}

#[cfg(test)]
#[path = "nccl_suspect_tests.rs"]
mod tests;
