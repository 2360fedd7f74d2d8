//! Roles on the machines that people have, and roles while these break.

use super::*;
use crate::observe::fabric::remember;
use crate::observe::{
    BareNic, Distance, LinkFacts, LinkLayer, LinkRate, NetdevFacts, OvsRoute, PciFacts, PhysState,
    Reading, Sriov, Stamped,
};
use crate::units::{BitsPerSec, DeviceKey, Millis};
use std::sync::Arc;

/// The roles, once the history holds the snapshot.
fn roles(snapshot: &Snapshot, history: &History, overrides: &RoleOverrides) -> Roles {
    let mut history = history.clone();
    remember(&mut history.fabric, snapshot);
    assign_roles(snapshot, &history, (overrides, ShapeSays::default()))
}

mod machines;

use machines::*;

#[test]
fn machines_that_people_have() {
    for (name, mut node, want) in machines() {
        assert_eq!(node.rails(), want, "{name}");
    }
}

#[test]
fn ports_going_down_one_by_one_keep_their_roles() {
    for (name, mut node, want) in machines() {
        node.rails();
        for n in 0..node.devices.len() {
            node.devices[n].up = false;
            assert_eq!(node.rails(), want, "{name}, {} down", n + 1);
        }
        for n in 0..node.devices.len() {
            node.devices[n].up = true;
            assert_eq!(node.rails(), want, "{name}, {} up again", n + 1);
        }
    }
}

#[test]
fn vanished_devices_and_gpus_keep_roles_also_over_a_restart() {
    for (name, mut node, want) in machines() {
        node.rails();
        node.gpus = 0;
        while node.devices.pop().is_some() {
            let left = node.devices.len();
            assert_eq!(node.rails(), want, "{name}, {left} devices left");
            node.history = History::restore(node.history.memory());
            assert_eq!(node.rails(), want, "{name}, {left} left, restarted");
        }
    }
}

#[test]
fn restarted_while_all_is_down() {
    for (name, mut node, want) in machines() {
        node.rails();
        for dev in &mut node.devices {
            dev.up = false;
        }
        let memory = serde_json::to_string(&node.history.memory()).unwrap();
        node.history = History::restore(serde_json::from_str(&memory).unwrap());
        assert_eq!(node.rails(), want, "{name}");
    }
}

#[test]
fn renamed_and_half_told_devices_keep_their_roles() {
    let mut node = hgx_with_bond();
    node.rails();
    for dev in &mut node.devices {
        dev.device.name = format!("rocep{}", dev.device.name);
        dev.device.board_id = None;
        dev.device.ports[0].netdev = None;
    }
    assert_eq!(node.rails(), numbered("rocepmlx5_", 0..8));
}

#[test]
fn fabric_never_up_is_not_replaced_by_a_management_nic() {
    // Subnet manager away since boot: only accelerated networking ever came up.
    let mut node = azure_h200();
    node.netdevs.clear();
    for dev in node.devices.iter_mut().take(8) {
        dev.up = false;
    }
    assert_eq!(node.rails(), numbered("mlx5_ib", 0..8));
    let proof = node.proof();
    assert_eq!((proof.rails, proof.read, proof.proven), (8, 8, 0));
}

#[test]
fn a_card_of_another_make_in_a_rails_place_is_a_rail() {
    let mut node = dgx_h100();
    node.devices[0].device.board_id = Some("REPLACED".into());
    assert_eq!(node.rails(), numbered("mlx5_", H100_RAILS));
}

#[test]
fn the_default_route_is_remembered_until_it_has_moved_for_long() {
    let mut node = Node::new(
        vec![
            dev("mgmt mlx5_core 15b3:1 B eth eth0", 1, 100),
            dev("rail mlx5_core 15b3:1 B eth eth1", 2, 100),
        ],
        0,
    )
    .route("eth0");
    assert_eq!(node.rails(), ["rail"]);
    node.netdevs[0].3 = false;
    assert_eq!(node.rails(), ["rail"], "a network restart");
    node.now += 3600;
    assert_eq!(node.rails(), ["mgmt", "rail"], "the route is elsewhere now");
}

#[test]
fn what_is_kept_does_not_change_while_nothing_happens() {
    let mut node = oci_16();
    node.now = 3600;
    node.rails();
    let before = node.history.memory();
    node.rails();
    assert_eq!(node.history.memory(), before);
}

