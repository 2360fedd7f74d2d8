//! Nodes that are broken in one way each, through the real binary: none of them is ready.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use support::{node, selvage};

const RAILS: [&str; 8] = [
    "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
];

/// A simulated node, its files to be spoilt.
struct Tree(PathBuf);

impl Tree {
    fn device(&self, name: &str) -> PathBuf {
        self.0
            .join("sys/class/infiniband")
            .join(name)
            .canonicalize()
            .unwrap()
    }

    fn port(&self, name: &str, number: u32) -> PathBuf {
        self.device(name).join(format!("ports/{number}"))
    }

    fn pci(&self, name: &str) -> PathBuf {
        self.device(name).join("device").canonicalize().unwrap()
    }

    /// The device's link on the PCI bus.
    fn on_bus(&self, pci: &Path) -> PathBuf {
        self.0
            .join("sys/bus/pci/devices")
            .join(pci.file_name().unwrap())
    }

    fn put(&self, path: PathBuf, text: &str) {
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn down(&self, name: &str) {
        self.put(self.port(name, 1).join("state"), "1: DOWN");
        self.put(self.port(name, 1).join("phys_state"), "2: Polling");
    }

    fn errno(&self, errno: i32, name: &str, below: &str) {
        let file = self.0.join(".selvage-errno");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = format!("{errno} sys/class/infiniband/{name}/{below}\n");
        fs::write(file, text + &line).unwrap();
    }

    /// The driver did not probe: nothing is left but the function on the bus.
    fn without_driver(&self, name: &str, driver: bool) {
        let pci = self.pci(name);
        self.forget(&pci);
        for class in ["infiniband", "infiniband_mad", "infiniband_verbs", "net"] {
            let _ = fs::remove_dir_all(pci.join(class));
        }
        if !driver {
            fs::remove_file(pci.join("driver")).unwrap();
        }
    }

    /// The function left the bus.
    fn off_the_bus(&self, name: &str) {
        let pci = self.pci(name);
        self.forget(&pci);
        fs::remove_file(self.on_bus(&pci)).unwrap();
        fs::remove_dir_all(pci).unwrap();
    }

    fn wrong_mode(&self, name: &str) {
        let file = self.port(name, 1).join("link_layer");
        let other = match fs::read_to_string(&file).unwrap().trim() {
            "Ethernet" => "InfiniBand",
            _ => "Ethernet",
        };
        self.put(file, other);
        self.down(name);
    }

    /// The links of a function's devices in the classes.
    fn forget(&self, pci: &Path) {
        for class in ["infiniband", "infiniband_mad", "infiniband_verbs", "net"] {
            let links = self.0.join("sys/class").join(class);
            for link in fs::read_dir(&links).into_iter().flatten() {
                let link = link.unwrap().path();
                if link.canonicalize().is_ok_and(|to| to.starts_with(pci)) {
                    fs::remove_file(link).unwrap();
                }
            }
        }
    }

    /// A second port on each rail, like the first but for its link layer.
    fn second_ports(&self, layer: &str) {
        for name in RAILS {
            let (from, to) = (self.port(name, 1), self.port(name, 2));
            fs::create_dir_all(&to).unwrap();
            for file in ["state", "phys_state", "rate"] {
                fs::copy(from.join(file), to.join(file)).unwrap();
            }
            self.put(to.join("link_layer"), layer);
        }
    }
}

type Spoil = fn(&Tree);

/// State and reasons of a preset that was spoilt.
fn judged(preset: &str, spoil: Spoil, args: &[&str]) -> (String, Vec<String>) {
    let (dir, _node) = node(preset);
    spoil(&Tree(dir.path().to_path_buf()));
    let (_, text) = selvage(dir.path(), &[&["check", "-o", "json"], args].concat());
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let reasons = report["reasons"].as_array().unwrap().iter();
    (
        report["state"].as_str().unwrap().to_string(),
        reasons.map(|r| r.as_str().unwrap().to_string()).collect(),
    )
}

/// What does not exist on a machine's fabric is never missed there, whichever shape it is taken for:
/// no finding at all but the number of rails and GPUs, which is the preset's and not the shape's.
#[test]
fn what_a_shape_does_not_have_is_not_missed() {
    use selvage::check::profile::{Fabric, Profile, shapes};
    for shape in shapes() {
        let preset = match shape.fabric {
            Fabric::Efa => "efa_p5",
            Fabric::Infiniband | Fabric::Mellanox => "h100_ib",
            Fabric::Roce => "h100_roce",
            Fabric::Gvnic => "gcp_a3_mega",
            Fabric::None => "empty",
        };
        let (dir, _node) = node(preset);
        // Where it is no part of the path, nobody has nvidia_peermem.
        let profile = Profile {
            shape: Some(shape),
            ..Profile::default()
        };
        if profile.lacks().contains(&"nvidia_peermem") {
            assert!(!dir.path().join("sys/module/nvidia_peermem").exists());
        }
        let word = shape.types[0].replace('*', "40");
        let args = ["check", "-o", "json", "--platform-profile", word.as_str()];
        let (_, text) = selvage(dir.path(), &args);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["platform"]["profile"], shape.name);
        let found = report["findings"].as_array().unwrap().iter();
        let reasons: Vec<&str> = found
            .map(|found| found["reason"].as_str().unwrap())
            .filter(|reason| !["FewerDevicesThanPromised", "MissingGpu"].contains(reason))
            .collect();
        assert_eq!(reasons, [""; 0], "{}", shape.name);
    }
}

