//! A pod of a gang that requested GPUs but no RDMA device, on a node that offers some: its NCCL can
//! use only TCP between nodes, and nothing in its own logs says why. A statement about the job, never
//! about the node.

use super::{preflight::nccl_list::is_on, profile::MOST_NICS};
use crate::observe::{NodeResources, PodContainer, PodFacts};
use std::collections::BTreeMap;

/// Reason code of the finding and the Event.
pub const REASON: &str = "NoRdmaRequested";

/// A pod without RDMA devices, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NoRdma {
    /// `namespace/pod`.
    pub subject: String,
    /// Containers that request GPUs.
    pub containers: Vec<String>,
    /// GPUs that they request together.
    pub gpus: u64,
    /// Resource of the node that they should request.
    pub resource: String,
    /// One sentence on what is wrong.
    pub message: String,
    /// What to change in which manifest.
    pub remedy: String,
}

/// Judges a pod by what its node offers; `None`: nothing wrong, or unknown.
///
/// Legitimate, so never reported: pods not proven to be one of several; nodes that offer no RDMA
/// device, or whose offer is unknown; pods that reach devices otherwise (privileged, the host's
/// network, resource claims, resources of unknown kind, another container that requests some); pods
/// configured to use sockets; and pods that have ended.
pub fn gpus_without_rdma(pod: &PodFacts, node: Option<&NodeResources>) -> Option<NoRdma> {
    let node = node?;
    if pod.gang != Some(true) || pod.finished || pod.host_network {
        return None;
    }
    let reaches = |container: &PodContainer| {
        !container.rdma.is_empty() || container.privileged || container.other_devices
    };
    if pod.containers.values().any(reaches) {
        return None;
    }
    let with_gpus = || (pod.containers.iter()).filter(|(_, container)| container.gpus > 0);
    let counts = with_gpus().map(|(_, container)| container.gpus);
    let gpus = counts.fold(0, u64::saturating_add);
    if gpus == 0 || with_gpus().any(|(_, container)| wants_sockets(&container.env)) {
        return None;
    }
    let containers: Vec<String> = with_gpus().map(|(name, _)| name.clone()).collect();
    // The most plentiful resource is the one that other pods of the fleet request.
    let (resource, offered) = node.rdma().max_by_key(|(_, count)| *count)?;
    let share = share(gpus, node.gpus(), offered);
    let subject = format!("{}/{}", pod.namespace, pod.name);
    let others = match node.rdma().count() {
        0 | 1 => String::new(),
        more => format!(" (one of {more} kinds of RDMA devices here)"),
    };
    Some(NoRdma {
        message: format!(
            "{subject} is one of several pods of a job and requests {gpus} GPU{} but no RDMA device, \
             although the node offers {offered} of {resource}{others}: NCCL can use only TCP \
             between nodes.",
            if gpus == 1 { "" } else { "s" },
        ),
        remedy: format!(
            "Request it in the manifest: `resources: {{limits: {{{resource}: {share}}}}}` of container \
             {}. If TCP is intended, set NCCL_NET=Socket or NCCL_IB_DISABLE=1.",
            containers.join(", "),
        ),
        resource: resource.clone(),
        subject,
        containers,
        gpus,
    })
}

/// How much to request: the GPUs' share of countable NICs, one slot of a shared device.
fn share(gpus: u64, of_gpus: u64, offered: u64) -> u64 {
    if offered > MOST_NICS {
        return 1;
    }
    let share = offered.saturating_mul(gpus).checked_div(of_gpus);
    share.unwrap_or(1).clamp(1, offered)
}

