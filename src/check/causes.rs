//! Which findings follow from another one: a dead GPU, card or cable, a plugin that is away. One cause is
//! one line with one remedy; what follows from it is listed below it, and counts for the verdict as before.

use super::{Finding, Reason, ReasonDoc, Status, Weight, debounce::worst_first};
use crate::data_files::embedded;
use crate::units::{Bdf, Millis};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

/// Where a cause and what follows from it must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseScope {
    Port,
    Function,
    Card,
    Node,
    /// Anywhere on the node, if both began at the same moment.
    Moment,
}

/// A row of `causes.toml`, where the fields are explained.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CauseRule {
    scope: CauseScope,
    causes: Vec<String>,
    followers: Vec<String>,
}

#[derive(Default, Deserialize)]
struct CauseTable {
    rule: Vec<CauseRule>,
}

/// All rules, in the order in which they are asked: `causes.toml`.
static RULES: LazyLock<CauseTable> = LazyLock::new(|| embedded(include_str!("causes.toml")));

/// What a finding is about, by its key: the port, the function, the card.
#[derive(Default, PartialEq)]
struct Place<'a> {
    port: Option<&'a str>,
    function: Option<&'a str>,
    card: Option<String>,
}

impl<'a> Place<'a> {
    /// Keys are a port (`0000:19:00.0/1`), a function or a slot (`0000:17:00`), some with a word more.
    fn of(finding: &'a Finding) -> Self {
        let words = || finding.key.split_whitespace();
        let device = |word: &'a str| word.split_once('/').map_or(word, |(device, _)| device);
        let card = |word: &str| {
            let whole = word.parse::<Bdf>().or_else(|_| format!("{word}.0").parse());
            whole.ok().map(|address| address.slot())
        };
        Place {
            port: words().find(|word| word.contains('/')),
            function: words().map(device).find(|word| word.parse::<Bdf>().is_ok()),
            card: words().map(device).find_map(card),
        }
    }

    fn shares(&self, other: &Place<'_>, scope: CauseScope) -> bool {
        match scope {
            CauseScope::Port => self.port.is_some() && self.port == other.port,
            CauseScope::Function => self.function.is_some() && self.function == other.function,
            CauseScope::Card => self.card.is_some() && self.card == other.card,
            CauseScope::Node | CauseScope::Moment => true,
        }
    }
}

/// What must be known of the node to tell that rails share a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CauseInputs {
    /// Number of rails that need a subnet manager.
    pub need_manager: usize,
    /// The first look at the node: of what stood already, the moment is not known.
    pub watched_since: Millis,
    /// The same of this run: what came while no agent ran is as old.
    pub this_run_since: Millis,
}