#[test]
fn partitions() {
    let rows: [(&str, &str, &str); 3] = [
        ("0x0000", "unready", "NoPartition"),
        ("0x7fff", "degraded", "PartitionLimited"),
        ("0x800a", "ready", ""),
    ];
    for (key, state, reason) in rows {
        let (dir, _node) = node("h100_ib");
        let tree = Tree(dir.path().to_path_buf());
        tree.put(tree.port("mlx5_4", 1).join("pkeys/0"), key);
        let (_, text) = selvage(dir.path(), &["check", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["state"], state, "{key}");
        assert_eq!(report["reasons"][0].as_str().unwrap_or_default(), reason);
    }
}

#[test]
fn a_rail_that_cannot_be_read_is_unknown() {
    let rows: [(&str, Spoil); 4] = [
        ("no ports", |tree| {
            fs::remove_dir_all(tree.device("mlx5_4").join("ports")).unwrap();
        }),
        ("no port in it", |tree| {
            fs::remove_dir_all(tree.port("mlx5_4", 1)).unwrap();
        }),
        ("EACCES", |tree| tree.errno(13, "mlx5_4", "ports")),
        ("EIO", |tree| tree.errno(5, "mlx5_4", "ports")),
    ];
    for (name, spoil) in rows {
        let (state, reasons) = judged("h100_ib", spoil, &[]);
        assert_eq!(state, "unknown", "{name}");
        assert!(reasons.contains(&"SourceFailing".to_string()), "{name}");
    }
}

#[test]
fn a_rail_without_its_driver_is_missed() {
    let rows: [(&str, &str, Spoil, &str); 8] = [
        (
            "one",
            "h100_ib",
            |t| t.without_driver("mlx5_4", false),
            "degraded",
        ),
        (
            "one, bound",
            "h100_ib",
            |t| t.without_driver("mlx5_4", true),
            "degraded",
        ),
        (
            "all: the storage NICs are not the fabric",
            "h100_ib",
            |t| RAILS.iter().for_each(|rail| t.without_driver(rail, false)),
            "unready",
        ),
        (
            "all of RoCE",
            "h100_roce",
            |t| (0..8).for_each(|n| t.without_driver(&format!("mlx5_{n}"), false)),
            "unready",
        ),
        (
            "all of a machine that DMI does not name",
            "openshift_sriov",
            |t| (0..16).for_each(|n| t.without_driver(&format!("mlx5_{n}"), false)),
            "unknown",
        ),
        (
            "all of EFA, bound: DMI names p5",
            "efa_p5",
            |t| {
                let all = fs::read_dir(t.0.join("sys/class/infiniband")).unwrap();
                let names: Vec<_> = all.map(|entry| entry.unwrap().file_name()).collect();
                for name in names {
                    t.without_driver(name.to_str().unwrap(), true);
                }
            },
            "unready",
        ),
        (
            "a guest's",
            "azure_ndh200",
            |t| t.without_driver("mlx5_ib3", false),
            "degraded",
        ),
        (
            "all of a guest",
            "azure_ndh200",
            |t| (0..8).for_each(|n| t.without_driver(&format!("mlx5_ib{n}"), false)),
            "unknown",
        ),
    ];
    for (name, preset, spoil, want) in rows {
        let (state, reasons) = judged(preset, spoil, &[]);
        assert_eq!(
            (state.as_str(), reasons),
            (want, vec!["RailWithoutDriver".to_string()]),
            "{name}"
        );
    }
    let expected = &["--set", "policy.expect.rails=7"];
    let (state, _) = judged("h100_ib", |t| t.without_driver("mlx5_4", false), expected);
    assert_eq!(state, "ready", "the operator says that seven are all");
    let expected = &["--platform-profile", "Standard_ND96isr_H200_v5"];
    let all: Spoil = |t| (0..8).for_each(|n| t.without_driver(&format!("mlx5_ib{n}"), false));
    let (state, _) = judged("azure_ndh200", all, expected);
    assert_eq!(state, "unready", "the shape says that there are rails");
    let storage: Spoil = |t| t.without_driver("mlx5_7", false);
    assert_eq!(judged("h100_ib", storage, &[]).0, "ready", "a storage NIC");
}

#[test]
fn a_rail_that_is_down_and_odd_is_not_ready() {
    // One of another make, as far as can be read, has no peers: nothing shows that it should be up.
    let odd = ["junk model", "other board", "other model", "other layer"];
    let rows: [(&str, Spoil); 9] = [
        ("no model", |t| {
            fs::remove_file(t.pci("mlx5_4").join("device")).unwrap()
        }),
        ("no vendor", |t| {
            fs::remove_file(t.pci("mlx5_4").join("vendor")).unwrap()
        }),
        ("junk model", |t| {
            t.put(t.pci("mlx5_4").join("device"), "0x0")
        }),
        ("other board", |t| {
            t.put(t.device("mlx5_4").join("board_id"), "MT_9")
        }),
        ("other model", |t| {
            t.put(t.pci("mlx5_4").join("device"), "0x1023");
            t.put(t.device("mlx5_4").join("hca_type"), "MT4131");
        }),
        ("no layer", |t| {
            fs::remove_file(t.port("mlx5_4", 1).join("link_layer")).unwrap();
        }),
        ("other layer", |t| {
            t.put(t.port("mlx5_4", 1).join("link_layer"), "Ethernet");
        }),
        ("not on the bus", |t| {
            let pci = t.pci("mlx5_4");
            fs::remove_file(t.on_bus(&pci)).unwrap();
        }),
        ("its GPU is not on the bus", |t| {
            fs::remove_file(t.0.join("sys/bus/pci/devices/0000:52:00.0")).unwrap();
        }),
    ];
    for (name, spoil) in rows {
        let (dir, _node) = node("h100_ib");
        let tree = Tree(dir.path().to_path_buf());
        tree.down("mlx5_4");
        spoil(&tree);
        let (_, text) = selvage(dir.path(), &["check", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (state, reason) = match odd.contains(&name) {
            true if name == "other layer" => ("unready", "WrongLinkLayer"),
            true => ("unknown", "LinkUnproven"),
            false => ("unready", "LinkDown"),
        };
        assert_eq!(report["state"], state, "{name}");
        let reasons = report["reasons"].as_array().unwrap();
        assert!(reasons.contains(&reason.into()), "{name}: {reasons:?}");
    }
}

#[test]
fn modes_second_ports_and_lost_gpus() {
    let rows: [(&str, Spoil, &str, &str); 6] = [
        (
            "a rail in the wrong mode",
            |t| t.put(t.port("mlx5_4", 1).join("link_layer"), "Ethernet"),
            "unready",
            "WrongLinkLayer",
        ),
        (
            "a VPI card's storage port is down",
            |t| {
                t.second_ports("Ethernet");
                t.put(t.port("mlx5_4", 2).join("state"), "1: DOWN");
            },
            "ready",
            "",
        ),
        (
            "one second port is cabled",
            |t| {
                t.second_ports("InfiniBand");
                for name in RAILS.iter().skip(1) {
                    t.put(t.port(name, 2).join("state"), "1: DOWN");
                    t.put(t.port(name, 2).join("phys_state"), "2: Polling");
                }
            },
            "ready",
            "",
        ),
        (
            "one rail of eight ever came up",
            |t| RAILS.iter().skip(1).for_each(|name| t.down(name)),
            "unknown",
            "LinkUnproven",
        ),
        (
            "a GPU that the driver has and the bus has not",
            |t| fs::remove_file(t.0.join("sys/bus/pci/devices/0000:52:00.0")).unwrap(),
            "unready",
            "GpuNotOnBus",
        ),
        (
            "a hidden PCI bus",
            |t| {
                fs::remove_dir_all(t.0.join("sys/bus/pci/devices")).unwrap();
                fs::create_dir(t.0.join("sys/bus/pci/devices")).unwrap();
            },
            "unknown",
            "BusUnreadable",
        ),
    ];
    for (name, spoil, want, reason) in rows {
        let (state, reasons) = judged("h100_ib", spoil, &[]);
        assert_eq!(state, want, "{name}");
        let told = reasons.iter().any(|told| told == reason);
        assert_eq!(told, !reason.is_empty(), "{name}: {reasons:?}");
    }
}

/// Where no NIC is next to a GPU, and the rails' model tells them.
#[test]
fn rails_that_hang_off_the_processors() {
    const IB: [&str; 4] = ["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"];
    let unread = |t: &Tree, errno: i32, files: &[&str]| {
        let all = IB
            .iter()
            .flat_map(|name| files.iter().map(move |of| (name, of)));
        all.for_each(|(name, of)| t.errno(errno, name, &format!("ports/1/{of}")));
    };
    type Row<'a> = (&'a str, &'a str, &'a dyn Fn(&Tree), &'a str, &'a str);
    let rows: [Row<'_>; 10] = [
        (
            "wrong mode",
            "gb200",
            &|t| t.wrong_mode("mlx5_4"),
            "unready",
            "WrongLinkLayer",
        ),
        (
            "storage on a card of the rails' model",
            "gb200",
            &|t| t.put(t.port("mlx5_4", 1).join("link_layer"), "Ethernet"),
            "ready",
            "",
        ),
        (
            "of RoCE",
            "BM.GPU.GB300.4",
            &|t| t.wrong_mode("mlx5_3"),
            "unready",
            "WrongLinkLayer",
        ),
        (
            "of a tray",
            "DGXGB200",
            &|t| t.wrong_mode("mlx5_1"),
            "unready",
            "WrongLinkLayer",
        ),
        (
            "two of eight",
            "a4x-maxgpu-4g-metal",
            &|t| {
                ["mlx5_1", "mlx5_2"]
                    .iter()
                    .for_each(|name| t.wrong_mode(name))
            },
            "unknown",
            "LinkUnproven",
        ),
        (
            "a front end",
            "gb200",
            &|t| t.wrong_mode("mlx5_2"),
            "ready",
            "",
        ),
        (
            "all off the bus",
            "gb200",
            &|t| IB.iter().for_each(|name| t.off_the_bus(name)),
            "unknown",
            "NoFabric",
        ),
        (
            "all off the bus, next to GPUs",
            "BM.GPU.B300.8",
            &|t| {
                for n in [0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21] {
                    t.off_the_bus(&format!("mlx5_{n}"));
                }
            },
            "unknown",
            "NoFabric",
        ),
        (
            "nothing can be read",
            "gb200",
            &|t| {
                unread(
                    t,
                    13,
                    &["state", "phys_state", "rate", "link_layer", "lid", "sm_lid"],
                )
            },
            "unknown",
            "StateUnreadable",
        ),
        (
            "no mode can be read",
            "gb200",
            &|t| unread(t, 5, &["link_layer"]),
            "unknown",
            "StateUnreadable",
        ),
    ];
    for (name, machine, spoil, want, reason) in rows {
        let (dir, _node) = node(machine);
        let tree = Tree(dir.path().to_path_buf());
        spoil(&tree);
        let (_, text) = selvage(dir.path(), &["check", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["state"], want, "{machine}, {name}");
        let told = report["reasons"].as_array().unwrap().iter();
        let told: Vec<&str> = told.filter_map(|told| told.as_str()).collect();
        assert_eq!(
            told,
            Vec::from_iter(Some(reason).filter(|reason| !reason.is_empty())),
            "{machine}, {name}"
        );
    }
}

/// A function that its driver keeps, and that has lost its devices: not taken for a leg of a bond.
#[test]
fn one_function_of_two_without_devices() {
    for (machine, name) in [
        ("oci_h100", "mlx5_0"),
        ("BM.GPU4.8", "mlx5_0"),
        ("bnxt", "bnxt_re1"),
        ("BM.GPU.B300.8", "mlx5_1"),
        ("BM.GPU.GB300.4", "mlx5_1"),
    ] {
        let (dir, _node) = node(machine);
        Tree(dir.path().to_path_buf()).without_driver(name, true);
        let (_, text) = selvage(dir.path(), &["check", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let reasons = report["reasons"].as_array().unwrap();
        assert_ne!(report["state"], "ready", "{machine}");
        assert!(
            reasons.contains(&"RailWithoutDriver".into()),
            "{machine}: {reasons:?}"
        );
    }
}

/// No data is never health, whatever configuration expects.
#[test]
fn nothing_readable_is_unknown() {
    let rows: [(&str, Spoil); 3] = [
        ("no /sys", |t| fs::remove_dir_all(t.0.join("sys")).unwrap()),
        ("an empty /sys", |t| {
            fs::remove_dir_all(t.0.join("sys")).unwrap();
            fs::create_dir(t.0.join("sys")).unwrap();
        }),
        ("devices refuse", |t| {
            let text = "13 sys/class/infiniband\n";
            fs::write(t.0.join(".selvage-errno"), text).unwrap();
        }),
    ];
    for (name, spoil) in rows {
        let (state, reasons) = judged("h100_ib", spoil, &["--set", "policy.expect.rails=0"]);
        assert_eq!(
            (state.as_str(), reasons),
            ("unknown", vec!["NoData".to_string()]),
            "{name}"
        );
    }
    let dir = support::scratch();
    let (_, text) = selvage(dir.path(), &["check"]);
    assert!(text.contains("GPUs: unknown"), "{text}");
    assert!(!text.contains("not loaded"), "{text}");
}

/// Nobody who rents a machine can look at its cables.
#[test]
fn on_a_cloud_a_link_is_the_providers() {
    for (preset, name, cloud) in [
        ("azure_ndh200", "mlx5_ib3", true),
        ("oci_h100", "mlx5_5", true),
        ("h100_ib", "mlx5_4", false),
    ] {
        let (dir, _node) = node(preset);
        Tree(dir.path().to_path_buf()).down(name);
        let (_, text) = selvage(dir.path(), &["check", "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let down = report["findings"].as_array().unwrap().iter();
        let remedy = down
            .filter(|finding| finding["reason"] == "LinkDown")
            .map(|finding| finding["remedy"].as_str().unwrap())
            .collect::<String>();
        assert_eq!(
            remedy.contains("provider's support"),
            cloud,
            "{preset}: {remedy}"
        );
        assert_eq!(remedy.contains("Check cable"), !cloud, "{preset}: {remedy}");
        assert!(
            remedy.contains(&format!("--rails-exclude {name}/1")),
            "{remedy}"
        );
    }
}

/// Google's A3 Mega: no RDMA device is well; a rail without carrier is down, one that a pod holds is
/// not.
#[test]
fn rails_that_are_no_rdma_devices() {
    fn of(tree: &Tree, name: &str, file: &str) -> PathBuf {
        let dir = tree.0.join("sys/class/net").join(name);
        dir.canonicalize().unwrap().join(file)
    }
    fn unplug(tree: &Tree, name: &str) {
        tree.put(of(tree, name, "carrier"), "0");
        tree.put(of(tree, name, "operstate"), "down");
    }
    fn take(tree: &Tree, name: &str) {
        let link = tree.0.join("sys/class/net").join(name);
        fs::remove_dir_all(link.canonicalize().unwrap()).unwrap();
        fs::remove_file(link).unwrap();
    }
    let rows: [(&str, Spoil, &str, &[&str]); 6] = [
        ("as it is", |_| {}, "ready", &[]),
        (
            "one unplugged",
            |t| unplug(t, "eth3"),
            "unready",
            &["LinkDown"],
        ),
        ("the node's own", |t| unplug(t, "eth0"), "ready", &[]),
        ("one in a pod", |t| take(t, "eth3"), "ready", &[]),
        (
            "one in a pod, one unplugged",
            |t| {
                take(t, "eth3");
                unplug(t, "eth4");
            },
            "unready",
            &["LinkDown"],
        ),
        (
            "all in pods, and none was ever seen",
            |t| (1..9).for_each(|n| take(t, &format!("eth{n}"))),
            "unknown",
            &["NoData"],
        ),
    ];
    for (name, spoil, want, reasons) in rows {
        let (state, got) = judged("gcp_a3_mega", spoil, &[]);
        assert_eq!(
            (state.as_str(), got),
            (want, reasons.iter().map(ToString::to_string).collect()),
            "{name}"
        );
    }
}
