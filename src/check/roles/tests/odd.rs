//! Roles where an attribute is junk, another card was put in, or a GPU is away.

use super::*;

#[test]
fn one_odd_attribute_takes_no_rail_out() {
    type Bend = fn(&mut RdmaDevice);
    let bends: [(&str, Bend); 6] = [
        ("board", |device| device.board_id = Some("OTHER".into())),
        ("no board", |device| device.board_id = None),
        ("no model", |device| device.pci_id = None),
        ("no driver", |device| device.driver = "unknown".into()),
        ("no layer", |device| {
            device.ports[0].link_layer = LinkLayer::Unspecified;
        }),
        ("model that is not the driver's", |device| {
            device.hca_type = Some("MT4129".into());
            device.pci_id = Some("ffff:ffff".into());
        }),
    ];
    for (name, node, want) in machines() {
        if want.len() < 2 || name.starts_with("rxe") || name == "two rxe" {
            continue;
        }
        let n = (0..node.devices.len())
            .find(|n| want.contains(&node.devices[*n].device.name))
            .unwrap();
        for (what, bend) in bends {
            let (_, mut node, _) = machines().into_iter().find(|m| m.0 == name).unwrap();
            bend(&mut node.devices[n].device);
            assert_eq!(node.rails(), want, "{name}, {what}");
        }
    }
}

#[test]
fn next_to_gpus_a_card_of_another_model_or_mode_is_a_rail_and_no_other_port() {
    for (n, other_mode) in [(0, false), (3, false), (0, true), (3, true)] {
        let mut node = hgx_with_bond();
        node.netdevs.clear();
        let device = &mut node.devices[n].device;
        if other_mode {
            device.ports[0].link_layer = LinkLayer::Infiniband;
        } else {
            device.pci_id = Some("15b3:1023".into());
        }
        let mut want = numbered("mlx5_", 0..8);
        if n == 0 {
            // Where the BlueField-3 is the only other one, nothing tells which of the two is meant.
            want.push("mlx5_bond_0".into());
        }
        assert_eq!(node.rails(), want, "rail {n}");
    }
}

#[test]
fn a_slower_nic_next_to_most_gpus_is_for_storage_unless_its_gpu_has_no_other() {
    let name = |gpu| format!("storage{gpu}");
    for count in 1..=8 {
        let mut node = hgx_with_bond();
        node.netdevs.clear();
        node.devices.truncate(8);
        for gpu in 0..count {
            let text = format!("{} mlx5_core 15b3:101d S eth -", name(gpu));
            let storage = dev(&text, 0x90 + gpu, 100).near(gpu, Distance::Pix);
            node.devices.push(storage);
        }
        let rails = numbered("mlx5_", 0..8);
        assert_eq!(node.rails(), rails, "{count}");
        node.devices[8].up = false;
        assert_eq!(node.rails(), rails, "{count}, one down");
        for rail in &mut node.devices[..8] {
            (rail.gbps, rail.up) = (50, rail.device.name == "mlx5_3");
        }
        node.history = History::default();
        assert_eq!(node.rails(), rails, "{count}, the fabric is sick");
        if count == 8 {
            // Without the first rail they serve more.
            continue;
        }
        // Without memory of the first rail.
        node.history = History::default();
        let _gone = node.devices.remove(0);
        let mut left = numbered("mlx5_", 1..8);
        left.push(name(0));
        assert_eq!(node.rails(), left, "{count}, one gone");
    }
}

#[test]
fn away_from_gpus_one_or_two_of_most_in_another_mode_are_rails() {
    let flipped = |which: &[usize], bend: fn(&mut Node)| {
        let mut node = gb200();
        for n in which {
            node.devices[*n].device.ports[0].link_layer = LinkLayer::Ethernet;
            node.devices[*n].up = false;
        }
        bend(&mut node);
        node.rails()
    };
    type Bend = fn(&mut Node);
    let (all, others) = (
        names("mlx5_0 mlx5_1 mlx5_4 mlx5_5"),
        names("mlx5_0 mlx5_1 mlx5_4"),
    );
    let rows: [(&str, &[usize], Bend, Vec<String>); 7] = [
        ("one", &[5], |_| {}, all),
        (
            "one that is up so",
            &[5],
            |node| node.devices[5].up = true,
            others.clone(),
        ),
        ("half: a design", &[4, 5], |_| {}, names("mlx5_0 mlx5_1")),
        ("in a guest", &[5], |node| node.guest = true, others.clone()),
        (
            "a virtual function",
            &[5],
            |node| node.devices[5].device.function = Function::VirtualInGuest,
            others.clone(),
        ),
        (
            "of another board",
            &[5],
            |node| node.devices[5].device.board_id = Some("NVD_2".into()),
            others.clone(),
        ),
        (
            "with the default route",
            &[5],
            |node| {
                node.devices[5].device.ports[0].netdev = Some("eth5".into());
                node.netdevs.push(("eth5", None, vec![], true));
            },
            others,
        ),
    ];
    for (what, which, bend, want) in rows {
        assert_eq!(flipped(which, bend), want, "{what}");
    }
}

#[test]
fn what_cannot_be_read_makes_no_place_for_the_front_end() {
    let mut node = azure_h200();
    node.netdevs.clear();
    for dev in &mut node.devices[..8] {
        dev.device.ports[0].link_layer = LinkLayer::Unspecified;
        dev.up = false;
    }
    assert_eq!(node.rails(), numbered("mlx5_ib", 0..8));
}

