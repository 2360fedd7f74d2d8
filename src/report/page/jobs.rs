//! This node's jobs: what their NCCL uses between nodes.

use super::context::Context;
use super::severity_icon::Severity;
use crate::check::nccl::{Fallback, NcclVerdict, Network};
use crate::check::nccl_suspect::{State, Suspect};

/// Jobs, suspects and pods shown of each kind.
const MAX_JOBS: usize = 24;

/// A pod that lacks something: what, subject, message, remedy.
type Notice<'a> = (&'static str, &'a str, &'a str, &'a str);

impl<'a> Context<'a> {
    pub(super) fn has_jobs(&self) -> bool {
        let jobs = &self.report.jobs;
        !jobs.containers.is_empty()
            || jobs.logs.is_some()
            || !jobs.no_rdma.is_empty()
            || !jobs.daemon_troubles.is_empty()
            || !jobs.suspects.is_empty()
    }

    pub(super) fn max_jobs(&self) -> usize {
        self.shown(MAX_JOBS)
    }

    pub(super) fn suspects(&self) -> Vec<&'a Suspect> {
        let all = self.report.jobs.suspects.values();
        all.filter(|pod| pod.state == State::Suspect).collect()
    }

    pub(super) fn notices(&self) -> Vec<Notice<'a>> {
        let jobs = &self.report.jobs;
        let no_rdma = self.rows(&jobs.no_rdma, MAX_JOBS).map(|pod| {
            let (subject, message) = (pod.subject.as_str(), pod.message.as_str());
            ("no RDMA device", subject, message, pod.remedy.as_str())
        });
        let daemons = self.rows(&jobs.daemon_troubles, MAX_JOBS).map(|pod| {
            let what = match pod.daemon {
                None => "no daemon",
                Some(_) => "daemon down",
            };
            let (subject, message) = (pod.subject.as_str(), pod.message.as_str());
            (what, subject, message, pod.remedy.as_str())
        });
        no_rdma.chain(daemons).collect()
    }

    /// How a job does, as severity and word.
    pub(super) fn judged(&self, verdict: &NcclVerdict) -> (Severity, &'static str) {
        if verdict.init_hangs_since.is_some() {
            return (Severity::Degraded, "init hangs");
        }
        match verdict.tcp_fallback {
            Fallback::Yes => (Severity::Degraded, "fell back to TCP"),
            Fallback::Configured => (Severity::Notice, "TCP, as configured"),
            Fallback::Unknown => (Severity::Unknown, "network not known"),
            Fallback::No if verdict.remedies.is_empty() => (Severity::Ok, network(verdict.network)),
            Fallback::No => (Severity::Notice, network(verdict.network)),
        }
    }

    pub(super) fn job_facts(&self, verdict: &NcclVerdict) -> Vec<(&'static str, String)> {
        let gpudirect = match verdict.gdrdma {
            Some(true) => "used",
            Some(false) => "not used",
            None => "not shown",
        };
        let used = verdict.channels.iter().filter(|(_, count)| **count > 0);
        let used: Vec<String> = used
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let init = match (verdict.init_complete, verdict.init_seconds) {
            (_, Some(seconds)) => Some(format!("{seconds:.1} s")),
            (Some(true), None) => Some("complete".into()),
            (Some(false), None) => Some("failed".into()),
            (None, None) => None,
        };
        [
            ("network", Some(network(verdict.network).to_string())),
            ("GPUDirect RDMA", Some(gpudirect.into())),
            ("connections", (!used.is_empty()).then(|| used.join(", "))),
            ("ranks", verdict.nranks.map(|ranks| ranks.to_string())),
            ("nodes", verdict.nodes.map(|nodes| nodes.to_string())),
            ("init", init),
            ("NCCL", verdict.nccl_version.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// A network in words.
fn network(network: Network) -> &'static str {
    match network {
        Network::Ib => "InfiniBand",
        Network::Roce => "RoCE",
        Network::IbOrRoce => "InfiniBand or RoCE",
        Network::Socket => "TCP",
        Network::Ofi => "libfabric",
        Network::Fastrak => "GPUDirect-TCPXO",
        Network::Tcpx => "GPUDirect-TCPX",
        Network::Ucx => "UCX",
        Network::None => "none: within the node",
        Network::Unknown => "unknown",
    }
}
