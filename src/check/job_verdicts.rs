//! Verdicts on the jobs of this node: one for each container, pods without RDMA, suspects.

use super::nccl::{Fallback, NcclVerdict, Network};
use super::{nccl_daemon::DaemonTrouble, nccl_pods::NoRdma, suspect::Suspects};
use crate::observe::{ContainerKey, PodJob};
use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Source of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictSource {
    /// The log of the container itself.
    Log,
    /// Reported by a sidecar.
    Sidecar,
    /// An earlier run of the agent, which read lines that are gone by now.
    Remembered,
}

/// One container with the verdict on its NCCL.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerVerdict {
    /// Pod and name of the container.
    pub key: ContainerKey,
    /// The job that its pod belongs to, if known.
    pub job: Option<PodJob>,
    /// When `tcp_fallback` last changed, on the agent's clock.
    pub since: Millis,
    /// Source of the verdict.
    pub via: VerdictSource,
    /// The container belongs to the spec of a pod that asks for GPUs: only then it may say something of
    /// the node.
    pub of_job: bool,
    /// What its NCCL uses, and why.
    pub verdict: Arc<NcclVerdict>,
}

impl ContainerVerdict {
    /// `namespace/pod/container`, or `job 12` without a pod.
    pub fn subject(&self) -> String {
        let key = &self.key;
        if let Some(job) = key.job() {
            return format!("job {job}");
        }
        format!("{}/{}/{}", key.namespace, key.pod, key.container)
    }
}

/// Progress of reading the pods' logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogReading {
    /// Containers whose log is followed.
    pub containers: u64,
    /// Bytes read since the agent started.
    pub bytes: u64,
    /// Lines dropped: too long, or a malformed verdict of a sidecar.
    pub lines_dropped: u64,
    /// Number of bytes that were deleted before they could be read.
    pub bytes_lost: u64,
}

/// How often bounds on what pods can make the agent hold or say took effect, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodLimits {
    /// What a container's log said was given up for its size.
    pub logs: u64,
    /// What the API server says of a pod was left out, for its size or the number of pods.
    pub manifests: u64,
    /// A change was neither logged nor published as an Event: its pod, or its namespace, had too many.
    pub announcements: u64,
}

/// This node's jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Jobs {
    /// Names and logs of pods were left out, as nothing proves who asks.
    pub withheld: bool,
    /// Containers whose logs hold NCCL's lines, worst first.
    pub containers: Vec<Arc<ContainerVerdict>>,
    /// How many of the latest jobs in a row fell back to TCP on this node.
    pub fallbacks_in_a_row: u32,
    /// Number of the namespaces of these jobs.
    pub fallback_namespaces: u32,
    /// How often a bound on what pods can make the agent hold or say took effect.
    pub limited: PodLimits,
    /// Pods that asked for GPUs and for no RDMA device.
    pub no_rdma: Vec<NoRdma>,
    /// Pods whose GPUDirect-TCPX(O) daemon is missing or down.
    pub daemon_troubles: Vec<DaemonTrouble>,
    /// Verdicts on pods with GPUs by their traffic, by UID.
    pub suspects: Arc<Suspects>,
    /// Running pods with GPUDirect-TCPX(O)'s daemon; `None` where pods are unknown.
    pub tcp_daemons: Option<usize>,
    /// Progress of reading; `None` where logs are not read.
    pub logs: Option<LogReading>,
}

/// Whether each of the last jobs fell back to TCP between nodes, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes(VecDeque<(String, bool)>);

impl Outcomes {
    /// Most jobs remembered.
    const MOST: usize = 16;

    /// Records a job's current verdict; of a new run, in place of the one before. Jobs of one node, and those
    /// without a verdict, say nothing about the fabric: false.
    pub fn note(&mut self, job: &str, verdict: &NcclVerdict, is_new: bool) -> bool {
        let fell_back = match (verdict.tcp_fallback, verdict.network) {
            (Fallback::Yes, _) => true,
            (Fallback::No, Network::None | Network::Unknown) => return false,
            (Fallback::No, _) => false,
            (Fallback::Configured | Fallback::Unknown, _) => return false,
        };
        if is_new {
            self.forget(job);
        }
        match self.0.iter_mut().find(|(name, _)| name == job) {
            // One of its pods that fell back is enough.
            Some((_, known)) => *known |= fell_back,
            None => {
                if self.0.len() >= Self::MOST {
                    self.0.pop_front();
                }
                self.0.push_back((job.to_string(), fell_back));
            }
        }
        true
    }

    /// Forgets what was noted by this name, as the job is now known by another.
    pub fn forget(&mut self, job: &str) {
        self.0.retain(|(name, _)| name != job);
    }

    /// Limited to [`Self::MOST`]: a state file may hold anything.
    pub fn bounded(mut self) -> Self {
        let more = self.0.len().saturating_sub(Self::MOST);
        self.0.drain(..more);
        self
    }

    /// Number of latest jobs in a row that fell back, and of their namespaces.
    pub fn fallbacks_in_a_row(&self) -> (u32, u32) {
        let last = || self.0.iter().rev().take_while(|(_, fell_back)| *fell_back);
        let namespaces: BTreeSet<_> = last().map(|(job, _)| job.split('/').next()).collect();
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        (number(last().count()), number(namespaces.len()))
    }
}
