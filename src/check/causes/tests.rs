//! What follows from what, as tables.

use super::*;
use crate::check::{Action, CHECKS};

fn finding(reason: &'static str, key: &str, status: Status, weight: Weight, at: u64) -> Finding {
    Finding {
        check: "c",
        key: key.into(),
        subject: key.into(),
        status,
        weight,
        reason,
        since: Millis::from_secs(at),
        message: String::new(),
        remedy: String::new(),
        action: Action::None,
        evidence: BTreeMap::new(),
        expected: None,
        caused_by: None,
        timing: crate::check::Timing::default(),
        unseen: false,
    }
}

fn failing(reason: &'static str, key: &str) -> Finding {
    finding(reason, key, Status::Failing, Weight::Verdict, 100)
}

const SEEN: CauseInputs = CauseInputs {
    need_manager: 8,
    watched_since: Millis(0),
    this_run_since: Millis(0),
};

/// `REASON KEY` of each, and below `< REASON KEY` what it follows from.
fn said(mut findings: Vec<Finding>, seen: CauseInputs) -> Vec<String> {
    attribute(&mut findings, seen);
    let by_id: BTreeMap<String, String> = (findings.iter())
        .map(|f| (f.id(), format!("{} {}", f.reason, f.key)))
        .collect();
    let line = |finding: &Finding| match &finding.caused_by {
        Some(cause) => format!("{} {} < {}", finding.reason, finding.key, by_id[cause]),
        None => format!("{} {}", finding.reason, finding.key),
    };
    findings.iter().map(line).collect()
}

#[test]
fn a_dead_gpu_is_one_line_and_another_gpu_is_another() {
    let degraded = |reason, key| finding(reason, key, Status::Degraded, Weight::Verdict, 100);
    let found = vec![
        failing("MissingGpu", "gpus"),
        failing("XidFatal", "0000:17:00"),
        failing("XidFatal", "0000:2a:00"),
        degraded("PcieErrors", "0000:17:00.0 aer"),
        failing("GpuFellOff", "0000:17:00.0 config"),
        finding(
            "GpuResourceMismatch",
            "nvidia.com/gpu",
            Status::Degraded,
            Weight::Notice,
            100,
        ),
    ];
    assert_eq!(
        said(found, SEEN),
        [
            "GpuFellOff 0000:17:00.0 config",
            "XidFatal 0000:17:00 < GpuFellOff 0000:17:00.0 config",
            "MissingGpu gpus < GpuFellOff 0000:17:00.0 config",
            "PcieErrors 0000:17:00.0 aer < GpuFellOff 0000:17:00.0 config",
            "GpuResourceMismatch nvidia.com/gpu < GpuFellOff 0000:17:00.0 config",
            "XidFatal 0000:2a:00",
        ]
    );
}

#[test]
fn a_bad_cable_and_a_dead_card_lead_what_they_do() {
    let degraded = |reason, key| finding(reason, key, Status::Degraded, Weight::Verdict, 100);
    let notice = |reason, key| finding(reason, key, Status::Degraded, Weight::Notice, 100);
    let found = vec![
        degraded("SymbolErrors", "0000:19:00.0/1 symbol_error"),
        degraded("LinkUnstable", "0000:19:00.0/1"),
        failing("LinkDown", "0000:19:00.0/1"),
        degraded("SymbolErrors", "0000:19:00.1/1 symbol_error"),
        // What moves the verdict does not follow from a notice.
        notice("NicCableUnplugged", "0000:19:00.0"),
        failing("RailVanished", "0000:3b:00.0"),
        failing("NicFatalError", "0000:3b:00.0"),
        failing("MissingRail", "rails"),
    ];
    assert_eq!(
        said(found, SEEN),
        [
            "LinkDown 0000:19:00.0/1",
            "LinkUnstable 0000:19:00.0/1 < LinkDown 0000:19:00.0/1",
            "SymbolErrors 0000:19:00.0/1 symbol_error < LinkDown 0000:19:00.0/1",
            "NicFatalError 0000:3b:00.0",
            "RailVanished 0000:3b:00.0 < NicFatalError 0000:3b:00.0",
            "MissingRail rails < NicFatalError 0000:3b:00.0",
            "SymbolErrors 0000:19:00.1/1 symbol_error",
            "NicCableUnplugged 0000:19:00.0",
        ]
    );
}

