//! One verdict: folds findings by weight and status. Looks at findings and at the proof that
//! something was seen working, never at facts.

pub mod history;
pub mod preflight;
pub mod taint_hysteresis;

pub use crate::check::roles::Proof;
use crate::check::{Finding, Reason, ReasonDoc, Status, Weight, verdict_docs};
use crate::settings_macro::words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// The one verdict on a node.
    State {
        /// Every rail works as it should.
        Ready = "ready",
        /// It works with less.
        Degraded = "degraded",
        /// A rail or GPU is lost for sure.
        Unready = "unready",
        /// The sources cannot tell.
        Unknown = "unknown",
        /// The node is certainly not meant to have a fabric.
        NoFabric = "none",
    }
}

/// Input of the fold other than findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoldInputs {
    /// What shows that the fabric works, as opposed to the absence of findings.
    pub proof: Proof,
    /// Rails that configuration expects; none: it says nothing.
    pub expected_rails: Option<u32>,
    /// Whether the first full window has been seen; true for a one-shot check.
    pub full_window: bool,
    /// Nothing that could be a fabric is there, was there or is promised: see
    /// [`no_fabric`](crate::check::no_fabric).
    pub no_fabric: bool,
    /// Of a node that was not ready with these rails before: the worst that waits to be raised, and
    /// degraded while a rail that came up has not stayed up for a while.
    pub settling: Option<Status>,
}

/// The verdict of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict that holds after this fold.
    pub state: State,
    /// Reasons of the findings that decided, causes before what follows from them, each sorted and
    /// without repeats; empty when ready.
    pub reasons: Vec<String>,
}

impl Verdict {
    fn of(state: State, why: &str) -> Self {
        Verdict {
            state,
            reasons: vec![why.to_string()],
        }
    }
}

/// Reason of Unknown before the first full window.
pub const STARTING: Reason = "Starting";

/// Reason of Unknown while the rails have not proven themselves yet.
pub const SETTLING: Reason = "Settling";

/// What is to be said of the verdict itself: the entries for its reasons.
pub fn explained(reasons: &[String]) -> impl Iterator<Item = &'static ReasonDoc> + '_ {
    let is_given = |doc: &&ReasonDoc| reasons.contains(&doc.reason);
    verdict_docs().iter().filter(is_given)
}

