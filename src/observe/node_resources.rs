//! What the Node object promises to pods, and what kind of machine it calls itself.

use super::is_gpu_resource;
use std::collections::BTreeMap;

/// The Node as the API server has it, as far as promises go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeResources {
    /// Label `node.kubernetes.io/instance-type`, set by the cloud's controller.
    pub instance_type: Option<String>,
    /// Resources that stand for GPUs or RDMA devices, by name; also those of which none is left.
    pub resources: BTreeMap<String, Offered>,
}

/// Numbers of one extended resource. When its device plugin goes away the kubelet sets
/// `allocatable` to 0 at once, and `capacity` after five minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offered {
    /// `status.allocatable`: what pods can have.
    pub allocatable: Option<u64>,
    /// `status.capacity`: what the device plugin registered, healthy or not.
    pub capacity: Option<u64>,
    /// The larger of both when it last was not 0, since the agent started.
    pub had: u64,
}

impl Offered {
    /// How many there are, healthy or not; where none is left, how many there were.
    pub fn size(&self) -> u64 {
        match self.allocatable.max(self.capacity) {
            None | Some(0) => self.had,
            Some(now) => now,
        }
    }
}

impl NodeResources {
    /// A node with these resources.
    #[cfg(test)]
    pub fn allocatable<'a>(of: impl IntoIterator<Item = &'a (&'a str, u64)>) -> Self {
        let offered = |allocatable| Offered {
            allocatable: Some(allocatable),
            ..Offered::default()
        };
        let resources = of
            .into_iter()
            .map(|(name, count)| (name.to_string(), offered(*count)));
        NodeResources {
            resources: resources.collect(),
            ..NodeResources::default()
        }
    }

    /// The same with what each resource had before. The kubelet leaves the name of a resource whose
    /// plugin went away on the Node, with nothing in it: by that alone a plugin that died is not to
    /// be told from one that was replaced long ago. A name that the Node has no more is forgotten.
    pub fn after(mut self, before: Option<&NodeResources>) -> Self {
        for (name, offered) in &mut self.resources {
            let before = before.and_then(|before| before.resources.get(name));
            offered.had = before.map_or(0, Offered::size);
            offered.had = offered.size();
        }
        self
    }

    /// GPUs that pods may request, of any vendor.
    pub fn gpus(&self) -> u64 {
        let gpus = (self.resources.iter()).filter(|(name, _)| is_gpu_resource(name));
        let counts = gpus.filter_map(|(_, offered)| offered.allocatable);
        counts.fold(0, u64::saturating_add)
    }

    /// RDMA devices that pods may request, or slots of them, by resource name; none with the count zero.
    pub fn rdma(&self) -> impl Iterator<Item = (&String, u64)> {
        let others = (self.resources.iter()).filter(|(name, _)| !is_gpu_resource(name));
        let counts = others.map(|(name, offered)| (name, offered.allocatable.unwrap_or(0)));
        counts.filter(|(_, count)| *count > 0)
    }
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
