//! Findings as the state file keeps them over a restart of the agent: what can no longer be read then has not
//! healed.

use super::{CHECKS, Finding, Policy, Status};
use crate::units::Millis;
use serde::{Deserialize, Serialize};

/// A finding that stood when the agent ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptFinding {
    check: String,
    reason: String,
    since: Millis,
    finding: Finding,
}

impl From<Finding> for KeptFinding {
    fn from(finding: Finding) -> Self {
        KeptFinding {
            check: finding.check.into(),
            reason: finding.reason.into(),
            since: finding.since,
            finding,
        }
    }
}

impl KeptFinding {
    /// What tells it from others.
    pub fn identity(&self) -> (&str, &str, &str, Status) {
        let finding = &self.finding;
        (&self.check, &finding.key, &self.reason, finding.status)
    }

    /// The finding; none of a check or reason that this version does not have.
    pub fn restore(self, policy: &Policy) -> Option<Finding> {
        let check = CHECKS.iter().find(|check| check.id == self.check)?;
        let mut reasons = check.reasons().iter();
        let doc = reasons.find(|doc| doc.reason == self.reason)?;
        let restored = Finding {
            check: check.id,
            reason: &doc.reason,
            since: self.since,
            timing: (check.timing)(policy),
            caused_by: None,
            ..self.finding
        };
        Some(restored.with("from_before_restart", true))
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
        let found = found.with("from_before_restart", true);
        assert_eq!(restored, Finding { timing, ..found });
        for (other, is_known) in [("MissingRail", true), ("LinkDown", false), ("Gone", false)] {
            let mut kept = kept.clone();
            kept.reason = other.into();
            assert_eq!(kept.restore(&policy).is_some(), is_known, "{other}");
        }
    }
}
