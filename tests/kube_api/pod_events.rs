//! Events on pods: what is asked of the server, word for word, and when nothing is.

use super::*;
use crate::fake_api::Wrong;
use crate::told::{Running, ready, until};
use selvage::cluster::settings::Mode;
use selvage::cluster::{EventKind, PodRef};

const ML: &str = "/api/v1/namespaces/ml/events";

fn worker(name: &str) -> PodRef {
    PodRef {
        namespace: "ml".into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
    }
}

fn fallback(writer: &Running, name: &str, message: &str) -> bool {
    writer.events.pod(
        worker(name),
        "NcclTcpFallback",
        EventKind::Warning,
        message.to_string(),
    )
}

fn told(api: &FakeApi) -> Vec<Value> {
    let state = api.state();
    let of_pods = |event: &&Value| event["involvedObject"]["kind"] == "Pod";
    state.events.iter().filter(of_pods).cloned().collect()
}

#[test]
fn an_event_is_made_in_the_pods_namespace() {
    let api = FakeApi::new(json!({}), Value::Null);
    let mut writer = Running::start(&api, settings(), ready());
    assert!(fallback(&writer, "w-0", "TCP in place of InfiniBand"));
    until("event", || told(&api).len() == 1);
    writer.calm(&api);
    let event = told(&api).remove(0);
    let name = event["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("w-0."), "{name}");
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "w-0", "uid": "uid-of-w-0"})
    );
    for (key, want) in [
        ("type", json!("Warning")),
        ("reason", json!("NcclTcpFallback")),
        ("message", json!("TCP in place of InfiniBand")),
        ("count", json!(1)),
        ("source", json!({"component": "selvage", "host": "node-1"})),
        ("reportingInstance", json!("node-1")),
        ("reportingComponent", json!("selvage")),
    ] {
        assert_eq!(event[key], want, "{key}");
    }
    let posted = api
        .writes()
        .into_iter()
        .find(|seen| seen.uri.starts_with(ML));
    assert_eq!(posted.unwrap().uri, format!("{ML}?fieldManager=selvage"));
    // The same again is counted up, with what it says now.
    assert!(fallback(&writer, "w-0", "TCP, 24 channels"));
    until("count", || told(&api)[0]["count"] == 2);
    assert_eq!(told(&api)[0]["message"], "TCP, 24 channels");
    assert_eq!(told(&api).len(), 1);
    // Its end is another event.
    assert!(writer.events.pod(
        worker("w-0"),
        "NcclRdmaInUse",
        EventKind::Normal,
        "InfiniBand again".into()
    ));
    until("event", || told(&api).len() == 2);
    assert_eq!(told(&api)[1]["type"], "Normal");
    assert_eq!(count(&api, "PATCH /api/v1/namespaces/ml/events"), 1);
}

#[test]
fn by_the_rules_of_the_nodes_own_events() {
    for (mode, dry_run, want) in [
        (Mode::All, false, 1),
        (Mode::Condition, false, 1),
        (Mode::Labels, false, 0),
        (Mode::All, true, 0),
    ] {
        let api = FakeApi::new(json!({}), Value::Null);
        let rules = ClusterSettings {
            mode,
            dry_run,
            ..settings()
        };
        let mut writer = Running::start(&api, rules, ready());
        fallback(&writer, "w-0", "TCP");
        if want > 0 {
            until("event", || told(&api).len() == want);
        }
        until("a look", || writer.told().tainted.is_some());
        writer.calm(&api);
        assert_eq!(told(&api).len(), want, "{mode:?} {dry_run}");
    }
}

#[test]
fn what_is_refused_holds_up_nothing() {
    let api = FakeApi::new(json!({}), Value::Null);
    // A namespace that is being deleted answers so.
    api.fail("POST", ML, 1, Wrong::Status(403, Value::Null));
    let mut writer = Running::start(&api, settings(), ready());
    fallback(&writer, "w-0", "TCP");
    until("refusal", || {
        writer.told().status.results.get("denied") == Some(&1)
    });
    fallback(&writer, "w-1", "TCP");
    until("the next", || told(&api).len() == 1);
    assert_eq!(told(&api)[0]["involvedObject"]["name"], "w-1");
    until("labels", || settled(&api, "ready", &Value::Null));
    writer.calm(&api);
}

#[test]
fn answers_that_do_not_come_make_no_second_event() {
    let api = FakeApi::new(json!({}), Value::Null);
    api.fail("POST", ML, 1, Wrong::DoneThenStall);
    let mut writer = Running::start(&api, settings(), ready());
    fallback(&writer, "w-0", "TCP");
    until("two tries", || {
        api.writes()
            .iter()
            .filter(|seen| seen.uri.starts_with(ML))
            .count()
            == 2
    });
    writer.calm(&api);
    assert_eq!(told(&api).len(), 1);
}

#[test]
fn a_storm_is_bounded_and_the_nodes_own_events_come_through() {
    let api = FakeApi::new(json!({}), Value::Null);
    let mut writer = Running::start(&api, settings(), ready());
    until("labels", || settled(&api, "ready", &Value::Null));
    let taken = (0..1000)
        .filter(|n| fallback(&writer, &format!("w-{n}"), "TCP"))
        .count();
    assert!(taken < 1000, "{taken}");
    writer.report(crate::told::unready());
    until("the node's event", || {
        let state = api.state();
        state
            .events
            .iter()
            .any(|event| event["reason"] == "FabricUnready")
    });
    writer.calm(&api);
    let told = told(&api).len();
    // `at_once`, and one every 30 s.
    assert!((1..=11).contains(&told), "{told}");
}
