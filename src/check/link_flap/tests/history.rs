//! What flaps are counted from.

use super::super::CHECK;
use crate::check::testing::{Node, device, key, link, nic, tell};
use crate::observe::{
    BareNic, History, LinkLayer, Memory, NetdevFacts, PciFacts, PhysState, PortState, Reading,
    Stamped, Window,
};
use crate::units::{DeviceKey, Millis, PortKey};
use std::sync::Arc;
use std::time::Duration;

fn edges(node: &Node, i: usize) -> u64 {
    let hour = Window::last(Duration::from_secs(3600), node.now);
    node.history.edges(&key(i), hour, |_| false)
}

fn poll(node: &mut Node, up: bool) {
    if up {
        node.set_link(0, link(400, 4));
    } else {
        node.set_state(0, PortState::Down, PhysState::Polling);
    }
    node.tick(1);
}

fn count(node: &mut Node, downs: u64) {
    node.set_counters(0, &[("link_downed", downs)]);
    node.tick(1);
}

/// What is seen, one after the other.
enum See {
    Up,
    Down,
    Downs(u64),
}

fn given_to_vm(i: usize) -> Arc<Stamped<PciFacts>> {
    let nic_of_vm = BareNic {
        driver: Some("vfio-pci".into()),
        ..BareNic::default()
    };
    let value = PciFacts {
        bare: [(nic(i), nic_of_vm)].into(),
        ..PciFacts::default()
    };
    Arc::new(Stamped {
        at: Millis(1),
        value,
    })
}

/// What two enumerations in a row do to a device: how often the device came back by its history, each time after
/// ten more seconds.
#[test]
fn a_device_that_comes_back_again_and_again() {
    type Leaves = fn(&mut Node);
    let goes: Leaves = |node| {
        let last = node.devices.pop().unwrap();
        node.tick(100);
        node.devices.push(last);
    };
    // Between two enumerations: the kernel's index tells.
    let is_registered_again: Leaves = |node| {
        node.tick(100);
        let last = node.devices.last_mut().unwrap();
        last.index = last.index.map(|index| index + 100);
    };
    let is_renamed: Leaves = |node| {
        node.tick(100);
        node.devices[7].name.push('x');
    };
    let is_missed: Leaves = |node| {
        let last = node.devices.pop().unwrap();
        node.tick(10);
        node.devices.push(last);
    };
    let goes_unnumbered: Leaves = |node| {
        let mut last = node.devices.pop().unwrap();
        last.index = None;
        node.tick(100);
        node.devices.push(last);
    };
    let is_given: Leaves = |node| {
        let last = node.devices.pop().unwrap();
        node.snapshot.pci = Some(given_to_vm(7));
        node.tick(100);
        node.devices.push(last);
    };
    let unstable = ["mlx5_7/1 LinkUnstable Degraded Verdict"];
    for (case, leaves, times, want) in [
        ("index is the same: moved", goes, 4, &[][..]),
        ("no index", goes_unnumbered, 2, &[]),
        ("no index", goes_unnumbered, 3, &unstable),
        ("index", is_registered_again, 2, &[]),
        ("index", is_registered_again, 6, &unstable),
        ("renamed", is_renamed, 6, &[]),
        ("missed", is_missed, 6, &[]),
        ("given to a virtual machine", is_given, 6, &[]),
    ] {
        let mut node = Node::infiniband();
        node.tick(300);
        for _ in 0..times {
            leaves(&mut node);
            node.tick(1);
        }
        let found = node.run(&CHECK);
        assert_eq!(found.iter().map(tell).collect::<Vec<_>>(), want, "{case}");
        let kept = History::restore(node.history.memory());
        assert_eq!(
            kept.devices[&key(7).device].returned,
            node.history.devices[&key(7).device].returned
        );
        node.history = kept;
        assert_eq!(
            node.told(&CHECK).len(),
            want.len(),
            "{case}, after a restart"
        );
        node.snapshot.netns_exclusive = Some(true);
        assert_eq!(node.told(&CHECK), [""; 0], "{case}, pods hold devices");
        node.snapshot.netns_exclusive = None;
        node.tick(700);
        assert_eq!(node.told(&CHECK), [""; 0], "{case}, later");
    }
}

