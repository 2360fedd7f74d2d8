use super::super::testing::{Node, key, link, nic};
use super::*;
use crate::check::roles::Role;
use crate::observe::{NetdevFacts, RdmaPort};
use crate::units::{Millis, Span};

#[test]
fn a_node_that_is_well_and_one_without_fabric_say_nothing() {
    for node in [Node::infiniband(), Node::roce(), Node::empty()] {
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }
}

#[test]
fn a_port_that_left_the_list_clears_when_it_is_back_or_excluded() {
    let mut node = Node::infiniband();
    let listed = node.snapshot.devices.clone();
    let without = |node: &mut Node| {
        let devices = node.snapshot.devices.as_mut().unwrap();
        std::sync::Arc::make_mut(&mut devices.value)[3]
            .ports
            .clear();
    };
    let gone = ["mlx5_3/1 StateUnreadable Unknown Verdict"];
    without(&mut node);
    assert_eq!(node.told(&CHECK), gone);
    node.snapshot.devices = listed;
    assert_eq!(node.told(&CHECK), Vec::<String>::new(), "back");
    without(&mut node);
    assert_eq!(node.told(&CHECK), gone);
    node.set_role(3, Role::Other);
    assert_eq!(node.told(&CHECK), Vec::<String>::new(), "excluded");
}

#[test]
fn states_of_a_rail_that_was_up() {
    for (state, phys, want) in [
        (
            PortState::Down,
            PhysState::Polling,
            "mlx5_3/1 LinkDown Failing Verdict",
        ),
        (
            PortState::Down,
            PhysState::Disabled,
            "mlx5_3/1 PhysDisabled Failing Verdict",
        ),
        (
            PortState::Init,
            PhysState::LinkUp,
            "mlx5_3/1 LinkInit Failing Verdict",
        ),
        (
            PortState::Unknown,
            PhysState::Unknown,
            "mlx5_3/1 StateUnreadable Unknown Verdict",
        ),
    ] {
        let mut node = Node::infiniband();
        node.set_state(3, state, phys);
        node.tick(1);
        assert_eq!(node.told(&CHECK), [want]);
    }
}

/// The agent never saw it up; but it sent and received, or its interface had a carrier and lost it.
#[test]
fn counters_show_that_a_port_was_up() {
    let idle = [("port_xmit_data", 0), ("port_rcv_data", 0)];
    for (counters, changes, want) in [
        (idle, 1, "NeverUp"),
        ([("port_xmit_data", 7), ("port_rcv_data", 0)], 1, "NeverUp"),
        (
            [("port_xmit_data", 7), ("port_rcv_data", 7)],
            1,
            "LinkUnproven",
        ),
        (idle, 2, "LinkUnproven"),
    ] {
        let mut node = Node::roce();
        node.history = Default::default();
        for i in 0..8 {
            node.set_state(i, PortState::Down, PhysState::Polling);
            node.set_counters(i, &counters);
            let carrier_changes = Reading::Value(changes);
            let netdev = NetdevFacts {
                carrier_changes,
                ..NetdevFacts::default()
            };
            node.set_netdev(i, netdev);
        }
        node.tick(300);
        let found = node.run(&CHECK);
        let all = found.iter().filter(|of| of.reason == want).count();
        assert_eq!((all, found.len()), (8, 8), "{counters:?} {changes}");
    }
}

#[test]
fn without_its_layer_a_port_is_not_called_switched_off() {
    for (layer, want) in [
        (LinkLayer::Infiniband, "PhysDisabled"),
        (LinkLayer::Unspecified, "LinkDown"),
    ] {
        let mut node = Node::infiniband();
        node.set_state(3, PortState::Down, PhysState::Disabled);
        node.devices[3].ports[0].link_layer = layer;
        node.tick(1);
        let found = node.run(&CHECK);
        assert!(found.iter().any(|of| of.reason == want), "{found:#?}");
    }
}

#[test]
fn a_trained_port_is_not_called_down_though_nothing_says_that_it_should_be_up() {
    let mut node = Node::infiniband();
    node.history = Default::default();
    for i in 0..8 {
        node.set_state(i, PortState::Init, PhysState::LinkUp);
    }
    node.tick(1);
    assert_eq!(node.told(&CHECK)[3], "mlx5_3/1 LinkInit Unknown Verdict");
    let found = node.run(&CHECK);
    assert!(found.iter().all(|c| c.reason == "LinkInit"));
    assert!(found[3].message.contains("no subnet manager"));
    // Evidence makes it a failure.
    node.policy.expect.rails = Some(8);
    assert_eq!(node.told(&CHECK)[3], "mlx5_3/1 LinkInit Failing Verdict");
    // Beyond the expected number it is a spare.
    node.policy.expect.rails = Some(0);
    assert_eq!(node.told(&CHECK)[3], "mlx5_3/1 LinkInit Unknown Notice");
}

