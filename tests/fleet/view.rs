//! `selvage fleet` over thousands of made-up Nodes, each as long as those of GPU clusters are.

use crate::cluster::Cluster;
use crate::support;
use crate::table::{Table, median, millis, spread};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, PostParams};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};

const NODES: usize = 5000;
/// Nodes of a leaf; those of the first are unready.
const LEAF: usize = 32;
const RUNS: usize = 5;
/// The promise, and in KiB.
const TIME: Duration = Duration::from_secs(2);
const MEMORY: u64 = 100 << 10;

/// A Node with 50 images, the kubelet's conditions and an agent's verdict: some 20 KB.
fn node(index: usize, now: &str) -> Value {
    let unready = index < LEAF;
    let (state, status) = if unready {
        ("unready", "False")
    } else {
        ("ready", "True")
    };
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "x".repeat(60),
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let image = |n: usize| {
        let name = format!("registry.example.com/team-{n}/training/image-{n}");
        let digest = format!("{name}@sha256:{:064x}", index * 100 + n);
        json!({"names": [digest, format!("{name}:v1.2.{n}")], "sizeBytes": 1 << 30})
    };
    let pressures = [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "NetworkUnavailable",
    ];
    let mut conditions: Vec<Value> = pressures
        .map(|kind| condition(kind, "False", "Kubelet"))
        .into();
    conditions.push(condition("Ready", "True", "KubeletReady"));
    let reason = if unready { "LinkDown" } else { "FabricReady" };
    conditions.push(condition("FabricReady", status, reason));
    let mut labels: Value = (0..60)
        .map(|n| (format!("feature.example.com/cpu-{n}"), json!("true")))
        .collect();
    for (key, value) in [
        ("selvage.dev/fabric", state.to_string()),
        ("selvage.dev/fabric-kind", "infiniband".into()),
        ("selvage.dev/rails", "8".into()),
        ("selvage.dev/rail-gbps", "400".into()),
        (
            "network.topology.nvidia.com/leaf",
            format!("leaf-{}", index / LEAF),
        ),
        (
            "network.topology.nvidia.com/spine",
            format!("spine-{}", index / LEAF / 16),
        ),
    ] {
        labels[key] = json!(value);
    }
    let taint =
        json!({"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"});
    json!({
        "metadata": {"name": format!("gpu-{index:04}.fleet.example.internal"), "labels": labels},
        "spec": {"taints": if unready { json!([taint]) } else { json!([]) }},
        "status": {
            "conditions": conditions,
            "images": (0..50).map(image).collect::<Vec<_>>(),
            "nodeInfo": {
                "kernelVersion": "6.8.0-52-generic", "osImage": "Ubuntu 24.04.1 LTS", "architecture": "amd64",
                "bootID": "b", "machineID": "m", "systemUUID": "s", "containerRuntimeVersion": "containerd://2",
                "kubeletVersion": "v1.33.0", "kubeProxyVersion": "v1.33.0", "operatingSystem": "linux",
            },
        },
    })
}

/// Most resident memory of a process so far, in KiB; `None` once it has ended.
fn high_water(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

pub async fn all() {
    let cluster = Cluster::open().await;
    let nodes = kube::Api::<Node>::all(cluster.client.clone());
    let (params, every) = (DeleteParams::default(), ListParams::default());
    let gone = nodes.delete_collection(&params, &every);
    gone.await.expect("no nodes of an earlier test");
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).expect("a time");
    let now = now.to_string();
    let length = node(0, &now).to_string().len();
    let (nodes, now) = (&nodes, &now);
    futures::stream::iter(0..NODES)
        .for_each_concurrent(16, |index| async move {
            let node = serde_json::from_value(node(index, now)).expect("a Node");
            let made = nodes.create(&PostParams::default(), &node).await;
            made.expect("a Node is made");
        })
        .await;
    let mut table = Table::default();
    table.row("nodes, bytes of each", format!("{NODES}, {length}"));

    let kubeconfig = cluster.admin().display().to_string();
    // The verdicts may have grown old while the nodes were made.
    let args = [
        "fleet",
        "--kubeconfig",
        &kubeconfig,
        "--set",
        "cluster.heartbeat=1h",
    ];
    let (mut took, mut most) = (Vec::new(), 0);
    let usage = || getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
    let before = usage();
    for _ in 0..RUNS {
        let began = Instant::now();
        let mut program = support::program();
        let program = program
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = program.spawn().expect("selvage");
        while child.try_wait().expect("a child").is_none() {
            most = most.max(high_water(child.id()).unwrap_or(0));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        took.push(began.elapsed());
        let done = child.wait_with_output().expect("its output");
        let out = String::from_utf8_lossy(&done.stdout);
        assert_eq!(
            done.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let head = format!(
            "{NODES} nodes: {LEAF} unready, {} ready; taints: {LEAF} of 500 allowed",
            NODES - LEAF
        );
        assert_eq!(out.lines().next(), Some(head.as_str()));
        let leaf = format!(
            "leaf leaf-0: {LEAF} of {LEAF} nodes not ready, 0 of {} elsewhere",
            NODES - LEAF
        );
        assert!(
            out.lines()
                .nth(2)
                .is_some_and(|line| line.starts_with(&leaf)),
            "{out}"
        );
    }
    let after = usage();
    let cpu = |time: TimeVal| {
        Duration::from_micros(u64::try_from(time.num_microseconds()).expect("a time"))
    };
    let spent = cpu(after.user_time()) + cpu(after.system_time());
    let spent = spent - cpu(before.user_time()) - cpu(before.system_time());
    table.row("selvage fleet", spread(took.clone()));
    table.row(
        "its CPU",
        millis(spent / u32::try_from(RUNS).expect("a few")),
    );
    table.row("its memory, at most", format!("{} MiB", most >> 10));
    table.print();
    let took = median(took);
    assert!(took < TIME, "{}", millis(took));
    assert!(most < MEMORY, "{most} KiB");
}
