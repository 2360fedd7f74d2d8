//! This node's jobs: what their NCCL uses between nodes.

use super::{context::PageContext, severity_icon::Severity};
use crate::check::nccl::{Fallback, NcclVerdict};
use crate::check::suspect::{Suspect, SuspectState};

/// Jobs, suspects and pods shown of each kind.
const MAX_JOBS: usize = 24;

impl<'a> PageContext<'a> {
    pub(super) fn max_jobs(&self) -> usize {
        self.shown(MAX_JOBS)
    }

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
    pub(super) fn judged(&self, verdict: &NcclVerdict) -> (Severity, &'static str) {
        if verdict.init_hangs_since.is_some() {
            return (Severity::Degraded, "init hangs");
        }
        let network = verdict.network.title();
        match verdict.tcp_fallback {
            Fallback::Yes => (Severity::Degraded, "fell back to TCP"),
            Fallback::Configured => (Severity::Notice, "TCP, as configured"),
            Fallback::Unknown => (Severity::Unknown, "network not known"),
            Fallback::No if verdict.remedies.is_empty() => (Severity::Ok, network),
            Fallback::No => (Severity::Notice, network),
        }
    }
}