#[test]
fn the_remedy_names_the_setting_and_the_port() {
    let mut node = Node::infiniband();
    node.set_state(3, PortState::Down, PhysState::Polling);
    node.tick(1);
    let remedy = &node.run(&CHECK)[0].remedy;
    assert!(
        remedy.contains("`rails.exclude = [\"mlx5_3/1\"]`"),
        "{remedy}"
    );
    assert!(remedy.contains("`--rails-exclude mlx5_3/1`"), "{remedy}");
    assert!(
        crate::check::ReasonDoc::of("LinkDown")
            .remedy()
            .contains(SOME_PORT)
    );
}

#[test]
fn init_is_given_longer_than_down() {
    let mut node = Node::infiniband();
    node.tick(900);
    node.set_state(3, PortState::Init, PhysState::LinkUp);
    let found = node.run(&CHECK);
    assert_eq!(found[0].timing.raise_after, Span::from_secs(20).0);
}

/// A link that came up for a moment within the first minutes still trains; one that stayed up has fallen.
#[test]
fn a_blink_while_it_trains_is_not_a_fall() {
    for (up_for, later, want) in [(4, 0, 180), (15, 0, 3), (4, 900, 3)] {
        let mut node = Node::infiniband();
        node.tick(later);
        node.set_state(3, PortState::Down, PhysState::Polling);
        node.history = Default::default();
        node.tick(1);
        node.set_link(3, link(400, 4));
        node.tick(1);
        node.tick(up_for);
        node.set_state(3, PortState::Down, PhysState::Polling);
        node.tick(1);
        let found = node.run(&CHECK);
        let wait = found[0].timing.raise_after.as_secs();
        assert_eq!(
            (found[0].reason, wait),
            ("LinkDown", want),
            "{up_for} {later}"
        );
    }
}

#[test]
fn a_device_that_appeared_of_late_may_train() {
    let mut node = Node::infiniband();
    node.tick(900);
    node.set_state(3, PortState::Down, PhysState::Polling);
    node.history = Default::default();
    node.tick(1);
    node.policy.expect.rails = Some(8);
    for (appeared, want) in [(vec![], 3), (vec![node.now], 180)] {
        let device = node.history.devices.get_mut(&key(3).device).unwrap();
        device.appeared = appeared.clone();
        let wait = node.run(&CHECK)[0].timing.raise_after.as_secs();
        assert_eq!(wait, want, "{appeared:?}");
    }
}

#[test]
fn roce_disabled_is_only_off_when_the_interface_says_so() {
    for (admin_up, want) in [(true, "LinkDown"), (false, "PhysDisabled")] {
        let mut node = Node::roce();
        node.set_state(0, PortState::Down, PhysState::Disabled);
        node.set_netdev(
            0,
            NetdevFacts {
                admin_up: Some(admin_up),
                ..NetdevFacts::default()
            },
        );
        assert_eq!(node.run(&CHECK)[0].reason, want);
    }
}

#[test]
fn never_up_needs_evidence() {
    let all_down_from_the_start = || {
        let mut node = Node::infiniband();
        for i in 0..8 {
            node.set_state(i, PortState::Down, PhysState::Polling);
        }
        node.history = Default::default();
        node.tick(1);
        node
    };
    let node = all_down_from_the_start();
    assert!(node.run(&CHECK).iter().all(|c| c.weight == Weight::Notice));

    let mut expected = all_down_from_the_start();
    expected.policy.expect.rails = Some(8);
    assert_eq!(expected.run(&CHECK).len(), 8);
    assert!(expected.run(&CHECK).iter().all(|c| c.reason == "LinkDown"));
    let evidence = &expected.run(&CHECK)[0].evidence["evidence"];
    assert_eq!(evidence, "expected by configuration");

    let mut peers = all_down_from_the_start();
    peers.set_link(5, link(400, 4));
    peers.tick(1);
    let reasons: Vec<_> = peers.run(&CHECK).iter().map(|c| c.reason).collect();
    assert_eq!(reasons, ["LinkUnproven"; 7], "one is not a rule");
    for i in 0..3 {
        peers.set_link(i, link(400, 4));
    }
    peers.tick(1);
    let reasons: Vec<_> = peers.run(&CHECK).iter().map(|c| c.reason).collect();
    assert_eq!(
        reasons, ["LinkUnproven"; 4],
        "half may be all that is cabled"
    );
    peers.set_link(3, link(400, 4));
    peers.tick(1);
    assert_eq!(peers.run(&CHECK).len(), 3);
    assert!(peers.run(&CHECK).iter().all(|c| c.reason == "LinkDown"));
}