#[test]
fn overrides() {
    let rails = |include: &[&str], exclude: &[&str]| {
        let mut node = dgx_h100();
        let globs = |texts: &[&str]| texts.iter().map(|text| Glob::from(*text)).collect();
        node.overrides = RoleOverrides {
            include: globs(include),
            exclude: globs(exclude),
        };
        node.rails()
    };
    assert_eq!(rails(&["mlx5_1", "ibs2"], &[]), names("mlx5_1 mlx5_2"));
    assert_eq!(
        rails(&["mlx5_?/1"], &["0000:10:*"]),
        numbered("mlx5_", 1..10)
    );
    assert_eq!(
        rails(&[], &["mlx5_0"]),
        numbered("mlx5_", [3, 4, 5, 6, 9, 10, 11]),
        "nothing is promoted into its place"
    );
    assert_eq!(
        rails(
            &[],
            &[
                "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_1?"
            ]
        ),
        names("mlx5_1 mlx5_2 mlx5_7 mlx5_8"),
        "a kind that is excluded altogether makes place"
    );
    assert_eq!(rails(&["nosuch*"], &[]), Vec::<String>::new());
}

#[test]
fn proof_counts_what_is_here_and_was_read() {
    let mut node = dgx_h100();
    node.rails();
    node.devices[0].up = false;
    let proof = node.proof();
    assert_eq!(
        (proof.enumerated, proof.rails, proof.read, proof.proven),
        (true, 8, 8, 8)
    );
    let mut snapshot = node.snapshot();
    snapshot.links.clear();
    let roles = roles(&snapshot, &node.history, &node.overrides);
    let blind = crate::check::port::proof(&snapshot, &node.history, &roles);
    assert_eq!((blind.rails, blind.read, blind.proven), (8, 0, 0));
    assert!(
        !crate::check::port::proof(&Snapshot::default(), &History::default(), &roles).enumerated
    );
}

mod front_end;
mod odd;

#[test]
fn rails_in_pods_prove_what_they_were_before() {
    let mut node = Node::new(gvnics(9), 8).guest().route("eth0");
    let in_pods = |node: &Node| {
        let mut snapshot = node.snapshot();
        let mut devices = snapshot.devices.take().unwrap();
        let mut all: Vec<RdmaDevice> = devices.value.as_ref().clone();
        for device in &mut all {
            device.ports[0].netdev = None;
            let mut link = snapshot.links[&device.port_key(1)].value.clone();
            link.state = Reading::NotObservable;
            let at = snapshot.at;
            let link = Arc::new(Stamped { at, value: link });
            snapshot.links.insert(device.port_key(1), link);
        }
        devices.value = Arc::new(all);
        snapshot.devices = Some(devices);
        let roles = roles(&snapshot, &node.history, &node.overrides);
        let proof = crate::check::port::proof(&snapshot, &node.history, &roles);
        (proof.rails, proof.proven)
    };
    node.rails();
    assert_eq!(in_pods(&node), (8, 8));
    let memory = serde_json::to_string(&node.history.memory()).unwrap();
    node.history = History::restore(serde_json::from_str(&memory).unwrap());
    assert_eq!(in_pods(&node), (8, 8), "after a restart of the agent");
    // Nothing was seen before.
    let fresh = Node::new(gvnics(9), 8).guest().route("eth0");
    assert_eq!(in_pods(&fresh).1, 0);
}

#[test]
fn fewer_gvnics_are_a_fabric_where_the_shape_is_told() {
    let (told, none) = (ShapeSays::Gvnics, ShapeSays::Nothing);
    for (gvnics_there, says, want) in [(4, told, 3), (4, none, 0), (5, none, 4), (1, told, 0)] {
        let mut node = Node::new(gvnics(gvnics_there), 8).guest().route("eth0");
        node.rails();
        let snapshot = node.snapshot();
        let roles = assign_roles(&snapshot, &node.history, (&node.overrides, says));
        let rails = roles.values().filter(|facts| facts.role == Role::Rail);
        assert_eq!(rails.count(), want, "{gvnics_there} {says:?}");
    }
    let mut nearby = Node::new(gvnics(2), 8).guest().route("eth0");
    let rail = dev("mlx5_0 mlx5_core 15b3:101e - eth -", 0x90, 400);
    nearby.devices.push(rail);
    nearby.rails();
    let snapshot = nearby.snapshot();
    let roles = assign_roles(&snapshot, &nearby.history, (&nearby.overrides, told));
    let rails = roles.values().filter(|facts| facts.role == Role::Rail);
    assert_eq!(rails.count(), 1, "RDMA is the fabric all the same");
}
