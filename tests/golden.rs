//! Nodes through the real binary: what `selvage check` and `selvage metrics` print, held equal to
//! the files in `tests/golden/`. `UPDATE_GOLDEN=1` writes them anew; read the diff.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use selvage::report::catalogue::CATALOGUE;
use selvage::simulate::{self, Change, Node};
use serde_json::Value;
use std::path::{Path, PathBuf};
use support::{node, selvage};

/// Families whose values differ from run to run.
const VOLATILE: &[&str] = &[
    "selvage_source_duration_seconds",
    "selvage_report_age_seconds",
    "selvage_fabric_state_since_timestamp_seconds",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
];

/// Families that only an agent with files of `[serve]` has (tests/tls.rs holds them), one with an API
/// server or processes of pods to look at (the metrics' own tests do), or one that runs (tests/agent.rs).
const ELSEWHERE: &[&str] = &[
    "selvage_task_up",
    "selvage_task_panics_total",
    "selvage_tls_certificate_expiry_timestamp_seconds",
    "selvage_serve_reload_failures_total",
    "selvage_node_writes_total",
    "selvage_node_api_up",
    "selvage_node_topology_info",
    "selvage_node_pending",
    "selvage_node_taint_applied",
    "selvage_node_taint_withheld",
    "selvage_node_taint_budget",
    "selvage_nccl_suspect",
    "selvage_port_neighbor_info",
    "selvage_resource_allocatable",
    "selvage_resource_capacity",
    "selvage_resource_devices",
];

/// Keys of the JSON report whose values differ from run to run.
const VOLATILE_KEYS: &[&str] = &[
    "time",
    "since",
    "first",
    "last",
    "first_seen",
    "last_seen",
    "version",
    "duration_seconds",
    "last_ok",
    "last_ok_age_seconds",
    "age_seconds",
];

