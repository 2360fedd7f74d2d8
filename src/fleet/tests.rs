//! Whole fleets: what is counted, named first and shown.

use super::*;
use crate::cluster::node::NodeObject;
use crate::report::text::Style;
use serde_json::{Value, json};

const NOW: &str = "2026-11-23T12:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A Node with a verdict, its heartbeat a minute ago.
fn node(name: &str, state: &str, reason: &str) -> Value {
    let status = match state {
        "unready" => "False",
        "unknown" => "Unknown",
        _ => "True",
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "selvage.dev/fabric": state, "selvage.dev/fabric-kind": "infiniband",
            "selvage.dev/rails": "8", "selvage.dev/rail-gbps": "400",
        }},
        "spec": {},
        "status": {"conditions": [{
            "type": "FabricReady", "status": status, "reason": reason, "message": "m",
            "lastHeartbeatTime": "2026-11-23T11:59:00Z", "lastTransitionTime": "2026-11-23T11:50:00Z",
        }]},
    })
}

fn labelled(mut node: Value, labels: &[(&str, &str)]) -> Value {
    for (key, value) in labels {
        node["metadata"]["labels"][*key] = json!(value);
    }
    node
}

fn fleet(nodes: &[Value]) -> Fleet {
    let settings = ClusterSettings::default();
    let row = |node: &Value| {
        let node = serde_json::from_value(node.clone()).unwrap();
        FleetNode::of(NodeView::of(&node), &settings)
    };
    summarise(nodes.iter().map(row).collect(), &settings, at(NOW))
}

#[test]
fn a_heartbeat_alone_changes_nothing_on_the_screen() {
    use kube::runtime::watcher::Event;
    let settings = ClusterSettings::default();
    let mut watched = watched::Watched::default();
    let mut changes = |event: fn(NodeObject) -> Event<NodeObject>, node: &Value| {
        watched.changed = false;
        let event = event(serde_json::from_value(node.clone()).unwrap());
        let row = |node: &NodeObject| FleetNode::of(NodeView::of(node), &settings);
        watched.take(event, row);
        (watched.changed, watched.complete, watched.nodes.len())
    };
    let first = node("a", "ready", "Ready");
    let mut later = first.clone();
    later["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-23T12:00:00Z");
    let worse = node("a", "unready", "LinkDown");
    assert_eq!(changes(Event::InitApply, &first), (true, false, 1));
    assert_eq!(changes(|_| Event::InitDone, &first), (true, true, 1));
    assert_eq!(
        changes(Event::Apply, &later),
        (false, true, 1),
        "a heartbeat"
    );
    assert_eq!(changes(Event::Apply, &worse), (true, true, 1));
    assert_eq!(changes(Event::Delete, &worse), (true, true, 0));
    assert_eq!(changes(Event::Delete, &worse), (false, true, 0));
    assert_eq!(changes(|_| Event::Init, &worse), (false, false, 0));
}

