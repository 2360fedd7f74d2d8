//! Roles where the node is reached over a virtual switch, or by a card with several ports, or where
//! every network hands out a default route.

use super::*;

fn place(mut dev: Dev, pci: &str) -> Dev {
    dev.device.key = DeviceKey(pci.into());
    dev.device.pci = Some(pci.parse().unwrap());
    dev
}

/// `eth0` and `eth1` of one card.
fn dual_port() -> Vec<Dev> {
    let port = |n: usize, at: &str| {
        let text = format!("front{n} mlx5_core 15b3:101d ORC_1 eth eth{n}");
        place(dev(&text, 0, 100), at)
    };
    vec![port(0, "0000:29:00.0"), port(1, "0000:29:00.1")]
}

/// Such a card is all that a GPU server has.
fn one_card() -> Node {
    Node::new(dual_port(), 8)
}

/// Azure's size without InfiniBand, run by OVN-Kubernetes: `br-ex` over the synthetic `eth0`.
fn azure_without_ib() -> Node {
    let mut node = azure_h200();
    node.devices.drain(..8);
    node.netdevs[0].3 = false;
    node.over_switch("eth0", true)
}

/// Rails that hang off the CPUs, and a NIC of another model, all ports of one virtual switch.
fn offloaded(rails: usize) -> Node {
    let mut devices: Vec<Dev> = (0..rails)
        .map(|n| {
            let text = format!("mlx5_{n} mlx5_core 15b3:1021 - eth rail{n}");
            dev(&text, 0x50 + n, 400)
        })
        .collect();
    devices.extend(dual_port().into_iter().take(1));
    Node::new(devices, 8)
}

const RAIL_PORTS: [&str; 8] = [
    "rail0", "rail1", "rail2", "rail3", "rail4", "rail5", "rail6", "rail7",
];