/// Notes of each finding which other one it follows from, and orders them: worst first, each cause with
/// what follows from it behind it.
pub fn attribute(findings: &mut Vec<Finding>, seen: CauseInputs) {
    findings.extend(group_findings(findings, seen));
    worst_first(findings);
    let causes: Vec<Option<usize>> = {
        let places: Vec<Place<'_>> = findings.iter().map(Place::of).collect();
        let all: Vec<(&Finding, &Place<'_>)> = findings.iter().zip(&places).collect();
        all.iter().map(|one| cause(one, &all)).collect()
    };
    let root = |start: usize| {
        // Longer chains than there are rules do not exist; the bound ends a circle.
        (0..RULES.rule.len()).fold(start, |at, _| {
            causes.get(at).copied().flatten().unwrap_or(at)
        })
    };
    let roots: Vec<usize> = (0..findings.len()).map(root).collect();
    let ids: Vec<String> = findings.iter().map(Finding::id).collect();
    let mut ordered = Vec::new();
    for (at, (mut finding, root)) in findings.drain(..).zip(&roots).enumerate() {
        let follows = *root != at;
        finding.caused_by = ids.get(*root).filter(|_| follows).cloned();
        let first = roots.iter().position(|other| other == root);
        ordered.push(((first, follows, at), finding));
    }
    ordered.sort_by_key(|(rank, _)| *rank);
    findings.extend(ordered.into_iter().map(|(_, finding)| finding));
}

/// The position of the finding that this one follows from. What moves the verdict does not follow from
/// a notice.
fn cause(
    (finding, place): &(&Finding, &Place<'_>),
    all: &[(&Finding, &Place<'_>)],
) -> Option<usize> {
    RULES.rule.iter().find_map(|rule| {
        // On one card or port the causes themselves follow from each other; on different ones they
        // are each its own.
        let at = (rule.causes.iter())
            .position(|reason| finding.reason == *reason)
            .filter(|_| !matches!(rule.scope, CauseScope::Node | CauseScope::Moment));
        let follows = rule.followers.iter().any(|of| of == finding.reason);
        let earlier = match at {
            Some(at) => rule.causes.get(..at)?,
            None if follows => &rule.causes,
            None => return None,
        };
        earlier.iter().find_map(|reason| {
            all.iter().position(|(other, elsewhere)| {
                other.reason == *reason
                    && other.weight >= finding.weight
                    && elsewhere.shares(place, rule.scope)
                    && (rule.scope != CauseScope::Moment
                        || finding.since.apart(other.since) <= SAME_EVENT_WINDOW)
            })
        })
    })
}

/// Links that go down within this time of each other count as one event. Polls are seconds apart.
const SAME_EVENT_WINDOW: Duration = Duration::from_secs(10);

/// This many rails on different cards imply a shared cause; two may be coincidence.
const TOGETHER: usize = 3;

/// Findings about what several rails lost at once.
fn group_findings(findings: &[Finding], seen: CauseInputs) -> Vec<Finding> {
    let of = |reason: &str| -> Vec<&Finding> {
        let is = |of: &&Finding| of.weight == Weight::Verdict && of.reason == reason;
        findings.iter().filter(is).collect()
    };
    let mut found = Vec::new();
    let waiting = of("LinkInit");
    if waiting.len() >= 2 && waiting.len() == seen.need_manager {
        found.extend(shared("SubnetManagerAway", &waiting, "node".into()));
    }
    let mut down = of("LinkDown");
    down.retain(|of| of.since > seen.watched_since && of.since != seen.this_run_since);
    let down = largest_burst(&down);
    let mut cards: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    for finding in &down {
        if let Some(card) = Place::of(finding).card {
            cards.entry(card).or_default().push(finding);
        }
    }
    for (card, ports) in cards.iter().filter(|(_, ports)| ports.len() >= 2) {
        found.extend(shared("CardLinksDown", ports, card.clone()));
    }
    if cards.len() >= TOGETHER {
        found.extend(shared("RailsDownTogether", &down, "node".into()));
    }
    found
}

/// The most links that went down within [`SAME_EVENT_WINDOW`] of each other.
fn largest_burst<'a>(down: &[&'a Finding]) -> Vec<&'a Finding> {
    let with = |start: &&Finding| -> Vec<&'a Finding> {
        let window = start.since..=start.since.plus(SAME_EVENT_WINDOW);
        let with = down.iter().filter(|other| window.contains(&other.since));
        with.copied().collect()
    };
    let most = down.iter().map(with).max_by_key(Vec::len);
    most.unwrap_or_default()
}

fn shared(reason: Reason, of: &[&Finding], key: String) -> Option<Finding> {
    let doc = ReasonDoc::of(reason);
    let any = |status: &Status| of.iter().any(|finding| finding.status == *status);
    let status = Status::WORST_FIRST.into_iter().find(any)?;
    let subjects: Vec<&str> = of.iter().map(|finding| finding.subject.as_str()).collect();
    let listed = subjects.get(..subjects.len().min(16))?.join(", ");
    let since = of.iter().map(|finding| finding.since).min()?;
    Some(Finding {
        subject: key.clone(),
        key,
        status,
        reason,
        since,
        message: format!("{} rails at once ({listed}): {}", of.len(), doc.meaning),
        remedy: doc.remedy().into(),
        action: doc.action,
        evidence: BTreeMap::from([("rails".into(), of.len().into())]),
        expected: None,
        ..(*of.first()?).clone()
    })
}

#[cfg(test)]
mod tests;