#[test]
fn what_a_port_lacks_follows_from_what_is_wrong_with_it() {
    let port = "0000:19:00.0/1";
    let degraded = |reason, key| finding(reason, key, Status::Degraded, Weight::Verdict, 100);
    let notice = |reason, key| finding(reason, key, Status::Degraded, Weight::Notice, 100);
    for (cause, followers) in [
        ("NoLid", &["NoPartition", "PartitionLimited"][..]),
        (
            "WrongLinkLayer",
            &["NoLid", "GidLost", "MtuReduced", "PfcDiffers"],
        ),
        ("LinkFlapping", &["CorrectedBitsHigh", "NcclRailErrors"]),
    ] {
        let mut found = vec![failing(cause, port)];
        found.extend(followers.iter().map(|reason| notice(reason, port)));
        let want = followers
            .iter()
            .map(|of| format!("{of} {port} < {cause} {port}"));
        let mut want: Vec<String> = want.collect();
        want.sort();
        let mut got = said(found, SEEN).split_off(1);
        got.sort();
        assert_eq!(got, want);
    }
    let slow = degraded("PciePathTooSlow", port);
    let dead = failing("NicFatalError", "0000:19:00.0");
    assert_eq!(
        said(vec![slow, dead], SEEN)[1],
        "PciePathTooSlow 0000:19:00.0/1 < NicFatalError 0000:19:00.0"
    );
}

#[test]
fn rails_that_share_a_cause_are_one_finding() {
    let ports = |count: usize| (0..count).map(|i| format!("0000:{:02x}:00.0/1", 16 + i));
    let first = |found: Vec<Finding>, seen: CauseInputs| {
        let said = said(found, seen);
        let follow = said.iter().filter(|line| line.contains('<')).count();
        (said[0].clone(), follow)
    };
    let init = |count| {
        ports(count)
            .map(|port| failing("LinkInit", &port))
            .collect()
    };
    assert_eq!(first(init(8), SEEN), ("SubnetManagerAway node".into(), 8));
    // Another rail is up: the manager lives.
    assert_eq!(first(init(7), SEEN), ("LinkInit 0000:10:00.0/1".into(), 0));
    let down = |count, apart: u64| -> Vec<Finding> {
        let rails = ports(count).enumerate();
        let rail = |(i, port): (usize, String)| {
            let at = 100 + i as u64 * apart;
            finding("LinkDown", &port, Status::Failing, Weight::Verdict, at)
        };
        rails.map(rail).collect()
    };
    assert_eq!(
        first(down(4, 1), SEEN),
        ("RailsDownTogether node".into(), 4)
    );
    // One after the other, two only, and what stood when the agent came prove nothing.
    assert_eq!(first(down(4, 60), SEEN).1, 0);
    assert_eq!(first(down(2, 0), SEEN).1, 0);
    let late = CauseInputs {
        watched_since: Millis::from_secs(100),
        this_run_since: Millis(0),
        ..SEEN
    };
    assert_eq!(first(down(4, 0), late).1, 0);
    let both = ["0000:19:00.0/1", "0000:19:00.1/1"].map(|port| failing("LinkDown", port));
    assert_eq!(
        first(both.to_vec(), SEEN),
        ("CardLinksDown 0000:19:00".into(), 2)
    );
}

#[test]
fn every_reason_of_the_table_exists() {
    let known = |reason: &&String| {
        let mut all = CHECKS.iter().flat_map(|check| check.reasons());
        !all.any(|doc| doc.reason == **reason)
    };
    let rules = RULES.rule.iter();
    let reasons = rules.flat_map(|rule| rule.causes.iter().chain(&rule.followers));
    let (unknown, known): (Vec<&String>, Vec<_>) = reasons.partition(known);
    assert!(unknown.is_empty() && !known.is_empty(), "{unknown:?}");
}
