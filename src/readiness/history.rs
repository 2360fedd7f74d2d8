//! What changed, newest last: a bounded list for people who come late. Pure: time comes with the
//! findings.

use super::State;
use crate::check::{Finding, Reason, Status, Weight};
use crate::units::Millis;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Entries kept: some hours of a nervous node, days of a quiet one.
const MOST: usize = 64;

/// A change of the verdict or of one finding, with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Monotonic time of the snapshot that showed the change.
    pub at: Millis,
    /// The verdict's or a finding's change.
    pub change: VerdictChange,
}

/// Kinds of change, as `/report` lists them under `events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum VerdictChange {
    /// The node's verdict went from one state to another.
    State {
        /// State before the change.
        from: State,
        /// State after the change.
        to: State,
        /// Why, as the report had it then.
        reasons: Vec<String>,
    },
    /// A finding is believed, or got better or worse.
    Raised {
        /// Check, subject and reason of the finding.
        #[serde(flatten)]
        what: FindingKey,
        /// The finding's message when it was raised.
        message: String,
    },
    /// A finding is over.
    Cleared {
        /// Check, subject and reason of the finding that cleared.
        #[serde(flatten)]
        what: FindingKey,
        /// How long it stood.
        #[serde(rename = "stood_seconds", serialize_with = "seconds")]
        stood: Duration,
    },
}

/// A finding in few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingKey {
    /// The check's id.
    pub check: &'static str,
    /// Display name of the subject, such as `mlx5_3/1`.
    pub subject: String,
    /// CamelCase reason from the check's list.
    pub reason: Reason,
    /// Severity of the finding when it changed.
    pub status: Status,
    /// Whether it moves the verdict.
    pub weight: Weight,
}

fn seconds<S: serde::Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_secs_f64())
}

/// Writes down what differs from one evaluation to the next.
#[derive(Debug, Default)]
pub struct VerdictHistory {
    entries: Arc<[HistoryEntry]>,
    state: Option<State>,
    /// By [`Finding::id`].
    standing: BTreeMap<String, (FindingKey, Millis)>,
}

impl VerdictHistory {
    /// Takes in what holds now; what is new by that. The first verdict is not a change: there was none
    /// before.
    pub fn note(
        &mut self,
        now: Millis,
        state: State,
        reasons: &[String],
        findings: &[Finding],
    ) -> &[HistoryEntry] {
        let mut new = Vec::new();
        let mut standing = BTreeMap::new();
        for finding in findings {
            let id = finding.id();
            let what = FindingKey {
                check: finding.check,
                subject: finding.subject.clone(),
                reason: finding.reason,
                status: finding.status,
                weight: finding.weight,
            };
            let known = self.standing.remove(&id);
            if known.is_none_or(|(known, _)| known.status != what.status) {
                new.push(VerdictChange::Raised {
                    what: what.clone(),
                    message: finding.message.clone(),
                });
            }
            standing.insert(id, (what, finding.since));
        }
        for (what, since) in std::mem::replace(&mut self.standing, standing).into_values() {
            new.push(VerdictChange::Cleared {
                what,
                stood: now.since(since),
            });
        }
        if let Some(from) = self.state.replace(state)
            && from != state
        {
            new.push(VerdictChange::State {
                from,
                to: state,
                reasons: reasons.to_vec(),
            });
        }
        if new.is_empty() {
            return &[];
        }
        let count = new.len();
        let new = (new.into_iter()).map(|change| HistoryEntry { at: now, change });
        let mut entries: Vec<HistoryEntry> = self.entries.iter().cloned().chain(new).collect();
        entries.drain(..entries.len().saturating_sub(MOST));
        self.entries = entries.into();
        let known = self.entries.len().saturating_sub(count);
        self.entries.get(known..).unwrap_or_default()
    }

    /// The entries, newest last.
    pub fn entries(&self) -> Arc<[HistoryEntry]> {
        Arc::clone(&self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(subject: &str, status: Status) -> Finding {
        Finding {
            check: "link_state",
            key: subject.into(),
            subject: subject.into(),
            status,
            weight: Weight::Verdict,
            reason: "LinkDown",
            since: Millis(1000),
            message: format!("{subject} has no link"),
            remedy: String::new(),
            action: crate::check::Action::None,
            evidence: BTreeMap::new(),
            expected: None,
            caused_by: None,
            timing: crate::check::Timing::default(),
            unseen: false,
        }
    }

    fn told(history: &VerdictHistory) -> Vec<String> {
        let entries = history.entries();
        let told = entries.iter().map(|entry| {
            let change = match &entry.change {
                VerdictChange::State { from, to, reasons } => {
                    format!("{} -> {} {reasons:?}", from.as_str(), to.as_str())
                }
                VerdictChange::Raised { what, .. } => {
                    format!("+ {} {:?}", what.subject, what.status)
                }
                VerdictChange::Cleared { what, stood } => {
                    format!("- {} after {}", what.subject, stood.as_secs())
                }
            };
            format!("{} {change}", entry.at.0)
        });
        told.collect()
    }

    #[test]
    fn changes_are_written_down_once() {
        let mut history = VerdictHistory::default();
        history.note(Millis(1000), State::Unknown, &["Starting".into()], &[]);
        assert_eq!(told(&history), [""; 0], "nothing was before");
        history.note(Millis(2000), State::Ready, &[], &[]);
        let down = [finding("mlx5_3/1", Status::Failing)];
        let reasons = ["LinkDown".to_string()];
        history.note(Millis(3000), State::Unready, &reasons, &down);
        history.note(Millis(4000), State::Unready, &reasons, &down);
        let better = [finding("mlx5_3/1", Status::Degraded)];
        history.note(Millis(5000), State::Degraded, &reasons, &better);
        history.note(Millis(7000), State::Ready, &[], &[]);
        assert_eq!(
            told(&history),
            [
                "2000 unknown -> ready []",
                "3000 + mlx5_3/1 Failing",
                r#"3000 ready -> unready ["LinkDown"]"#,
                "5000 + mlx5_3/1 Degraded",
                r#"5000 unready -> degraded ["LinkDown"]"#,
                "7000 - mlx5_3/1 after 6",
                "7000 degraded -> ready []",
            ]
        );
    }

    #[test]
    fn a_nervous_node_does_not_fill_the_memory() {
        let mut history = VerdictHistory::default();
        for n in 0..1000u64 {
            let findings = match n % 2 {
                0 => vec![finding("mlx5_3/1", Status::Failing)],
                _ => Vec::new(),
            };
            history.note(Millis(n), State::Ready, &[], &findings);
        }
        let entries = history.entries();
        assert_eq!(entries.len(), MOST);
        assert_eq!(entries.last().map(|entry| entry.at), Some(Millis(999)));
    }

    #[test]
    fn entries_are_shared_while_nothing_changes() {
        let mut history = VerdictHistory::default();
        let down = [finding("mlx5_3/1", Status::Failing)];
        history.note(Millis(1), State::Unready, &[], &down);
        let before = history.entries();
        history.note(Millis(2), State::Unready, &[], &down);
        assert!(Arc::ptr_eq(&before, &history.entries()));
    }
}
