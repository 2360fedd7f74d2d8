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