fn possible(mut node: Node, rails: &[&'static str]) -> Node {
    for rail in rails {
        node = node.over_switch(rail, false);
    }
    node.over_switch("eth0", false)
}

/// The RoCE rails next to GPUs, two for each as `each` says, with a front end of board `front` next to
/// GPU 0.
fn near_gpus(each: usize, front: &str) -> Node {
    let rail = |n: usize| {
        let text = format!("mlx5_{n} mlx5_core 15b3:1021 MT_0838 eth rail{n}");
        dev(&text, 0x10 + n, 400).near(n / each, Distance::Pix)
    };
    let mut devices: Vec<Dev> = (0..8).map(rail).collect();
    let text = format!("front mlx5_core 15b3:1021 {front} eth eth0");
    devices.push(dev(&text, 0x30, 400).near(0, Distance::Pix));
    Node::new(devices, 8 / each)
}

/// A3 Mega whose networks all hand out a default route.
fn all_routed(count: usize) -> Node {
    const ALL: [&str; 9] = [
        "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8",
    ];
    let node = Node::new(gvnics(count), 8).guest();
    ALL.into_iter().take(count).fold(node, Node::route)
}

pub(super) fn machines() -> Vec<(&'static str, Node, Vec<String>)> {
    let mut oci = oci_16();
    oci.netdevs.clear();
    let mut near = one_card().route("eth0");
    for (n, dev) in near.devices.iter_mut().enumerate() {
        dev.near = vec![(n, Distance::Pix)];
    }
    let mut near_in_switch = offloaded(2);
    for (n, dev) in near_in_switch.devices.iter_mut().take(2).enumerate() {
        dev.near = vec![(n, Distance::Pxb)];
    }
    let mut vpi = one_card().route("eth0");
    vpi.devices[1].device.ports[0].link_layer = LinkLayer::Infiniband;
    let mut two_cards = one_card().route("eth0");
    for (n, at) in ["0000:3a:00.0", "0000:3a:00.1"].into_iter().enumerate() {
        let text = format!("back{n} mlx5_core 15b3:101d ORC_1 eth -");
        two_cards.devices.push(place(dev(&text, 0, 100), at));
    }
    let mut bonded = one_card().over_switch("bond0", true);
    bonded.netdevs[0].2 = vec!["eth0", "eth1"];
    for leg in ["eth0", "eth1"] {
        bonded.netdevs.push((leg, Some("bond0"), vec![], false));
    }
    let mut ipoib = dgx_h100().route("ibs3");
    ipoib.devices.retain(|dev| dev.device.name == "mlx5_3");
    let mut two_of_one_card = near_gpus(1, "MT_0838");
    two_of_one_card.devices.drain(2..8);
    let mut vlan = near_gpus(1, "MT_0800");
    vlan.netdevs = vec![
        ("rail3", None, vec![], false),
        ("rail3.100", None, vec!["rail3"], true),
    ];
    vec![
        (
            "a VLAN over one of the rails' board has the route",
            vlan.route("eth0"),
            numbered("mlx5_", [0, 1, 2, 4, 5, 6, 7]),
        ),
        (
            "IPoIB has the route",
            dgx_h100().route("ibs3"),
            numbered("mlx5_", H100_RAILS),
        ),
        ("IPoIB of the only HCA has it", ipoib, names("mlx5_3")),
        (
            "DHCP gave two rails a route",
            near_gpus(1, "MT_0800")
                .route("eth0")
                .route("rail3")
                .route("rail5"),
            numbered("mlx5_", 0..8),
        ),
        (
            "DHCP gave one of each pair a route",
            near_gpus(2, "MT_0800").route("eth0").route("rail3"),
            numbered("mlx5_", 0..8),
        ),
        (
            "one of three carries the route, eight GPUs",
            two_of_one_card.route("rail1"),
            names("front mlx5_0"),
        ),
        ("OVN over Azure's NIC", azure_without_ib(), vec![]),
        (
            "OVN next to rails",
            oci.over_switch("eth0", true),
            numbered("mlx5_", 0..16),
        ),
        (
            "rails in the switch, the address tells the front end",
            offloaded(8).over_switch("eth0", true),
            numbered("mlx5_", 0..8),
        ),
        (
            "rails in the switch, nothing tells",
            possible(offloaded(8), &RAIL_PORTS),
            numbered("mlx5_", 0..8),
        ),
        (
            "two in the switch, nothing tells, one hangs elsewhere",
            possible(offloaded(2), &RAIL_PORTS[..1]),
            names("mlx5_1"),
        ),
        (
            "two in the switch, nothing tells",
            possible(offloaded(1), &RAIL_PORTS[..1]),
            vec![],
        ),
        (
            "those near GPUs are none of the possible ones",
            possible(near_in_switch, &RAIL_PORTS[..2]),
            numbered("mlx5_", 0..2),
        ),
        ("OVN over a bond", bonded, vec![]),
        (
            "OVN over one port of the only card",
            one_card().over_switch("eth0", true),
            vec![],
        ),
        (
            "OVN perhaps over one port of the only card",
            one_card().over_switch("eth0", false),
            vec![],
        ),
        (
            "the only card carries the route",
            one_card().route("eth0"),
            vec![],
        ),
        ("the only card, near GPUs", near, names("front1")),
        ("the only card is VPI", vpi, names("front1")),
        (
            "another card like it",
            two_cards,
            names("front1 back0 back1"),
        ),
        (
            "the only card, no route",
            one_card(),
            names("front0 front1"),
        ),
        ("A3 Mega, all routed", all_routed(9), numbered("gvep", 1..9)),
        (
            "A3 Mega, all routed, one gone",
            all_routed(8),
            numbered("gvep", 1..8),
        ),
        (
            "A3 Mega, no route seen",
            Node::new(gvnics(9), 8).guest(),
            numbered("gvep", 1..9),
        ),
        (
            "A3 Mega, two routes",
            Node::new(gvnics(9), 8).guest().route("eth0").route("eth1"),
            numbered("gvep", 1..9),
        ),
        (
            "A3 Mega, the route of another than the first",
            Node::new(gvnics(9), 8).guest().route("eth1"),
            [numbered("gvep", 0..1), numbered("gvep", 2..9)].concat(),
        ),
        ("too few gVNICs, all routed", all_routed(4), vec![]),
    ]
}

fn rails_told(node: &mut Node, says: ShapeSays) -> usize {
    node.rails();
    let snapshot = node.snapshot();
    let roles = assign_roles(&snapshot, &node.history, (&node.overrides, says));
    let rails = roles.values().filter(|facts| facts.role == Role::Rail);
    rails.count()
}

#[test]
fn a_shape_without_a_fabric_has_no_ethernet_rails() {
    let ethernet = || Node::new(dual_port(), 8).guest();
    assert_eq!(rails_told(&mut ethernet(), ShapeSays::Nothing), 2);
    assert_eq!(rails_told(&mut ethernet(), ShapeSays::NoFabric), 0);
    let mut asked = ethernet();
    asked.overrides.include = vec![Glob::from("front1")];
    assert_eq!(rails_told(&mut asked, ShapeSays::NoFabric), 1);
    // A table that is wrong: InfiniBand is a fabric whatever it says.
    assert_eq!(rails_told(&mut azure_h200(), ShapeSays::NoFabric), 8);
}

#[test]
fn a_told_shape_has_its_gvnics_but_the_machines_own() {
    for (count, want) in [(9, 8), (8, 7), (2, 1), (1, 0)] {
        assert_eq!(rails_told(&mut all_routed(count), ShapeSays::Gvnics), want);
    }
}

#[test]
fn a_front_end_of_the_rails_board_next_to_one_of_them_is_none() {
    let mut node = near_gpus(1, "MT_0838").route("eth0");
    assert_eq!(node.rails(), numbered("mlx5_", 0..8));
}

#[test]
fn the_operator_makes_a_rail_of_a_sister() {
    let mut node = one_card().route("eth0");
    node.overrides.include = vec![Glob::from("eth1")];
    assert_eq!(node.rails(), names("front1"));
}

#[test]
fn a_possible_route_is_one_once_it_is_known() {
    let mut node = possible(offloaded(1), &RAIL_PORTS[..1]);
    assert_eq!(node.rails(), Vec::<String>::new());
    node.switch.clear();
    node = node.over_switch("eth0", true);
    assert_eq!(node.rails(), names("mlx5_0"), "the address could be read");
    node.switch.clear();
    assert_eq!(node.rails(), names("mlx5_0"), "a network restart");
}
