//! What is read of the jobs on this node.

use crate::settings_macro::section;
use crate::units::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

section! {
    /// Jobs on this node: NCCL's logs, and what the kernel shows of jobs that log nothing.
    Nccl {
        /// Follow the node's pod logs for NCCL's lines.
        logs: bool = true,
        /// Where the kubelet keeps them; a relative path is below the host root.
        pod_logs: PathBuf = PathBuf::from("var/log/pods"),
        /// Where a pod's job, variables and resource requests are known from: auto, api, paths.
        /// auto asks the API server and goes by the logs' paths where that is not allowed, or where
        /// cluster.mode is off.
        pods: PodSource = PodSource::Auto,
        /// Look for pods with GPUs that move bytes by TCP and own no RDMA queue pair. Sees other
        /// pods' processes only with the host's PID namespace (hostPID).
        suspects: bool = true,
        /// How often that is looked at.
        suspects_every: Span = Span::from_secs(30),
        /// Containers whose NCCL state is kept, at most; those longest silent are dropped first.
        containers: usize = 512,
    }
}

/// Where facts about pods come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PodSource {
    /// The API server if it allows it, else the logs' paths.
    Auto,
    /// The API server.
    Api,
    /// The paths of the logs alone.
    Paths,
}
