//! What the terminal shows of one node.

use crate::check::{Finding, Status, Weight};
use crate::report::{Report, State};
use crate::units::Millis;
use std::collections::BTreeMap;

/// Says what changed from one report to the next.
#[derive(Default)]
pub(super) struct View {
    state: Option<State>,
    reasons: Vec<String>,
    standing: BTreeMap<(String, String, String), (String, Status, Millis)>,
}

impl View {
    /// The change of verdict alone, in a line.
    pub(super) fn verdict(&mut self, report: &Report) -> Option<String> {
        if self.state == Some(report.state) && self.reasons == report.reasons {
            return None;
        }
        self.state = Some(report.state);
        self.reasons.clone_from(&report.reasons);
        Some(format!("{}{}", report.state.as_str(), why(report)))
    }

    /// All that changed, in full.
    pub(super) fn changes(&mut self, report: &Report) -> Vec<String> {
        let mut lines = Vec::new();
        let id = |finding: &Finding| {
            (
                finding.check.clone(),
                finding.key.clone(),
                finding.reason.clone(),
            )
        };
        let mut standing = BTreeMap::new();
        for finding in &report.findings {
            let known = self.standing.get(&id(finding));
            if known.is_none_or(|(_, status, _)| *status != finding.status) {
                lines.push(format!(
                    "       + {} {}: {}",
                    word(finding),
                    finding.reason,
                    finding.message
                ));
                lines.push(format!("         to do: {}", finding.remedy));
            }
            standing.insert(
                id(finding),
                (finding.subject.clone(), finding.status, finding.since),
            );
        }
        for (id, (subject, _, since)) in &self.standing {
            if !standing.contains_key(id) {
                let stood = report.snapshot.at.since(*since).as_secs_f64();
                lines.push(format!(
                    "       - {subject}: {} is over after {stood:.1} s",
                    id.2
                ));
            }
        }
        self.standing = standing;
        if self.state != Some(report.state) {
            lines.push(format!(
                "       node is {}{}",
                report.state.as_str(),
                why(report)
            ));
            self.state = Some(report.state);
        }
        lines
    }
}

fn why(report: &Report) -> String {
    match report.reasons.as_slice() {
        [] => String::new(),
        reasons => format!(": {}", reasons.join(", ")),
    }
}

fn word(finding: &Finding) -> &'static str {
    match (finding.weight, finding.status) {
        (Weight::Notice, _) => "notice  ",
        (_, Status::Unknown) => "unknown ",
        (_, Status::Degraded) => "degraded",
        (_, Status::Failing) => "failing ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::rdma::LinkLayer;
    use crate::report::testing;

    fn changes(view: &mut View, report: &Report) -> String {
        view.changes(report).join("\n")
    }

    #[test]
    fn only_changes_are_told() {
        let mut view = View::default();
        let well = testing::node(8, LinkLayer::Ethernet);
        assert!(changes(&mut view, &well).contains("node is "));
        assert_eq!(changes(&mut view, &well), "", "the same again");
        let mut ill = well.clone();
        ill.state = State::Unready;
        ill.reasons = vec!["LinkDown".into()];
        ill.findings = vec![testing::finding(
            "link_state",
            "mlx5_3/1",
            "LinkDown",
            Status::Failing,
        )];
        let told = changes(&mut view, &ill);
        assert!(told.contains("node is unready: LinkDown"), "{told}");
        assert!(told.contains("failing  LinkDown: "), "{told}");
        assert!(told.contains("to do: "), "{told}");
        assert_eq!(changes(&mut view, &ill), "");
        let told = changes(&mut view, &well);
        assert!(told.contains("mlx5_3/1: LinkDown is over after"), "{told}");
    }

    #[test]
    fn a_fleet_is_told_of_in_lines() {
        let mut view = View::default();
        let well = testing::node(8, LinkLayer::Ethernet);
        assert!(view.verdict(&well).is_some());
        assert_eq!(view.verdict(&well), None);
        let mut ill = well;
        ill.state = State::Unready;
        ill.reasons = vec!["LinkDown".into(), "GpuFellOff".into()];
        assert_eq!(
            view.verdict(&ill).as_deref(),
            Some("unready: LinkDown, GpuFellOff")
        );
        ill.reasons.pop();
        assert_eq!(view.verdict(&ill).as_deref(), Some("unready: LinkDown"));
    }
}
