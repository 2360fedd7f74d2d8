//! Where a node hangs in the network, from labels that clouds and topology tools put on it.

use std::collections::{BTreeMap, BTreeSet};

/// Known labels and the kind of place that each names. Where a provider's tiers have no names, the
/// kind keeps its number: AWS counts its layers from the top, so the last is the node's own switch.
const KINDS: &[(&str, &str)] = &[
    ("topology.kubernetes.io/region", "region"),
    ("topology.kubernetes.io/zone", "zone"),
    // topograph; the tiers are those of 1.0, which counts from the node. `block` was `leaf` before 0.2.
    ("fabric.topograph.run/tier-0", "leaf"),
    ("fabric.topograph.run/tier-1", "spine"),
    ("fabric.topograph.run/tier-2", "core"),
    ("accelerator.topograph.run/domain", "accelerator"),
    ("network.topology.nvidia.com/tier-0", "leaf"),
    ("network.topology.nvidia.com/tier-1", "spine"),
    ("network.topology.nvidia.com/tier-2", "core"),
    ("network.topology.nvidia.com/leaf", "leaf"),
    ("network.topology.nvidia.com/block", "leaf"),
    ("network.topology.nvidia.com/spine", "spine"),
    ("network.topology.nvidia.com/core", "core"),
    ("network.topology.nvidia.com/datacenter", "core"),
    ("network.topology.nvidia.com/accelerator", "accelerator"),
    // NVIDIA's GPU feature discovery: the NVLink domain.
    ("nvidia.com/gpu.clique", "accelerator"),
    ("topology.k8s.aws/network-node-layer-1", "network layer 1"),
    ("topology.k8s.aws/network-node-layer-2", "network layer 2"),
    ("topology.k8s.aws/network-node-layer-3", "network layer 3"),
    ("topology.k8s.aws/network-node-layer-4", "network layer 4"),
    ("topology.k8s.aws/ultraserver-id", "accelerator"),
    ("cloud.google.com/gce-topology-block", "block"),
    ("cloud.google.com/gce-topology-subblock", "subblock"),
    ("cloud.google.com/gce-topology-host", "host"),
    ("oci.oraclecloud.com/rdma.hpc_island_id", "island"),
    ("oci.oraclecloud.com/rdma.network_block_id", "network block"),
    ("oci.oraclecloud.com/rdma.local_block_id", "local block"),
    ("oci.oraclecloud.com/rdma.host_id", "host"),
    ("ib.coreweave.cloud/fabric", "fabric"),
    ("ib.coreweave.cloud/superpod", "superpod"),
    ("ib.coreweave.cloud/leafgroup", "leaf"),
    ("node.coreweave.cloud/rack", "rack"),
    ("topology.nebius.com/tier-1", "tier 1"),
    ("topology.nebius.com/tier-2", "tier 2"),
];

/// Kind and value of every known label that says something.
pub fn places(labels: &BTreeMap<String, String>) -> BTreeSet<(&'static str, String)> {
    let value = |(key, kind): &(&str, &'static str)| Some((*kind, labels.get(*key)?.clone()));
    let known = KINDS.iter().filter_map(value);
    known.filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_node() {
        for (labels, want) in [
            (&[("kubernetes.io/hostname", "gpu-1")][..], &[][..]),
            (
                &[
                    ("topology.kubernetes.io/zone", "eu-1a"),
                    ("topology.k8s.aws/network-node-layer-3", "nn-1"),
                    ("cloud.google.com/gce-topology-block", ""),
                ],
                &[("network layer 3", "nn-1"), ("zone", "eu-1a")],
            ),
            // Two tools that agree are one place, two that differ are two.
            (
                &[
                    ("network.topology.nvidia.com/leaf", "s1"),
                    ("fabric.topograph.run/tier-0", "s1"),
                    ("network.topology.nvidia.com/accelerator", "nvl-1"),
                    ("nvidia.com/gpu.clique", "uuid.0"),
                ],
                &[
                    ("accelerator", "nvl-1"),
                    ("accelerator", "uuid.0"),
                    ("leaf", "s1"),
                ],
            ),
        ] {
            let labels = labels
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()));
            let want = want.iter().map(|(kind, value)| (*kind, value.to_string()));
            assert_eq!(places(&labels.collect()), want.collect());
        }
    }
}
