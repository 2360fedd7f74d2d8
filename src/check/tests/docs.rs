//! The table of checks: names and actions.

use crate::check::reason_docs::ReasonTable;
use crate::check::{Action, CHECKS, Weight, verdict_docs};
use std::collections::BTreeSet;
use std::path::Path;

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
    for doc in CHECKS.iter().flat_map(|check| check.reasons()) {
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
        assert!(!check.reasons().is_empty(), "{}", check.id);
        assert!(check.what().ends_with('.') && !check.title().is_empty());
        for doc in check.reasons() {
            assert!(reasons.insert(&doc.reason), "{} twice", doc.reason);
            // Kubernetes: condition reasons and taint values.
            assert!(doc.reason.len() <= 63);
            assert!(doc.reason.starts_with(|c: char| c.is_ascii_uppercase()));
            assert!(doc.reason.chars().all(|c| c.is_ascii_alphanumeric()));
            assert!(doc.meaning.ends_with('.') && doc.remedy().ends_with('.'));
        }
    }
}

#[test]
fn every_row_is_that_of_a_check() {
    let table: ReasonTable = toml::from_str(include_str!("../checks.toml")).unwrap();
    let ids: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert!(table.check.keys().all(|id| ids.contains(&id.as_str())));
}

/// Other words in CamelCase: what people read, and the reasons of a suspect's state and a pod's.
const OTHER_WORDS: &str = "Ethernet GPUs IPv4 IPv6 InfiniBand ContainerCreating PodInitializing \
    DatagramOnly ExclusiveDevices FirstLook HostNetwork LittleTraffic NoIpLayer NoProcess \
    NoRdmaDevice NotListed QueuePairsUnknown RdmaMoves RdmaRateUnknown RdmaSilent RdmaUnknown \
    TcpOnly Unreadable Watching";

/// The product's code of checks and verdict: text in CamelCase is a reason, and each reason is there.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the files are this crate's own source"
)]
fn reasons_in_code_are_those_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts = vec![std::fs::read_to_string(root.join("readiness.rs")).unwrap()];
    let mut folders = vec![root.join("check")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["preflight", "nccl", "bench", "profile", "tests"].contains(&name)
            {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "testing.rs" {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let code = |text: &'_ str| {
        text.split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap()
            .to_string()
    };
    let code: Vec<String> = texts.iter().map(|text| code(text)).collect();
    let quoted = |line: &'static str| line.split('"').skip(1).step_by(2);
    let lines = code.join("\n").leak().lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    let is_other = |word: &&str| OTHER_WORDS.split_whitespace().any(|other| other == *word);
    let words = lines.flat_map(quoted).filter(is_camel_case);
    let in_code: BTreeSet<&str> = words.filter(|word| !is_other(word)).collect();
    let of_checks = CHECKS.iter().flat_map(|check| check.reasons());
    let docs = of_checks.chain(verdict_docs());
    let in_table: BTreeSet<&str> = docs.map(|doc| doc.reason.as_str()).collect();
    assert_eq!(in_code, in_table);
}

fn is_camel_case(word: &&str) -> bool {
    let capitals = word.chars().filter(char::is_ascii_uppercase).count();
    let letters = word.chars().all(|c| c.is_ascii_alphanumeric());
    letters && word.starts_with(|c: char| c.is_ascii_uppercase()) && capitals < word.len().min(8)
}