#[test]
fn what_a_node_says_of_itself() {
    let mut tainted = node("a", "unready", "LinkDown");
    tainted["spec"] = json!({"unschedulable": true, "taints": [
        {"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"}]});
    let mut withheld = node("b", "unready", "LinkDown");
    withheld["status"]["conditions"][0]["message"] = json!("The taint is withheld: budget spent.");
    let mut muted = node("c", "unready", "LinkDown");
    muted["metadata"]["annotations"] =
        json!({"selvage.dev/mute": "taint=2026-11-23T13:00:00Z,gds=2026-11-23T11:00:00Z"});
    let joining = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "d"},
        "spec": {"taints": [{"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"}]},
    });
    let plain = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "e"}, "spec": {}});
    let later = node("f", "someday", "Someday");
    let odd = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "g", "labels": {"selvage.dev/fabric": "unready"}}, "spec": {},
        "status": {"conditions": [{"type": "FabricReady", "lastHeartbeatTime": "never"}, 7]},
    });
    let fleet = fleet(&[tainted, withheld, muted, joining, plain, later, odd]);
    let shown = |name: &str| {
        let node = fleet.nodes.iter().find(|node| node.node == name).unwrap();
        (node.state, node.reason.as_str(), node.taint)
    };
    for (name, want) in [
        ("a", (Some(State::Unready), "LinkDown", Taint::Applied)),
        ("b", (Some(State::Unready), "LinkDown", Taint::Withheld)),
        ("c", (Some(State::Unready), "LinkDown", Taint::Muted)),
        ("d", (Some(State::Unknown), "AgentNotReady", Taint::Startup)),
        ("e", (None, "", Taint::None)),
        ("f", (Some(State::Unknown), "Someday", Taint::None)),
        ("g", (Some(State::Unready), "", Taint::None)),
    ] {
        assert_eq!(shown(name), want, "{name}");
    }
    assert!(fleet.nodes[0].cordoned && fleet.has_unready());
    let budget = Budget {
        taints: 1,
        allowed: 1,
        withheld: 1,
    };
    assert_eq!(fleet.budget, Some(budget));
    assert_eq!(fleet.counts.without_agent, 1);
}

