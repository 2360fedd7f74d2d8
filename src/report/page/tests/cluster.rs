//! What the page tells of the cluster: the taint, and what is still to be written.

use super::{page, page_with, text, words};
use crate::observe::LinkLayer;
use crate::report::cluster::ClusterStatus;
use crate::report::testing::{broken, node};
use crate::report::{Report, State, Tainting};

fn assert_has(report: &Report, cluster: &ClusterStatus, part: &str) {
    let text = words(&page_with(report, cluster));
    assert!(text.contains(part), "{part:?} not in {text}");
}

#[test]
fn why_a_taint_is_withheld_is_told() {
    let report = broken();
    for (applied, withheld, want) in [
        (Some(true), None, "Taint applied"),
        (Some(false), Some("budget"), "Taint withheld by the budget"),
        (Some(false), None, "Taint none"),
        (None, None, "Taint unknown"),
    ] {
        let status = ClusterStatus {
            mode: "all",
            taint_applied: applied,
            withheld,
            ..ClusterStatus::default()
        };
        assert_has(&report, &status, want);
    }
    assert!(!text(&report).contains("Taint"));
}

#[test]
fn when_a_taint_of_a_better_node_goes_is_told() {
    let mut report = node(8, LinkLayer::Infiniband);
    let status = ClusterStatus {
        mode: "all",
        api_up: Some(true),
        taint_applied: Some(true),
        ..ClusterStatus::default()
    };
    for (state, tainting, want) in [
        (
            State::Ready,
            Tainting::Want,
            "Taint applied goes after cluster.clear without being unready",
        ),
        (
            State::Degraded,
            Tainting::Want,
            "Taint applied goes after cluster.clear without being unready",
        ),
        (
            State::Ready,
            Tainting::Clear,
            "Taint applied is being taken off",
        ),
        (
            State::Ready,
            Tainting::Keep,
            "Taint applied stays until the first window",
        ),
        (
            State::Unknown,
            Tainting::Want,
            "Taint applied stays while the verdict is unknown",
        ),
        (State::Unready, Tainting::Want, "Taint applied Fabric"),
    ] {
        (report.state, report.tainting) = (state, tainting);
        assert_has(&report, &status, want);
    }
}

#[test]
fn what_is_being_written_is_no_alarm() {
    let report = node(8, LinkLayer::Infiniband);
    let pending = ClusterStatus {
        mode: "all",
        api_up: Some(true),
        pending: vec!["labels", "condition"],
        ..ClusterStatus::default()
    };
    for (status, want) in [
        (pending.clone(), "labels, condition: being written"),
        (
            ClusterStatus {
                withheld: Some("budget"),
                ..pending.clone()
            },
            "labels, condition: being written",
        ),
        (
            ClusterStatus {
                withheld: Some("budget"),
                pending: vec!["taint"],
                ..pending.clone()
            },
            "Still to write taint: withheld",
        ),
        (
            ClusterStatus {
                api_up: Some(false),
                error: Some("timeout".into()),
                ..pending.clone()
            },
            "labels, condition: once the API server answers",
        ),
        (
            ClusterStatus {
                error: Some("403".into()),
                ..pending.clone()
            },
            "labels, condition: tried again",
        ),
        (
            ClusterStatus {
                dry_run: true,
                ..pending.clone()
            },
            "labels, condition: not in a dry run",
        ),
        (
            ClusterStatus {
                pending: vec![],
                ..pending.clone()
            },
            "Still to write nothing",
        ),
    ] {
        assert_has(&report, &status, want);
    }
    let linked = page_with(&report, &pending).links;
    assert!(linked.iter().any(|link| link == "#cluster"));
    assert!(!page(&report).links.iter().any(|link| link == "#cluster"));
}
