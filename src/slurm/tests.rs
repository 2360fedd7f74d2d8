use super::*;
use crate::report::testing::broken;
use serde_json::{Value, json};

/// A verdict that has stood for so many seconds.
fn verdict(state: &str, stood: i64, findings: Value) -> AgentReport {
    let made: jiff::Timestamp = "2026-11-23T09:00:00Z".parse().unwrap();
    let report = json!({
        "schema": "selvage.dev/report/v1",
        "time": made,
        "since": made - jiff::SignedDuration::from_secs(stood),
        "state": state,
        "findings": findings,
    });
    AgentReport::parse(report.to_string().as_bytes(), made).unwrap()
}

fn finding(status: &str, reason: &str, subject: &str, evidence: Value) -> Value {
    let cause = (reason == "MtuMismatch").then_some("link_state:x:LinkDown");
    json!({
        "key": subject, "subject": subject, "status": status, "weight": if subject == "mlx5_1/1" { "notice" } else { "verdict" },
        "reason": reason, "evidence": evidence, "caused_by": cause,
    })
}

#[test]
fn what_a_verdict_asks_for() {
    let down = json!([finding("failing", "LinkDown", "mlx5_4/1", json!({}))]);
    let several = json!([
        finding("failing", "StorageDown", "mlx5_1/1", json!({})),
        finding("failing", "MtuMismatch", "mlx5_3/1", json!({})),
        finding("failing", "LinkDown", "mlx5_4/1", json!({})),
        finding("failing", "LinkDown", "mlx5_5/1", json!({})),
        finding("degraded", "LinkSlow", "mlx5_6/1", json!({})),
    ]);
    let odd = json!([finding("failing", "LinkDown", "mlx5_4\n/1", json!({}))]);
    let passing = json!([finding(
        "failing",
        "NicGone",
        "mlx5_4",
        json!({"passes_within_s": 120})
    )]);
    // The port's fault is the NIC's: the agent waits as long before it taints the node.
    let mut with_its_port = passing.clone();
    let port = finding("failing", "LinkDown", "mlx5_4/1", json!({}));
    with_its_port.as_array_mut().unwrap().push(port);
    let settings = SlurmSettings::default();
    let drain = |reason: &str| SlurmAction::Drain(reason.into());
    use SlurmAction::{Nothing, Resume};
    for (state, stood, findings, want, why) in [
        ("unready", 29, &down, Nothing, "unready for 29 s, of 30 s"),
        (
            "unready",
            30,
            &down,
            drain("selvage: LinkDown mlx5_4/1"),
            "unready for 30 s",
        ),
        (
            "unready",
            99,
            &several,
            drain("selvage: LinkDown mlx5_4/1 and 1 more"),
            "unready",
        ),
        (
            "unready",
            99,
            &odd,
            drain("selvage: LinkDown mlx5_4?/1"),
            "unready",
        ),
        (
            "unready",
            99,
            &passing,
            Nothing,
            "unready for 99 s, of 120 s",
        ),
        (
            "unready",
            99,
            &with_its_port,
            Nothing,
            "unready for 99 s, of 120 s",
        ),
        (
            "unready",
            120,
            &passing,
            drain("selvage: NicGone mlx5_4"),
            "unready",
        ),
        (
            "unready",
            30,
            &json!([]),
            drain("selvage: unready"),
            "unready",
        ),
        ("unready", -5, &down, Nothing, "unready for 0 s, of 30 s"),
        (
            "ready",
            299,
            &json!([]),
            Nothing,
            "ready for 299 s, of 300 s",
        ),
        ("ready", 300, &json!([]), Resume, "ready for 300 s"),
        ("degraded", 9999, &several, Nothing, "degraded"),
        ("unknown", 9999, &down, Nothing, "unknown"),
        ("none", 9999, &json!([]), Nothing, "none"),
    ] {
        let (action, said) = wanted(&verdict(state, stood, findings.clone()), &settings);
        assert_eq!(action, want, "{state} {stood}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_real_report_names_its_cause() {
    let mut report = broken();
    let made: jiff::Timestamp = "2026-11-23T09:00:00Z".parse().unwrap();
    report.snapshot.wall = Some(made);
    let body = crate::report::json::encode(&report, None);
    let verdict = AgentReport::parse(body.as_bytes(), made).unwrap();
    let failing = |of: &&crate::check::Finding| of.status == crate::check::Status::Failing;
    let first = report.findings.iter().find(failing).unwrap();
    let cause = verdict.cause().unwrap();
    assert!(
        cause.starts_with(&format!("{} {}", first.reason, first.subject)),
        "{cause}"
    );
}

/// A node in both versions' forms must be understood as the same.
fn node(name: &str, partitions: &[&str], state: &str, reason: &str) -> SlurmNode {
    let (base, flags) = state.split_once('+').unwrap_or((state, ""));
    let flags: Vec<&str> = flags.split('+').filter(|flag| !flag.is_empty()).collect();
    let words: Vec<String> = state.split('+').map(str::to_uppercase).collect();
    let old = json!({
        "name": name, "partitions": partitions, "reason": reason, "state": base,
        "state_flags": flags, "cores": 1,
    });
    let new = json!({"name": name, "partitions": partitions, "reason": reason, "state": words});
    let read = |node: Value| parse_nodes(json!({"nodes": [node]}).to_string().as_bytes(), name);
    let (old, new) = (read(old).unwrap().remove(0), read(new).unwrap().remove(0));
    for prefixes in [&["DRAIN"][..], &OUT] {
        assert_eq!(old.is_any(prefixes), new.is_any(prefixes), "{state}");
    }
    old
}

#[test]
fn another_hand_is_never_touched() {
    let drain = SlurmAction::Drain("selvage: LinkDown mlx5_4/1".into());
    for (state, reason, may_drain, may_resume) in [
        ("idle", "", true, false),
        ("allocated", "", true, false),
        ("mixed", "", true, false),
        ("idle+NOT_RESPONDING", "", true, false),
        // Slurm leaves an old reason on a node that is back.
        ("idle", "admin: memory", true, false),
        ("idle", "selvage: LinkDown mlx5_4/1", true, false),
        ("idle+DRAIN", "selvage: LinkDown mlx5_4/1", false, true),
        ("allocated+DRAIN", "selvage: LinkDown mlx5_4/1", false, true),
        ("idle+DRAIN", "admin: memory", false, false),
        ("idle+DRAIN", "admin, not selvage: memory", false, false),
        ("idle+DRAIN", "selvage is wrong", false, false),
        ("idle+DRAIN", "", false, false),
        ("down", "admin: memory", false, false),
        ("down+NOT_RESPONDING", "Not responding", false, false),
        ("down+DRAIN", "selvage: LinkDown mlx5_4/1", false, false),
        ("idle+FAIL", "admin: spare part", false, false),
        ("idle+REBOOT_REQUESTED", "kernel", false, false),
        (
            "idle+DRAIN+REBOOT_ISSUED",
            "selvage: LinkDown mlx5_4/1",
            false,
            false,
        ),
        ("idle+POWERED_DOWN", "", false, false),
        ("future", "", false, false),
    ] {
        let nodes = [
            node("n1", &["p"], state, reason),
            node("n2", &["p"], "idle", ""),
        ];
        let may = |action: &SlurmAction| allowed(action, "n1", &nodes, BudgetMax::Nodes(9));
        assert_eq!(
            may(&drain).is_ok(),
            may_drain,
            "{state} {reason}: {:?}",
            may(&drain)
        );
        let resume = may(&SlurmAction::Resume);
        assert_eq!(resume.is_ok(), may_resume, "{state} {reason}: {resume:?}");
        assert!(may(&SlurmAction::Nothing).is_err());
    }
}

#[test]
fn the_budget_counts_our_drains_in_each_partition() {
    let drain = SlurmAction::Drain("selvage: LinkDown mlx5_4/1".into());
    let fleet = |count: usize, ours: usize, others: usize| -> Vec<SlurmNode> {
        (1..=count)
            .map(|number| {
                let (state, reason) = match count - number {
                    left if left < ours => ("idle+DRAIN", "selvage: LinkDown mlx5_4/1"),
                    left if left < ours + others => ("idle+DRAIN", "admin: memory"),
                    _ => ("idle", ""),
                };
                // The first 20 are a partition of their own, too.
                let partitions: &[&str] = if number <= 20 {
                    &["all", "few"]
                } else {
                    &["all"]
                };
                node(&format!("n{number}"), partitions, state, reason)
            })
            .collect()
    };
    let ten = BudgetMax::Percent(10);
    for (count, ours, others, most, want) in [
        (1, 0, 0, ten, true),
        (10, 0, 0, ten, true),
        (10, 1, 0, ten, false),
        (10, 0, 9, ten, true),
        (19, 1, 0, ten, false),
        (20, 1, 0, ten, true),
        (20, 2, 0, ten, false),
        (100, 9, 0, ten, true),
        (100, 10, 0, ten, false),
        // "few" has room, "all" has none, and the other way round.
        (200, 20, 0, ten, false),
        (22, 4, 0, BudgetMax::Percent(20), false),
        (22, 3, 0, BudgetMax::Percent(20), true),
        (10, 2, 0, BudgetMax::Nodes(3), true),
        (10, 3, 0, BudgetMax::Nodes(3), false),
    ] {
        let got = allowed(&drain, "n1", &fleet(count, ours, others), most);
        assert_eq!(got.is_ok(), want, "{count} {ours} {others} {most}: {got:?}");
    }
    let mut narrow = fleet(100, 0, 0);
    for node in &mut narrow[1..3] {
        *node = super::tests::node(
            &node.name,
            &["few"],
            "idle+DRAIN",
            "selvage: LinkDown mlx5_4/1",
        );
    }
    let got = allowed(&drain, "n1", &narrow, ten).unwrap_err();
    assert!(
        got.contains("partition few is spent: selvage keeps 2 drained, of 2"),
        "{got}"
    );
}

#[test]
fn a_list_without_the_node_is_none() {
    for text in [
        "",
        "junk",
        "{}",
        "[]",
        r#"{"nodes": 3}"#,
        r#"{"nodes": [{"state": "idle"}]}"#,
        r#"{"sinfo": []}"#,
    ] {
        let error = parse_nodes(text.as_bytes(), "n1").unwrap_err();
        assert!(error.contains("cannot be read"), "{text}: {error}");
    }
    let odd = br#"{"nodes": [{"name": "n1", "state": [], "reason": null}], "errors": []}"#;
    let nodes = parse_nodes(odd, "n1").unwrap();
    let drain = SlurmAction::Drain(String::new());
    assert_eq!(allowed(&drain, "n1", &nodes, BudgetMax::Nodes(1)), Ok(()));
    for (name, text) in [("n2", &odd[..]), ("n1", br#"{"nodes": []}"#)] {
        let error = parse_nodes(text, name).unwrap_err();
        assert!(error.contains("no node of this name"), "{error}");
    }
}
