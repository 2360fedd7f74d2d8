//! The report of a running agent, as its clients read it, and whether it may be believed.

use super::{State, json::SCHEMA, text::clean};
use crate::check::{PASSES_WITHIN, Status, Weight};
use crate::observe::lldp::Neighbor;
use crate::readiness::taint_hysteresis::least_wait;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// An agent whose report is older stands still: it makes one every 15 seconds at least.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// The fields of a report that `selvage check --agent`, `slurm` and `fleet --targets` use.
#[derive(Debug, Clone, Deserialize)]
pub struct AgentReport {
    schema: String,
    /// Name of the node.
    #[serde(default)]
    pub node: String,
    /// When the report was made.
    pub time: Timestamp,
    /// The verdict.
    pub state: State,
    /// Since when it stands.
    pub since: Option<Timestamp>,
    /// Reasons of the verdict, worst first.
    #[serde(default)]
    pub reasons: Vec<String>,
    #[serde(default)]
    ports: Vec<AgentPort>,
    /// Worst first.
    #[serde(default)]
    findings: Vec<AgentFinding>,
    gpudirect: Option<AgentGpuDirect>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct AgentPort {
    rate_bits_per_second: Option<u64>,
    rail: bool,
    state: String,
    firmware: Option<String>,
    neighbor: Option<Neighbor>,
}

#[derive(Debug, Clone, Deserialize)]
struct AgentGpuDirect {
    path: Option<String>,
    driver_version: Option<String>,
    kernel_release: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct AgentFinding {
    #[serde(default)]
    key: String,
    subject: String,
    status: Status,
    weight: Weight,
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    evidence: Value,
    caused_by: Option<Value>,
}

impl AgentReport {
    /// Reads an agent's answer.
    ///
    /// # Errors
    /// Why it says nothing about this node now: it is not a report, or an old one.
    pub fn parse(body: &[u8], now: Timestamp) -> Result<Self, String> {
        let report: AgentReport = serde_json::from_slice(body)
            .map_err(|error| format!("the answer is not a report: {error}"))?;
        let age = now.duration_since(report.time).unsigned_abs();
        let (schema, made) = (&report.schema, report.time);
        match schema == SCHEMA {
            false => Err(format!("the answer is of another form: {schema:?}")),
            true if age > STALE_AFTER => Err(format!("the report is stale: it was made at {made}")),
            true => Ok(report),
        }
    }

    /// How long the verdict had stood when the report was made: both times are by the agent's clock.
    pub fn stood(&self) -> Duration {
        let stood = self.since.map(|since| self.time.duration_since(since));
        stood.map_or(Duration::ZERO, |stood| stood.try_into().unwrap_or_default())
    }

    /// Rails that are up, all rails, and the rate of the slowest of those that are up, in bit/s.
    pub fn rails(&self) -> (usize, usize, Option<u64>) {
        let is_up = |port: &&AgentPort| port.state.starts_with("active");
        let up = || self.rail_ports().filter(is_up);
        let rates = up().filter_map(|port| port.rate_bits_per_second);
        (up().count(), self.rail_ports().count(), rates.min())
    }

    fn rail_ports(&self) -> impl Iterator<Item = &AgentPort> {
        self.ports.iter().filter(|port| port.rail)
    }

    /// Path of GPUDirect RDMA, as the label has it.
    pub fn gpudirect_path(&self) -> Option<&str> {
        self.gpudirect.as_ref()?.path.as_deref()
    }

    /// What the node may have in common with others, each once: the switches at the other end of its
    /// rails, and what runs on it.
    pub fn shared(&self) -> BTreeSet<(&'static str, &str)> {
        let rails = self.rail_ports();
        let of_rails = rails.flat_map(|port| {
            let switch = port.neighbor.as_ref().map(|at| at.switch.as_str());
            [("switch", switch), ("firmware", port.firmware.as_deref())]
        });
        let host = self.gpudirect.iter().flat_map(|host| {
            let (driver, kernel) = (&host.driver_version, &host.kernel_release);
            [("driver", driver.as_deref()), ("kernel", kernel.as_deref())]
        });
        let known = of_rails.chain(host);
        let known = known.filter_map(|(kind, value)| Some((kind, value?)));
        known.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The message of the first reason's finding; without a reason, the worst finding's.
    pub fn message(&self) -> Option<&str> {
        let first = self.reasons.first();
        let mut findings = self.findings.iter();
        let found = findings.find(|found| first == Some(&found.reason));
        let found = found.or_else(|| self.findings.first());
        found.map(|found| found.message.as_str())
    }

    /// What makes the node unready, in a few words: `LinkDown mlx5_4/1 and 2 more`.
    pub fn cause(&self) -> Option<String> {
        let mut causes = self.deciding().filter(|found| found.caused_by.is_none());
        let first = causes.next().or_else(|| self.deciding().next())?;
        let cause = format!("{} {}", first.reason, first.subject);
        Some(match causes.count() {
            0 => clean(&cause).into_owned(),
            more => format!("{} and {more} more", clean(&cause)),
        })
    }

    /// As [`passes_within`](crate::readiness::taint_hysteresis::passes_within).
    pub fn passes_within(&self) -> Duration {
        let seconds = |of: &AgentFinding| of.evidence.get(PASSES_WITHIN)?.as_u64();
        least_wait((self.deciding()).map(|found| (found.key.as_str(), seconds(found))))
    }

    fn deciding(&self) -> impl Iterator<Item = &AgentFinding> + Clone {
        let decides =
            |of: &&AgentFinding| of.weight == Weight::Verdict && of.status == Status::Failing;
        self.findings.iter().filter(decides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;
    use crate::report::testing::broken;

    #[test]
    fn an_answer_is_believed_while_it_is_a_report_of_now() {
        let mut report = broken();
        let made: Timestamp = "2026-11-23T09:00:00Z".parse().unwrap();
        report.snapshot.wall = Some(made);
        let body = json::encode(&report, None);
        let asked = |body: &str, age: i64| {
            let now = made + jiff::SignedDuration::from_secs(age);
            AgentReport::parse(body.as_bytes(), now)
        };
        for age in [-60, 0, 60] {
            assert_eq!(asked(&body, age).unwrap().state, report.state, "{age}");
        }
        let timeless = body.replace("\"time\":\"2026", "\"time\":null,\"x\":\"2026");
        let other = body.replace(SCHEMA, "selvage.dev/report/v2");
        for (body, age, why) in [
            (body.as_str(), 61, "stale"),
            (&body, -61, "stale"),
            (&timeless, 0, "not a report"),
            (&other, 0, "another form"),
            ("{}", 0, "not a report"),
            ("<html>", 0, "not a report"),
            ("", 0, "not a report"),
        ] {
            let error = asked(body, age).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
