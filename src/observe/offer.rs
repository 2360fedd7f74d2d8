//! What the Node object promises to pods, and what kind of machine it calls itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The Node as the API server has it, as far as promises go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeOffer {
    /// Label `node.kubernetes.io/instance-type`, set by the cloud's controller.
    pub instance_type: Option<String>,
    /// Resources that stand for GPUs or RDMA devices, by name; also those of which none is left.
    pub resources: BTreeMap<String, Offered>,
}

/// Numbers of one extended resource. When its device plugin goes away the kubelet sets
/// `allocatable` to 0 at once, and `capacity` after five minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offered {
    /// `status.allocatable`: what pods can have.
    pub allocatable: Option<u64>,
    /// `status.capacity`: what the device plugin registered, healthy or not.
    pub capacity: Option<u64>,
}

/// Whether a resource counts whole GPUs, one each. Time slicing under the same name gives multiples.
pub fn is_whole_gpus(name: &str) -> bool {
    matches!(name, "nvidia.com/gpu" | "amd.com/gpu")
}

/// Whether the name says that the resource is a number of slots on shared NICs
/// (k8s-rdma-shared-dev-plugin's examples: `rdma/hca_shared_devices_a`, `rdma/rdma_shared_device_a`;
/// AKS: `rdma/shared_ib`).
pub fn is_shared_by_name(name: &str) -> bool {
    name.starts_with("rdma/") && name.contains("shared")
}
