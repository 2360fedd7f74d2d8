use super::*;
use crate::check::Status;
use crate::check::allocatable::CHECK;
use crate::check::testing::{Node, nic};
use crate::observe::{FaultKind, NetdevFacts, Offered, Reading, SriovFacts, Stamped};
use std::sync::Arc;

const POOL: &str = "openshift.io/mlx5rdma";

/// What the Node tells of GPUs and one more resource.
fn offering(node: &mut Node, name: &str, count: u64) {
    let offered = |count| Offered {
        allocatable: Some(count),
        capacity: Some(count),
        had: 0,
    };
    let resources = [("nvidia.com/gpu", 8), (name, count)];
    node.offer = Some(NodeResources {
        instance_type: None,
        resources: resources.map(|(name, n)| (name.into(), offered(n))).into(),
    });
}

/// Eight rails with so many functions each, whose states are known.
fn node(each: u32) -> Node {
    let mut node = Node::roce();
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    for i in 0..8 {
        let facts = SriovFacts {
            total: 16,
            enabled: each,
            ..SriovFacts::default()
        };
        pci.sriov.insert(nic(i), facts);
        set(
            &mut node,
            &format!("eth{i}"),
            &vec![VfLink::Auto; each as usize],
        );
    }
    node.set_pci(pci);
    offering(&mut node, POOL, u64::from(each) * 8);
    node.tick(1);
    node
}

fn set(node: &mut Node, interface: &str, states: &[VfLink]) {
    let states = (0..).zip(states.iter().copied());
    let value = Reading::Value(VfLinks {
        states: states.collect(),
    });
    put(node, interface, value);
}

fn put(node: &mut Node, interface: &str, value: Reading<VfLinks>) {
    let at = node.snapshot.at;
    let links = &mut node.snapshot.vf_links;
    links.insert(interface.into(), Arc::new(Stamped { at, value }));
}

/// What is said of links, and how heavily.
fn judged(node: &Node) -> Option<(String, Weight)> {
    let found = node.run(&CHECK).into_iter();
    let mut found = found.filter(|found| found.reason == "VfLinkDisabled");
    let first = found.next()?;
    assert_eq!(found.next(), None);
    assert_eq!((first.status, &*first.subject), (Status::Degraded, POOL));
    Some((first.message, first.weight))
}

#[test]
fn some_of_a_rail_or_all_of_it() {
    use VfLink::{Auto, Disable, Enable, Other};
    assert_eq!(judged(&node(2)), None);
    for (case, states, want) in [
        ("one of a rail", &[Auto, Disable][..], Some(Weight::Notice)),
        ("all of a rail", &[Disable, Disable], Some(Weight::Verdict)),
        ("the only one", &[Disable], Some(Weight::Verdict)),
        ("up by force", &[Enable, Auto], None),
        ("a word of a later kernel", &[Other, Other], None),
        ("no functions", &[], None),
    ] {
        let mut node = node(2);
        set(&mut node, "eth3", states);
        let found = judged(&node);
        assert_eq!(found.map(|(_, weight)| weight), want, "{case}");
    }
}

#[test]
fn the_message_names_what_to_switch_on() {
    let mut node = node(4);
    let (auto, off) = (VfLink::Auto, VfLink::Disable);
    set(&mut node, "eth1", &[off, auto, off, off]);
    let (message, _) = judged(&node).unwrap();
    assert!(message.starts_with("3 of 32 "), "{message}");
    assert!(message.contains("(eth1 vf 0, 2-3)"), "{message}");
    assert!(message.contains(POOL), "{message}");
    for i in 0..7 {
        set(&mut node, &format!("eth{i}"), &[off, auto, auto, auto]);
    }
    let (message, weight) = judged(&node).unwrap();
    assert!(message.contains("eth3 vf 0 and of 3 more)"), "{message}");
    assert_eq!(weight, Weight::Notice);
}

#[test]
fn what_tells_nothing_says_nothing() {
    type Bend = fn(&mut Node);
    let cases: &[(&str, Bend, Option<Weight>)] = &[
        ("as it is", |_| {}, Some(Weight::Verdict)),
        ("no API server", |node| node.offer = None, None),
        (
            "none offered any more",
            |node| offering(node, POOL, 0),
            None,
        ),
        (
            "slots of a shared device",
            |node| offering(node, "rdma/hca_shared_devices_a", 8),
            None,
        ),
        (
            "a pool of another kind",
            |node| offering(node, "openshift.io/dpdk", 8),
            None,
        ),
        (
            "not told",
            |node| put(node, "eth3", Reading::NotObservable),
            None,
        ),
        (
            "no rail's",
            |node| {
                let links = node.snapshot.vf_links.remove("eth3").unwrap();
                node.snapshot.vf_links.insert("mgmt0".into(), links);
            },
            None,
        ),
        (
            "on InfiniBand they are down until a pod comes",
            |node| {
                let mut functions = Node::infiniband();
                for (i, device) in functions.devices.iter_mut().enumerate() {
                    device.ports[0].netdev = Some(format!("eth{i}"));
                }
                functions.snapshot.vf_links = std::mem::take(&mut node.snapshot.vf_links);
                functions.offer = node.offer.take();
                *node = functions;
                node.tick(1);
            },
            None,
        ),
        (
            "the leg of a bond",
            |node| {
                let links = node.snapshot.vf_links.remove("eth3").unwrap();
                node.snapshot.vf_links.insert("leg0".into(), links);
                let leg = NetdevFacts {
                    master: Some("eth3".into()),
                    ..NetdevFacts::default()
                };
                node.set_netdev_named("leg0", leg);
            },
            Some(Weight::Verdict),
        ),
        (
            "more than there are functions",
            |node| offering(node, POOL, 500),
            Some(Weight::Notice),
        ),
    ];
    for (case, bend, want) in cases {
        let mut node = node(1);
        set(&mut node, "eth3", &[VfLink::Disable]);
        bend(&mut node);
        let found = judged(&node);
        assert_eq!(found.map(|(_, weight)| weight), *want, "{case}");
    }
    // What has not been told for long is not gone by, where its source fails.
    let mut node = node(1);
    set(&mut node, "eth3", &[VfLink::Disable]);
    node.set_fault("vf_links", "eth3", FaultKind::Other);
    node.tick(3600);
    assert_eq!(judged(&node), None);
}
