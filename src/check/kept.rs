//! Findings as the state file keeps them over a restart of the agent: what can no longer be read then has not
//! healed.

use super::{Action, CHECKS, Expected, Finding, Policy, Status, Weight};
use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A finding that stood when the agent ended. Its fields are those of [`Finding`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptFinding {
    check: String,
    key: String,
    subject: String,
    status: Status,
    weight: Weight,
    reason: String,
    since: Millis,
    message: String,
    remedy: String,
    action: Action,
    evidence: BTreeMap<String, serde_json::Value>,
    expected: Option<Expected>,
}

impl From<Finding> for KeptFinding {
    fn from(of: Finding) -> Self {
        KeptFinding {
            check: of.check.into(),
            key: of.key,
            subject: of.subject,
            status: of.status,
            weight: of.weight,
            reason: of.reason.into(),
            since: of.since,
            message: of.message,
            remedy: of.remedy,
            action: of.action,
            evidence: of.evidence,
            expected: of.expected,
        }
    }
}

impl KeptFinding {
    /// What tells it from others.
    pub fn identity(&self) -> (&str, &str, &str, Status) {
        (&self.check, &self.key, &self.reason, self.status)
    }

    /// The finding; none of a check or reason that this version does not have.
    pub fn restore(self, policy: &Policy) -> Option<Finding> {
        let check = CHECKS.iter().find(|check| check.id == self.check)?;
        let mut reasons = check.reasons().iter();
        let reason = reasons.find(|doc| doc.reason == self.reason)?;
        Some(Finding {
            check: check.id,
            key: self.key,
            subject: self.subject,
            status: self.status,
            weight: self.weight,
            reason: &reason.reason,
            since: self.since,
            message: self.message,
            remedy: self.remedy,
            action: self.action,
            evidence: self.evidence,
            expected: self.expected,
            timing: (check.timing)(policy),
            ..Finding::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_found() {
        let policy = Policy::default();
        let mut node = crate::check::testing::Node::infiniband();
        node.policy.expect.rails = Some(9);
        let found = crate::check::run_all(&node.context());
        let mut found = found.into_iter().filter(|of| of.reason == "MissingRail");
        let found = Finding {
            since: Millis(7),
            ..found.next().unwrap()
        };
        assert!(found.expected.is_some() && !found.evidence.is_empty());
        let text = serde_json::to_string(&KeptFinding::from(found.clone())).unwrap();
        let kept: KeptFinding = serde_json::from_str(&text).unwrap();
        let restored = kept.clone().restore(&policy).unwrap();
        let timing = restored.timing;
        assert_eq!(restored, Finding { timing, ..found });
        for (other, is_known) in [("MissingRail", true), ("LinkDown", false), ("Gone", false)] {
            let mut kept = kept.clone();
            kept.reason = other.into();
            assert_eq!(kept.restore(&policy).is_some(), is_known, "{other}");
        }
    }
}
