//! InfiniBand facts from a real subnet manager: opensm over ibsim, whose ports' files become those
//! of a node's rails, and the program that judges them. What the machine does not allow fails the
//! test; nothing is skipped.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

#[path = "../support/mod.rs"]
mod support;

mod fabric;
mod live;

use fabric::{Fabric, RAILS, guid};
use live::{Live, Report};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Server, get, node};

/// Longest wait for what takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Partitions with every port a full member.
const ALL_FULL: &str = "Default=0x7fff, ipoib : ALL=full;\n";

/// One look at the node.
fn check(root: &Path) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_selvage"))
        .args(["check", "-o", "json", "--set=agent.state_dir="])
        // A read that waits for a busy machine does not hang.
        .arg("--set=intervals.deadline=1m")
        .arg("--host-root")
        .arg(root)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// `subject reason status weight` of each finding.
fn findings(report: &Value) -> Vec<String> {
    let word = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_string();
    (report["findings"].as_array().unwrap().iter())
        .map(|finding| {
            ["subject", "reason", "status", "weight"]
                .map(|name| word(finding, name))
                .join(" ")
        })
        .collect()
}

/// The agent's report, once it is as wanted.
fn until(agent: &Server, wanted: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let report: Value = serde_json::from_str(&get(&agent.address, "/report").1).unwrap();
        if wanted(&report) {
            return report;
        }
        assert!(begin.elapsed() < PATIENCE, "{report:#}");
        support::pause();
    }
}

#[test]
fn a_subnet_without_its_manager_is_not_ready_and_not_condemned() {
    let fabric = Fabric::new();
    let (dir, _node) = node("h100_ib");
    fabric.copy_to(dir.path());
    let report = check(dir.path());
    assert_eq!(report["state"], "unknown", "{:?}", findings(&report));
    // One cause leads; LID 0 is no fault of a port that waits for its manager.
    let found = findings(&report);
    assert_eq!(found[0], "node SubnetManagerAway unknown verdict");
    let waits = RAILS.map(|rail| format!("{rail}/1 LinkInit unknown verdict"));
    let mut followers = found[1..].to_vec();
    followers.sort();
    let mut waits = waits.to_vec();
    waits.sort();
    assert_eq!(followers, waits);
}

#[test]
fn a_manager_sets_up_the_ports_and_its_partitions_are_judged() {
    let mut fabric = Fabric::new();
    let (dir, _node) = node("h100_ib");
    fabric.start_manager(ALL_FULL);
    let ports = fabric.copy_to(dir.path());
    for port in &ports {
        assert_eq!(port["state"], "4: ACTIVE");
        assert_ne!(port["lid"], "0x0");
        assert_eq!(port["pkeys/0"], "0xffff");
    }
    let report = check(dir.path());
    assert_eq!(
        (&report["state"], findings(&report)),
        (&"ready".into(), vec![])
    );

    fabric.stop_manager();
    let all_but_one = (0..=8)
        .filter(|node| *node != 3)
        .map(|node| format!("{:#x}=full", guid(node)));
    let members = all_but_one.collect::<Vec<_>>().join(", ");
    fabric.start_manager(&format!(
        "Default=0x7fff, ipoib : ALL=limited, {members};\n"
    ));
    fabric.until_port(3, "pkeys/0", "0x7fff");
    fabric.copy_to(dir.path());
    let report = check(dir.path());
    assert_eq!(report["state"], "degraded");
    let rail = RAILS[3];
    assert_eq!(
        findings(&report),
        [format!("{rail}/1 PartitionLimited degraded verdict")]
    );
}

