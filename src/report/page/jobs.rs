//! This node's jobs: what their NCCL uses between nodes.

use super::{badge::Badge, context::PageContext};
use crate::check::nccl::{Fallback, NcclVerdict};
use crate::check::suspect::{Suspect, SuspectState};

/// Jobs, suspects and pods shown of each kind.
pub(super) const MAX_JOBS: usize = 24;

impl<'a> PageContext<'a> {
    pub(super) fn has_jobs(&self) -> bool {
        let jobs = &self.report.jobs;
        jobs.withheld
            || !jobs.containers.is_empty()
            || jobs.logs.is_some()
            || !jobs.no_rdma.is_empty()
            || !jobs.daemon_troubles.is_empty()
            || !jobs.suspects.is_empty()
    }

    pub(super) fn suspects(&self) -> Vec<&'a Suspect> {
        let all = self.report.jobs.suspects.values();
        all.filter(|pod| pod.state == SuspectState::Suspect)
            .collect()
    }

    /// How a job does, as severity and word.
    pub(super) fn judged(&self, verdict: &NcclVerdict) -> (Badge, &'static str) {
        if verdict.init_hangs_since.is_some() {
            return (Badge::Degraded, "init hangs");
        }
        let network = verdict.network.title();
        match verdict.tcp_fallback {
            Fallback::Yes => (Badge::Degraded, "fell back to TCP"),
            Fallback::Configured => (Badge::Notice, "TCP, as configured"),
            Fallback::Unknown => (Badge::Unknown, "network not known"),
            Fallback::No if verdict.remedies.is_empty() => (Badge::Ok, network),
            Fallback::No => (Badge::Notice, network),
        }
    }
}