#[test]
fn a_silent_agents_verdict_proves_nothing() {
    let silent = |name, state| {
        let mut node = node(name, state, "LinkDown");
        node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-23T11:49:59Z");
        node
    };
    let mut labels_only = node("d", "ready", "");
    labels_only["status"]["conditions"] = json!([]);
    let mut ahead = node("e", "ready", "");
    ahead["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-11-23T13:00:00Z");
    let fleet = fleet(&[
        silent("a", "ready"),
        silent("b", "unready"),
        silent("c", "degraded"),
        labels_only,
        ahead,
    ]);
    let shown: Vec<_> = (fleet.nodes.iter())
        .map(|node| {
            (
                node.node.as_str(),
                node.state.unwrap(),
                node.reason.as_str(),
                node.silent,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            // It was seen to be broken; nothing says that it no longer is.
            ("b", State::Unready, "LinkDown", true),
            ("a", State::Unknown, AGENT_SILENT, true),
            ("c", State::Unknown, AGENT_SILENT, true),
            ("d", State::Ready, "", false),
            ("e", State::Ready, "", false),
        ]
    );
}

/// `faulty` of `nodes` nodes with these labels.
fn some(
    prefix: &str,
    faulty: usize,
    nodes: usize,
    reason: &str,
    labels: &[(&str, &str)],
) -> Vec<Value> {
    let one = |n| {
        let name = format!("{prefix}-{n}");
        let (state, reason) = if n < faulty {
            ("unready", reason)
        } else {
            ("ready", "")
        };
        labelled(node(&name, state, reason), labels)
    };
    (0..nodes).map(one).collect()
}

#[test]
fn what_faulty_nodes_share_is_named_first() {
    const LEAF: &str = "network.topology.nvidia.com/leaf";
    const ZONE: &str = "topology.kubernetes.io/zone";
    const DRIVER: &str = "nvidia.com/cuda.driver-version.full";
    let leaf = |leaf, faulty| some(leaf, faulty, 8, "LinkDown", &[(LEAF, leaf), (ZONE, "z")]);
    let driver = |name, version, faulty| some(name, faulty, 10, "XidFatal", &[(DRIVER, version)]);
    type Named<'a> = (Option<&'a str>, Option<&'a str>, usize);
    for (what, nodes, want) in [
        (
            "one node",
            vec![leaf("s1", 1), leaf("s2", 0)],
            &[(None, None, 1)][..],
        ),
        (
            "a leaf",
            vec![leaf("s1", 8), leaf("s2", 0)],
            &[(Some("leaf"), Some("s1"), 8)],
        ),
        (
            "a leaf and a node elsewhere",
            vec![leaf("s1", 7), leaf("s2", 1), leaf("s3", 0)],
            &[(Some("leaf"), Some("s1"), 7), (None, None, 1)],
        ),
        (
            "everything: the leaf is not to blame",
            vec![leaf("s1", 8), leaf("s2", 8)],
            &[(None, None, 16)],
        ),
        ("all have one leaf", vec![leaf("s1", 8)], &[(None, None, 8)]),
        (
            "too few elsewhere to compare with",
            vec![leaf("s1", 8), some("s2", 0, 3, "LinkDown", &[(LEAF, "s2")])],
            &[(None, None, 8)],
        ),
        (
            "a driver",
            vec![
                driver("a", "570.1", 10),
                driver("b", "560.1", 1),
                driver("c", "550.1", 0),
            ],
            &[(Some("driver"), Some("570.1"), 10), (None, None, 1)],
        ),
        (
            "two leaves",
            vec![
                leaf("s1", 8),
                leaf("s2", 6),
                leaf("s3", 0),
                leaf("s4", 0),
                leaf("s5", 0),
            ],
            &[(Some("leaf"), Some("s1"), 8), (Some("leaf"), Some("s2"), 6)],
        ),
    ] {
        let fleet = fleet(&nodes.concat());
        let got: Vec<Named> = (fleet.causes.iter())
            .map(|cause| (cause.kind, cause.value.as_deref(), cause.nodes.len()))
            .collect();
        assert_eq!(got, want, "{what}");
    }
}

#[test]
fn the_screen() {
    let mut nodes = some(
        "gpu-a",
        5,
        6,
        "LinkDown",
        &[("network.topology.nvidia.com/leaf", "s-12")],
    );
    nodes.extend(some(
        "gpu-b",
        0,
        30,
        "",
        &[("network.topology.nvidia.com/leaf", "s-13")],
    ));
    nodes[0]["spec"]["taints"] =
        json!([{"key": "selvage.dev/fabric-unready", "value": "LinkDown"}]);
    nodes.push(node("gpu-c-1", "degraded", "LinkFlap\u{1b}[2J"));
    let fleet = fleet(&nodes);
    let narrow = text::encode(&fleet, Style::default(), false);
    assert_eq!(
        narrow,
        "\
37 nodes: 5 unready, 1 degraded, 31 ready; taints: 1 of 3 allowed

leaf s-12: 5 of 6 nodes not ready, 0 of 30 elsewhere: 5 LinkDown
LinkFlap?[2J: 1 node: gpu-c-1

NODE     VERDICT   REASON        SINCE  RAILS   TAINT
gpu-a-0  unready   LinkDown      10m    8x400G  yes
gpu-a-1  unready   LinkDown      10m    8x400G  -
gpu-a-2  unready   LinkDown      10m    8x400G  -
gpu-a-3  unready   LinkDown      10m    8x400G  -
gpu-a-4  unready   LinkDown      10m    8x400G  -
gpu-c-1  degraded  LinkFlap?[2J  -      8x400G  -
"
    );
    let wide = text::encode(
        &fleet,
        Style {
            width: 400,
            colour: false,
        },
        true,
    );
    assert_eq!(wide.lines().count(), 5 + 1 + 37, "{wide}");
    assert!(wide.contains("leaf=s-13"), "{wide}");
}

#[test]
fn every_line_fits_the_terminal() {
    let long = "ip-10-0-123-45.us-west-2.compute.internal.example.cluster";
    let nodes = [node(long, "unready", "NcclFallbackRepeatsAndMore")];
    for width in [80, 100, 200] {
        let style = Style {
            width,
            colour: false,
        };
        let screen = text::encode(&fleet(&nodes), style, false);
        let table = screen.lines().skip_while(|line| !line.starts_with("NODE"));
        for line in table {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
    let screen = text::encode(
        &fleet(&nodes),
        Style {
            width: 80,
            colour: false,
        },
        false,
    );
    let row = screen.lines().last().unwrap();
    assert!(
        row.starts_with("ip-10-0-") && row.contains(".cluster  "),
        "{screen}"
    );
}
