//! A pod on this node, as far as judging its job needs it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One container of one pod, as `/var/log/pods` names it and metrics label it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerKey {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod: a name comes again, a UID does not. Of a static pod, its hash.
    pub uid: String,
    /// Name of the container.
    pub container: String,
}

/// What the API server tells of a pod; what it does not tell is empty or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PodFacts {
    /// UID.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What it is a part of.
    pub job: Option<Job>,
    /// Whether the gang that it belongs to is meant to have more than one pod; none: not told.
    pub gang: Option<bool>,
    /// Whether it shares the node's network namespace.
    pub host_network: bool,
    /// Its containers by name, native sidecars among them.
    pub containers: BTreeMap<String, ContainerFacts>,
}

/// What a pod is a part of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Job {
    /// `PyTorchJob`, `MPIJob`, `JobSet`, `LeaderWorkerSet`, `Volcano`, `Job`, `StatefulSet` …
    pub kind: String,
    /// Its name, in the pod's namespace.
    pub name: String,
}

/// What a container asks for and is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContainerFacts {
    /// Variables that steer NCCL and its plugins (`NCCL_*`, `FI_*`, `UCX_*`, `WORLD_SIZE` …) with a
    /// literal value in the manifest.
    pub env: BTreeMap<String, String>,
    /// GPUs asked for, of any vendor.
    pub gpus: u64,
    /// RDMA devices asked for, by resource name (`vpc.amazonaws.com/efa`, `rdma/hca_shared_devices_a`).
    pub rdma: BTreeMap<String, u64>,
    /// Whether it may lock memory without bound: IPC_LOCK or privileged.
    pub may_lock_memory: bool,
    /// Whether it is privileged: it then sees the node's RDMA devices without asking for any.
    pub privileged: bool,
}
