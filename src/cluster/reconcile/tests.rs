use super::*;
use crate::cluster::node::testing::node;
use crate::report::State;

fn settings() -> ClusterSettings {
    ClusterSettings {
        former_prefixes: vec!["old.example/".into()],
        ..ClusterSettings::default()
    }
}

fn wanted(labels: &[(&str, Option<&str>)], taint: WantedTaint, end_startup: bool) -> Desired {
    let label = |(name, value): &(&str, Option<&str>)| {
        (format!("selvage.dev/{name}"), value.map(str::to_string))
    };
    Desired {
        state: State::Ready,
        labels: labels.iter().map(label).collect(),
        condition: Condition {
            status: "False".into(),
            reason: "LinkDown".into(),
            message: "words".into(),
            ..Condition::default()
        },
        writes_condition: true,
        taint,
        end_startup,
    }
}

const WANT: &[(&str, Option<&str>)] = &[("fabric", Some("ready")), ("gds", None)];

#[test]
fn labels_are_applied_only_where_they_differ() {
    let applied = |labels: Value, owned: &[&str]| {
        let mut view = node(labels, Value::Null, json!([]));
        view.owned_labels = owned.iter().map(|key| (*key).to_string()).collect();
        let body = labels_of(&view)?;
        assert_eq!(body["metadata"]["name"], "gpu-1");
        Some(body["metadata"]["labels"].clone())
    };
    fn labels_of(view: &NodeView) -> Option<Value> {
        super::labels(&wanted(WANT, WantedTaint::Keep, false), view)
    }
    // They are as they should be, and others' labels do not matter.
    assert_eq!(
        applied(json!({"selvage.dev/fabric": "ready", "zone": "a"}), &[]),
        None
    );
    // What is not known stays as it is, and stays ours.
    assert_eq!(
        applied(json!({"selvage.dev/gds": "ready", "zone": "a"}), &[]),
        Some(json!({"selvage.dev/fabric": "ready", "selvage.dev/gds": "ready"}))
    );
    assert_eq!(
        applied(json!({"selvage.dev/fabric": "unready"}), &[]),
        Some(json!({"selvage.dev/fabric": "ready"}))
    );
    // Apply drops what our manager owned under another name.
    let orphan = json!({"selvage.dev/fabric": "ready", "old.example/fabric": "ready"});
    assert_eq!(
        applied(
            orphan.clone(),
            &["old.example/fabric", "selvage.dev/fabric"]
        ),
        Some(json!({"selvage.dev/fabric": "ready"}))
    );
    // Owned, but gone already.
    assert_eq!(
        applied(
            json!({"selvage.dev/fabric": "ready"}),
            &["selvage.dev/rails"]
        ),
        None
    );
}

#[test]
fn strays_are_ours_by_name_and_not_by_manager() {
    let strays = |labels: Value, owned: &[&str]| {
        let mut view = node(labels, Value::Null, json!([]));
        view.owned_labels = owned.iter().map(|key| (*key).to_string()).collect();
        stray_labels(&wanted(WANT, WantedTaint::Keep, false), &view, &settings())
    };
    let found = json!({
        "selvage.dev/fabric": "ready", "selvage.dev/rails": "8", "old.example/rails": "8",
        "selvage.dev/team": "a", "other/fabric": "x",
    });
    assert_eq!(
        strays(found.clone(), &[]),
        Some(
            json!({"metadata": {"labels": {"selvage.dev/rails": null, "old.example/rails": null}}})
        )
    );
    assert_eq!(
        strays(found, &["selvage.dev/rails", "old.example/rails"]),
        None
    );
    assert_eq!(strays(json!({"selvage.dev/gds": "ready"}), &[]), None);
}

fn ours(value: &str, effect: &str) -> Value {
    json!({"key": "selvage.dev/fabric-unready", "value": value, "effect": effect})
}