#[test]
fn an_agent_sees_other_lids_and_a_link_that_goes_and_returns() {
    let mut fabric = Fabric::new();
    let (dir, _node) = node("h100_ib");
    fabric.start_manager(ALL_FULL);
    let before = fabric.copy_to(dir.path());
    let agent = Server::agent(dir.path(), &["--set=intervals.devices=2s"]);
    until(&agent, |report| report["state"] == "ready");

    // The manager is gone: the ports' files stay as they were, and so does the verdict.
    fabric.stop_manager();
    fabric.copy_to(dir.path());
    assert_eq!(check(dir.path())["state"], "ready");

    // Another one gives other LIDs, as after a restart that lost its table.
    fabric.reset_ports();
    fabric.start_manager_with_lids(ALL_FULL, 0x32);
    let after = fabric.copy_to(dir.path());
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before["lid"], after["lid"]);
        assert_eq!(after["state"], "4: ACTIVE");
    }
    let report = until(&agent, |report| {
        findings(report).iter().any(|f| f.contains(" LidChanged "))
    });
    assert_eq!(report["state"], "ready", "{:?}", findings(&report));

    fabric.unlink(5);
    let ports = fabric.copy_to(dir.path());
    assert_eq!(
        (&*ports[5]["state"], &*ports[5]["phys_state"]),
        ("1: DOWN", "2: Polling")
    );
    let down = format!("{}/1 LinkDown failing verdict", RAILS[5]);
    let report = until(&agent, |report| report["state"] == "unready");
    assert!(findings(&report).contains(&down), "{:?}", findings(&report));

    fabric.relink(5);
    until(&agent, |_| {
        fabric.copy_to(dir.path());
        let report: Value = serde_json::from_str(&get(&agent.address, "/report").1).unwrap();
        report["ports"]
            .as_array()
            .unwrap()
            .iter()
            .all(|port| port["device"] != RAILS[5] || port["state"] == "active")
    });
}

#[test]
fn the_leaf_and_its_port_are_named_at_each_rail() {
    let mut fabric = Fabric::new();
    let (dir, _node) = node("h100_ib");
    fabric.start_manager(ALL_FULL);
    fabric.copy_to(dir.path());
    // The simulator's library has one port for each program.
    for (rail, port) in [(0, "1"), (5, "6")] {
        let (report, log) = Live::new(&fabric, dir.path(), rail, true).check(&[]);
        assert_eq!(report.neighbor(rail), Some(("Leaf", port)), "{log}");
        assert_eq!(report.known(), [rail]);
        // Two of the twelve devices have no active port to ask at, the others no device.
        assert_eq!(report.sources(), (3, 9));
    }
}

#[test]
fn a_pulled_cable_has_no_neighbor_and_is_no_fault() {
    let mut fabric = Fabric::new();
    let (dir, _node) = node("h100_ib");
    fabric.start_manager(ALL_FULL);
    fabric.copy_to(dir.path());
    let live = Live::new(&fabric, dir.path(), 5, true);
    let agent = live.agent();
    let report = agent.until(|report| report.neighbor(5).is_some());
    assert_eq!(report.neighbor(5), Some(("Leaf", "6")));
    let line = format!(
        "selvage_port_neighbor_info{{device=\"{}\",port=\"1\",switch=\"Leaf\",switch_port=\"6\"}} 1",
        RAILS[5]
    );
    let metrics = agent.get("/metrics");
    assert!(metrics.contains(&line), "{metrics}");

    // The port's files stay as they were, as if it had not noticed: nothing answers any more.
    fabric.unlink(5);
    let report = agent.until(|report| report.neighbor(5).is_none());
    let found = findings(&report.0);
    let names_it = |found: &String| found.contains("umad") || found.starts_with(RAILS[5]);
    assert!(!found.iter().any(names_it), "{found:?}");
    // Once the port is down, what was there is where to look.
    fabric.copy_to(dir.path());
    let down = |report: &Report| {
        let mut found = report.0["findings"].as_array().unwrap().iter();
        let down = found.find(|found| found["reason"] == "LinkDown")?;
        Some(down["message"].as_str().unwrap().to_string())
    };
    let report = agent.until(|report| down(report).is_some());
    let message = down(&report).unwrap();
    assert!(message.ends_with("; at the other end: Leaf 6"), "{message}");

    fabric.relink(5);
    let is_up = |port: &&Value| port["device"] == RAILS[5] && port["state"] == "active";
    agent.until(|report| {
        fabric.copy_to(dir.path());
        let ports = report.0["ports"].as_array().unwrap();
        ports.iter().any(|port| is_up(&port)) && report.neighbor(5) == Some(("Leaf", "6"))
    });
}

#[test]
fn without_the_right_to_ask_all_is_as_without_asking() {
    let mut fabric = Fabric::new();
    let (dir, _node) = node("h100_ib");
    fabric.start_manager(ALL_FULL);
    fabric.copy_to(dir.path());
    let live = Live::new(&fabric, dir.path(), 0, false);
    let (off, _) = live.check(&["--set=agent.umad=false"]);
    assert_eq!(off.sources(), (0, 0));
    let (on, log) = live.check(&[]);
    assert_eq!(on.known(), Vec::<usize>::new());
    assert_eq!(on.sources(), (2, 10));
    assert_eq!(on.0["state"], off.0["state"]);
    assert_eq!(findings(&on.0), findings(&off.0));
    assert!(!log.contains("umad"), "{log}");
}