#[test]
fn uncabled_ports_are_not_judged_by_the_other_ones_of_their_cards() {
    for uncabled in [4..8, 0..4] {
        let mut node = Node::infiniband();
        for i in 4..8 {
            node.devices[i].pci = format!("0000:{:02x}:00.1", 0x18 + i - 4).parse().ok();
        }
        for i in uncabled {
            node.set_state(i, PortState::Down, PhysState::Polling);
        }
        node.history = Default::default();
        node.tick(1);
        let reasons: Vec<_> = node.run(&CHECK).iter().map(|c| c.reason).collect();
        assert_eq!(reasons, ["NeverUp"; 4]);
    }
}

#[test]
fn spares_beyond_the_expected_number_are_not_missed() {
    let mut node = Node::infiniband();
    for i in 4..8 {
        // Of another make, so that the ones that are up say nothing of them.
        node.devices[i].pci_id = Some("15b3:101b".into());
        node.devices[i].hca_type = Some("MT4123".into());
        node.set_state(i, PortState::Down, PhysState::Polling);
    }
    node.history = Default::default();
    node.policy.expect.rails = Some(4);
    node.tick(1);
    let reasons = |node: &Node| -> Vec<_> { node.run(&CHECK).iter().map(|c| c.reason).collect() };
    assert_eq!(reasons(&node), ["NeverUp"; 4]);
    node.policy.expect.rails = Some(5);
    assert_eq!(reasons(&node), ["LinkDown"; 4]);
    // No other port of their cards is up instead.
    node.policy.expect.rails = None;
    assert_eq!(reasons(&node), ["LinkUnproven"; 4]);
    node.policy.expect.rails = Some(4);
    node.set_state(0, PortState::Init, PhysState::LinkUp);
    node.tick(1);
    let (first, spares) = ("LinkInit", ["NeverUp"; 4]);
    assert_eq!(reasons(&node), [&[first][..], &spares].concat());
    node.devices.remove(0);
    node.tick(1);
    assert_eq!(reasons(&node), spares);
}

#[test]
fn a_lid_that_cannot_be_read_mends_nothing() {
    let mut node = Node::infiniband();
    for (lid, want) in [(Some(0), "NoLid"), (None, "unseen NoLid"), (Some(7), "")] {
        let mut facts = link(400, 4);
        facts.lid = lid;
        node.set_link(3, facts);
        node.tick(1);
        let found = run(&node.context());
        let found = found.iter().map(|of| match of.unseen {
            true => format!("unseen {}", of.reason),
            false => of.reason.to_string(),
        });
        let of_lid: Vec<String> = found.filter(|of| of.ends_with("NoLid")).collect();
        assert_eq!(of_lid.concat(), want, "{lid:?}");
    }
}

#[test]
fn a_spare_waits_for_no_subnet_manager() {
    let mut node = Node::infiniband();
    (4..8).for_each(|i| node.set_state(i, PortState::Down, PhysState::Polling));
    node.history = Default::default();
    node.tick(1);
    (0..4).for_each(|i| node.set_state(i, PortState::Init, PhysState::LinkUp));
    node.tick(900);
    let mut found = run(&node.context());
    assert_eq!(
        found
            .iter()
            .filter(|of| of.unseen && of.reason == "NoLid")
            .count(),
        8
    );
    found.retain(|of| of.reason == "LinkInit" && of.weight == Weight::Verdict && !of.unseen);
    let waits: Vec<_> = found.iter().map(|of| of.timing.raise_after).collect();
    assert_eq!(waits, [node.policy.link_state.subnet_manager_failover.0; 4]);
}

