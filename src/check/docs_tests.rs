//! The table of checks: names and actions.

use super::texts::Texts;
use super::{Action, CHECKS, Weight};
use std::collections::BTreeSet;

/// What a remedy speaks of when its first step is this action.
fn words(action: Action) -> &'static [&'static str] {
    match action {
        Action::None => &[],
        Action::ReseatCable => &["eseat", "cable", "Put it back"],
        Action::ReplaceCable => &["eplace"],
        Action::CheckSwitchPort => &["switch", "path", "fabric", "end"],
        Action::ResetDevice => &["eset", "firmware", "Do what the message says"],
        Action::ReloadDriver => &["oad", "driver"],
        Action::Reboot => &["eboot"],
        Action::PowerCycle => &["ower-cycle", "hardware"],
        Action::ReplaceNic | Action::ReplaceGpu => &["eplace"],
        Action::FixConfiguration => &[],
        Action::CallProvider => &[
            "examined",
            "instance",
            "replace",
            "launch",
            "eseat the card",
        ],
    }
}

#[test]
fn actions_fit_the_remedies_and_only_what_moves_no_verdict_lacks_one() {
    for doc in CHECKS.iter().flat_map(|check| check.reasons) {
        let words = words(doc.action);
        let fits = words.is_empty() || words.iter().any(|word| doc.remedy().contains(word));
        assert!(
            fits,
            "{}: {:?} for {}",
            doc.reason,
            doc.action,
            doc.remedy()
        );
        assert!(
            doc.action != Action::None || doc.weight == Weight::Notice,
            "{} moves the verdict and asks for nothing",
            doc.reason
        );
    }
}

#[test]
fn names_are_unique_and_well_formed() {
    let mut ids = BTreeSet::new();
    let mut reasons = BTreeSet::new();
    for check in CHECKS {
        assert!(ids.insert(check.id), "{} twice", check.id);
        assert!(!check.reasons.is_empty(), "{}", check.id);
        assert!(check.what().ends_with('.') && !check.title().is_empty());
        for doc in check.reasons {
            assert!(reasons.insert(doc.reason), "{} twice", doc.reason);
            // Kubernetes: condition reasons and taint values.
            assert!(doc.reason.len() <= 63);
            assert!(doc.reason.starts_with(|c: char| c.is_ascii_uppercase()));
            assert!(doc.reason.chars().all(|c| c.is_ascii_alphanumeric()));
            assert!(doc.meaning().ends_with('.') && doc.remedy().ends_with('.'));
        }
    }
}

#[test]
fn every_text_is_that_of_a_check_or_a_reason() {
    let texts: Texts = toml::from_str(include_str!("texts.toml")).unwrap();
    let ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert!(texts.check.keys().all(|id| ids.contains(&id.as_str())));
    let of_checks = CHECKS.iter().flat_map(|check| check.reasons).count();
    // Those that are not a check's are the verdict's, `VERDICT_DOCS` in readiness.
    assert_eq!(texts.reason.len(), of_checks + 6);
}
