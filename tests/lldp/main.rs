//! Neighbors for real: Debian's lldpd as two leaf switches, each in a network namespace of its own,
//! two rails of a node at the other ends of their veth pairs, and the program on that node. What the
//! machine does not allow fails the test; nothing is skipped. Needs root.
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

mod bench;

use bench::{Bench, RAILS, Report};
use serde_json::{Value, json};

/// A neighbor, as in the report.
fn neighbor(leaf: usize, port: usize) -> Value {
    json!({
        "switch": format!("leaf-{leaf}"),
        "switch_port": format!("Ethernet1/{port}"),
        "description": format!("to gpu-01 rail{port}"),
    })
}

#[test]
fn a_rail_is_named_with_the_port_of_its_switch() {
    let bench = Bench::new();
    let agent = bench.agent(&[], &[]);
    for rail in [0, 1] {
        agent.until(|report| report.neighbor(rail) == neighbor(rail, rail));
        // veth filters nothing: that a NIC would let the frames pass shows here only.
        let groups = bench
            .node
            .run("ip", &["maddr", "show", "dev", RAILS[rail].1]);
        assert!(groups.contains("01:80:c2:00:00:0e"), "{groups}");
    }
    let metrics = agent.get("/metrics");
    for (rail, (device, _)) in RAILS.iter().enumerate() {
        let line = format!(
            "selvage_port_neighbor_info{{device=\"{device}\",port=\"1\",switch=\"leaf-{rail}\",switch_port=\"Ethernet1/{rail}\"}} 1"
        );
        assert!(metrics.contains(&line), "{metrics}");
    }
    let page = agent.get("/");
    assert!(page.contains("to leaf-1 Ethernet1/1"), "{page}");

    // The switch ends in good order and says so: what it said no longer holds.
    bench.leaves[0].stop();
    agent.until(|report| report.neighbor(0) == Value::Null);
    // When the link falls, who was there is what to look at.
    bench.link_falls(0);
    let report = agent.until(|report| report.reasons_of(0) == ["LinkDown"]);
    assert_eq!(report.neighbor(0), neighbor(0, 0));
    let message = report.0["findings"][0]["message"].as_str().unwrap();
    assert!(
        message.ends_with("; at the other end: leaf-0 Ethernet1/0"),
        "{message}"
    );

    // A switch that hangs says nothing more: its word holds for its TTL.
    bench.leaves[1].hold(4);
    bench.leaves[1].describe("Eth1", "for four seconds");
    agent.until(|report| report.neighbor(1)["description"] == "for four seconds");
    bench.leaves[1].run("ip", &["link", "set", "Eth1", "down"]);
    agent.until(|report| report.neighbor(1) == Value::Null);
}

#[test]
fn swapped_cables_are_a_notice_on_both_rails() {
    let bench = Bench::new();
    let agent = bench.agent(&["--set=policy.neighbor.raise_after=2s"], &[]);
    let before =
        agent.until(|report| [0, 1].map(|i| report.neighbor(i)) == [0, 1].map(|i| neighbor(i, i)));
    bench.swap();
    let report = agent.until(|report| {
        [0, 1]
            .iter()
            .all(|rail| report.reasons_of(*rail).contains(&"NeighborChanged"))
    });
    let messages: Vec<&str> = (report.0["findings"].as_array().unwrap().iter())
        .filter(|finding| finding["reason"] == "NeighborChanged")
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    let [a, b] = RAILS.map(|(device, _)| format!("{device}/1"));
    assert_eq!(
        messages,
        [
            format!(
                "{a} was connected to leaf-0 Ethernet1/0 and is now connected to leaf-1 Ethernet1/0"
            ),
            format!(
                "{b} was connected to leaf-1 Ethernet1/1 and is now connected to leaf-0 Ethernet1/1"
            ),
        ]
    );
    assert_eq!(report.0["state"], before.0["state"]);
}

#[test]
fn junk_on_the_wire_changes_nothing() {
    let bench = Bench::new();
    let agent = bench.agent(&["--set=policy.neighbor.raise_after=0s"], &[]);
    let both = [0, 1].map(|rail| neighbor(rail, rail));
    let neighbors = |report: &Report| [0, 1].map(|rail| report.neighbor(rail));
    let unchanged = |report: &Report| {
        assert_eq!(neighbors(report), both, "{}", agent.log());
        for rail in [0, 1] {
            assert!(!report.reasons_of(rail).contains(&"NeighborChanged"));
        }
        true
    };
    agent.until(|report| neighbors(report) == both);
    // A good frame would cover up what junk did.
    bench.leaves[0].pause();
    std::thread::scope(|scope| {
        let junk = scope.spawn(|| bench.leaves[0].junk("Eth0"));
        agent.until(|report| unchanged(report) && junk.is_finished());
        let sent = junk.join().unwrap();
        assert!(sent.contains("sent 615"), "{sent}");
    });
    let after = agent.until(unchanged).seconds();
    let report = agent.until(|report| unchanged(report) && report.seconds() > after + 5);
    assert_eq!(report.source()["up"], true, "{}", report.source());
    // It still hears.
    bench.leaves[0].resume();
    bench.leaves[0].describe("Eth0", "after the junk");
    let report = agent.until(|report| report.neighbor(0)["description"] == "after the junk");
    assert!(!report.reasons_of(0).contains(&"NeighborChanged"));
}

#[test]
fn without_the_capability_all_else_is_as_without_lldp() {
    let bench = Bench::new();
    let plain = bench
        .agent(&["--set=agent.lldp=false"], &[])
        .until(|report| report.0["full_window"] == true);
    assert_eq!(plain.source(), &Value::Null);
    let agent = bench.agent(&[], &["setpriv", "--bounding-set=-net_raw"]);
    let report = agent.until(|report| {
        let findings = report.0["findings"].as_array().unwrap();
        report.0["full_window"] == true && findings.iter().any(|found| found["subject"] == "lldp")
    });
    assert_eq!(report.source()["up"], false);
    assert_eq!(report.0["state"], plain.0["state"]);
    assert_eq!(report.0["reasons"], plain.0["reasons"]);
    let log = agent.log();
    let lines = log
        .lines()
        .filter(|line| line.contains("LLDP cannot be received"));
    let lines: Vec<&str> = lines.collect();
    assert!(
        matches!(lines[..], [line] if line.contains("CAP_NET_RAW")),
        "{log}"
    );
}