/// Applies the patch as the API server would, and checks what every patch must hold.
fn patched(taints: &Value, want: &Desired) -> Option<(Vec<Value>, TaintPatch)> {
    let view = node(json!({}), taints.clone(), json!([]));
    let patch = super::taints(want, &view, &settings())?;
    let operations: json_patch::Patch = serde_json::from_value(patch.patch.body()).unwrap();
    let object = |taints: &Value, version: &str| {
        let mut object = json!({"metadata": {"resourceVersion": version}, "spec": {}});
        if !taints.is_null() {
            object["spec"]["taints"] = taints.clone();
        }
        object
    };
    // Another version, or another list, fails the test.
    let other_version = json_patch::patch(&mut object(taints, "8"), &operations);
    assert_eq!(other_version.is_err(), patch.taints, "{patch:?}");
    let mut list = taints.as_array().cloned().unwrap_or_default();
    list.push(json!({"key": "new", "effect": "NoExecute"}));
    if !(taints.is_null() && patch.taints) {
        let other_list = json_patch::patch(&mut object(&Value::Array(list), "7"), &operations);
        assert!(other_list.is_err(), "{patch:?}");
    }
    let mut after = object(taints, "7");
    json_patch::patch(&mut after, &operations).unwrap();
    let after = &after["spec"]["taints"];
    Some((after.as_array().cloned().unwrap_or_default(), patch))
}

#[test]
fn taints_of_others_stay_byte_for_byte() {
    let foreign = || json!({"key": "gpu", "effect": "NoSchedule", "odd": [1, null]});
    let evict = || json!({"key": "gpu", "value": "x", "effect": "NoExecute", "timeAdded": "2026-11-21T10:00:00Z"});
    let startup = || json!({"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"});
    let former = || json!({"key": "old.example/fabric-unready", "effect": "NoSchedule"});
    let same = || ours("LinkDown", "NoSchedule");
    let rows: Vec<Vec<Value>> = vec![
        vec![],
        vec![foreign()],
        vec![foreign(), evict(), foreign()],
        vec![same()],
        vec![foreign(), same(), evict()],
        vec![ours("Other", "NoSchedule"), foreign()],
        vec![ours("LinkDown", "NoExecute")],
        vec![foreign(), startup(), evict()],
        vec![startup()],
        vec![startup(), foreign(), same()],
        vec![former(), foreign()],
        vec![
            same(),
            foreign(),
            ours("LinkDown", "NoExecute"),
            ours("x", "NoSchedule"),
        ],
        vec![former(), startup(), same(), same(), evict()],
    ];
    let is_foreign = |taint: &&Value| *text(taint, "key") == *"gpu";
    let count = |list: &[Value], key: &str| list.iter().filter(|t| text(t, "key") == key).count();
    let present = || WantedTaint::Present("LinkDown".into());
    for row in &rows {
        let missing = row.is_empty().then_some(Value::Null);
        for taints in missing.into_iter().chain([json!(row)]) {
            for taint in [WantedTaint::Keep, WantedTaint::Absent, present()] {
                for end_startup in [false, true] {
                    let want = wanted(WANT, taint.clone(), end_startup);
                    let case = format!("{taints} {taint:?} {end_startup}");
                    let got = patched(&taints, &want);
                    let after = got.as_ref().map_or(row.clone(), |(after, _)| after.clone());
                    let before: Vec<&Value> = row.iter().filter(is_foreign).collect();
                    let left: Vec<&Value> = after.iter().filter(is_foreign).collect();
                    assert_eq!(before, left, "{case}");
                    if let Some((after, patch)) = &got {
                        assert_ne!(after, row, "{case}");
                        let (had, has) = (
                            count(row, &settings().taint()),
                            count(after, &settings().taint()),
                        );
                        assert_eq!(patch.taints, had == 0 && has > 0, "{case}");
                        assert_eq!(patch.untaints, had > 0 && has == 0, "{case}");
                    }
                    let (own, old) = (
                        count(&after, &settings().taint()),
                        count(&after, "old.example/fabric-unready"),
                    );
                    match &taint {
                        WantedTaint::Keep => {
                            assert_eq!(own, count(row, &settings().taint()), "{case}");
                            assert_eq!(old, count(row, "old.example/fabric-unready"), "{case}");
                        }
                        WantedTaint::Absent => assert_eq!((own, old), (0, 0), "{case}"),
                        WantedTaint::Present(_) => {
                            assert_eq!((own, old), (1, 0), "{case}");
                            assert!(after.contains(&same()), "{case}");
                        }
                    }
                    let ends = end_startup || taint == present();
                    let left = count(&after, "selvage.dev/agent-not-ready");
                    let had = count(row, "selvage.dev/agent-not-ready");
                    assert_eq!(left, if ends { 0 } else { had }, "{case}");
                    // Once more: nothing to do.
                    assert_eq!(patched(&json!(after), &want), None, "{case}");
                }
            }
        }
    }
}