/// Pods close and open the interface of a gVNIC, which leaves its device; mlx5's interface leaves the port's facts.
#[test]
fn interfaces_that_pods_have_do_not_flap() {
    let facts = |changes| NetdevFacts {
        carrier_changes: changes,
        ..NetdevFacts::default()
    };
    for (driver, has_pods, want) in [
        ("gve", true, 0),
        ("mlx5_core", true, 0),
        ("mlx5_core", false, 12),
    ] {
        let mut node = Node::roce();
        node.devices[0].driver = driver.into();
        node.history = History::default();
        let mut changes = 2;
        node.set_netdev(0, facts(Reading::Value(changes)));
        node.tick(600);
        for _ in 0..6 {
            if has_pods && driver == "gve" {
                node.devices[0].ports[0].netdev = None;
                node.snapshot.netdevs.remove("eth0");
            } else if has_pods {
                node.set_netdev(0, facts(Reading::Absent));
            }
            node.tick(20);
            changes += 2;
            node.devices[0].ports[0].netdev = Some("eth0".into());
            node.set_netdev(0, facts(Reading::Value(changes)));
            node.tick(20);
        }
        assert_eq!(edges(&node, 0), want, "{driver}");
    }
}

#[test]
fn a_fall_is_two_edges_no_matter_what_sees_it_first() {
    use See::*;
    let rows: &[(&[See], u64)] = &[
        // The poll first, the counter after it.
        (&[Down, Downs(1), Up], 2),
        (&[Down, Up, Downs(1)], 2),
        // The counter first.
        (&[Downs(1), Down, Up], 2),
        (&[Downs(1), Down, Downs(1), Up, Downs(1)], 2),
        // Never polled.
        (&[Downs(1), Up, Up], 2),
        // Never polled, then another one that is.
        (&[Downs(1), Up, Down, Downs(2), Up], 4),
        (&[Downs(1), Up, Downs(2), Down, Up], 4),
        // Three of which the poll sees the last.
        (&[Downs(3), Down, Up], 6),
        // One that goes on, and within it one that no poll sees.
        (&[Down, Downs(2), Down, Up], 4),
        // One after the other.
        (&[Downs(1), Down, Up, Downs(2), Down, Up], 4),
    ];
    for (i, (steps, want)) in rows.iter().enumerate() {
        let mut node = Node::infiniband();
        count(&mut node, 0);
        for step in *steps {
            match step {
                Up => poll(&mut node, true),
                Down => poll(&mut node, false),
                Downs(downs) => count(&mut node, *downs),
            }
        }
        assert_eq!(edges(&node, 0), *want, "row {i}");
    }
}

fn restarted(node: &mut Node) {
    let text = serde_json::to_string(&node.history.memory()).unwrap();
    let memory: Memory = serde_json::from_str(&text).unwrap();
    node.history = History::restore(memory);
    // Facts come in one after the other.
    let links = std::mem::take(&mut node.snapshot.links);
    let counters = std::mem::take(&mut node.snapshot.counters);
    let netdevs = std::mem::take(&mut node.snapshot.netdevs);
    node.tick(1);
    node.snapshot.links = links;
    node.snapshot.counters = counters;
    node.snapshot.netdevs = netdevs;
    node.tick(1);
}

#[test]
fn flaps_outlive_a_restart_of_the_agent_and_no_reboot() {
    let mut node = Node::infiniband();
    count(&mut node, 0);
    count(&mut node, 5);
    poll(&mut node, true);
    assert_eq!(edges(&node, 0), 10);
    restarted(&mut node);
    assert_eq!(edges(&node, 0), 10);
    // Falls while no agent ran.
    let memory = node.history.memory();
    count(&mut node, 7);
    assert_eq!(edges(&node, 0), 14);
    node.history = History::restore(memory);
    node.tick(1);
    assert_eq!(edges(&node, 0), 14);
    poll(&mut node, true);
    // Down since: that is an edge, and no second one by the counter.
    poll(&mut node, false);
    restarted(&mut node);
    assert_eq!(edges(&node, 0), 15);
    // Counters that were cleared in between count nothing.
    let memory = node.history.memory();
    count(&mut node, 1);
    node.history = History::restore(memory);
    node.tick(1);
    assert_eq!(edges(&node, 0), 15);
    node.snapshot.boot_id = Some("boot-2".into());
    node.tick(1);
    assert_eq!(edges(&node, 0), 0);
}

