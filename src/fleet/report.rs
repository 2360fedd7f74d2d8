//! What matters of an agent's report, out of its JSON: for agents that are asked from afar.

use super::{AGENT_SILENT, FleetNode};
use crate::report::State;
use crate::report::asked::AgentVerdict;
use jiff::Timestamp;
use serde::Deserialize;

/// A report, reduced to what a row of the fleet's table shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AgentReport {
    node: String,
    time: Option<Timestamp>,
    state: Option<State>,
    since: Option<Timestamp>,
    reasons: Vec<String>,
    ports: Vec<Port>,
    findings: Vec<Finding>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Port {
    rate_bits_per_second: Option<u64>,
    rail: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Finding {
    message: String,
}

impl AgentReport {
    /// Reads an agent's answer.
    ///
    /// # Errors
    /// Why it says nothing about the node now, as [`AgentVerdict::parse`] has it.
    pub fn parse(body: &[u8], now: Timestamp) -> Result<Self, String> {
        AgentVerdict::parse(body, now)?;
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    fn rails(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| port.rail)
    }

    /// The row, where no Node object says more.
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
        ..FleetNode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;
    use crate::report::testing::broken;

    #[test]
    fn a_report_is_a_row() {
        let mut report = broken();
        let made: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        report.snapshot.wall = Some(made);
        let text = json::encode(&report, None);
        let parsed = AgentReport::parse(text.as_bytes(), made).unwrap();
        let row = parsed.row();
        assert_eq!((row.state, &row.node), (Some(report.state), &report.node));
        assert_eq!(Some(&row.reason), report.reasons.first());
        for other in [
            "",
            "READY  gpu-1",
            "{}",
            r#"{"schema":"selvage.dev/report/v1"}"#,
        ] {
            assert!(
                AgentReport::parse(other.as_bytes(), made).is_err(),
                "{other}"
            );
        }
        let later = made + jiff::SignedDuration::from_mins(9);
        assert!(AgentReport::parse(text.as_bytes(), later).is_err(), "stale");
    }
}
