//! Where a node hangs in the network, from labels that clouds and topology tools put on it.

use std::collections::{BTreeMap, BTreeSet};

/// Known labels, each with the kind of place that it names. Where a provider's tiers have no names, the
/// kind keeps its number: AWS counts its layers from the top, so the last is the node's own switch.
const KINDS: &str = include_str!("topology.txt");

/// Kind and value of every known label that says something.
pub fn places(labels: &BTreeMap<String, String>) -> BTreeSet<(&'static str, String)> {
    let kinds = KINDS.lines().filter_map(|line| line.split_once(' '));
    let known = kinds.filter_map(|(key, kind)| Some((kind, labels.get(key)?.clone())));
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
