//! The page at `/` as the agent serves it on nodes of many kinds; `tests/page/run` looks at the same
//! nodes with a real browser.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use selvage::simulate::{Change, Node};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Server, get, node};

/// Intervals of seconds: a page is there soon, and ten agents without optimisation leave the browser
/// the processor.
const QUICK: &[&str] = &[
    "--set=cluster.mode=off",
    "--set=intervals.counters=2s",
    "--set=intervals.ethtool=2s",
    "--set=intervals.netdev=2s",
    "--set=intervals.devices=3s",
    "--set=intervals.pci=3s",
    "--set=intervals.gpudirect=2s",
];

/// A node and the agent on it.
struct Case {
    name: &'static str,
    dir: tempfile::TempDir,
    agent: Server,
}

fn case(name: &'static str, preset: &str, change: impl FnOnce(&mut Node)) -> Case {
    let (dir, mut node) = node(preset);
    change(&mut node);
    let agent = Server::agent(dir.path(), QUICK);
    Case { name, dir, agent }
}

fn cases() -> Vec<Case> {
    let nothing = |_: &mut Node| {};
    vec![
        case("ready", "h100_roce", nothing),
        case("degraded", "h100_roce", degrade),
        case("unready", "h100_roce", |node| {
            degrade(node);
            wreck(node);
            jobs(node.root());
        }),
        case("nofabric", "empty", nothing),
        case("ib12", "h100_ib", nothing),
        case("ports18", "ports18", nothing),
        case("efa32", "efa_p5", nothing),
        case("gb200", "gb200", nothing),
        case("azure", "azure_ndh200", nothing),
        case("storage", "mixed_storage", nothing),
    ]
}

fn apply(node: &mut Node, events: Vec<Change>) {
    for event in events {
        node.apply(&event).expect("the event");
    }
}

/// It works with less.
fn degrade(node: &mut Node) {
    let nic = "0000:18:00.0".parse().unwrap();
    apply(
        node,
        vec![
            Change::Rate {
                device: "mlx5_5".into(),
                rate: "200 Gb/sec (2X NDR)".into(),
                speed: 200_000,
            },
            Change::PcieLink {
                pci: nic,
                speed: "32.0 GT/s PCIe".into(),
                width: 8,
            },
            Change::UnloadModule("nvidia_peermem".into()),
            Change::MemoryPeers(Some(Vec::new())),
        ],
    );
}

/// A rail and a GPU are lost.
fn wreck(node: &mut Node) {
    let gpu = "0000:9d:00.0".parse().unwrap();
    let kmsg = |text: &str| Change::Kmsg {
        priority: 3,
        micros: 0,
        text: text.into(),
        device: None,
    };
    apply(
        node,
        vec![
            Change::Link {
                device: "mlx5_3".into(),
                up: false,
            },
            kmsg("NVRM: Xid (PCI:0000:9d:00): 79, GPU has fallen off the <b>bus</b>."),
            kmsg(
                "NVRM: Xid (PCI:0000:9d:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            ),
            Change::ConfigDead {
                pci: gpu,
                dead: true,
            },
        ],
    );
}

/// Logs of jobs, as the kubelet keeps them: one that fell back, one that does well, and one whose
/// names and lines are markup.
fn jobs(root: &Path) {
    let fell_back = [
        "NCCL INFO NET/IB : No device found.",
        "NCCL INFO NET/Socket : Using [0]eth0:10.0.3.7<0>",
        "NCCL INFO Using network Socket",
        "NCCL INFO comm 0x5581 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0",
    ];
    let well = [
        "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.3.9<0>",
        "NCCL INFO Using network IB",
        "NCCL INFO comm 0x5581 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA",
    ];
    let marked = [
        "NCCL WARN NET/IB : <script>document.title='owned'</script> No device found.",
        "NCCL INFO NET/IB : No device found. <img src=x onerror=alert(1)>",
        "NCCL INFO Using network Socket",
        "NCCL INFO comm 0x5581 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0 \"><b>x",
    ];
    for (pod, lines) in [
        ("sft-run-worker-0", &fell_back),
        ("llama-pretrain-worker-3", &well),
        ("<img src=x onerror=document.title='owned'>", &marked),
    ] {
        let uid = format!("0f8fad5b-d9cb-469f-a165-7086{:08x}", pod.len());
        let dir = root.join(format!("var/log/pods/ml_{pod}_{uid}/trainer"));
        std::fs::create_dir_all(&dir).unwrap();
        let comm = "comm 0x5581 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 18000 commId 0xfeed";
        let mut all = vec![
            "NCCL INFO NCCL version 2.21.5+cuda12.4".to_string(),
            format!("NCCL INFO {comm} - Init START"),
        ];
        all.extend(lines.iter().map(|line| (*line).to_string()));
        all.push(format!("NCCL INFO {comm} - Init COMPLETE"));
        let frame = |(at, line): (usize, &String)| {
            format!("2026-05-01T12:00:{at:02}.000000000Z stdout F train-0:7:9 [0] {line}\n")
        };
        let text: String = all.iter().enumerate().map(frame).collect();
        std::fs::write(dir.join("0.log"), text).unwrap();
    }
}

/// Waits until an agent has seen its first full window.
fn ready(case: &Case) {
    let end = Instant::now() + Duration::from_secs(60);
    while get(&case.agent.address, "/readyz").0 != 200 {
        assert!(Instant::now() < end, "{}: no full window", case.name);
        support::pause();
    }
}

#[test]
fn every_kind_of_node_has_its_page() {
    for case in cases() {
        ready(&case);
        let (code, page) = get(&case.agent.address, "/");
        assert_eq!(code, 200, "{}", case.name);
        assert!(page.starts_with("<!doctype html>"), "{}", case.name);
        assert!(page.trim_end().ends_with("</html>"), "{}", case.name);
        assert!(page.len() < 256 * 1024, "{}: {} B", case.name, page.len());
        for never in ["<script", "<img", "onerror=\"", "http-equiv", "src="] {
            let count = page.matches(never).count();
            // What a pod is called stays readable, as text.
            assert!(
                count == 0 || !never.starts_with('<'),
                "{}: {never}",
                case.name
            );
        }
        println!("{}: {} B", case.name, page.len());
    }
}

/// Driven by `tests/page/run`, which brings a browser.
#[test]
#[ignore = "needs a browser: tests/page/run"]
fn in_a_browser() {
    let python = std::env::var("PAGE_PYTHON").expect("PAGE_PYTHON: tests/page/run sets it");
    let cases = cases();
    cases.iter().for_each(ready);
    let told: Vec<_> = cases
        .iter()
        .map(|case| {
            json!({
                "name": case.name,
                "url": format!("http://{}", case.agent.address),
                "tree": case.dir.path(),
            })
        })
        .collect();
    let status = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/page/browser.py"
        ))
        .arg(serde_json::to_string(&told).unwrap())
        .status()
        .expect("the browser's driver");
    assert!(status.success(), "{status}");
}