#[test]
fn edges_of_carrier_outlive_a_restart_of_the_agent() {
    let mut node = Node::roce();
    let carrier = |node: &mut Node, changes| {
        let carrier_changes = Reading::Value(changes);
        node.set_netdev(
            0,
            NetdevFacts {
                carrier_changes,
                ..NetdevFacts::default()
            },
        );
        node.tick(1);
    };
    node.tick(1);
    carrier(&mut node, 7);
    assert_eq!(edges(&node, 0), 6);
    restarted(&mut node);
    assert_eq!(edges(&node, 0), 6);
    let memory = node.history.memory();
    carrier(&mut node, 11);
    node.history = History::restore(memory);
    node.tick(1);
    assert_eq!(edges(&node, 0), 10);
    node.tick(1);
    assert_eq!(edges(&node, 0), 10);
}

#[test]
fn an_interface_that_a_pod_has_counts_no_edges() {
    let mut node = Node::roce();
    let carrier = |node: &mut Node, carrier_changes| {
        let facts = NetdevFacts {
            carrier_changes,
            ..NetdevFacts::default()
        };
        node.set_netdev(0, facts);
        node.tick(1);
    };
    node.tick(1);
    carrier(&mut node, Reading::Value(7));
    let before = edges(&node, 0);
    for (up, changes) in [
        (false, Reading::Value(7)),
        (false, Reading::Absent),
        (true, Reading::Absent),
        (false, Reading::Absent),
        (true, Reading::Value(11)),
    ] {
        carrier(&mut node, changes);
        poll(&mut node, up);
    }
    assert_eq!(edges(&node, 0), before);
    carrier(&mut node, Reading::Value(13));
    assert_eq!(edges(&node, 0), before + 2);
}

#[test]
fn what_is_kept_is_bounded_and_does_not_change_while_nothing_happens() {
    let mut node = Node::infiniband();
    for downs in 0..300 {
        count(&mut node, downs);
    }
    let memory = node.history.memory();
    assert!(memory.links[&key(0)].edges.len() <= 32);
    node.set_link(0, link(400, 4));
    count(&mut node, 299);
    let mut now = node.history.memory();
    assert_ne!(now, memory, "the counter's sample is newer");
    now.take_counts_of(&memory);
    assert_eq!(now, memory);
}

#[test]
fn devices_that_come_and_go_are_forgotten_and_rails_last() {
    let mut node = Node::infiniband();
    // The rails go first, so that they are gone the longest.
    node.devices.clear();
    node.snapshot.links.clear();
    node.tick(1);
    for round in 0..2000 {
        let mut function = device(0, LinkLayer::Infiniband);
        function.key = DeviceKey(format!("virtual {round}"));
        function.function = crate::observe::Function::VirtualOfHost;
        let port = PortKey {
            device: function.key.clone(),
            port: 1,
        };
        node.history.totals.link_edges.insert(port.clone(), 1);
        node.history.ports.insert(port, Default::default());
        node.devices = vec![function];
        node.tick(1);
    }
    let history = &node.history;
    assert_eq!(history.devices.len(), 512);
    assert!(history.ports.len() <= 512 && history.totals.link_edges.len() <= 512);
    assert!((0..8).all(|i| history.devices.contains_key(&key(i).device)));
    assert!((0..8).all(|i| history.ports.contains_key(&key(i))));
    assert!(
        history
            .devices
            .contains_key(&DeviceKey("virtual 1999".into()))
    );
    // Nor stay ports of no device that was ever listed.
    for port in 0..2000 {
        let device = DeviceKey("unlisted".into());
        let key = PortKey { device, port };
        node.history.ports.insert(key, Default::default());
    }
    node.tick(1);
    assert!(node.history.ports.len() <= 512);
}
