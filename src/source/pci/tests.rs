use super::*;
use crate::observe::Distance;
use crate::source::testtree::TestTree;

/// A function at the end of a path of functions below `pciDDDD:BB`.
fn function_at(tree: &TestTree, root: &str, path: &[&str], class: &str, id: (&str, &str)) {
    let mut dir = format!("devices/pci{root}");
    for (i, bdf) in path.iter().enumerate() {
        dir.push_str(&format!("/{bdf}"));
        let link = format!("sys/bus/pci/devices/{bdf}");
        if tree.path(&link).symlink_metadata().is_ok() {
            continue;
        }
        let end = i + 1 == path.len();
        let (class, id) = if end {
            (class, id)
        } else {
            ("0x060400", ("1000", "c030"))
        };
        tree.files(
            &format!("sys/{dir}"),
            &[
                ("class", class),
                ("vendor", &format!("0x{}", id.0)),
                ("device", &format!("0x{}", id.1)),
                ("numa_node", "0"),
                ("current_link_speed", "32.0 GT/s PCIe"),
                ("current_link_width", "16"),
                ("max_link_speed", "32.0 GT/s PCIe"),
                ("max_link_width", "16"),
            ],
        );
        tree.link(&link, &format!("../../../{dir}"));
    }
}

const GPU: (&str, &str) = ("10de", "2330");
const NIC: (&str, &str) = ("15b3", "1021");

fn node() -> TestTree {
    let tree = TestTree::new();
    let under = |bdf: &'static str| ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0", bdf];
    function_at(&tree, "0000:15", &under("0000:18:00.0"), "0x030200", GPU);
    function_at(
        &tree,
        "0000:15",
        &[
            "0000:15:01.0",
            "0000:16:00.0",
            "0000:17:01.0",
            "0000:19:00.0",
        ],
        "0x020700",
        NIC,
    );
    // NVSwitch and audio function: not GPUs.
    function_at(
        &tree,
        "0000:07",
        &["0000:07:00.0"],
        "0x068000",
        ("10de", "22a3"),
    );
    function_at(
        &tree,
        "0000:07",
        &["0000:07:00.1"],
        "0x040300",
        ("10de", "22ba"),
    );
    tree
}

fn nic() -> Bdf {
    "0000:19:00.0".parse().unwrap()
}

fn facts(tree: &TestTree) -> PciFacts {
    match scan(&tree.host(), &[nic()]) {
        Reading::Value(facts) => facts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn gpus_nics_and_what_is_above_them() {
    let facts = facts(&node());
    assert_eq!(facts.gpus, ["0000:18:00.0".parse().unwrap()]);
    let names: Vec<_> = facts.functions.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0000:15:01.0",
            "0000:16:00.0",
            "0000:17:00.0",
            "0000:17:01.0",
            "0000:18:00.0",
            "0000:19:00.0"
        ]
    );
    let gpu = &facts.functions["0000:18:00.0"];
    assert_eq!(gpu.parent.as_deref(), Some("0000:17:00.0"));
    assert_eq!(gpu.id, "10de:2330");
    assert_eq!(gpu.class, "030200");
    assert_eq!(gpu.current.value().unwrap().megatransfers, 32_000);
    assert_eq!(gpu.iommu, Reading::Absent);
    assert_eq!(gpu.config_dead, Reading::Absent);
    assert_eq!(facts.functions["0000:15:01.0"].parent, None);
    assert_eq!(
        facts.distances["0000:19:00.0"]["0000:18:00.0"],
        Distance::Pix
    );
    assert!(!facts.virtual_machine);
}

#[test]
fn what_the_files_tell() {
    let tree = node();
    let gpu = "sys/bus/pci/devices/0000:18:00.0";
    let port = "sys/bus/pci/devices/0000:17:00.0";
    tree.bytes(&format!("{gpu}/config"), &[0xff]);
    let torn = &facts(&tree).functions["0000:18:00.0"].config_dead;
    assert!(matches!(torn, Reading::Failed(_)), "{torn:?}");
    tree.bytes(&format!("{gpu}/config"), &[0xff; 64]);
    tree.file(
        &format!("{gpu}/aer_dev_correctable"),
        "Bad TLP 2\nTOTAL_ERR_COR 2",
    );
    tree.link(
        &format!("{gpu}/iommu_group"),
        "../../../../../../kernel/iommu_groups/9",
    );
    tree.file("sys/kernel/iommu_groups/9/type", "DMA-FQ");
    tree.file(&format!("{gpu}/current_link_width"), "0");
    tree.errno(22, &format!("{gpu}/max_link_speed"));
    tree.bytes(&format!("{port}/config"), &[0x86; 64]);
    let facts = facts(&tree);
    let gpu = &facts.functions["0000:18:00.0"];
    assert_eq!(gpu.config_dead, Reading::Value(true));
    assert_eq!(gpu.aer.get("correctable"), Some(&2));
    assert_eq!(gpu.aer.get("fatal"), None);
    assert_eq!(gpu.iommu, Reading::Value("DMA-FQ".into()));
    assert_eq!(gpu.current, Reading::NotObservable);
    assert_eq!(gpu.max, Reading::NotObservable);
    let port = &facts.functions["0000:17:00.0"];
    assert_eq!(port.acs_redirect, Reading::NotObservable, "64 bytes only");
    assert_eq!(port.config_dead, Reading::Absent);
}