#[test]
fn other_ports_are_a_notice_and_only_once_they_were_up() {
    let mut node = Node::infiniband();
    node.set_role(2, Role::Other);
    node.set_state(2, PortState::Down, PhysState::Polling);
    node.tick(1);
    assert_eq!(node.told(&CHECK), ["mlx5_2/1 LinkDown Degraded Notice"]);
    node.history.ports.remove(&key(2));
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn efa_state_is_no_evidence() {
    let mut node = Node::infiniband();
    node.devices[1].driver = "efa".into();
    node.set_state(1, PortState::Down, PhysState::Polling);
    node.tick(1);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn a_rail_that_programs_cannot_open_fails_on_efa_too() {
    for driver in ["mlx5_core", "efa"] {
        let mut node = Node::infiniband();
        for device in &mut node.devices {
            device.driver = driver.into();
        }
        node.devices[0].uverbs = Reading::Absent;
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_0/1 NoUverbs Failing Verdict"],
            "{driver}"
        );
    }
}

#[test]
fn a_stalled_source_makes_the_old_state_unknown_and_a_slow_one_does_not() {
    let mut node = Node::infiniband();
    node.now = Millis::from_secs(200);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    node.set_stalled("link", &nic(6), Millis::from_secs(101));
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_6/1 StateUnreadable Unknown Verdict"]
    );
}

#[test]
fn a_dead_bond_leg_shows_though_the_port_is_active() {
    let mut node = Node::roce();
    let up = |master: Option<&str>, lowers: &[&str], carrier| NetdevFacts {
        master: master.map(Into::into),
        lowers: lowers.iter().map(ToString::to_string).collect(),
        carrier: Reading::Value(carrier),
        ..NetdevFacts::default()
    };
    node.set_netdev(0, up(Some("bond0"), &[], true));
    node.set_netdev_named("ens9", up(Some("bond0"), &[], false));
    node.set_netdev_named("bond0", up(None, &["eth0", "ens9"], true));
    node.tick(1);
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_0/1 leg ens9 BondLegDown Degraded Verdict"]
    );
    // Its function leaves the bus, and the bond; no rail remembers or shows more legs.
    node.set_netdev_named("bond0", up(None, &["eth0"], true));
    assert_eq!(node.told(&CHECK), [""; 0]);
    for seconds in [0, 700] {
        node.tick(seconds);
        node.set_netdev(0, up(Some("bond0"), &[], true));
        node.set_netdev_named("bond0", up(None, &["eth0", "ens9"], true));
        node.learn();
    }
    node.set_netdev_named("bond0", up(None, &["eth0"], true));
    assert_eq!(node.told(&CHECK), ["mlx5_0/1 BondLegDown Degraded Verdict"]);
}

/// Eight rails, one of which never came up: `bend` makes one of its attributes odd.
fn told_of_a_rail_never_up(bend: impl FnOnce(&mut Node)) -> Vec<String> {
    let mut node = Node::infiniband();
    node.history = Default::default();
    node.set_state(3, PortState::Down, PhysState::Polling);
    bend(&mut node);
    node.tick(1);
    node.told(&CHECK)
}

#[test]
fn a_rail_of_unknown_make_has_no_peers_and_is_unknown() {
    type Bend = fn(&mut Node);
    let other = ["mlx5_3/1 LinkUnproven Unknown Verdict"];
    let alike = ["mlx5_3/1 LinkDown Failing Verdict"];
    for (bend, want) in [
        (
            (|node| node.devices[3].board_id = Some("OTHER".into())) as Bend,
            other,
        ),
        (|node| node.devices[3].board_id = None, alike),
        (|node| node.devices[3].pci_id = None, alike),
        (
            |node| node.devices[3].pci_id = Some("15b3:0000".into()),
            other,
        ),
        (|node| node.devices[3].hca_type = None, alike),
        (|node| node.devices[3].driver = "unknown".into(), other),
        (|node| node.devices[3].pci = None, alike),
        (
            |node| node.devices[3].ports[0].link_layer = LinkLayer::Unspecified,
            alike,
        ),
    ] {
        assert_eq!(told_of_a_rail_never_up(bend), want);
    }
}

/// Puts each NIC next to the GPU of its number.
fn next_to_gpus(node: &mut Node) {
    use super::super::testing::gpu;
    use crate::observe::Distance;
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    for i in 0..8 {
        let near = [(gpu(i), Distance::Pix)].into_iter().collect();
        pci.distances.insert(nic(i), near);
    }
    node.set_pci(pci);
}

