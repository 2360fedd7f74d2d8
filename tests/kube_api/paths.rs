//! What is written for what, and in what order.

use super::*;
use crate::fake_api::{self, FakeApi};
use crate::told::{Running, ready, unready, until};

#[test]
fn a_healthy_node_is_labelled_worded_and_told_of_once() {
    let api = FakeApi::new(json!({"zone": "a"}), json!([gpu(), startup()]));
    let mut writer = Running::start(&api, settings(), ready());
    until("event", || !api.state().events.is_empty());
    writer.calm(&api);
    let log = api.log();
    let reads: Vec<&str> = log
        .iter()
        .filter(|seen| !seen.writes())
        .map(|seen| seen.uri.as_str())
        .collect();
    assert!(
        reads.iter().all(|uri| uri.starts_with("/api/v1/nodes")),
        "{reads:?}"
    );
    let writes = api.writes();
    let uris: Vec<String> = writes
        .iter()
        .map(|seen| format!("{} {} {}", seen.method, seen.uri, seen.content))
        .collect();
    assert_eq!(
        uris,
        [
            "PATCH /api/v1/nodes/node-1?force=true&fieldManager=selvage application/apply-patch+yaml",
            "PATCH /api/v1/nodes/node-1?fieldManager=selvage application/json-patch+json",
            "PATCH /api/v1/nodes/node-1/status?fieldManager=selvage application/strategic-merge-patch+json",
            &format!("POST {EVENTS}?fieldManager=selvage application/json"),
        ]
    );
    assert_eq!(
        writes[0].body,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {
            "selvage.dev/fabric": "ready", "selvage.dev/fabric-kind": "infiniband",
            "selvage.dev/rails": "8", "selvage.dev/rail-gbps": "400",
            "selvage.dev/gpudirect": writes[0].body["metadata"]["labels"]["selvage.dev/gpudirect"],
            "selvage.dev/gds": writes[0].body["metadata"]["labels"]["selvage.dev/gds"],
        }}})
    );
    assert_eq!(
        writes[1].body,
        json!([
            {"op": "test", "path": "/spec/taints", "value": [gpu(), startup()]},
            {"op": "replace", "path": "/spec/taints", "value": [gpu()]},
        ])
    );
    let said = &writes[2].body["status"]["conditions"];
    assert_eq!(
        (&said[0]["type"], &said[0]["status"], &said[0]["reason"]),
        (&json!("FabricReady"), &json!("True"), &json!("FabricReady"))
    );
    let event = &writes[3].body;
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": api.node()["metadata"]["uid"]})
    );
    assert_eq!(
        (
            &event["reason"],
            &event["type"],
            &event["reportingComponent"]
        ),
        (&json!("FabricReady"), &json!("Normal"), &json!("selvage"))
    );
    assert_eq!(api.node()["metadata"]["labels"]["zone"], "a");
    let told = writer.told();
    assert_eq!(
        (told.status.api_up, told.status.error, told.tainted),
        (Some(true), None, Some(false))
    );
    assert!(told.status.pending.is_empty());
}

