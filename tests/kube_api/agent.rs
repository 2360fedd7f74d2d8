//! The agent as a program that talks to an API server: what it makes of a node that it finds tainted
//! or muted, and that nothing the server does holds up what it serves.

use crate::fake_api::{FakeApi, Wrong};
use crate::support::{self, Server, get, node, parse, scratch};
use selvage::simulate::Change;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Everything here takes milliseconds; a machine that is busy may need longer.
const BOUND: Duration = Duration::from_secs(60);

pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is() {
        assert!(Instant::now() < end, "no {what} within {BOUND:?}");
        support::pause();
    }
}

pub fn value(agent: &Server, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let (code, body) = get(&agent.address, "/metrics");
    assert_eq!(code, 200);
    let is = |(name, value): &(&str, &str), had: &support::Series| {
        had.labels.get(*name).is_some_and(|had| had == value)
    };
    let series = parse(&body)
        .into_iter()
        .find(|series| series.family == family && labels.iter().all(|label| is(label, series)));
    series.map(|series| series.value)
}

fn ours(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    let key = |taint: &Value| taint["key"] == "selvage.dev/fabric-unready";
    taints.is_some_and(|taints| taints.iter().any(key))
}

fn label(api: &FakeApi) -> Value {
    api.node()["metadata"]["labels"]["selvage.dev/fabric"].clone()
}

pub struct Rig {
    pub api: FakeApi,
    pub agent: Server,
    node: selvage::simulate::Node,
    _dirs: [tempfile::TempDir; 2],
}

fn rig(api: FakeApi, args: &[&str]) -> Rig {
    rig_of("h100_ib", api, args)
}

