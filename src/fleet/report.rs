//! What matters of an agent's report, out of its JSON: for agents that are asked from afar.

use super::{AGENT_SILENT, FleetNode, Taint, text::age};
use crate::report::State;
use crate::report::text::Style;
use crate::report::text::writer::Page;
use jiff::Timestamp;
use serde::Deserialize;

/// A report, reduced to what is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AgentReport {
    schema: String,
    node: String,
    time: Option<Timestamp>,
    state: Option<State>,
    since: Option<Timestamp>,
    reasons: Vec<String>,
    notes: Vec<Note>,
    muted: Vec<String>,
    ports: Vec<Port>,
    findings: Vec<Finding>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Note {
    message: String,
    remedy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Port {
    state: String,
    rate_bits_per_second: Option<u64>,
    rail: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finding {
    subject: String,
    status: String,
    reason: String,
    message: String,
    remedy: String,
    caused_by: Option<String>,
}

impl AgentReport {
    /// Reads an agent's answer; `None` if it is not a report.
    pub fn parse(text: &str) -> Option<Self> {
        let report: AgentReport = serde_json::from_str(text).ok()?;
        let ours = report.schema == crate::report::json::SCHEMA;
        (ours && report.state.is_some()).then_some(report)
    }

    fn rails(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| port.rail)
    }

    /// As text: the verdict, its rails, then what is wrong and what to do.
    pub fn encode(&self, style: Style) -> String {
        let mut page = Page::new(style, 200);
        let word = self.state.map_or("unknown", State::as_str).to_uppercase();
        let reasons = match self.reasons.as_slice() {
            [] => String::new(),
            reasons => format!(": {}", reasons.join(", ")),
        };
        let since = match (self.since, self.time) {
            (Some(_), Some(now)) => format!(" (for {})", age(self.since, now)),
            _ => String::new(),
        };
        let lead = format!("{}  ", page.judged(&word));
        page.wrapped(&lead, 2, &format!("{}{reasons}{since}", self.node));
        for note in &self.notes {
            page.wrapped("  ", 2, &note.message);
            page.wrapped("  fix:  ", 8, &note.remedy);
        }
        let active = self.rails().filter(|port| port.state == "active").count();
        page.line(&format!(
            "Rails: {active} of {} active",
            self.rails().count()
        ));
        page.listed("Muted checks: ", &self.muted, ", ");
        for finding in self.findings.iter().filter(|of| of.caused_by.is_none()) {
            page.line("");
            let lead = format!("{}  ", page.judged(&finding.status));
            page.wrapped(
                &lead,
                2,
                &format!("{}  {}", finding.subject, finding.reason),
            );
            page.wrapped("  ", 2, &finding.message);
            if !finding.remedy.is_empty() {
                page.wrapped("  fix:  ", 8, &finding.remedy);
            }
        }
        page.out
    }

    /// As a row of the fleet's table, where no Node object says more.
    pub fn row(self) -> FleetNode {
        let rates = self.rails().filter_map(|port| port.rate_bits_per_second);
        let rate = rates.min().map(|rate| rate / 1_000_000_000);
        let finding = self.findings.first();
        FleetNode {
            rails: self.rails().count().to_string(),
            rail_gbps: rate.map_or(String::new(), |rate| rate.to_string()),
            state: self.state,
            reason: self.reasons.first().cloned().unwrap_or_default(),
            message: finding.map_or(String::new(), |finding| finding.message.clone()),
            since: self.since,
            heartbeat: self.time,
            node: self.node,
            ..FleetNode::default()
        }
    }
}

/// The row of an agent that does not answer.
pub fn silent(node: &str, why: &str) -> FleetNode {
    FleetNode {
        node: node.into(),
        state: Some(State::Unknown),
        reason: AGENT_SILENT.into(),
        message: why.into(),
        silent: true,
        taint: Taint::None,
        ..FleetNode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;
    use crate::report::testing::broken;

    #[test]
    fn a_report_is_shown_by_what_matters() {
        let report = broken();
        let text = json::encode(&report, None);
        let parsed = AgentReport::parse(&text).unwrap();
        let shown = parsed.encode(Style::default());
        let state = report.state.as_str().to_uppercase();
        assert!(
            shown.starts_with(&format!("{state}  {}", report.node)),
            "{shown}"
        );
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
        for finding in report.findings.iter().filter(|of| of.caused_by.is_none()) {
            assert!(
                shown.contains(&finding.reason) && shown.contains("fix:"),
                "{shown}"
            );
        }
        let row = parsed.row();
        assert_eq!((row.state, &row.node), (Some(report.state), &report.node));
        assert_eq!(Some(&row.reason), report.reasons.first());
        for other in [
            "",
            "READY  gpu-1",
            "{}",
            r#"{"schema":"selvage.dev/report/v1"}"#,
        ] {
            assert!(AgentReport::parse(other).is_none(), "{other}");
        }
    }
}