#[test]
fn ours_takes_the_place_of_the_startup_taint_in_one_patch() {
    let found = json!([{"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"}]);
    let present = WantedTaint::Present("LinkDown".into());
    let (after, patch) = patched(&found, &wanted(WANT, present, false)).unwrap();
    assert_eq!(after, [ours("LinkDown", "NoSchedule")]);
    assert!(patch.taints && patch.ends_startup);
}

#[test]
fn the_condition_is_written_when_it_differs_or_its_heartbeat_is_due() {
    let now: jiff::Timestamp = "2026-11-21T10:00:00.7Z".parse().unwrap();
    let standing = |status: &str, reason: &str, message: &str, heartbeat: &str| {
        node(
            json!({}),
            Value::Null,
            json!([{"type": "FabricReady", "status": status, "reason": reason, "message": message,
                    "lastHeartbeatTime": heartbeat, "lastTransitionTime": "2026-11-20T00:00:00Z"}]),
        )
    };
    let fresh = "2026-11-21T09:59:00Z";
    let kept = Some("2026-11-20T00:00:00Z");
    let new = Some("2026-11-21T10:00:00Z");
    use ConditionWrite::{Change, Heartbeat, Message};
    for (view, why, since) in [
        (standing("False", "LinkDown", "words", fresh), None, None),
        (
            standing("False", "LinkDown", "words", "2026-11-21T09:55:00Z"),
            Some(Heartbeat),
            kept,
        ),
        // A little ahead is another clock; far ahead is wrong.
        (
            standing("False", "LinkDown", "words", "2026-11-21T10:00:30Z"),
            None,
            None,
        ),
        (
            standing("False", "LinkDown", "words", "2026-11-21T10:30:00Z"),
            Some(Heartbeat),
            kept,
        ),
        (
            standing("False", "LinkDown", "other", fresh),
            Some(Message),
            kept,
        ),
        (
            standing("False", "Other", "words", fresh),
            Some(Change),
            kept,
        ),
        (
            standing("True", "LinkDown", "words", fresh),
            Some(Change),
            new,
        ),
        (node(json!({}), Value::Null, json!([])), Some(Change), new),
        (
            node(
                json!({}),
                Value::Null,
                json!([{"type": "FabricReady", "status": 5}]),
            ),
            Some(Change),
            new,
        ),
    ] {
        let want = wanted(WANT, WantedTaint::Keep, false).condition;
        let got = condition(&want, &view, now, Duration::from_secs(300));
        assert_eq!(
            got.as_ref().map(|(why, _)| *why),
            why,
            "{:?}",
            view.condition
        );
        let Some((_, patch)) = got else { continue };
        let written = &patch["status"]["conditions"][0];
        assert_eq!(written["lastTransitionTime"].as_str(), since);
        assert_eq!(written["lastHeartbeatTime"], "2026-11-21T10:00:00Z");
        assert_eq!(written["type"], "FabricReady");
        assert_eq!(patch["status"]["conditions"].as_array().unwrap().len(), 1);
    }
    let late = standing("False", "LinkDown", "words", "2020-01-01T00:00:00Z");
    let want = wanted(WANT, WantedTaint::Keep, false).condition;
    assert_eq!(condition(&want, &late, now, Duration::ZERO), None);
}

#[test]
fn the_startup_taint_of_a_former_prefix_ends_as_well() {
    let old = json!({"key": "old.example/agent-not-ready", "effect": "NoSchedule"});
    let view = node(json!({}), json!([old]), json!([]));
    for (taint, end, ends) in [
        (WantedTaint::Absent, true, true),
        (WantedTaint::Keep, false, false),
        (WantedTaint::Present("LinkDown".into()), false, true),
    ] {
        let wanted = wanted(&[], taint.clone(), end);
        let patch = taints(&wanted, &view, &settings());
        assert_eq!(patch.is_some_and(|p| p.ends_startup), ends, "{taint:?}");
    }
}
