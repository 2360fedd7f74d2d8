//! Pods with GPUs that move bytes by TCP and own no queue pair: a fallback without a log.
//!
//! A pure fold over samples: each verdict follows from the previous one and the current facts. It never
//! says more than *suspect*: loading data, serving models and writing checkpoints use TCP, too. What
//! cannot be observed is unknown, and unknown is not a suspicion.

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
    meaning: "A pod with GPUs moves many bytes by TCP while its processes own no RDMA queue pair: NCCL may have fallen back to sockets without a word in any log.",
    remedy: "Ask NCCL itself: run the job with NCCL_DEBUG=INFO (or with selvage's sidecar) and give its log to `selvage nccl`. If the bytes are a data set, a checkpoint or requests, this is not a fallback.",
};

/// The check's row in the table of checks.
pub const CHECK: Check = Check {
    id: ID,
    title: "NCCL without a log",
    what: "Pods that hold GPUs, own no RDMA queue pair and move many bytes by TCP: the fallback that no log admits. A suspicion, never more than a notice.",
    reasons: &[SUSPECT],
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let suspects = context.jobs.iter().flat_map(|jobs| jobs.suspects.values());
    suspects.filter_map(Suspect::candidate).collect()
}

/// RDMA ports below this share of the threshold do not carry a job's data.
const MOVES_SHARE: f64 = 0.01;

/// Bytes that bypass the IP layer of a namespace matter from this multiple of its IP bytes on.
const WITHOUT_IP: f64 = 2.0;

/// From this ratio of one direction to the other on, traffic is more like a download or a server than like
/// collectives.
const ONE_WAY: f64 = 10.0;

/// The state of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It owns queue pairs, and their ports move bytes.
    Cleared,
    /// It has moved bytes by TCP without a queue pair for long enough.
    Suspect,
    /// It moves few bytes.
    Idle,
    /// It cannot be judged, or not yet.
    Unknown,
}

/// The verdict on one pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// UID of the pod.
    pub uid: String,
    /// Name and GPUs of the pod.
    pub pod: GpuPod,
    /// Its state.
    pub state: State,
    /// Start of that state.
    pub since: Millis,
    /// Reason code: `TcpOnly`, `RdmaMoves`, `LittleTraffic`, `Watching`, `HostNetwork` …
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// What to do; empty if there is nothing to do.
    pub remedy: String,
    /// Numbers that the verdict rests on.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// Since when it has moved bytes by TCP without a queue pair.
    pub above_since: Option<Millis>,
}

impl Suspect {
    /// `namespace/pod`, or the UID if the name is unknown.
    pub fn subject(&self) -> String {
        match self.pod.name.is_empty() {
            true => self.uid.clone(),
            false => format!("{}/{}", self.pod.namespace, self.pod.name),
        }
    }

    /// The finding about a suspect. `None` in every other state.
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
    let judged = weigh(node, pod, policy);
    let mut suspect = Suspect {
        uid: pod.uid.clone(),
        pod: pod.pod.clone(),
        state: judged.state,
        since: pod.at,
        reason: judged.reason.to_string(),
        message: judged.message,
        remedy: String::new(),
        evidence: evidence(node, pod),
        above_since: None,
    };
    if judged.state == State::Suspect {
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

/// State, reason and message by one sample.
struct Judgement {
    state: State,
    reason: &'static str,
    message: String,
}

fn judgement(state: State, reason: &'static str, message: impl Into<String>) -> Judgement {
    Judgement {
        state,
        reason,
        message: message.into(),
    }
}

/// Judges one sample; *suspect* regardless of how long.
fn weigh(node: &NodeRdma, pod: &PodTraffic, policy: &Nccl) -> Judgement {
    let unknown = |reason, message: &str| judgement(State::Unknown, reason, message);
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
        return unknown("FirstLook", "only one sample so far: rates need two");
    };
    let rate = moved.tcp.total();
    if rate <= threshold {
        return little(pod, moved, threshold);
    }
    if pod.host_network != Some(false) {
        let of = match pod.host_network {
            Some(true) => {
                "it shares the node's network namespace: its bytes cannot be told apart from the node's"
            }
            _ => {
                "whether it shares the node's network namespace is unknown, and so is whose bytes these are"
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
                "it {by_tcp}; RDMA devices are bound to network namespaces (exclusive mode), and its own cannot be observed from here"
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
            &format!("it {by_tcp}; whether it owns queue pairs is unknown: {why}"),
        ),
        PodQps::Known(owned) if owned.datagram > 0 => unknown(
            "DatagramOnly",
            &format!(
                "it {by_tcp}, and owns {} datagram queue pairs: which of the two carries its bytes is unknown",
                owned.datagram
            ),
        ),
        PodQps::Known(_) => judgement(
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

/// A pod that owns queue pairs that NCCL may use is never a suspect.
fn with_queue_pairs(pod: &PodTraffic, owned: &OwnedQps, threshold: f64) -> Judgement {
    let count = owned.rc + owned.other;
    let devices = owned.devices.join(", ");
    let above = (pod.per_second.as_ref()).is_some_and(|moved| moved.tcp.total() > threshold);
    match pod.rdma_per_second {
        Some(rate) if owned.ready > 0 && rate > threshold * MOVES_SHARE => judgement(
            State::Cleared,
            "RdmaMoves",
            format!(
                "owns {count} queue pairs of {devices}, whose ports move {}",
                rate_text(rate)
            ),
        ),
        None => judgement(
            State::Unknown,
            "RdmaRateUnknown",
            format!(
                "owns {count} queue pairs of {devices}; the traffic of their ports is not known yet"
            ),
        ),
        Some(_) if above => judgement(
            State::Unknown,
            "RdmaSilent",
            format!(
                "owns {count} queue pairs of {devices}, whose ports are quiet while it moves bytes by TCP"
            ),
        ),
        Some(_) => judgement(
            State::Idle,
            "LittleTraffic",
            format!("owns {count} queue pairs of {devices}, and moves little either way"),
        ),
    }
}

/// Judges a pod with little TCP; bytes that bypass the IP layer of its namespace are unknown.
fn little(pod: &PodTraffic, moved: &Moved, threshold: f64) -> Judgement {
    let links = moved.links.total();
    if pod.host_network != Some(true) && links > threshold && links > moved.ip.total() * WITHOUT_IP
    {
        return judgement(
            State::Unknown,
            "NoIpLayer",
            format!(
                "its interfaces move {} that bypass the IP layer of its network namespace, as a virtual machine or RDMA does",
                rate_text(links)
            ),
        );
    }
    judgement(
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