#[test]
fn another_model_or_mode_next_to_a_gpu_is_unknown() {
    let other_model = |node: &mut Node| {
        node.devices[3].pci_id = Some("15b3:1023".into());
        node.devices[3].hca_type = Some("MT4131".into());
    };
    let unknown = "mlx5_3/1 LinkUnproven Unknown Verdict";
    assert_eq!(told_of_a_rail_never_up(other_model), [unknown]);
    let flipped = |node: &mut Node| {
        node.devices[3].ports[0].link_layer = LinkLayer::Ethernet;
        next_to_gpus(node);
    };
    assert_eq!(
        told_of_a_rail_never_up(flipped),
        ["mlx5_3/1 WrongLinkLayer Failing Verdict", unknown]
    );
}

#[test]
fn a_port_in_another_mode_than_its_sisters_fails_though_up() {
    let mut node = Node::infiniband();
    // A rail of which that cannot be read is unknown.
    node.devices[3].ports[0].link_layer = LinkLayer::Unspecified;
    node.tick(1);
    let unknown = "mlx5_3/1 StateUnreadable Unknown Verdict";
    assert_eq!(node.told(&CHECK), [unknown]);
    for (i, layer, want) in [
        (3, LinkLayer::Ethernet, 1),
        (4, LinkLayer::Ethernet, 2),
        (5, LinkLayer::Ethernet, 3),
        // Half of them: it is unknown which mode is meant.
        (6, LinkLayer::Ethernet, 0),
    ] {
        node.devices[i].ports[0].link_layer = layer;
        node.tick(1);
        let told = node.told(&CHECK);
        assert_eq!(told.len(), want, "{told:?}");
        assert!(
            told.iter()
                .all(|t| t.ends_with("WrongLinkLayer Failing Verdict"))
        );
    }
}

#[test]
fn a_spare_in_another_mode_is_a_spare() {
    for (configured, want) in [(Some(7), false), (Some(8), true), (None, true)] {
        let mut node = Node::infiniband();
        node.set_state(3, PortState::Down, PhysState::Disabled);
        node.devices[3].ports[0].link_layer = LinkLayer::Ethernet;
        node.policy.expect.rails = configured;
        node.history = Default::default();
        node.tick(700);
        let told = node.told(&CHECK);
        let wrong = told.iter().any(|text| text.contains("WrongLinkLayer"));
        assert_eq!(wrong, want, "{configured:?} {told:?}");
    }
}

#[test]
fn a_port_whose_mode_changed_is_held_against_itself() {
    let mut node = Node::infiniband();
    node.learn();
    node.tick(601);
    node.learn();
    for i in 0..4 {
        node.devices[i].ports[0].link_layer = LinkLayer::Ethernet;
    }
    node.tick(1);
    let told = node.told(&CHECK);
    assert_eq!(told.len(), 4);
    assert_eq!(told[0], "mlx5_0/1 WrongLinkLayer Degraded Verdict");
    node.learn();
    node.tick(700);
    node.learn();
    assert_eq!(
        node.told(&CHECK).len(),
        4,
        "the first one that stood is kept"
    );
}

#[test]
fn lids_that_change_are_told_for_an_hour() {
    let set = |node: &mut Node, lid, sm_lid| {
        let mut facts = link(400, 4);
        (facts.lid, facts.sm_lid) = (Some(lid), Some(sm_lid));
        node.set_link(0, facts);
        node.tick(1);
    };
    for (lid, sm_lid, want) in [
        (1, 2, &[][..]),
        (7, 2, &["mlx5_0/1 LidChanged Degraded Notice"]),
        (7, 9, &["mlx5_0/1 LidChanged Degraded Notice"]),
        (1, 9, &["mlx5_0/1 SubnetManagerChanged Degraded Notice"]),
        (1, 0, &["mlx5_0/1 SubnetManagerChanged Degraded Notice"]),
    ] {
        let mut node = Node::infiniband();
        set(&mut node, 1, 2);
        set(&mut node, lid, sm_lid);
        assert_eq!(node.told(&CHECK), want, "{lid} {sm_lid}");
        set(&mut node, lid, sm_lid.max(1));
        node.tick(3601);
        assert_eq!(node.told(&CHECK), [""; 0], "{lid} {sm_lid}");
    }
}

