use super::*;
use crate::observe::{Function, LinkLayer};
use crate::source::testtree::TestTree;

fn devices(tree: &TestTree) -> Vec<RdmaDevice> {
    match enumerate(&tree.host()) {
        Reading::Value(devices) => devices,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_not_absent() {
    assert_eq!(enumerate(&TestTree::bare().host()), Reading::Absent);
    assert_eq!(enumerate(&TestTree::new().host()), Reading::Value(vec![]));
    let tree = TestTree::new();
    tree.errno(13, CLASS);
    assert!(matches!(enumerate(&tree.host()), Reading::Failed(_)));
    let tree = TestTree::new();
    tree.file(CLASS, "a file");
    assert_eq!(enumerate(&tree.host()), Reading::Value(vec![]));
}

#[test]
fn a_connectx7() {
    let tree = TestTree::new();
    tree.mlx5("ibp25s0", "0000:15:01.0", "0000:19:00.0");
    tree.files(
        "sys/bus/pci/devices/0000:19:00.0",
        &[("sriov_totalvfs", "16"), ("sriov_numvfs", "0")],
    );
    tree.file("sys/class/infiniband_verbs/abi_version", "6");
    tree.file("sys/class/infiniband_verbs/uverbs3/ibdev", "ibp25s0");
    let got = &devices(&tree)[0];
    assert_eq!(got.key.0, "0000:19:00.0");
    assert_eq!(got.name, "ibp25s0");
    assert_eq!(got.driver, "mlx5_core");
    assert_eq!(got.pci_id.as_deref(), Some("15b3:1021"));
    assert_eq!(got.node_type, Some(1));
    assert_eq!(got.firmware.as_deref(), Some("28.41.1000"));
    assert_eq!(got.board_id.as_deref(), Some("MT_0000000838"));
    assert_eq!(got.function, Function::Physical);
    assert_eq!(
        got.sriov,
        Some(Sriov {
            total: 16,
            enabled: 0
        })
    );
    assert_eq!(got.numa_node, Some(0));
    assert_eq!(got.uverbs, Reading::Value("uverbs3".into()));
    let port = &got.ports[0];
    assert_eq!(port.number, 1);
    assert_eq!(port.link_layer, LinkLayer::Infiniband);
    assert_eq!(port.netdev.as_deref(), Some("ibs1"));
}

#[test]
fn efa_has_little_to_tell() {
    let tree = TestTree::new();
    let pci = tree.pci("0000:4e:01.0", "0000:4f:00.0", ("1d0f", "efa2"), "efa");
    tree.rdma(
        &pci,
        "rdmap79s0",
        &[
            ("node_type", "7: unspecified"),
            ("fw_ver", ""),
            ("ports/1/link_layer", "Unknown"),
            ("ports/1/state", "4: ACTIVE"),
        ],
    );
    tree.file(&format!("{pci}/numa_node"), "-1");
    let got = &devices(&tree)[0];
    assert_eq!(got.driver, "efa");
    assert_eq!(got.firmware, None);
    assert_eq!(got.hca_type, None);
    assert_eq!(got.numa_node, None);
    assert_eq!(got.sriov, None);
    assert_eq!(got.function, Function::Physical);
    assert_eq!(got.uverbs, Reading::NotObservable, "without the class");
    assert_eq!(got.ports[0].link_layer, LinkLayer::Unspecified);
    assert_eq!(got.ports[0].netdev, None);
}

#[test]
fn virtual_functions_and_sub_functions() {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree.mlx5("mlx5_1", "0000:15:01.0", "0000:19:00.2");
    tree.mlx5("mlx5_2", "0000:25:01.0", "0000:29:00.2");
    for bdf in ["0000:19:00.2", "0000:29:00.2"] {
        tree.file(&format!("sys/bus/pci/devices/{bdf}/device"), "0x101e");
    }
    tree.link("sys/bus/pci/devices/0000:19:00.2/physfn", "../0000:19:00.0");
    tree.rdma(
        "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0/mlx5_core.sf.2",
        "mlx5_3",
        &[("node_type", "1: CA"), ("ports/1/link_layer", "Ethernet")],
    );
    let got = devices(&tree);
    let told: Vec<_> = got.iter().map(|d| (d.key.0.as_str(), d.function)).collect();
    assert_eq!(
        told,
        [
            ("0000:19:00.0", Function::Physical),
            ("0000:19:00.2", Function::VirtualOfHost),
            ("0000:29:00.2", Function::VirtualInGuest),
            ("0000:19:00.0/mlx5_core.sf.2", Function::SubFunction),
        ]
    );
    assert_eq!(got[3].driver, "mlx5_core");
    assert_eq!(got[3].pci.unwrap().to_string(), "0000:19:00.0");
    assert_eq!(got[3].pci_id.as_deref(), Some("15b3:1021"));
}

#[test]
fn soft_devices() {
    let tree = TestTree::new();
    let virt = |name: &str, files: &[(&str, &str)]| {
        tree.files(&format!("sys/devices/virtual/infiniband/{name}"), files);
        tree.link(
            &format!("sys/class/infiniband/{name}"),
            &format!("../../devices/virtual/infiniband/{name}"),
        );
    };
    let guid = "5054:00ff:fe12:3456";
    virt(
        "anything",
        &[("node_type", "4: RNIC"), ("ports/1/link_layer", "Ethernet")],
    );
    virt(
        "fabric0",
        &[
            ("node_type", "1: CA"),
            ("node_guid", guid),
            ("parent", "eth0"),
            ("ports/1/link_layer", "Ethernet"),
            ("ports/1/gid_attrs/ndevs/0", "eth0"),
        ],
    );
    virt("fabric1", &[("node_type", "1: CA"), ("node_guid", guid)]);
    // Plain directories, no links at all.
    tree.files(
        "sys/class/infiniband/rxe9",
        &[
            ("node_type", "1: CA"),
            ("parent", "eth7"),
            ("ports/1/state", "1: DOWN"),
        ],
    );
    let got = devices(&tree);
    let told: Vec<_> = got
        .iter()
        .map(|d| (d.key.0.as_str(), d.driver.as_str(), d.function, d.pci))
        .collect();
    assert_eq!(
        told,
        [
            ("name:anything", "siw", Function::Software, None),
            (
                "guid:5054:00ff:fe12:3456",
                "rdma_rxe",
                Function::Software,
                None
            ),
            (
                "guid:5054:00ff:fe12:3456/fabric1",
                "rdma_rxe",
                Function::Software,
                None
            ),
            ("name:rxe9", "rdma_rxe", Function::Software, None),
        ]
    );
    assert_eq!(got[1].ports[0].netdev.as_deref(), Some("eth0"));
    assert_eq!(got[3].ports[0].netdev.as_deref(), Some("eth7"));
}

#[test]
fn smi_sub_devices_name_their_parent_and_yield_its_key() {
    let tree = TestTree::new();
    tree.mlx5("mlx5_1", "0000:15:01.0", "0000:19:00.0");
    let pci = "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0";
    tree.rdma(
        pci,
        "ib_smi0",
        &[("node_type", "1: CA"), ("parent", "mlx5_1")],
    );
    let got = devices(&tree);
    assert_eq!(got[0].smi_parent.as_deref(), Some("mlx5_1"));
    assert_eq!(got[0].key.0, "0000:19:00.0/ib_smi0");
    assert_eq!(got[1].key.0, "0000:19:00.0");
    assert_eq!(got[1].smi_parent, None);
}

#[test]
fn odd_trees_give_what_they_have() {
    let tree = TestTree::new();
    // Links whose target was not captured: the address is in their text.
    tree.link(
        "sys/class/infiniband/dangling",
        "../../devices/pci0000:15/0000:19:00.0/infiniband/dangling",
    );
    // A plain file among the devices; a device with no files; junk in all of them.
    tree.file("sys/class/infiniband/a_file", "x");
    tree.dir("sys/class/infiniband/empty");
    tree.bytes("sys/class/infiniband/junk/node_type", &[0xff, 0xfe, 0]);
    tree.bytes(
        "sys/class/infiniband/junk/fw_ver",
        &[0x1b, b'[', b'2', b'J'],
    );
    tree.dir("sys/class/infiniband/junk/board_id");
    tree.file("sys/class/infiniband/junk/ports/x/state", "1: DOWN");
    tree.file("sys/class/infiniband/junk/ports/2/state", "1: DOWN");
    // A device directory copied flat, with its uevent (other projects' fixtures do so).
    tree.files(
        "sys/class/infiniband/mlx5_7",
        &[
            (
                "device/uevent",
                "DRIVER=mlx5_core\nPCI_SLOT_NAME=0008:01:00.0",
            ),
            ("hca_type", "MT4129"),
        ],
    );
    let got = devices(&tree);
    let told: Vec<_> = got
        .iter()
        .map(|d| (d.name.as_str(), d.key.0.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("empty", "name:empty"),
            ("junk", "name:junk"),
            ("mlx5_7", "0008:01:00.0"),
        ]
    );
    assert_eq!(got[1].node_type, None);
    assert_eq!(got[1].firmware.as_deref(), Some("[2J"));
    assert_eq!(got[1].driver, "unknown");
    assert_eq!(got[1].ports.len(), 1);
    assert_eq!(got[1].ports[0].number, 2);
    assert_eq!(got[2].driver, "mlx5_core");
}

#[test]
fn a_device_link_that_is_no_link_changes_no_identity() {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    let link = "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0/infiniband/mlx5_0/device";
    tree.remove(link);
    tree.dir(link);
    let got = devices(&tree);
    assert_eq!(got[0].key.0, "0000:19:00.0");
    assert_eq!(got[0].function, Function::Physical);
}

#[test]
fn what_cannot_be_listed_stays_with_the_reason() {
    let dir = "sys/class/infiniband/mlx5_0";
    type Break = fn(&TestTree, &str);
    let breaks: [(&str, Break); 4] = [
        ("denied", |tree, dir| {
            tree.errno(13, &format!("{dir}/ports"))
        }),
        ("device", |tree, dir| tree.errno(5, dir)),
        ("gone", |tree, _| {
            tree.remove("sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0/infiniband/mlx5_0/ports");
        }),
        ("empty", |tree, _| {
            tree.remove(
                "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0/infiniband/mlx5_0/ports/1",
            );
        }),
    ];
    for (name, spoil) in breaks {
        let tree = TestTree::new();
        tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        assert_eq!(devices(&tree)[0].unread, None);
        spoil(&tree, dir);
        let got = devices(&tree);
        assert_eq!(got.len(), 1, "{name}");
        assert!(got[0].unread.is_some(), "{name}");
        assert_eq!(got[0].key.0, "0000:19:00.0", "{name}");
        assert_eq!(got[0].ports[0].number, 1, "{name}");
    }
}

#[test]
fn of_too_many_devices_virtual_functions_are_left_out_and_that_is_told() {
    let tree = TestTree::new();
    tree.mlx5("z_rail", "0000:15:01.0", "0000:19:00.0");
    assert_eq!(left_out(&tree.host()), None);
    tree.file("sys/vf/physfn", "");
    for n in 0..MAX_DEVICES {
        tree.link(&format!("{CLASS}/vf{n}/device"), "../../../vf");
    }
    let got = devices(&tree);
    assert_eq!(got.len(), MAX_DEVICES);
    assert!(got.iter().any(|device| device.name == "z_rail"));
    assert!(left_out(&tree.host()).is_some());
}

#[test]
fn a_uverbs_device_that_cannot_be_read_is_not_missing() {
    let class = "sys/class/infiniband_verbs";
    type Spoil = fn(&TestTree);
    let rows: [(&str, Spoil); 3] = [
        ("class", |tree| tree.errno(13, "sys/class/infiniband_verbs")),
        ("name", |tree| {
            tree.errno(5, "sys/class/infiniband_verbs/uverbs3/ibdev");
        }),
        ("another's", |tree| {
            tree.file("sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_7");
        }),
    ];
    for (name, spoil) in rows {
        let tree = TestTree::new();
        tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        tree.file(&format!("{class}/uverbs3/ibdev"), "mlx5_0");
        spoil(&tree);
        let want = match name {
            "another's" => Reading::Absent,
            _ => Reading::NotObservable,
        };
        assert_eq!(devices(&tree)[0].uverbs, want, "{name}");
    }
}

#[test]
fn the_vpd_tells_what_manages_switches() {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    let vpd = "sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0/vpd";
    let read = || manages_switches(&tree.host(), &devices(&tree)[0]);
    assert_eq!(read(), Reading::Absent);
    tree.bytes(
        vpd,
        b"\x82\x0c\x00ConnectX-7\x90\x10\x00V3\x20SMDL=SW_MNG\x00\x78",
    );
    assert_eq!(read(), Reading::Value(true));
    tree.bytes(
        vpd,
        b"\x82\x0c\x00ConnectX-7\x90\x10\x00PN\x0aMCX750500\x78",
    );
    assert_eq!(read(), Reading::Value(false));
    tree.errno(13, "sys/bus/pci/devices/0000:19:00.0/vpd");
    assert!(matches!(read(), Reading::Failed(_)));
}

#[test]
fn an_empty_sys_says_nothing() {
    let tree = TestTree::bare();
    tree.dir("sys");
    assert_eq!(enumerate(&tree.host()), Reading::Absent);
}
