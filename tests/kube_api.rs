//! What the writer asks of the API server, word for word, and what it makes of every way in which
//! that goes wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

#[path = "support/fake_api.rs"]
mod fake_api;
mod support;
#[path = "support/told.rs"]
mod told;

use fake_api::{FakeApi, Wrong};
use selvage::cluster::ClusterSettings;
use selvage::cluster::settings::{BudgetMax, Mode};
use selvage::report::{Report, State, Tainting};
use serde_json::{Value, json};
use std::time::Duration;
use told::{Running, ready, unready, until};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/selvage/leases";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const LABELS: &str = "PATCH /api/v1/nodes/node-1 apply";
const TAINTS: &str = "PATCH /api/v1/nodes/node-1 json";
const STATUS: &str = "PATCH /api/v1/nodes/node-1/status";

fn settings() -> ClusterSettings {
    ClusterSettings::default()
}

fn gpu() -> Value {
    json!({"key": "gpu", "value": "h100", "effect": "NoSchedule"})
}

fn startup() -> Value {
    json!({"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"})
}

fn ours() -> Value {
    json!({"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"})
}

fn condition(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array().cloned();
    let ours = |condition: &Value| condition["type"] == "FabricReady";
    conditions
        .unwrap_or_default()
        .into_iter()
        .find(ours)
        .unwrap_or_default()
}

fn ledger(api: &FakeApi) -> Value {
    let state = api.state();
    let text = state
        .leases
        .get("selvage-budget")
        .map(|lease| lease["metadata"]["annotations"]["selvage.dev/ledger"].clone());
    serde_json::from_str(text.unwrap_or_default().as_str().unwrap_or("null")).unwrap()
}

/// How often each thing was written with success.
fn count(api: &FakeApi, what: &str) -> usize {
    api.written()
        .iter()
        .filter(|written| written.starts_with(what))
        .count()
}