#[test]
fn one_cabled_second_port_does_not_condemn_the_others() {
    let mut node = Node::infiniband();
    for i in 0..8 {
        let mut second = node.devices[i].ports[0].clone();
        second.number = 2;
        node.devices[i].ports.push(second);
        let key = node.devices[i].port_key(2);
        node.roles.insert(
            key.clone(),
            node.roles[&super::super::testing::key(0)].clone(),
        );
        node.set_state(i, PortState::Down, PhysState::Polling);
        let down = node.snapshot.links[&super::super::testing::key(i)].clone();
        node.set_link(i, link(400, 4));
        node.snapshot.links.insert(key, down);
    }
    let first = node.snapshot.links[&key(0)].clone();
    let cabled = node.devices[5].port_key(2);
    node.snapshot.links.insert(cabled, first);
    node.tick(1);
    let told = node.told(&CHECK);
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(told.iter().all(|t| t.ends_with("NeverUp Unknown Notice")));
    // Two or more are cabled to be used: the others may be faults, and most of them up prove it.
    for (up, want) in [
        (2, "LinkUnproven Unknown Verdict"),
        (4, "LinkUnproven Unknown Verdict"),
        (5, "LinkDown Failing Verdict"),
    ] {
        for i in 0..up {
            let second = node.devices[i].port_key(2);
            let facts = node.snapshot.links[&key(i)].clone();
            node.snapshot.links.insert(second, facts);
        }
        let second = node.devices[5].port_key(2);
        let down = node.snapshot.links[&node.devices[7].port_key(2)].clone();
        node.snapshot.links.insert(second, down);
        node.history = Default::default();
        node.tick(1);
        let told = node.told(&CHECK);
        assert_eq!(told.len(), 8 - up, "{told:?}");
        assert!(told.iter().all(|t| t.ends_with(want)), "{up}: {told:?}");
    }
}

#[test]
fn a_rail_that_its_device_no_longer_lists_is_unknown() {
    let mut node = Node::infiniband();
    let port = node.devices[2].ports.remove(0);
    node.devices[2].ports.push(RdmaPort { number: 2, ..port });
    node.tick(1);
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_2/1 StateUnreadable Unknown Verdict"]
    );
}

/// gVNICs, the interfaces of which go into pods and come back.
#[test]
fn interfaces_that_pods_take() {
    let gvnics = || {
        let mut node = Node::roce();
        for device in &mut node.devices {
            device.driver = "gve".into();
        }
        node.tick(1);
        node
    };
    let told = |node: &Node| node.told(&CHECK);
    let mut node = gvnics();
    assert_eq!(told(&node), [""; 0]);
    node.set_state(3, PortState::Down, PhysState::Disabled);
    assert_eq!(told(&node), ["mlx5_3/1 LinkDown Failing Verdict"]);

    // A pod has it.
    let mut node = gvnics();
    node.devices[3].ports[0].netdev = None;
    let mut gone = link(200, 1);
    gone.state = Reading::NotObservable;
    gone.phys_state = Reading::NotObservable;
    node.set_link(3, gone);
    node.tick(1);
    assert_eq!(told(&node), [""; 0]);
    // What it had before has not healed.
    let stands =
        |of: &Candidate| of.unseen && of.reason == "LinkDown" && of.key == "0000:1b:00.0/1";
    assert!(run(&node.context()).iter().any(stands));

    // It came back, switched off.
    let mut node = gvnics();
    node.set_state(3, PortState::Down, PhysState::Disabled);
    node.set_netdev(
        3,
        NetdevFacts {
            admin_up: Some(false),
            ..NetdevFacts::default()
        },
    );
    assert_eq!(told(&node), ["mlx5_3/1 PhysDisabled Degraded Notice"]);
}

#[test]
fn without_ib_uverbs_no_rail_can_be_opened() {
    let (class_is_gone, has_none) = (Reading::NotObservable, Reading::Absent);
    for (uverbs, loaded, want) in [
        (&class_is_gone, &["ib_core", "mlx5_core"][..], 8),
        (&class_is_gone, &["ib_core", "ib_uverbs"], 0),
        // Built into the kernel, or not listed.
        (&class_is_gone, &["mlx5_core"], 0),
        (&class_is_gone, &[], 0),
        (&has_none, &["ib_core", "ib_uverbs"], 8),
        (&has_none, &[], 8),
    ] {
        let mut node = Node::infiniband();
        for device in &mut node.devices {
            device.uverbs = uverbs.clone();
        }
        node.bend_gpudirect(|facts| {
            let named = loaded
                .iter()
                .map(|name| (name.to_string(), Default::default()));
            facts.modules = Reading::Value(named.collect());
        });
        node.tick(1);
        let found = node.run(&CHECK);
        assert_eq!(found.len(), want, "{loaded:?}");
        assert!(found.iter().all(|of| of.reason == "NoUverbs"), "{loaded:?}");
    }
}