/// A guest with eight rails and the four functions that manage NVSwitches of a B200 board.
fn b200() -> Node {
    let rails = (0..8).map(|n| (n, 0x1000 * n as u64));
    let managers = (8..12).map(|n| (n, 0xf626 + n as u64));
    let devices = rails.chain(managers).map(|(n, guid)| {
        let text = format!("mlx5_{n} mlx5_core 15b3:1021 MT_1 ib -");
        let mut dev = dev(&text, 0x10 + n, 400);
        dev.device.node_guid = Some(format!("b83f:d203:00aa:{:04x}", guid + 1));
        dev
    });
    Node::new(devices.collect(), 8).guest()
}

#[test]
fn functions_that_manage_switches_are_never_rails() {
    let rails = numbered("mlx5_", 0..8);
    let mut by_vpd = b200();
    for dev in &mut by_vpd.devices {
        let number: usize = dev.device.name["mlx5_".len()..].parse().unwrap();
        dev.device.manages_switches = Reading::Value(number >= 8);
    }
    assert_eq!(by_vpd.rails(), rails);
    let role = |node: &Node| {
        let mut snapshot = node.snapshot();
        let pci = &mut Arc::make_mut(snapshot.pci.as_mut().unwrap()).value;
        for gpu in pci.gpus.clone() {
            let id = "10de:2901".to_string();
            let function = crate::observe::PciFunction {
                id,
                ..Default::default()
            };
            pci.functions.insert(gpu.to_string(), function);
        }
        let roles = roles(&snapshot, &History::default(), &node.overrides);
        roles
            .values()
            .filter(|role| role.role == Role::Rail)
            .count()
    };
    assert_eq!(role(&b200()), 8, "by GUIDs, without a VPD");
    let mut all_consecutive = b200();
    for (n, dev) in all_consecutive.devices.iter_mut().enumerate() {
        dev.device.node_guid = Some(format!("b83f:d203:00aa:{n:04x}"));
    }
    assert_eq!(role(&all_consecutive), 12, "which tells nothing");
}

#[test]
fn of_a_multi_plane_device_the_data_ports_are_rails() {
    let mut node = Node::new(
        (0..8)
            .map(|n| {
                dev(
                    &format!("mlx5_{n} mlx5_core 15b3:1023 MT_1 ib -"),
                    0x10 + n,
                    800,
                )
            })
            .collect(),
        8,
    );
    for dev in &mut node.devices {
        let port = dev.device.ports[0].clone();
        dev.device.ports = (1..=12)
            .map(|number| RdmaPort {
                number,
                ..port.clone()
            })
            .collect();
    }
    let roles = roles(&node.snapshot(), &History::default(), &node.overrides);
    let rails = roles.iter().filter(|(_, role)| role.role == Role::Rail);
    assert!(rails.clone().all(|(key, _)| key.port % 3 == 0));
    assert_eq!(rails.count(), 32);
}

#[test]
fn a_rail_whose_gpu_was_never_seen_keeps_its_role_by_likeness() {
    let mut node = dgx_h100();
    node.devices[5].near.clear();
    assert_eq!(node.rails(), numbered("mlx5_", H100_RAILS));
    let mut storage = dgx_h100();
    storage.devices[5].near.clear();
    storage.devices[5].device.board_id = Some("MT_0800".into());
    let without: Vec<usize> = H100_RAILS.into_iter().filter(|n| *n != 5).collect();
    assert_eq!(storage.rails(), numbered("mlx5_", without));
}

#[test]
fn ethernet_ports_of_vpi_cards_are_no_rails() {
    let vpi = |ethernet: usize| {
        let mut node = dgx_h100();
        for (n, dev) in node.devices.iter_mut().enumerate() {
            let mut second = dev.device.ports[0].clone();
            second.number = 2;
            if n < ethernet {
                second.link_layer = LinkLayer::Ethernet;
            }
            dev.device.ports.push(second);
        }
        node.rails().len()
    };
    assert_eq!(vpi(12), 8);
    assert_eq!(vpi(0), 16);
    assert_eq!(vpi(1), 16, "one among twelve is in the wrong mode");
}

#[test]
fn without_the_bus_slower_boards_of_the_rails_model_are_for_storage() {
    let mut node = dgx_h100();
    for (n, dev) in node.devices.iter_mut().enumerate() {
        dev.near.clear();
        if !H100_RAILS.contains(&n) {
            dev.gbps = 200;
        }
    }
    node.gpus = 0;
    assert_eq!(node.rails(), numbered("mlx5_", H100_RAILS));
}

#[test]
fn next_to_slingshot_no_other_nic_is_the_fabric_unless_it_is_near_gpus() {
    let rails = |mut node: Node, driver: &str| {
        node.rails();
        let mut snapshot = node.snapshot();
        let mut pci = snapshot.pci.take().unwrap().value.clone();
        let nic = BareNic {
            id: "17db:0501".into(),
            class: "020000".into(),
            driver: Some(driver.into()),
            ..BareNic::default()
        };
        pci.bare.insert("0000:f0:00.0".into(), nic);
        let at = snapshot.at;
        snapshot.pci = Some(Arc::new(Stamped { at, value: pci }));
        let roles = roles(&snapshot, &node.history, &node.overrides);
        rail_keys(&roles).count()
    };
    assert_eq!(rails(gb200(), "cxi_ss1"), 0);
    assert_eq!(rails(gb200(), "vfio-pci"), 4);
    assert_eq!(rails(dgx_h100(), "cxi_ss1"), 8);
}