fn settled(api: &FakeApi, label: &str, taints: &Value) -> bool {
    let node = api.node();
    let status = match label {
        "ready" => "True",
        _ => "False",
    };
    node["metadata"]["labels"]["selvage.dev/fabric"] == label
        && node["spec"]["taints"] == *taints
        && condition(&node)["status"] == status
}

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
        event["regarding"],
        json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": api.node()["metadata"]["uid"]})
    );
    assert_eq!(
        (
            &event["reason"],
            &event["type"],
            &event["reportingController"]
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
        state.others = vec![
            json!({"metadata": {"name": "other", "resourceVersion": "5", "labels": {}}, "spec": {"taints": [gpu()]}}),
        ];
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
            .all(|uri| uri.contains(selector) && uri.contains("limit=100")),
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
    assert_eq!(last.body["series"]["count"], 2);
    assert_eq!(last.body.as_object().unwrap().len(), 1);
}

#[test]
fn without_room_the_taint_is_withheld_and_taken_up() {
    let api = FakeApi::new(json!({}), Value::Null);
    let other = |tainted: bool, version: &str| {
        let taints = if tainted { json!([ours()]) } else { json!([]) };
        json!({"metadata": {"name": "other", "resourceVersion": version}, "spec": {"taints": taints}})
    };
    api.state().others = vec![other(true, "5")];
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
    api.state().others = vec![other(false, "6")];
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

/// Runs a fault from healthy over unready to healthy, with something going wrong, and wants each
/// thing written exactly once.
fn survives(case: &str, method: &'static str, part: &'static str, times: usize, wrong: Wrong) {
    let api = FakeApi::new(json!({}), json!([gpu()]));
    api.fail(method, part, times, wrong);
    let mut writer = Running::start(&api, settings(), unready());
    until(case, || {
        settled(&api, "unready", &json!([gpu(), ours()])) && !api.state().events.is_empty()
    });
    writer.calm(&api);
    for (what, most) in [
        (LABELS, 1),
        (TAINTS, 1),
        (STATUS, 2),
        (&*format!("POST {EVENTS}"), 1),
    ] {
        let times = count(&api, what);
        assert!(
            (1..=most).contains(&times),
            "{case}: {what} {times} times: {:#?}",
            api.written()
        );
    }
    assert_eq!(api.state().events.len(), 1, "{case}");
    until(case, || {
        let told = writer.told();
        (told.status.api_up, told.status.error, told.tainted) == (Some(true), None, Some(true))
    });
    let claimed = ledger(&api)["claims"].clone();
    assert_eq!(
        claimed.as_object().map(serde_json::Map::len),
        Some(1),
        "{case}"
    );
    writer.report(ready());
    until(case, || settled(&api, "ready", &json!([gpu()])));
    writer.calm(&api);
    assert_eq!(ledger(&api)["claims"], json!({}), "{case}");
}

#[test]
fn every_error_is_outlived() {
    let no = || Value::Null;
    let cases: Vec<(&str, &'static str, &'static str, usize, Wrong)> = vec![
        ("500 everywhere", "PATCH", "", 6, Wrong::Status(500, no())),
        ("500 on reads", "GET", "", 6, Wrong::Status(500, no())),
        (
            "labels 409",
            "PATCH",
            "force=true",
            1,
            Wrong::Status(409, no()),
        ),
        ("labels closed", "PATCH", "force=true", 2, Wrong::Close),
        ("labels half-open", "PATCH", "force=true", 1, Wrong::Stall),
        (
            "condition 500",
            "PATCH",
            "/status",
            2,
            Wrong::Status(500, no()),
        ),
        (
            "condition done, not answered",
            "PATCH",
            "/status",
            1,
            Wrong::DoneThenStall,
        ),
        (
            "taint 422",
            "PATCH",
            "node-1?fieldManager",
            2,
            Wrong::Status(422, no()),
        ),
        (
            "taint done, not answered",
            "PATCH",
            "node-1?fieldManager",
            1,
            Wrong::DoneThenStall,
        ),
        ("lease never answers", "GET", "leases", 1, Wrong::Stall),
        (
            "lease made by another",
            "POST",
            "leases",
            1,
            Wrong::Status(409, no()),
        ),
        (
            "lease conflicts",
            "PUT",
            "leases",
            3,
            Wrong::Status(409, no()),
        ),
        (
            "claim done, not answered",
            "PUT",
            "leases",
            1,
            Wrong::DoneThenStall,
        ),
        (
            "list 410",
            "GET",
            "labelSelector",
            1,
            Wrong::Status(410, no()),
        ),
        (
            "list 500",
            "GET",
            "labelSelector",
            2,
            Wrong::Status(500, no()),
        ),
        ("event 500", "POST", "events", 2, Wrong::Status(500, no())),
        (
            "event done, not answered",
            "POST",
            "events",
            1,
            Wrong::DoneThenStall,
        ),
        (
            "watch 410",
            "GET",
            "watch=true",
            1,
            Wrong::Status(410, no()),
        ),
        ("watch half-open", "GET", "watch=true", 1, Wrong::Stall),
    ];
    let threads: Vec<_> = cases
        .into_iter()
        .map(|(case, method, part, times, wrong)| {
            std::thread::spawn(move || survives(case, method, part, times, wrong))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_server_that_asks_to_wait_is_waited_for() {
    let api = FakeApi::new(json!({}), Value::Null);
    api.fail(
        "PATCH",
        "force=true",
        1,
        Wrong::Status(429, json!({"retryAfterSeconds": 1})),
    );
    let _writer = Running::start(&api, settings(), ready());
    until("labels", || count(&api, LABELS) == 1);
    let at: Vec<_> = api.writes().iter().map(|seen| seen.at).collect();
    assert!(
        at[1] - at[0] >= Duration::from_secs(1),
        "{:?}",
        at[1] - at[0]
    );
}

#[test]
fn a_server_that_is_away_is_waited_for() {
    let api = FakeApi::new(json!({}), Value::Null);
    api.set_up(false);
    let mut writer = Running::start(&api, settings(), ready());
    until("word of it", || writer.told().status.error.is_some());
    assert_eq!(writer.told().status.api_up, Some(false));
    api.set_up(true);
    until("labels", || settled(&api, "ready", &Value::Null));
    writer.calm(&api);
    api.set_up(false);
    writer.report(unready());
    until("word of it", || writer.told().status.api_up == Some(false));
    // What comes and goes meanwhile is told once it can be; what is written is what is so then.
    writer.report(ready());
    writer.report(unready());
    api.set_up(true);
    until("taint", || settled(&api, "unready", &json!([ours()])));
    writer.calm(&api);
    assert_eq!((count(&api, LABELS), count(&api, TAINTS)), (2, 1));
    assert_eq!(
        (writer.told().status.api_up, writer.told().status.error),
        (Some(true), None)
    );
}

#[test]
fn a_token_that_was_rotated_is_read_anew() {
    let api = FakeApi::new(json!({}), Value::Null);
    api.state().token = Some("new".into());
    let dir = support::scratch();
    let token = dir.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let user = format!("tokenFile: '{}'", token.display());
    let mut writer = Running::start_as(&api, &user, settings(), ready());
    until("a refusal", || writer.told().status.error.is_some());
    assert!(api.writes().iter().all(|seen| seen.code == 401));
    std::fs::write(&token, "new").unwrap();
    until("labels", || settled(&api, "ready", &Value::Null));
    writer.calm(&api);
    assert_eq!(writer.told().status.api_up, Some(true));
}

#[test]
fn without_a_right_the_rest_is_written_and_recovery_is_not_held_up() {
    let denied = || Wrong::Status(403, Value::Null);
    let api = FakeApi::new(json!({}), json!([gpu()]));
    for method in ["GET", "POST", "PUT"] {
        api.fail(method, "leases", 1_000_000, denied());
    }
    api.fail("POST", "events", 1_000_000, denied());
    let mut writer = Running::start(&api, settings(), unready());
    until("words", || {
        condition(&api.node())["message"]
            .as_str()
            .is_some_and(|m| m.starts_with("The taint is withheld"))
    });
    until("word of it", || {
        writer.told().status.withheld == Some("api")
    });
    assert_eq!(
        api.node()["metadata"]["labels"]["selvage.dev/fabric"],
        "unready"
    );
    assert_eq!(
        api.node()["spec"]["taints"],
        json!([gpu()]),
        "nobody taints without the budget"
    );
    writer.report(ready());
    until("labels", || settled(&api, "ready", &json!([gpu()])));
    drop(writer);
    // A node that was left tainted is freed all the same.
    api.change(|node| node["spec"]["taints"] = json!([gpu(), ours()]));
    let _writer = Running::start(&api, settings(), ready());
    until("recovery", || {
        api.node()["spec"]["taints"] == json!([gpu()])
    });
}

#[test]
fn a_node_that_is_not_there_yet_is_waited_for() {
    let api = FakeApi::new(json!({}), Value::Null);
    api.state().node = None;
    let mut writer = Running::start(&api, settings(), ready());
    until("word of it", || {
        writer
            .told()
            .status
            .error
            .is_some_and(|error| error.contains("404"))
    });
    assert!(api.writes().is_empty());
    api.state().create_node(json!({}), json!([startup()]));
    until("labels", || settled(&api, "ready", &Value::Null));
    writer.calm(&api);
    assert_eq!(count(&api, LABELS), 1);
}

#[test]
fn a_restart_on_a_node_that_is_as_it_should_be_writes_nothing() {
    for (report, want, taints) in [
        (ready(), "ready", Value::Null),
        (unready(), "unready", json!([ours()])),
    ] {
        let api = FakeApi::new(json!({}), Value::Null);
        let mut writer = Running::start(&api, settings(), report.clone());
        until("writes", || {
            settled(&api, want, &taints) && !api.state().events.is_empty()
        });
        writer.calm(&api);
        drop(writer);
        let before = api.writes().len();
        let mut writer = Running::start(&api, settings(), report);
        until("a look", || writer.told().tainted.is_some());
        writer.calm(&api);
        assert_eq!(
            api.writes().len(),
            before,
            "{:?}",
            api.writes().split_off(before)
        );
    }
}

#[test]
fn before_the_first_full_window_nothing_is_written() {
    let api = FakeApi::new(
        json!({"selvage.dev/fabric": "unready"}),
        json!([ours(), startup()]),
    );
    let early = Report {
        full_window: false,
        state: State::Unknown,
        tainting: Tainting::Keep,
        ..ready()
    };
    let mut writer = Running::start(&api, settings(), early);
    until("a look", || writer.told().tainted == Some(true));
    writer.calm(&api);
    assert!(api.writes().is_empty(), "{:?}", api.writes());
}

#[test]
fn dry_nothing_is_written() {
    let dry = ClusterSettings {
        dry_run: true,
        ..settings()
    };
    let api = FakeApi::new(json!({}), json!([startup()]));
    let mut writer = Running::start(&api, dry, unready());
    until("pending", || {
        writer.told().status.pending == ["labels", "condition", "taint"]
    });
    writer.calm(&api);
    assert!(api.writes().is_empty(), "{:?}", api.writes());
    let status = writer.told().status;
    assert_eq!(status.results.get("dry_run"), Some(&3));
    assert_eq!(status.withheld, Some("dry_run"));
}

#[test]
fn modes_write_what_they_say() {
    for (mode, want) in [
        (Mode::Labels, vec![LABELS.to_string()]),
        (
            Mode::Condition,
            vec![LABELS.to_string(), STATUS.to_string()],
        ),
    ] {
        let api = FakeApi::new(json!({}), json!([startup()]));
        let mut writer = Running::start(&api, ClusterSettings { mode, ..settings() }, unready());
        until("labels", || count(&api, LABELS) == 1);
        writer.calm(&api);
        let written: Vec<String> = api
            .written()
            .into_iter()
            .filter(|what| !what.contains("events"))
            .collect();
        assert_eq!(written, want);
        assert_eq!(writer.told().status.withheld, Some("mode"));
    }
}

#[test]
fn drift_is_repaired_and_what_others_put_stays() {
    let api = FakeApi::new(json!({"zone": "a"}), json!([gpu()]));
    let mut writer = Running::start(&api, settings(), unready());
    until("taint", || {
        settled(&api, "unready", &json!([gpu(), ours()]))
    });
    writer.calm(&api);
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let before = api.writes().len();
    api.change(|node| {
        node["spec"]["unschedulable"] = json!(true);
        node["spec"]["taints"] = json!([cordon, gpu(), ours()]);
        node["metadata"]["labels"]["team"] = json!("b");
    });
    writer.calm(&api);
    assert_eq!(api.writes().len(), before, "others' hands are none of ours");
    api.change(|node| {
        node["metadata"]["labels"].as_object_mut().unwrap().remove("selvage.dev/fabric");
        node["metadata"]["labels"]["selvage.dev/rails"] = json!("1");
        node["metadata"]["labels"]["old.example/fabric"] = json!("stays");
        node["spec"]["taints"] = json!([cordon, gpu()]);
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}, {"type": "FabricReady", "status": "True", "reason": "X", "message": "", "lastHeartbeatTime": jiff::Timestamp::now()}]);
    });
    until("repair", || {
        settled(&api, "unready", &json!([cordon, gpu(), ours()]))
    });
    writer.calm(&api);
    let labels = &api.node()["metadata"]["labels"];
    assert_eq!(
        (
            &labels["selvage.dev/rails"],
            &labels["team"],
            &labels["old.example/fabric"]
        ),
        (&json!("8"), &json!("b"), &json!("stays"))
    );
    assert_eq!(api.node()["spec"]["unschedulable"], true);
    // The watch is told that it is too far behind: listed anew, and what was missed is seen.
    api.tell_watchers(&json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"}}));
    api.change(|node| node["spec"]["taints"] = json!([gpu()]));
    until("repair", || {
        settled(&api, "unready", &json!([gpu(), ours()]))
    });
}

#[test]
fn labels_of_earlier_names_are_cleaned_up() {
    let former = ClusterSettings {
        former_prefixes: vec!["old.example/".into()],
        ..settings()
    };
    let old = json!({"key": "old.example/fabric-unready", "value": "x", "effect": "NoSchedule"});
    let api = FakeApi::new(
        json!({"old.example/fabric": "ready", "old.example/team": "a"}),
        json!([old, gpu()]),
    );
    let mut writer = Running::start(&api, former, ready());
    until("clean-up", || settled(&api, "ready", &json!([gpu()])));
    writer.calm(&api);
    let labels = &api.node()["metadata"]["labels"];
    assert_eq!(
        (&labels["old.example/fabric"], &labels["old.example/team"]),
        (&Value::Null, &json!("a"))
    );
    let merge = api
        .writes()
        .into_iter()
        .find(|seen| seen.content == "application/merge-patch+json")
        .unwrap();
    assert_eq!(
        merge.body,
        json!({"metadata": {"labels": {"old.example/fabric": null}}})
    );
}

#[test]
fn a_write_that_a_policy_denies_is_not_hammered() {
    let api = FakeApi::new(json!({}), json!([gpu()]));
    api.fail(
        "PATCH",
        "node-1?fieldManager",
        1_000_000,
        Wrong::Status(422, Value::Null),
    );
    let none = ClusterSettings {
        budget_max: BudgetMax::Nodes(1),
        ..settings()
    };
    let writer = Running::start(&api, none, unready());
    until("word of it", || writer.told().status.error.is_some());
    assert_eq!(
        api.node()["metadata"]["labels"]["selvage.dev/fabric"],
        "unready"
    );
    assert_eq!(condition(&api.node())["status"], "False");
    assert_eq!(api.node()["spec"]["taints"], json!([gpu()]));
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

#[test]
fn a_claim_without_a_taint_is_given_back_once_its_patch_is_dead() {
    let api = FakeApi::new(json!({}), Value::Null);
    // The claim is made; the patch never arrives.
    api.fail("PATCH", "node-1?fieldManager", 1_000_000, Wrong::Stall);
    let mut writer = Running::start(&api, settings(), unready());
    until("a patch", || {
        api.writes()
            .iter()
            .any(|seen| seen.content.contains("json-patch"))
    });
    assert_eq!(
        ledger(&api)["claims"].as_object().map(serde_json::Map::len),
        Some(1)
    );
    writer.report(ready());
    until("the claim's end", || ledger(&api)["claims"] == json!({}));
    let log = api.log();
    let given_back = log.iter().rposition(|seen| seen.method == "PUT").unwrap();
    let claimed = log.iter().position(|seen| seen.method == "PUT").unwrap();
    let between = log.get(claimed..given_back).unwrap();
    assert!(
        between
            .iter()
            .any(|seen| seen.code == 200 && seen.uri.contains("node-1") && seen.writes()),
        "the object has moved in between: {between:#?}"
    );
    writer.calm(&api);
}