#[test]
fn a_fault_is_claimed_tainted_cleared_and_given_back() {
    let api = FakeApi::new(json!({}), json!([gpu(), startup()]));
    {
        let mut state = api.state();
        state.page = 1;
        state.set_others(vec![
            json!({"metadata": {"name": "other", "resourceVersion": "5", "labels": {"selvage.dev/fabric": "ready"}}, "spec": {"taints": [gpu()]}}),
        ]);
    }
    let mut writer = Running::start(&api, settings(), unready());
    until("taint", || {
        settled(&api, "unready", &json!([gpu(), ours()]))
    });
    writer.calm(&api);
    assert_eq!(
        api.written(),
        [
            LABELS,
            &format!("POST {LEASES}"),
            &format!("PUT {LEASES}/selvage-budget"),
            TAINTS,
            STATUS,
            &format!("POST {EVENTS}")
        ]
    );
    let lists: Vec<String> = api
        .log()
        .into_iter()
        .map(|seen| seen.uri)
        .filter(|uri| uri.contains("labelSelector"))
        .collect();
    let selector = "labelSelector=selvage.dev%2Ffabric%2Cselvage.dev%2Ffabric-kind%21%3Dnone";
    assert_eq!(lists.len(), 2, "{lists:?}");
    assert!(
        lists
            .iter()
            .all(|uri| uri.contains(selector) && uri.contains("limit=25")),
        "{lists:?}"
    );
    assert!(lists[1].contains("continue=1"), "{lists:?}");
    let patch = api
        .writes()
        .into_iter()
        .find(|seen| seen.content.contains("json-patch"))
        .unwrap()
        .body;
    let version = patch[0]["value"].clone();
    assert_eq!(
        patch,
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "test", "path": "/spec/taints", "value": [gpu(), startup()]},
            {"op": "replace", "path": "/spec/taints", "value": [gpu(), ours()]},
        ])
    );
    assert_eq!(ledger(&api)["claims"], json!({"node-1": version}));
    assert_eq!(ledger(&api)["nodes"], 2);
    let budget = writer.told().status.budget.unwrap();
    assert_eq!((budget.claimed, budget.limit, budget.nodes), (1, 1, 2));

    writer.report(ready());
    until("recovery", || settled(&api, "ready", &json!([gpu()])));
    writer.calm(&api);
    assert_eq!(ledger(&api)["claims"], json!({}));
    // The same again: an event that is known is counted up.
    writer.report(unready());
    until("taint", || {
        settled(&api, "unready", &json!([gpu(), ours()]))
    });
    writer.calm(&api);
    let patches = |seen: &fake_api::Seen| seen.method == "PATCH" && seen.uri.contains("events");
    let last = api.writes().into_iter().find(patches).unwrap();
    let name = api.state().events[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_string();
    assert_eq!(
        (last.method.as_str(), last.uri.as_str()),
        (
            "PATCH",
            format!("{EVENTS}/{name}?fieldManager=selvage").as_str()
        )
    );
    assert_eq!(last.body["count"], 2);
    assert_eq!(last.body.as_object().unwrap().len(), 2);
}

#[test]
fn without_room_the_taint_is_withheld_and_taken_up() {
    let api = FakeApi::new(json!({}), Value::Null);
    let other = |tainted: bool, version: &str| {
        let taints = if tainted { json!([ours()]) } else { json!([]) };
        json!({
            "metadata": {"name": "other", "resourceVersion": version, "labels": {"selvage.dev/fabric": "unready"}},
            "spec": {"taints": taints},
        })
    };
    api.state().set_others(vec![other(true, "5")]);
    let mut writer = Running::start(&api, settings(), unready());
    until("words", || {
        condition(&api.node())["message"]
            .as_str()
            .is_some_and(|m| m.starts_with("The taint is withheld"))
    });
    until("word of it", || {
        writer.told().status.withheld == Some("budget")
    });
    assert_eq!(api.node()["spec"]["taints"], Value::Null);
    until("event", || api.state().events.len() == 2);
    let reasons: Vec<Value> = api
        .state()
        .events
        .iter()
        .map(|event| event["reason"].clone())
        .collect();
    assert_eq!(reasons, ["FabricUnready", "FabricTaintWithheld"]);
    // The other's agent gives its entry back.
    api.state().set_others(vec![other(false, "6")]);
    {
        let mut state = api.state();
        let lease = state.leases.get_mut("selvage-budget").unwrap();
        lease["metadata"]["annotations"]["selvage.dev/ledger"] =
            json!(json!({"claims": {}, "nodes": 2, "counted": jiff::Timestamp::now()}).to_string());
        lease["metadata"]["resourceVersion"] = json!("9999");
    }
    until("taint", || settled(&api, "unready", &json!([ours()])));
    writer.calm(&api);
    assert_eq!(writer.told().status.withheld, None);
    assert!(
        condition(&api.node())["message"]
            .as_str()
            .unwrap()
            .starts_with("unready: LinkDown")
    );
    assert_eq!(api.state().events.len(), 2);
}

#[test]
fn a_heartbeat_that_is_due_is_the_only_write() {
    let api = FakeApi::new(json!({}), Value::Null);
    let mut writer = Running::start(&api, settings(), ready());
    until("event", || !api.state().events.is_empty());
    writer.calm(&api);
    let before = api.writes().len();
    let old = "2020-01-01T00:00:00Z";
    api.change(|node| {
        node["status"]["conditions"][1]["lastHeartbeatTime"] = json!(old);
        node["status"]["conditions"][1]["lastTransitionTime"] = json!(old);
    });
    until("heartbeat", || {
        condition(&api.node())["lastHeartbeatTime"] != old
    });
    writer.calm(&api);
    let written = api.written().split_off(before);
    assert_eq!(written, [STATUS]);
    assert_eq!(condition(&api.node())["lastTransitionTime"], old);
}