fn metrics(text: &str) -> String {
    text.lines()
        .map(|line| {
            let (series, _) = line.rsplit_once(' ').unwrap_or((line, ""));
            let family = series.split('{').next().unwrap_or_default();
            if VOLATILE.contains(&family) {
                format!("{series} V\n")
            } else if family == "selvage_build_info" {
                format!("{family}{{version=\"V\",revision=\"V\"}} 1\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect()
}

fn json(text: &str) -> String {
    fn normalise(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let scalar = !value.is_object() && !value.is_array() && !value.is_null();
                    if scalar && VOLATILE_KEYS.contains(&key.as_str()) {
                        *value = Value::String("V".into());
                    } else {
                        normalise(value);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(normalise),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    // A driver's version is a fact of the node, not of the run.
    let facts: Vec<Value> = ["gpudirect", "gds", "modules"]
        .map(|key| value[key].clone())
        .to_vec();
    normalise(&mut value);
    for (key, fact) in ["gpudirect", "gds", "modules"].into_iter().zip(facts) {
        value[key] = fact;
    }
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

/// Stretches of time in the text form stand as `for 5 s`, `5 s ago`.
fn text(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("for ") {
        out += before;
        out += "for ";
        let end = after.find(')').unwrap_or(0);
        let stretch = &after[..end];
        let is_time = stretch.split_whitespace().all(|word| {
            word.chars().all(|c| c.is_ascii_digit() || c == '.')
                || ["s", "min", "h", "d", "ms"].contains(&word)
        });
        if is_time && !stretch.is_empty() {
            out.push('V');
            rest = &after[end..];
        } else {
            rest = after;
        }
    }
    out + rest
}

struct Golden {
    wrong: Vec<String>,
}

impl Golden {
    fn compare(&mut self, name: &str, got: &str) {
        let path = PathBuf::from("tests/golden").join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all("tests/golden").unwrap();
            std::fs::write(&path, got).unwrap();
            return;
        }
        let want = std::fs::read_to_string(&path).unwrap_or_default();
        if want == got {
            return;
        }
        let differs = want
            .lines()
            .zip(got.lines())
            .enumerate()
            .find(|(_, (want, got))| want != got);
        let detail = match differs {
            Some((line, (want, got))) => format!("line {}:\n  - {want}\n  + {got}", line + 1),
            None => format!(
                "{} lines, {} wanted",
                got.lines().count(),
                want.lines().count()
            ),
        };
        self.wrong.push(format!("{name}, {detail}"));
    }

    fn node(&mut self, name: &str, node: &Node, full: bool) {
        let detail: &[&str] = if full {
            &["metrics", "--set=counters.full=true"]
        } else {
            &["metrics"]
        };
        let (_, exposition) = selvage(node.root(), detail);
        self.compare(&format!("{name}.metrics"), &metrics(&exposition));
        let (code, report) = selvage(node.root(), &["check", "-o", "json"]);
        self.compare(&format!("{name}.json"), &json(&report));
        let (again, table) = selvage(node.root(), &["check"]);
        assert_eq!(code, again, "{name}: both forms come to one exit status");
        self.compare(
            &format!("{name}.txt"),
            &format!("{}exit status {code}\n", text(&table)),
        );
    }

    fn end(self) {
        assert!(
            self.wrong.is_empty(),
            "UPDATE_GOLDEN=1 cargo test writes these anew:\n{}",
            self.wrong.join("\n")
        );
    }
}

#[test]
fn presets() {
    let mut golden = Golden { wrong: Vec::new() };
    for name in simulate::presets()
        .into_iter()
        .filter(|name| *name != "flapping")
    {
        let (_dir, node) = node(name);
        golden.node(name, &node, name == "bnxt");
    }
    golden.end();
}

/// Much at once on one node, with every family: so each has a place where its form is held.
#[test]
fn a_node_in_trouble() {
    let (_dir, mut node) = node("h100_roce");
    trouble(&mut node);
    job_that_fell_back(node.root());
    let mut golden = Golden { wrong: Vec::new() };
    golden.node("trouble", &node, true);
    golden.end();
}

/// One rank's log as the kubelet keeps it: no verbs device, TCP between two nodes.
fn job_that_fell_back(root: &Path) {
    let dir = root.join("var/log/pods/ml_train-0_0f8fad5b-d9cb-469f-a165-70867728950e/trainer");
    std::fs::create_dir_all(&dir).unwrap();
    let comm = "comm 0x5581 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 18000 commId 0xfeed";
    let lines = [
        "NCCL INFO NCCL version 2.21.5+cuda12.4".to_string(),
        "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0".to_string(),
        format!("NCCL INFO {comm} - Init START"),
        "NCCL INFO NET/IB : No device found.".to_string(),
        "NCCL INFO NET/Socket : Using [0]eth0:10.0.3.7<0>".to_string(),
        "NCCL INFO Using network Socket".to_string(),
        "NCCL INFO comm 0x5581 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"
            .to_string(),
        "NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0".to_string(),
        "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM".to_string(),
        format!("NCCL INFO {comm} - Init COMPLETE"),
    ];
    let frame = |(at, line): (usize, &String)| {
        format!("2026-05-01T12:00:{at:02}.000000000Z stdout F train-0:7:9 [0] {line}\n")
    };
    let text: String = lines.iter().enumerate().map(frame).collect();
    std::fs::write(dir.join("0.log"), text).unwrap();
}

fn trouble(node: &mut Node) {
    let kmsg = |text: &str| Change::Kmsg {
        priority: 3,
        micros: 0,
        text: text.into(),
        device: None,
    };
    let gpu = "0000:9d:00.0".parse().unwrap();
    for event in [
        Change::Link {
            device: "mlx5_3".into(),
            up: false,
        },
        Change::Rate {
            device: "mlx5_5".into(),
            rate: "200 Gb/sec (2X NDR)".into(),
            speed: 200_000,
        },
        Change::Counter {
            device: "mlx5_1".into(),
            name: "link_downed".into(),
            add: 300,
        },
        kmsg("NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the bus."),
        kmsg(
            "NVRM: Xid (PCI:0000:9d:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        ),
        Change::ConfigDead {
            pci: gpu,
            dead: true,
        },
        Change::UnloadModule("nvidia_peermem".into()),
        Change::MemoryPeers(Some(Vec::new())),
        Change::NvidiaFsErrors(3),
        Change::Aer {
            pci: "0000:18:00.0".parse().unwrap(),
            add: [40, 0, 0],
        },
        Change::PcieLink {
            pci: "0000:18:00.0".parse().unwrap(),
            speed: "32.0 GT/s PCIe".into(),
            width: 8,
        },
        Change::Ethtool {
            netdev: "enp64s0np0".into(),
            name: "rx_prio3_discards".into(),
            add: 500,
        },
    ] {
        node.apply(&event).unwrap();
    }
}

/// A family that no golden file holds could change unseen.
#[test]
fn every_family_is_held() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return;
    }
    let mut held = String::new();
    for entry in std::fs::read_dir("tests/golden").expect("UPDATE_GOLDEN=1 makes the directory") {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "metrics")
        {
            held += &std::fs::read_to_string(path).unwrap();
        }
    }
    let families: Vec<&str> = held
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap_or_default())
        .collect();
    let missing: Vec<&str> = CATALOGUE
        .iter()
        .map(|family| family.name)
        .filter(|name| !families.contains(name) && !ELSEWHERE.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "in no golden file: {missing:?}; let a simulated node or the report `trouble` have it"
    );
}

/// Whoever gets a capture sees what the node's own people see.
#[test]
fn a_capture_shows_what_the_node_shows() {
    for name in simulate::presets() {
        let (dir, _node) = node(name);
        let to = support::scratch();
        let capture = to.path().join("capture");
        let (code, _) = selvage(dir.path(), &["capture", capture.to_str().unwrap()]);
        assert_eq!(code, 0, "{name}");
        let there = selvage(dir.path(), &["check"]);
        let here = selvage(&capture, &["check"]);
        assert_eq!((there.0, text(&there.1)), (here.0, text(&here.1)), "{name}");
    }
}
