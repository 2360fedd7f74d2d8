//! Lines on the terminal about one node.

use crate::check::Finding;
use crate::readiness::history::{VerdictChange, VerdictHistory};
use crate::report::{Report, State, Style, port_view, text};

/// Describes what changed from one report to the next.
#[derive(Default)]
pub(super) struct Console {
    style: Style,
    state: Option<State>,
    reasons: Vec<String>,
    history: VerdictHistory,
}

impl Console {
    /// Prints in colour where the style does.
    pub(super) fn new(style: Style) -> Self {
        Console {
            style,
            ..Console::default()
        }
    }

    /// One line if the verdict changed.
    pub(super) fn verdict(&mut self, report: &Report) -> Option<String> {
        if self.state == Some(report.state) && self.reasons == report.reasons {
            return None;
        }
        self.state = Some(report.state);
        self.reasons.clone_from(&report.reasons);
        let state = judged(self.style, report.state.as_str());
        Some(format!("{state}{}", report.because()))
    }

    /// Everything that changed: findings with their remedies, and the verdict.
    pub(super) fn changes(&mut self, report: &Report) -> Vec<String> {
        let mut lines = Vec::new();
        let style = self.style;
        let (now, state, findings) = (report.snapshot.at, report.state, &report.findings);
        for entry in self.history.note(now, state, &report.reasons, findings) {
            match &entry.change {
                VerdictChange::State { .. } => {}
                VerdictChange::Raised { what, message } => {
                    let word = port_view::status(what.weight, what.status);
                    let word = judged(style, &format!("{word:<8}"));
                    lines.push(format!("       + {word} {}: {message}", what.reason));
                    let id = (what.check, &what.subject, what.reason);
                    let is = |of: &&Finding| (of.check, &of.subject, of.reason) == id;
                    let about = findings.iter().find(is);
                    lines.extend(about.map(|of| format!("         to do: {}", of.remedy)));
                }
                VerdictChange::Cleared { what, stood } => {
                    let (seconds, reason) = (stood.as_secs_f64(), what.reason);
                    let over = format!("{reason} is over after {seconds:.1} s");
                    lines.push(format!("       - {}: {over}", what.subject));
                }
            }
        }
        if self.state.replace(report.state) != Some(report.state) {
            let state = judged(self.style, report.state.as_str());
            lines.push(format!("       node is {state}{}", report.because()));
        }
        lines
    }
}

/// The word of a verdict or status, in its colour.
fn judged(style: Style, word: &str) -> String {
    text::Page::new(style, style.width).judged(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Status;
    use crate::observe::LinkLayer;
    use crate::report::testing;

    fn changes(console: &mut Console, report: &Report) -> String {
        console.changes(report).join("\n")
    }

    fn without_a_link(node: Report) -> Report {
        let finding = testing::finding("link_state", "mlx5_3/1", "LinkDown", Status::Failing);
        Report {
            state: State::Unready,
            reasons: vec!["LinkDown".into()],
            findings: vec![finding],
            ..node
        }
    }

    #[test]
    fn only_changes_are_printed() {
        let mut console = Console::default();
        let well = testing::node(8, LinkLayer::Ethernet);
        assert!(changes(&mut console, &well).contains("node is "));
        assert_eq!(changes(&mut console, &well), "", "the same again");
        let ill = without_a_link(well.clone());
        let told = changes(&mut console, &ill);
        assert!(told.contains("node is unready: LinkDown"), "{told}");
        assert!(told.contains("failing  LinkDown: "), "{told}");
        assert!(told.contains("to do: "), "{told}");
        assert_eq!(changes(&mut console, &ill), "");
        let told = changes(&mut console, &well);
        assert!(told.contains("mlx5_3/1: LinkDown is over after"), "{told}");
    }

    #[test]
    fn a_terminal_gets_colours() {
        let style = Style {
            colour: true,
            ..Style::default()
        };
        let mut console = Console::new(style);
        let ill = without_a_link(testing::node(8, LinkLayer::Ethernet));
        let told = changes(&mut console, &ill);
        assert!(told.contains("node is \x1b[31munready\x1b[0m"), "{told:?}");
        assert!(
            told.contains("+ \x1b[31mfailing \x1b[0m LinkDown: "),
            "{told:?}"
        );
    }

    #[test]
    fn a_fleet_gets_one_line_a_verdict() {
        let mut console = Console::default();
        let well = testing::node(8, LinkLayer::Ethernet);
        assert!(console.verdict(&well).is_some());
        assert_eq!(console.verdict(&well), None);
        let mut ill = well;
        ill.state = State::Unready;
        ill.reasons = vec!["LinkDown".into(), "GpuFellOff".into()];
        assert_eq!(
            console.verdict(&ill).as_deref(),
            Some("unready: LinkDown, GpuFellOff")
        );
        ill.reasons.pop();
        assert_eq!(console.verdict(&ill).as_deref(), Some("unready: LinkDown"));
    }
}
