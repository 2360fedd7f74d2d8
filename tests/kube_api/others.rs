//! Restarts, modes, and what other hands do.

use super::*;
use crate::fake_api::FakeApi;
use crate::told::{Running, ready, unready, until};
use selvage::cluster::settings::Mode;
use selvage::report::{Report, State, Tainting};

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
fn a_narrower_mode_takes_off_what_a_wider_one_put() {
    for (mode, keeps_condition) in [(Mode::Condition, true), (Mode::Labels, false)] {
        let api = FakeApi::new(json!({}), json!([startup()]));
        let first = Running::start(&api, settings(), unready());
        until("the taint", || settled(&api, "unready", &json!([ours()])));
        drop(first);
        let narrower = ClusterSettings { mode, ..settings() };
        let mut writer = Running::start(&api, narrower, unready());
        until("taint, entry and condition are gone", || {
            let node = api.node();
            node["spec"]["taints"].is_null()
                && condition(&node).is_null() != keeps_condition
                && ledger(&api)["claims"] == json!({})
        });
        assert_eq!(
            api.node()["metadata"]["labels"]["selvage.dev/fabric"],
            "unready"
        );
        writer.calm(&api);
    }
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
fn a_report_that_does_not_know_what_is_muted_is_not_acted_on() {
    let api = FakeApi::new(json!({}), Value::Null);
    api.change(|node| {
        let mute = "link_state=2999-01-01T00:00:00Z,taint=2999-01-01T00:00:00Z";
        node["metadata"]["annotations"]["selvage.dev/mute"] = json!(mute);
    });
    let mut writer = Running::start(&api, settings(), unready());
    until("a look", || writer.told().tainted.is_some());
    writer.calm(&api);
    assert!(api.writes().is_empty(), "{:?}", api.writes());
    assert_eq!(writer.told().facts.mutes.until.len(), 2);
    writer.report(Report {
        muted: vec!["link_state".into()],
        taint_muted: true,
        ..ready()
    });
    until("labels", || settled(&api, "ready", &Value::Null));
}
