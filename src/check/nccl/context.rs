//! Facts about a job from outside its log.

use crate::check::preflight::nccl_list::is_on;
use crate::observe::{PodContainer, PodFacts};
use std::time::Duration;

/// Facts about a job from outside its log.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobContext<'a> {
    /// The job's pod.
    pub pod: Option<&'a PodFacts>,
    /// The job's container.
    pub container: Option<&'a PodContainer>,
    /// Number of GPUs of the node.
    pub node_gpus: Option<u32>,
    /// The current time, and how long init may take. `None` for a log that has ended.
    pub now: Option<(jiff::Timestamp, Duration)>,
}

impl<'a> JobContext<'a> {
    /// An environment variable in the container's manifest.
    pub(super) fn variable(&self, name: &str) -> Option<&'a str> {
        self.container?.env.get(name).map(String::as_str)
    }

    /// Whether the manifest sets `NCCL_NET=Socket`.
    pub(super) fn wants_sockets(&self) -> bool {
        (self.variable("NCCL_NET")).is_some_and(|net| net.eq_ignore_ascii_case("socket"))
    }

    /// Whether the manifest sets `NCCL_IB_DISABLE`.
    pub(super) fn disables_verbs(&self) -> bool {
        self.variable("NCCL_IB_DISABLE").is_some_and(is_on)
    }

    /// Whether the container requests EFA devices, or has the settings of a network plugin.
    pub(super) fn requests_plugin(&self) -> bool {
        const OWN: [&str; 3] = ["FI_EFA_", "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_"];
        self.container.is_some_and(|container| {
            let efa = container.rdma.keys().any(|name| name.ends_with("/efa"));
            let own = |name: &String| OWN.iter().any(|start| name.starts_with(start));
            efa || container.env.keys().any(own)
        })
    }
}
