//! What the terminal shows of one node.

use crate::check::{Status, Weight};
use crate::readiness::diary::{Change, Diary, What};
use crate::report::{Report, State};

/// Says what changed from one report to the next.
#[derive(Default)]
pub(super) struct View {
    state: Option<State>,
    reasons: Vec<String>,
    diary: Diary,
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
        let (now, findings) = (report.snapshot.at, &report.findings);
        for entry in self
            .diary
            .note(now, report.state, &report.reasons, findings)
        {
            match &entry.change {
                Change::State { .. } => {}
                Change::Raised { what, message } => {
                    lines.push(format!(
                        "       + {} {}: {message}",
                        word(what),
                        what.reason
                    ));
                    let is = |id: [&str; 3]| id == [&*what.check, &*what.subject, &*what.reason];
                    let about = findings
                        .iter()
                        .find(|each| is([&each.check, &each.subject, &each.reason]));
                    if let Some(finding) = about {
                        lines.push(format!("         to do: {}", finding.remedy));
                    }
                }
                Change::Cleared { what, stood } => lines.push(format!(
                    "       - {}: {} is over after {:.1} s",
                    what.subject,
                    what.reason,
                    stood.as_secs_f64()
                )),
            }
        }
        if self.state.replace(report.state) != Some(report.state) {
            lines.push(format!(
                "       node is {}{}",
                report.state.as_str(),
                why(report)
            ));
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

fn word(what: &What) -> &'static str {
    match (what.weight, what.status) {
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
