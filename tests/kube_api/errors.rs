//! What goes wrong, and what is made of it.

use super::*;
use crate::fake_api::{FakeApi, Wrong};
use crate::told::{Running, ready, unready, until};
use selvage::cluster::settings::BudgetMax;
use std::time::Duration;

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
    api.state().leave();
    let mut writer = Running::start(&api, settings(), ready());
    until("word of it", || {
        writer
            .told()
            .status
            .error
            .is_some_and(|error| error.contains("404"))
    });
    assert!(api.writes().is_empty());
    api.state().join(json!({}), json!([startup()]));
    until("labels", || settled(&api, "ready", &Value::Null));
    writer.calm(&api);
    assert_eq!(count(&api, LABELS), 1);
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