pub fn rig_of(preset: &str, api: FakeApi, args: &[&str]) -> Rig {
    let (tree, node) = node(preset);
    let dir = scratch();
    let config = dir.path().join("kubeconfig");
    std::fs::write(&config, api.kubeconfig("token: x")).unwrap();
    let mut all = vec![
        format!("--set=cluster.kubeconfig={}", config.display()),
        "--set=cluster.hold=0s".into(),
        "--set=intervals.link=100ms".into(),
        "--set=intervals.counters=200ms".into(),
        "--set=intervals.ethtool=200ms".into(),
    ];
    all.extend(args.iter().map(|arg| (*arg).to_string()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let agent = Server::agent(tree.path(), &all);
    Rig {
        api,
        agent,
        node,
        _dirs: [tree, dir],
    }
}

fn link(up: bool) -> Change {
    Change::Link {
        device: "mlx5_3".into(),
        up,
    }
}

#[test]
fn a_node_found_tainted_waits_the_clear_time() {
    let taint =
        json!([{"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"}]);
    let rig = rig(FakeApi::new(json!({}), taint), &["--set=cluster.clear=2s"]);
    until("labels", || label(&rig.api) == "ready");
    let labelled = Instant::now();
    assert!(ours(&rig.api.node()), "ready is not yet clear");
    until("clearing", || !ours(&rig.api.node()));
    let waited = labelled.elapsed();
    assert!(waited > Duration::from_secs(1), "{waited:?}");
}

#[test]
fn an_operator_mutes_a_check_for_a_time() {
    let mut rig = rig(
        FakeApi::new(json!({}), Value::Null),
        &["--set=cluster.clear=1s"],
    );
    until("labels", || label(&rig.api) == "ready");
    rig.node.apply(&link(false)).unwrap();
    until("taint", || ours(&rig.api.node()));
    assert_eq!(label(&rig.api), "unready");
    let mute = |api: &FakeApi, text: &str| {
        api.change(|node| node["metadata"]["annotations"]["selvage.dev/mute"] = json!(text));
    };
    let standing = || value(&rig.agent, "selvage_finding", &[("check", "link_state")]);
    // What cannot be made out mutes nothing; the rest of it does.
    mute(
        &rig.api,
        "link_state,no_such_check=2999-01-01T00:00:00Z,link_state=soon,gds=2999-01-01T00:00:00Z",
    );
    until("a look at it", || {
        let (_, report) = get(&rig.agent.address, "/report");
        let report: Value = serde_json::from_str(&report).unwrap();
        report["muted"] == json!(["gds"])
    });
    assert_eq!((standing(), label(&rig.api)), (Some(1.0), json!("unready")));
    let muted = Instant::now();
    mute(&rig.api, "link_state=2999-01-01T00:00:00Z");
    until("labels", || label(&rig.api) == "ready");
    // At once, not when the finding would have cleared (15 s).
    assert!(muted.elapsed() < Duration::from_secs(10));
    assert_eq!(standing(), None);
    until("clearing", || !ours(&rig.api.node()));
    mute(
        &rig.api,
        "link_state=2020-01-01T00:00:00Z, taint=2999-01-01T00:00:00Z",
    );
    until("the finding", || standing() == Some(1.0));
    until("word of it", || {
        value(
            &rig.agent,
            "selvage_node_taint_withheld",
            &[("reason", "muted")],
        ) == Some(1.0)
    });
    until("labels", || label(&rig.api) == "unready");
    assert!(!ours(&rig.api.node()));
}

#[test]
fn an_operator_accepts_the_machine_as_it_is() {
    let mut rig = rig(FakeApi::new(json!({}), Value::Null), &[]);
    until("labels", || label(&rig.api) == "ready");
    let (_, report) = get(&rig.agent.address, "/report");
    let report: Value = serde_json::from_str(&report).unwrap();
    let ports = report["ports"].as_array().unwrap().iter();
    let slower = ports
        .filter(|port| port["rail"] == true)
        .map(|port| Change::Rate {
            device: port["device"].as_str().unwrap().into(),
            rate: "200 Gb/sec (2X NDR)".into(),
            speed: 200_000,
        });
    rig.node.apply(&Change::All(slower.collect())).unwrap();
    until("the finding", || label(&rig.api) == "degraded");
    let accept = |text: &str| {
        let moment = json!(text);
        (rig.api).change(|node| node["metadata"]["annotations"]["selvage.dev/accept"] = moment);
    };
    accept("2026-01-02T03:04:05Z");
    until("labels", || label(&rig.api) == "ready");
}

#[test]
fn dry_run_is_exported() {
    let rig = rig(FakeApi::new(json!({}), Value::Null), &["--dry-run=true"]);
    for what in ["labels", "condition"] {
        until("pending", || {
            value(&rig.agent, "selvage_node_pending", &[("what", what)]) == Some(1.0)
        });
    }
    until("count", || {
        value(
            &rig.agent,
            "selvage_node_writes_total",
            &[("result", "dry_run")],
        ) == Some(2.0)
    });
    assert!(rig.api.writes().is_empty(), "{:?}", rig.api.writes());
}

#[test]
fn a_server_that_never_answers_holds_up_nothing() {
    let mut rig = rig(FakeApi::new(json!({}), Value::Null), &[]);
    until("labels", || label(&rig.api) == "ready");
    for method in ["GET", "PATCH", "POST", "PUT"] {
        rig.api.fail(method, "", 1_000_000, Wrong::Stall);
    }
    rig.node.apply(&link(false)).unwrap();
    until("a write that stalls", || {
        rig.api.writes().last().is_some_and(|seen| seen.code == 0)
    });
    let mut took: Vec<Duration> = (0..50)
        .map(|_| {
            let asked = Instant::now();
            assert_eq!(get(&rig.agent.address, "/metrics").0, 200);
            asked.elapsed()
        })
        .collect();
    took.sort();
    // On a busy machine a few take seconds; one that waits for the server takes as long as its requests may.
    assert!(took[45] < Duration::from_secs(2), "{took:?}");
    assert!(took[49] < Duration::from_secs(8), "{took:?}");
    // The node is looked at all the while.
    let port = [("device", "mlx5_4"), ("port", "1")];
    rig.node
        .apply(&Change::Link {
            device: "mlx5_4".into(),
            up: false,
        })
        .unwrap();
    until("the link", || {
        value(&rig.agent, "selvage_port_up", &port) == Some(0.0)
    });
    assert_eq!(label(&rig.api), "ready");
    rig.api.set_up(false);
    rig.api.heal();
    rig.api.set_up(true);
    until("taint", || {
        ours(&rig.api.node()) && label(&rig.api) == "unready"
    });
    let tainted = rig
        .api
        .written()
        .iter()
        .filter(|what| what.ends_with(" json"))
        .count();
    assert_eq!(tainted, 1);
    rig.agent.terminate();
    assert!(ours(&rig.api.node()), "what stands stays");
}
