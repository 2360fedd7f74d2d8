//! Alerts, runbooks and the program name the same things. What the rules do is tested by promtool
//! and a real Alertmanager: tests/alerts/run.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code"
)]

use selvage::check::CHECKS;
use selvage::report::bench::textfile;
use selvage::report::catalogue::CATALOGUE;
use selvage::report::runbooks::{self, RUNBOOKS};
use std::collections::BTreeSet;
use std::path::Path;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> String {
    file("alerts/selvage.rules.yaml")
}

/// Names of the alerts in the rules.
fn alerts(rules: &str) -> BTreeSet<&str> {
    let names = rules
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- alert: "));
    names.collect()
}

/// Where the rules look for runbooks unless they were made for another place.
const BASE: &str = "http://selvage-runbooks.selvage.svc/runbooks/";

#[test]
fn every_alert_leads_to_a_page() {
    let rules = rules();
    let mut by_reason = 0;
    for line in rules.lines() {
        if let Some(url) = line.trim_start().strip_prefix("runbook_url: ") {
            let name = url.trim_matches('\'').strip_prefix(BASE).unwrap_or(url);
            match name {
                "{{ $labels.reason }}" => by_reason += 1,
                _ => assert!(runbooks::find(name).is_some(), "{url}"),
            }
        }
    }
    assert_eq!(by_reason, 3, "unready, degraded, notice");
    let reasons = CHECKS.iter().flat_map(|check| check.reasons());
    for doc in reasons {
        assert!(runbooks::find(&doc.reason).is_some(), "{}", doc.reason);
    }
}

#[test]
fn the_index_names_every_alert_and_every_page_is_in_the_binary() {
    let (rules, index) = (rules(), file("docs/runbooks/README.md"));
    let alerts = alerts(&rules);
    assert!(alerts.len() > 15, "{alerts:?}");
    let listed: BTreeSet<&str> = index
        .lines()
        .filter_map(|line| line.strip_prefix("| Selvage"))
        .filter_map(|rest| rest.split(' ').next())
        .collect();
    let without_prefix = |name: &&str| name.trim_start_matches("Selvage").to_owned();
    let named: BTreeSet<String> = alerts.iter().map(without_prefix).collect();
    assert_eq!(listed, named.iter().map(String::as_str).collect());
    let pages: BTreeSet<&str> = RUNBOOKS.iter().map(|page| page.name).collect();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".md").unwrap_or(&name);
        assert!(name == "README" || pages.contains(name), "{name}");
    }
}

/// Words in back quotes.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn runbooks_have_their_sections_and_name_their_findings() {
    let index = file("docs/runbooks/README.md");
    for page in RUNBOOKS {
        let text = file(&format!("docs/runbooks/{}.md", page.name));
        let mut rest = text.as_str();
        for section in [
            &format!("# {}\n", page.name),
            "\nSeverity: ",
            "\n## Meaning\n",
            "\n### How certain it is\n",
            "\n## Impact\n",
            "\n## Diagnosis\n",
            "\n## Mitigation\n",
            "\n### Escalation\n",
        ] {
            let (_, after) = rest
                .split_once(section)
                .unwrap_or_else(|| panic!("{}: no {section:?} in its place", page.name));
            rest = after;
        }
        let words = quoted(&text);
        for reason in page.reasons() {
            assert!(
                words.contains(reason),
                "{} does not name {reason}",
                page.name
            );
        }
        assert!(text.len() < 4096, "{} is too long", page.name);
        assert!(
            index.contains(&format!("]({}.md)", page.name)),
            "{}",
            page.name
        );
    }
}

/// A reason that is renamed must not leave an alert that can never fire.
#[test]
fn rules_name_only_reasons_that_exist() {
    let reasons: BTreeSet<&str> = CHECKS
        .iter()
        .flat_map(|check| check.reasons())
        .map(|doc| doc.reason.as_str())
        .collect();
    let checks: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    let rules = rules();
    let mut seen = 0;
    for (label, known) in [("reason", &reasons), ("check", &checks)] {
        for operator in ["=~\"", "=\"", "!~\"", "!=\""] {
            for part in rules.split(&format!("{label}{operator}")).skip(1) {
                let names = part.split('"').next().unwrap_or_default();
                // Reasons of withheld taints are others.
                if names.chars().all(|c| c.is_ascii_lowercase()) && label == "reason" {
                    continue;
                }
                for name in names.split('|') {
                    assert!(known.contains(name), "{label} {name}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 8, "only {seen}");
}

/// Names of metrics and of recording rules in a text.
fn series(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| word.starts_with("selvage_") || word.contains(":selvage_"))
}

/// A metric that is renamed must not leave an empty panel, a dead alert or a page that lies.
#[test]
fn rules_dashboards_and_runbooks_name_only_series_that_exist() {
    let rules = rules();
    let recorded = rules
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- record: "));
    // Benchmarks' are in a file of their own, which node_exporter serves.
    let benchmarks = textfile::FAMILIES.iter().map(|family| family.name);
    let families = CATALOGUE.iter().map(|family| family.name);
    let known: BTreeSet<&str> = recorded.chain(families).chain(benchmarks).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = vec![("alerts/selvage.rules.yaml".to_string(), rules.clone())];
    for (dir, end) in [("docs/runbooks", ".md"), ("dashboards", ".json")] {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(end) {
                let path = format!("{dir}/{name}");
                texts.push((path.clone(), file(&path)));
            }
        }
    }
    assert!(texts.len() > 40, "{}", texts.len());
    for (path, text) in texts {
        for word in series(&text) {
            assert!(known.contains(word.trim_end_matches(':')), "{path}: {word}");
        }
    }
}