#[test]
fn a_vf_reads_ones_by_design() {
    let tree = node();
    let dir = "sys/bus/pci/devices/0000:19:00.0";
    tree.bytes(&format!("{dir}/config"), &[0xff; 64]);
    tree.link(&format!("{dir}/physfn"), "../0000:19:00.1");
    let facts = facts(&tree);
    assert_eq!(
        facts.functions["0000:19:00.0"].config_dead,
        Reading::NotObservable
    );
}

#[test]
fn domains_of_their_own() {
    let tree = TestTree::new();
    function_at(
        &tree,
        "0008:00",
        &["0008:00:00.0", "0008:01:00.0"],
        "0x030200",
        GPU,
    );
    function_at(
        &tree,
        "0000:00",
        &["0000:00:00.0", "0000:19:00.0"],
        "0x020700",
        NIC,
    );
    let facts = facts(&tree);
    assert_eq!(facts.gpus[0].to_string(), "0008:01:00.0");
    assert_eq!(
        facts.distances["0000:19:00.0"]["0008:01:00.0"],
        Distance::Phb
    );
}

#[test]
fn missing_parts() {
    assert_eq!(scan(&TestTree::bare().host(), &[nic()]), Reading::Absent);
    let tree = TestTree::new();
    tree.dir("sys/bus/pci/devices");
    let hidden = scan(&tree.host(), &[nic()]);
    assert_eq!(hidden, Reading::NotObservable);
    // A link without its target still tells where it hung.
    tree.link(
        "sys/bus/pci/devices/0000:19:00.0",
        "../../../devices/pci0000:15/0000:15:01.0/0000:19:00.0",
    );
    let facts = facts(&tree);
    let nic = &facts.functions["0000:19:00.0"];
    assert_eq!(nic.parent.as_deref(), Some("0000:15:01.0"));
    assert_eq!(nic.current, Reading::Absent);
    assert_eq!(nic.id, "");
}

#[test]
fn gpu_classes() {
    for (vendor, class, want) in [
        (0x10de, 0x030200, true),
        (0x10de, 0x030000, true),
        (0x10de, 0x068000, false),
        (0x10de, 0x040300, false),
        (0x1002, 0x120000, true),
        (0x1002, 0x038000, true),
        (0x1a03, 0x030000, false),
        (0x8086, 0x038000, false),
    ] {
        assert_eq!(is_gpu(vendor, class), want, "{vendor:x} {class:x}");
    }
}

