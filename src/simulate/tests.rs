#![allow(clippy::disallowed_methods, reason = "tests look at what was written")]

use super::*;
use std::path::{Path, PathBuf};

pub(super) fn written(name: &str) -> (tempfile::TempDir, Node) {
    // In memory where there is such a place: the larger nodes have thousands of files.
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let node = Node::write(preset(name).unwrap(), dir.path()).unwrap();
    (dir, node)
}

fn text(node: &Node, path: &str) -> String {
    std::fs::read_to_string(node.root().join(path)).unwrap()
}

fn names(node: &Node, path: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(node.root().join(path))
        .map(|dir| {
            dir.map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

#[test]
fn every_link_of_every_preset_leads_somewhere_below_the_root() {
    for name in presets() {
        let (dir, _node) = written(name);
        let root = dir.path().canonicalize().unwrap();
        let mut found = Vec::new();
        walk(&root, &mut found);
        let errnos = std::fs::read_to_string(root.join(".selvage-errno")).unwrap();
        for path in found {
            let Ok(target) = std::fs::read_link(&path) else {
                continue;
            };
            let below = path.strip_prefix(&root).unwrap().display().to_string();
            if target.to_string_lossy().starts_with("errno-") {
                assert!(errnos.contains(&below), "{name}: {below}");
            } else if !below.ends_with("/module") {
                // A driver that is built in has no module directory.
                let full = path.canonicalize();
                assert!(
                    full.as_ref().is_ok_and(|full| full.starts_with(&root)),
                    "{name}: {below} -> {}",
                    target.display()
                );
            }
        }
    }
}

#[test]
fn ports_by_preset() {
    for (name, devices, ports) in [
        ("h100_ib", 12, 12),
        ("h100_roce", 8, 8),
        ("h100_roce_vfs", 24, 24),
        ("efa_p5", 32, 32),
        ("mixed_storage", 5, 5),
        ("mlx4_na", 1, 2),
        ("empty", 0, 0),
        ("ports18", 18, 18),
        ("azure_ndh200", 9, 9),
        ("gb200", 8, 8),
        ("bnxt", 2, 2),
    ] {
        let (_dir, node) = written(name);
        let found = names(&node, "sys/class/infiniband");
        assert_eq!(found.len(), devices, "{name}");
        let count: usize = found
            .iter()
            .map(|device| names(&node, &format!("sys/class/infiniband/{device}/ports")).len())
            .sum();
        assert_eq!(count, ports, "{name}");
    }
}

#[test]
fn texts_are_the_kernels() {
    let (_dir, node) = written("h100_ib");
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    for (path, want) in [
        (format!("{port}/state"), "4: ACTIVE\n"),
        (format!("{port}/phys_state"), "5: LinkUp\n"),
        (format!("{port}/rate"), "400 Gb/sec (4X NDR)\n"),
        (format!("{port}/link_layer"), "InfiniBand\n"),
        (format!("{port}/pkeys/0"), "0xffff\n"),
        (
            format!("{port}/gids/1"),
            "0000:0000:0000:0000:0000:0000:0000:0000\n",
        ),
        (
            "sys/class/infiniband/mlx5_2/ports/1/phys_state".into(),
            "2: Polling\n",
        ),
        ("sys/class/infiniband/mlx5_0/node_type".into(), "1: CA\n"),
        ("sys/class/net/ibp24s0/carrier".into(), "1\n"),
        (
            "sys/bus/pci/devices/0000:18:00.0/current_link_speed".into(),
            "32.0 GT/s PCIe\n",
        ),
        (
            "sys/bus/pci/devices/0000:1b:00.0/class".into(),
            "0x030200\n",
        ),
    ] {
        assert_eq!(text(&node, &path), want, "{path}");
    }
    let gpu = std::fs::canonicalize(node.root().join("sys/bus/pci/devices/0000:1b:00.0")).unwrap();
    let root = std::fs::canonicalize(node.root()).unwrap();
    assert_eq!(
        gpu.strip_prefix(root).unwrap(),
        Path::new("sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1b:00.0")
    );
}

#[test]
fn a_roce_link_falls_as_the_kernel_shows_it() {
    let (_dir, mut node) = written("h100_roce");
    let before: u64 = text(&node, "sys/class/net/enp79s0np0/carrier_changes")
        .trim()
        .parse()
        .unwrap();
    let fall = Change::Link {
        device: "mlx5_2".into(),
        up: false,
    };
    node.apply(&fall).unwrap();
    let port = "sys/class/infiniband/mlx5_2/ports/1";
    for (path, want) in [
        (format!("{port}/state"), "1: DOWN\n".to_string()),
        (format!("{port}/phys_state"), "3: Disabled\n".into()),
        (format!("{port}/rate"), "40 Gb/sec (4X QDR)\n".into()),
        ("sys/class/net/enp79s0np0/speed".into(), "-1\n".into()),
        ("sys/class/net/enp79s0np0/operstate".into(), "down\n".into()),
        (
            "sys/class/net/enp79s0np0/carrier_changes".into(),
            format!("{}\n", before + 1),
        ),
    ] {
        assert_eq!(text(&node, &path), want, "{path}");
    }
    let log = text(&node, "dev/kmsg");
    assert_eq!(
        log.lines().skip(1).collect::<Vec<_>>(),
        [
            "6,1,1000000,-;mlx5_core 0000:4f:00.0 enp79s0np0: Link down",
            " SUBSYSTEM=pci",
            " DEVICE=+pci:0000:4f:00.0",
        ]
    );
}

#[test]
fn counters_rise_and_error_counters_stick() {
    let (_dir, mut node) = written("h100_ib");
    for _ in 0..2 {
        node.apply(&Change::Counter {
            device: "mlx5_0".into(),
            name: "local_link_integrity_errors".into(),
            add: 9,
        })
        .unwrap();
    }
    let dir = "sys/class/infiniband/mlx5_0/ports/1/counters";
    assert_eq!(
        text(&node, &format!("{dir}/local_link_integrity_errors")),
        "15\n"
    );
    let data = format!("{dir}/port_rcv_data");
    let before: u64 = text(&node, &data).trim().parse().unwrap();
    node.apply(&Change::Traffic {
        millis: 1000,
        percent: 100,
    })
    .unwrap();
    let after: u64 = text(&node, &data).trim().parse().unwrap();
    // 400 Gb/s for a second is 50 GB, counted in words of four bytes.
    assert_eq!(after - before, 12_500_000_000);
}

#[test]
fn devices_go() {
    let (_dir, mut node) = written("h100_ib");
    node.apply(&Change::RemoveDevice("mlx5_3".into())).unwrap();
    assert!(!names(&node, "sys/class/infiniband").contains(&"mlx5_3".into()));
    assert_eq!(names(&node, "sys/class/infiniband_verbs").len(), 12);
    assert!(
        node.apply(&Change::RemoveDevice("mlx5_99".into())).is_err(),
        "a name that does not exist is a mistake in the play"
    );
}

#[test]
fn modules_peers_and_dead_gpus() {
    let (_dir, mut node) = written("h100_ib");
    assert!(text(&node, "proc/modules").contains("nvidia_peermem 16384 0 - Live"));
    node.apply(&Change::UnloadModule("nvidia_peermem".into()))
        .unwrap();
    node.apply(&Change::MemoryPeers(Some(Vec::new()))).unwrap();
    assert!(!text(&node, "proc/modules").contains("nvidia_peermem"));
    assert!(!node.root().join("sys/module/nvidia_peermem").exists());
    assert!(names(&node, "sys/kernel/mm/memory_peers").is_empty());
    assert!(node.root().join("sys/kernel/mm/memory_peers").exists());
    let gpu = "0000:1b:00.0".parse().unwrap();
    node.apply(&Change::ConfigDead {
        pci: gpu,
        dead: true,
    })
    .unwrap();
    let config = std::fs::read(node.root().join("sys/bus/pci/devices/0000:1b:00.0/config"));
    assert!(config.unwrap().iter().all(|byte| *byte == 0xff));
}

#[test]
fn an_interface_that_is_set_down_answers_einval() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = preset("h100_roce").unwrap();
    spec.netdev_mut("enp24s0np0").unwrap().admin_up = false;
    let node = Node::write(spec, dir.path()).unwrap();
    let host = crate::host::Host::new(node.root());
    for (netdev, observable) in [("enp24s0np0", false), ("enp64s0np0", true)] {
        let carrier = format!("sys/class/net/{netdev}/carrier");
        let read = crate::source::tree::read_text(&host, &carrier);
        assert_eq!(read.value().is_some(), observable, "{read:?}");
    }
    assert_eq!(text(&node, "sys/class/net/enp64s0np0/speed"), "400000\n");
}

#[test]
fn ethtool_files_are_as_ethtool_prints_and_dcb_reads_back() {
    let (_dir, mut node) = written("h100_roce");
    node.apply(&Change::Ethtool {
        netdev: "enp24s0np0".into(),
        name: "rx_prio3_pause".into(),
        add: 7,
    })
    .unwrap();
    let printed = text(&node, "selvage/ethtool/enp24s0np0");
    assert!(printed.starts_with("driver: mlx5_core\n"));
    assert!(printed.contains("\nrx_prio3_pause: 48\n"), "{printed}");
    assert!(!printed.contains("rx_prio4_pause:"), "PFC is off on 4");
    let dcb: crate::observe::DcbFacts =
        serde_json::from_str(&text(&node, "selvage/dcb/enp24s0np0.json")).unwrap();
    assert_eq!(dcb.pfc_enabled, Some(8));
}

/// Each shape that may be held against a node has a machine; each machine has names and places of its
/// own, and its bridges exist.
#[test]
fn every_shape_that_judges_has_a_machine() {
    use crate::check::profile::{Certainty, by_type, shapes as known};
    use std::collections::BTreeSet;
    let names = shape_names().into_iter();
    let shapes: Vec<&str> = names.map(|name| by_type(name).unwrap().name).collect();
    let sure = |sure| matches!(sure, Certainty::Yes | Certainty::OnBus);
    for shape in known().iter().filter(|shape| shape.rails.0 > 0) {
        let judges = sure(shape.rails.1) || sure(shape.gbps.1);
        assert!(!judges || shapes.contains(&shape.name), "{}", shape.name);
    }
    for name in shape_names().into_iter().chain(presets()) {
        let spec = by_name(name).unwrap_or_else(|| panic!("{name}"));
        let devices: BTreeSet<&str> = spec.rdma.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(devices.len(), spec.rdma.len(), "{name}: devices twice");
        let netdevs: BTreeSet<&str> = spec.netdevs.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(
            netdevs.len(),
            spec.netdevs.len(),
            "{name}: interfaces twice"
        );
        let route = spec.default_route.as_deref().unwrap_or_default();
        assert!(spec.netdev(route).is_some(), "{name}: no {route}");
        for pci in spec.pci.values() {
            let above = pci.parent.map(|bdf| bdf.to_string());
            let is = above.as_ref().and_then(|above| spec.pci.get(above));
            assert_eq!(
                is.is_some(),
                above.is_some(),
                "{name}: nothing above {}",
                pci.bdf
            );
        }
    }
}
