//! Hands that undo what we write, entries that nobody made, a server that moved.

use super::*;
use crate::fake_api::Wrong;
use crate::told::{Running, ready, unready, until};
use selvage::cluster::RateLimits;
use selvage::cluster::api::NodeApi;
use selvage::cluster::reach::reach;
use std::time::Duration;

#[test]
fn a_hand_that_undoes_what_we_write_is_not_answered_each_time() {
    // The node as that hand leaves it each time it sees another.
    type Undo = fn(&mut Value);
    let taintless: Undo = |node| node["spec"]["taints"] = json!([gpu()]);
    let tainted: Undo = |node| node["spec"]["taints"] = json!([gpu(), ours()]);
    let joining: Undo = |node| node["spec"]["taints"] = json!([gpu(), startup()]);
    let old_beat: Undo = |node| {
        for condition in node["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastHeartbeatTime"] = json!("2020-01-01T00:00:00Z");
        }
    };
    let stray: Undo = |node| node["metadata"]["labels"]["old.example/rails"] = json!("8");
    for (case, report, taints, what, undo) in [
        (
            "taint taken off",
            unready(),
            json!([gpu(), ours()]),
            TAINTS,
            taintless,
        ),
        ("taint put", ready(), json!([gpu()]), TAINTS, tainted),
        (
            "startup taint put",
            ready(),
            json!([gpu()]),
            TAINTS,
            joining,
        ),
        (
            "heartbeat set back",
            ready(),
            json!([gpu()]),
            STATUS,
            old_beat,
        ),
        (
            "former label put",
            ready(),
            json!([gpu()]),
            "PATCH /api/v1/nodes/node-1 merge",
            stray,
        ),
    ] {
        let api = FakeApi::new(json!({}), json!([gpu()]));
        let former = ClusterSettings {
            former_prefixes: vec!["old.example/".into()],
            ..settings()
        };
        let state = report.state.as_str();
        let mut writer = Running::start(&api, former, report);
        until("all written", || settled(&api, state, &taints));
        writer.calm(&api);
        let before = count(&api, what);
        let answered = |times: usize| count(&api, what) >= before + times;
        for time in 1..=5 {
            api.change(undo);
            // A heartbeat has a time of its own: the first is answered, no other.
            until(case, || answered(if what == STATUS { 1 } else { time }));
        }
        for _ in 0..8 {
            api.change(undo);
            writer.calm(&api);
        }
        let most = if what == STATUS { 1 } else { 11 };
        let got = count(&api, what) - before;
        assert!(got <= most, "{case}: {got} answers to 13 changes");
    }
}

#[test]
fn a_ledger_entry_that_cannot_be_ours_does_not_keep_the_taint_off() {
    let api = FakeApi::new(json!({}), json!([gpu()]));
    let ledger =
        json!({"claims": {"node-1": "99999999999"}, "nodes": 1, "counted": jiff::Timestamp::now()});
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "selvage-budget", "namespace": "selvage", "resourceVersion": "1",
            "annotations": {"selvage.dev/ledger": ledger.to_string()},
        },
        "spec": {},
    });
    api.state().leases.insert("selvage-budget".into(), lease);
    let _writer = Running::start(&api, settings(), unready());
    until("taint", || {
        settled(&api, "unready", &json!([gpu(), ours()]))
    });
}

#[test]
fn a_server_that_moved_is_found_in_the_kubeconfig() {
    let old = FakeApi::new(json!({}), Value::Null);
    let new = FakeApi::new(json!({}), Value::Null);
    let writer = Running::start(&old, settings(), ready());
    until("all written", || settled(&old, "ready", &Value::Null));
    writer.move_to(&new);
    old.set_up(false);
    until("all written there", || settled(&new, "ready", &Value::Null));
}

#[test]
fn a_token_that_could_write_another_node_is_noticed() {
    let api = FakeApi::new(json!({}), Value::Null);
    let dir = crate::support::scratch();
    let file = dir.path().join("config");
    std::fs::write(&file, api.kubeconfig("token: x")).unwrap();
    let settings = ClusterSettings {
        kubeconfig: file.to_str().unwrap().into(),
        ..settings()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Nothing stalls here.
    let limits = RateLimits {
        deadline: Duration::from_secs(10),
        list_deadline: Duration::from_secs(10),
        ..crate::told::short()
    };
    let asked = || {
        runtime.block_on(async {
            let nodes = NodeApi::connect(&settings, "node-1", limits).await;
            reach(&nodes.unwrap(), limits).await.unwrap()
        })
    };
    assert_eq!(asked(), None);
    let other = json!({"metadata": {"name": "node-2", "resourceVersion": "5"}, "spec": {}});
    api.state().set_others(vec![other.clone()]);
    assert_eq!(asked(), Some(("node-2".into(), None)));
    for (code, message, by) in [
        (
            422,
            "nodes \"node-2\" is forbidden: ValidatingAdmissionPolicy 'selvage-nodes' denied request",
            "admission policy",
        ),
        (
            403,
            "nodes \"node-2\" is forbidden",
            "RBAC or another authorizer",
        ),
        (
            403,
            "nodes.authentication.k8s.io \"node-2\" is forbidden: User \"system:serviceaccount:selvage:selvage\" cannot impersonate:associated-node resource \"nodes\" in API group \"authentication.k8s.io\" at the cluster scope",
            "constrained impersonation",
        ),
        (
            403,
            "admission webhook \"nodes.example.com\" denied the request: not its own",
            "admission webhook",
        ),
        // A webhook that names no code.
        (
            400,
            "admission webhook \"nodes.example.com\" denied the request without explanation",
            "admission webhook",
        ),
    ] {
        api.fail("PATCH", "dryRun=All", 1, Wrong::Refused(code, message));
        assert_eq!(asked(), Some(("node-2".into(), Some(by))), "{message}");
    }
    let now = api.state().node("node-2").cloned();
    assert_eq!(now, Some(other), "nothing was written");
}