#[test]
fn nics_without_an_rdma_device() {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    for (bdf, id, class) in [
        // A second function of a card that has an RDMA device.
        ("0000:19:00.1", ("15b3", "1021"), "0x020700"),
        ("0000:1a:00.0", ("15b3", "1021"), "0x020700"),
        ("0000:1b:00.0", ("14e4", "1760"), "0x020000"),
        // ENA and e1000e carry no RDMA; a VF is a pod's.
        ("0000:1c:00.0", ("1d0f", "ec20"), "0x020000"),
        ("0000:1d:00.0", ("8086", "10d3"), "0x020000"),
        ("0000:1e:00.2", ("15b3", "101e"), "0x020700"),
        ("0000:1f:00.0", ("15b3", "1021"), "0x010802"),
        // A NIC in flash recovery; memory of another make; Slingshot, Omni-Path.
        ("0000:2a:00.0", ("15b3", "0218"), "0x050000"),
        ("0000:2b:00.0", ("8086", "0998"), "0x050000"),
        ("0000:2c:00.0", ("17db", "0501"), "0x020000"),
        ("0000:2d:00.0", ("434e", "0001"), "0x020800"),
    ] {
        let driver = match id.0 {
            "15b3" => "mlx5_core",
            "14e4" => "bnxt_en",
            _ => "other",
        };
        let dir = tree.pci("0000:15:02.0", bdf, id, driver);
        tree.file(&format!("{dir}/class"), class);
        if id.0 == "14e4" {
            tree.remove(&format!("{dir}/driver"));
        }
    }
    tree.link("sys/bus/pci/devices/0000:1e:00.2/physfn", "../0000:1a:00.0");
    // A port of the same card that no driver took.
    let dir = tree.pci(
        "0000:15:02.0",
        "0000:19:00.2",
        ("15b3", "1021"),
        "mlx5_core",
    );
    tree.file(&format!("{dir}/class"), "0x020700");
    tree.remove(&format!("{dir}/driver"));
    // And one whose interface is in no bond.
    let dir = tree.pci(
        "0000:15:02.0",
        "0000:19:00.3",
        ("15b3", "1021"),
        "mlx5_core",
    );
    tree.file(&format!("{dir}/class"), "0x020000");
    tree.dir(&format!("{dir}/net/ens9"));
    let rdma: Bdf = "0000:19:00.0".parse().unwrap();
    let scanned = || scan(&tree.host(), &[rdma]).into_value().unwrap();
    let bare = || scanned().bare;
    let (found, capable) = (bare(), scanned().rdma_capable.into_value().unwrap());
    for at in [
        "0000:1b:00.0",
        "0000:2a:00.0",
        "0000:2c:00.0",
        "0000:2d:00.0",
    ] {
        assert!(capable.contains_key(at), "{at}");
    }
    let told: Vec<&String> = found.keys().collect();
    let alone = "0000:19:00.3";
    assert_eq!(
        told,
        [
            "0000:19:00.1",
            "0000:19:00.2",
            alone,
            "0000:1a:00.0",
            "0000:1b:00.0",
            "0000:2a:00.0",
            "0000:2c:00.0",
            "0000:2d:00.0"
        ]
    );
    tree.dir("sys/class/net/ens9/master/bonding");
    assert!(!bare().contains_key(alone));
    // Without an interface it is a leg where the card's RDMA device has none either, or a bonded one.
    let leg = "0000:19:00.1";
    assert!(bare().contains_key(leg));
    tree.dir("sys/class/net/ibs1/master/bonding");
    assert!(!bare().contains_key(leg));
    tree.remove("sys/class/net/ibs1/master");
    tree.remove("sys/bus/pci/devices/0000:19:00.0/net/ibs1");
    assert!(!bare().contains_key(leg));
    let nic = &found["0000:1a:00.0"];
    assert_eq!(
        (nic.id.as_str(), nic.class.as_str(), nic.driver.as_deref()),
        ("15b3:1021", "020700", Some("mlx5_core"))
    );
    // One that does not say what it is, or whose it is.
    for (at, gone, want) in [
        ("0000:1a:00.0", "class", Some(("15b3:1021", "000000"))),
        ("0000:1b:00.0", "vendor", Some(("", "020000"))),
        ("0000:1f:00.0", "vendor", None),
        ("0000:1b:00.0", "class", None),
    ] {
        tree.remove(&format!("sys/bus/pci/devices/{at}/{gone}"));
        let found = bare();
        let nic = found.get(at);
        let told = nic.map(|nic| (nic.id.as_str(), nic.class.as_str()));
        assert_eq!(told, want, "{at} without {gone}");
    }
}

#[test]
fn a_gpu_by_its_drivers_word() {
    let tree = TestTree::new();
    for bdf in ["0000:1b:00.0", "0000:1c:00.0"] {
        let dir = tree.pci("0000:15:01.0", bdf, ("10de", "2330"), "nvidia");
        tree.remove(&format!("{dir}/class"));
    }
    tree.dir("proc/driver/nvidia/gpus/0000:1b:00.0");
    tree.dir("proc/driver/nvidia/gpus/0000:2b:00.0");
    let found = scan(&tree.host(), &[]).into_value().unwrap();
    let told: Vec<String> = found.gpus.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["0000:1b:00.0"]);
    assert!(found.gpus_unread, "the other one may be a GPU");
}

#[test]
fn virtual_functions_of_a_gpu_are_guests_parts_of_it() {
    let tree = TestTree::new();
    for address in ["0000:19:00.0", "0000:19:00.4"] {
        let dir = format!("sys/bus/pci/devices/{address}");
        tree.file(&format!("{dir}/class"), "0x030200");
        tree.file(&format!("{dir}/vendor"), "0x10de");
    }
    let found = || {
        let host = tree.host();
        gpus(&host, &classes(&host).into_value().unwrap()).0.len()
    };
    // In a guest, a virtual function is a GPU.
    assert_eq!(found(), 2);
    tree.link("sys/bus/pci/devices/0000:19:00.4/physfn", "../0000:19:00.0");
    assert_eq!(found(), 1);
}