/// Folds findings into one verdict. Failing beats Unknown beats Degraded; Degraded and Ready need proof. Where
/// there is certainly no fabric, what cannot be told says nothing against that.
pub fn fold(findings: &[Finding], inputs: FoldInputs) -> Verdict {
    if !inputs.full_window {
        return Verdict::of(State::Unknown, STARTING);
    }
    let order = [
        (Status::Failing, State::Unready),
        (Status::Unknown, State::Unknown),
        (Status::Degraded, State::Degraded),
    ];
    let proof = inputs.proof;
    let needs_no_rail = proof.enumerated && inputs.expected_rails == Some(0);
    let is_proven = needs_no_rail || proof.proven > 0;
    for (status, state) in order {
        if state == State::Degraded && inputs.settling == Some(Status::Failing) {
            return Verdict::of(State::Unknown, SETTLING);
        }
        // A lesser fault proves nothing of the fabric.
        if state == State::Degraded && !is_proven && !inputs.no_fabric {
            break;
        }
        if inputs.no_fabric && state == State::Unknown {
            continue;
        }
        let decides = |of: &&Finding| of.weight == Weight::Verdict && of.status == status;
        // Causes lead; a reason that is one somewhere leads everywhere.
        let mut follows: BTreeMap<&str, bool> = BTreeMap::new();
        for finding in findings.iter().filter(decides) {
            *follows.entry(finding.reason).or_insert(true) &= finding.caused_by.is_some();
        }
        if !follows.is_empty() {
            let (after, first): (Vec<_>, Vec<_>) =
                follows.into_iter().partition(|(_, follows)| *follows);
            let all = first.into_iter().chain(after);
            let reasons = all.map(|(reason, _)| reason.to_string()).collect();
            return Verdict { state, reasons };
        }
    }
    if inputs.settling.is_some() {
        Verdict::of(State::Unknown, SETTLING)
    } else if is_proven {
        Verdict {
            state: State::Ready,
            reasons: Vec::new(),
        }
    } else if inputs.no_fabric {
        Verdict::of(State::NoFabric, "NotAFabricNode")
    } else if proof.read > 0 {
        Verdict::of(State::Unknown, "NoActiveRail")
    } else if proof.enumerated && proof.rails == 0 {
        Verdict::of(State::Unknown, "NoFabric")
    } else {
        Verdict::of(State::Unknown, "NoData")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Millis;

    fn finding(reason: &'static str, status: Status, weight: Weight) -> Finding {
        Finding {
            check: "c",
            key: "k".into(),
            subject: "s".into(),
            status,
            weight,
            reason,
            since: Millis(0),
            message: String::new(),
            remedy: String::new(),
            action: crate::check::Action::None,
            evidence: BTreeMap::new(),
            expected: None,
            caused_by: None,
            timing: crate::check::Timing::default(),
            unseen: false,
        }
    }

    const PROVEN: FoldInputs = FoldInputs {
        proof: Proof {
            enumerated: true,
            rails: 8,
            read: 8,
            proven: 8,
        },
        expected_rails: None,
        full_window: true,
        no_fabric: false,
        settling: None,
    };

    #[test]
    fn findings_decide() {
        use Status::{Degraded, Failing, Unknown};
        use Weight::{Notice, Verdict as V};
        type Row = (
            &'static [(&'static str, Status, Weight)],
            State,
            &'static [&'static str],
        );
        let rows: [Row; 7] = [
            (&[], State::Ready, &[]),
            (
                &[("StorageDown", Failing, Notice), ("X", Unknown, Notice)],
                State::Ready,
                &[],
            ),
            (
                &[
                    ("LinkDown", Failing, V),
                    ("GpuLost", Failing, V),
                    ("LinkDown", Failing, V),
                    ("Blind", Unknown, V),
                    ("Slow", Degraded, V),
                ],
                State::Unready,
                &["GpuLost", "LinkDown"],
            ),
            (
                &[("Slow", Degraded, V), ("Blind", Unknown, V)],
                State::Unknown,
                &["Blind"],
            ),
            (&[("Slow", Degraded, V)], State::Degraded, &["Slow"]),
            (
                &[("Slow", Degraded, V), ("StorageDown", Failing, Notice)],
                State::Degraded,
                &["Slow"],
            ),
            (
                &[("LinkDown", Failing, V), ("Blind", Unknown, V)],
                State::Unready,
                &["LinkDown"],
            ),
        ];
        for (findings, state, reasons) in rows {
            let list: Vec<_> = findings
                .iter()
                .map(|(reason, status, weight)| finding(reason, *status, *weight))
                .collect();
            let got = fold(&list, PROVEN);
            assert_eq!(got.state, state, "{findings:?}");
            assert_eq!(got.reasons, reasons, "{findings:?}");
        }
    }

    #[test]
    fn a_lesser_fault_proves_nothing() {
        let slow = [finding("Slow", Status::Degraded, Weight::Verdict)];
        let unproven = FoldInputs {
            proof: Proof {
                proven: 0,
                ..PROVEN.proof
            },
            ..PROVEN
        };
        let told = |inputs| fold(&slow, inputs);
        assert_eq!(told(unproven), Verdict::of(State::Unknown, "NoActiveRail"));
        for without in [
            FoldInputs {
                expected_rails: Some(0),
                ..unproven
            },
            FoldInputs {
                no_fabric: true,
                ..unproven
            },
        ] {
            assert_eq!(told(without), Verdict::of(State::Degraded, "Slow"));
        }
    }

    #[test]
    fn what_settles_puts_off_lesser_faults_alone() {
        let settling = FoldInputs {
            settling: Some(Status::Failing),
            ..PROVEN
        };
        let told = |status| fold(&[finding("X", status, Weight::Verdict)], settling);
        assert_eq!(told(Status::Failing), Verdict::of(State::Unready, "X"));
        assert_eq!(told(Status::Unknown), Verdict::of(State::Unknown, "X"));
        let put_off = Verdict::of(State::Unknown, SETTLING);
        assert_eq!(told(Status::Degraded), put_off);
    }

    #[test]
    fn no_findings_are_not_enough() {
        let proof = |enumerated, rails, read, proven| Proof {
            enumerated,
            rails,
            read,
            proven,
        };
        for (proof, expected, full_window, state, reasons) in [
            (proof(true, 8, 8, 1), None, true, State::Ready, vec![]),
            (
                proof(true, 8, 8, 8),
                None,
                false,
                State::Unknown,
                vec![STARTING],
            ),
            (
                proof(true, 8, 8, 0),
                None,
                true,
                State::Unknown,
                vec!["NoActiveRail"],
            ),
            (
                proof(true, 8, 0, 0),
                None,
                true,
                State::Unknown,
                vec!["NoData"],
            ),
            (
                proof(true, 0, 0, 0),
                None,
                true,
                State::Unknown,
                vec!["NoFabric"],
            ),
            (
                proof(false, 0, 0, 0),
                None,
                true,
                State::Unknown,
                vec!["NoData"],
            ),
            (proof(true, 0, 0, 0), Some(0), true, State::Ready, vec![]),
            (
                proof(false, 0, 0, 0),
                Some(0),
                true,
                State::Unknown,
                vec!["NoData"],
            ),
            (
                proof(true, 0, 0, 0),
                Some(8),
                true,
                State::Unknown,
                vec!["NoFabric"],
            ),
        ] {
            let inputs = FoldInputs {
                proof,
                expected_rails: expected,
                full_window,
                no_fabric: false,
                settling: None,
            };
            let got = fold(&[], inputs);
            assert_eq!(
                (got.state, got.reasons),
                (
                    state,
                    reasons.iter().map(ToString::to_string).collect::<Vec<_>>()
                ),
                "{inputs:?}"
            );
        }
    }

    #[test]
    fn a_node_that_is_not_meant_to_have_a_fabric_has_none() {
        let inputs = FoldInputs {
            proof: Proof {
                enumerated: true,
                ..Proof::default()
            },
            no_fabric: true,
            ..PROVEN
        };
        let said = |status| {
            let found = [finding("X", status, Weight::Verdict)];
            fold(&found, inputs).state
        };
        assert_eq!(fold(&[], inputs).state, State::NoFabric);
        assert_eq!(said(Status::Unknown), State::NoFabric);
        assert_eq!(said(Status::Degraded), State::Degraded);
        assert_eq!(said(Status::Failing), State::Unready, "a dead GPU is one");
    }

    #[test]
    fn before_the_first_window_even_a_failure_is_not_believed() {
        let failing = [finding("LinkDown", Status::Failing, Weight::Verdict)];
        let inputs = FoldInputs {
            full_window: false,
            ..PROVEN
        };
        assert_eq!(
            fold(&failing, inputs),
            Verdict::of(State::Unknown, STARTING)
        );
    }
}