/// Whether the environment selects sockets (NCCL_NET, NCCL_IB_DISABLE).
pub(super) fn wants_sockets(env: &BTreeMap<String, String>) -> bool {
    let has = |name: &str, is: fn(&str) -> bool| env.get(name).is_some_and(|value| is(value));
    has("NCCL_NET", |net| net.eq_ignore_ascii_case("socket")) || has("NCCL_IB_DISABLE", is_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> PodFacts {
        let main = PodContainer {
            gpus: 8,
            ..PodContainer::default()
        };
        let sidecar = PodContainer::default();
        PodFacts {
            uid: "u".into(),
            namespace: "ml".into(),
            name: "w-0".into(),
            gang: Some(true),
            containers: [("main", main), ("log", sidecar)]
                .map(|(name, facts)| (name.to_string(), facts))
                .into(),
            ..PodFacts::default()
        }
    }

    fn node(rdma: &[(&str, u64)]) -> NodeResources {
        let offers = rdma.iter().chain(&[("nvidia.com/gpu", 8)]);
        NodeResources::allocatable(offers)
    }

    #[test]
    fn a_gang_without_rdma_is_told_what_to_ask_for() {
        type Case = (&'static [(&'static str, u64)], u64, &'static str);
        let cases: &[Case] = &[
            (
                &[("vpc.amazonaws.com/efa", 32)],
                8,
                "{vpc.amazonaws.com/efa: 32}",
            ),
            (
                &[("vpc.amazonaws.com/efa", 32)],
                2,
                "{vpc.amazonaws.com/efa: 8}",
            ),
            (&[("nvidia.com/hostdev", 8)], 1, "{nvidia.com/hostdev: 1}"),
            (
                &[("rdma/hca_shared_devices_a", 1000)],
                8,
                "{rdma/hca_shared_devices_a: 1}",
            ),
            (&[("rdma/ib", 1)], 8, "{rdma/ib: 1}"),
            (&[("rdma/a", 0), ("rdma/b", 4)], 8, "{rdma/b: 4}"),
        ];
        for (offered, gpus, want) in cases {
            let mut pod = worker();
            pod.containers.get_mut("main").unwrap().gpus = *gpus;
            let found = gpus_without_rdma(&pod, Some(&node(offered))).unwrap();
            assert!(found.remedy.contains(want), "{}", found.remedy);
            assert!(found.remedy.contains("container main."), "{}", found.remedy);
            assert_eq!((found.subject.as_str(), found.gpus), ("ml/w-0", *gpus));
            assert!(found.message.contains(&found.resource), "{}", found.message);
        }
    }

    #[test]
    fn legitimate_pods_are_not_reported() {
        type Edit = fn(&mut PodFacts);
        fn main(pod: &mut PodFacts) -> &mut PodContainer {
            pod.containers.get_mut("main").unwrap()
        }
        fn say(pod: &mut PodFacts, name: &str, value: &str) {
            main(pod).env.insert(name.into(), value.into());
        }
        let cases: &[(&str, Edit, bool)] = &[
            ("as it is", |_| {}, true),
            ("one pod", |pod| pod.gang = Some(false), false),
            ("not told", |pod| pod.gang = None, false),
            ("ended", |pod| pod.finished = true, false),
            ("the host's network", |pod| pod.host_network = true, false),
            ("no GPUs", |pod| main(pod).gpus = 0, false),
            ("one GPU of a gang", |pod| main(pod).gpus = 1, true),
            ("privileged", |pod| main(pod).privileged = true, false),
            ("claims", |pod| main(pod).other_devices = true, false),
            (
                "asks",
                |pod| main(pod).rdma = [("rdma/ib".to_string(), 1)].into(),
                false,
            ),
            (
                "another container asks",
                |pod| {
                    let log = pod.containers.get_mut("log").unwrap();
                    log.rdma.insert("rdma/ib".into(), 1);
                },
                false,
            ),
            (
                "sockets by name",
                |pod| say(pod, "NCCL_NET", "socket"),
                false,
            ),
            (
                "no InfiniBand",
                |pod| say(pod, "NCCL_IB_DISABLE", "1"),
                false,
            ),
            (
                "InfiniBand not off",
                |pod| say(pod, "NCCL_IB_DISABLE", "0"),
                true,
            ),
            ("InfiniBand by name", |pod| say(pod, "NCCL_NET", "IB"), true),
        ];
        for (case, edit, want) in cases {
            let mut pod = worker();
            edit(&mut pod);
            let found = gpus_without_rdma(&pod, Some(&node(&[("rdma/ib", 8)])));
            assert_eq!(found.is_some(), *want, "{case}");
        }
        for offer in [None, Some(node(&[])), Some(node(&[("rdma/ib", 0)]))] {
            assert_eq!(
                gpus_without_rdma(&worker(), offer.as_ref()),
                None,
                "{offer:?}"
            );
        }
        let bare = PodFacts {
            containers: BTreeMap::new(),
            ..worker()
        };
        assert_eq!(
            gpus_without_rdma(&bare, Some(&node(&[("rdma/ib", 8)]))),
            None
        );
    }
}
