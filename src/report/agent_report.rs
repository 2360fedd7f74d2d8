//! The report of a running agent, as its clients read it, and whether it may be believed.

use super::{State, json::SCHEMA, text::clean};
use crate::check::{PASSES_WITHIN, Status, Weight};
use crate::observe::bench::{RailKind, Rails};
use crate::observe::{GVNIC_DRIVER, Neighbor};
use crate::readiness::taint_hysteresis::least_wait;
use crate::units::BitsPerSec;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

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
    gpus: Option<u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct AgentPort {
    rate_bits_per_second: Option<u64>,
    rail: bool,
    driver: String,
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
    check: String,
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
        let report = Self::read(body).map_err(|error| format!("the answer is {error}"))?;
        let (age, made) = (now.duration_since(report.time).unsigned_abs(), report.time);
        match age > STALE_AFTER {
            true => Err(format!("the report is stale: it was made at {made}")),
            false => Ok(report),
        }
    }

    /// Reads a report, however old.
    ///
    /// # Errors
    /// It is not one, or of another version, which may mean something else by the same names.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let report: AgentReport =
            serde_json::from_slice(body).map_err(|error| format!("not a report: {error}"))?;
        let schema: String = report.schema.chars().take(80).collect();
        match schema == SCHEMA {
            false => Err(format!(
                "not a report of {SCHEMA}: its schema is {schema:?}"
            )),
            true => Ok(report),
        }
    }

    /// What the rails can do, `from` being what the report is called. A rail without a rate (it is down)
    /// counts among them: the node has it, and what it cannot do is what a benchmark shows.
    ///
    /// # Errors
    /// No rail has a known rate.
    pub fn bench_rails(&self, from: &str) -> Result<Rails, String> {
        let rails: Vec<&AgentPort> = self.rail_ports().collect();
        let rates = rails.iter().filter_map(|port| port.rate_bits_per_second);
        let rates: Vec<u64> = rates.filter(|rate| *rate > 0).collect();
        let mut kinds = rails.iter().filter_map(|port| kind(&port.driver));
        let first = kinds.next();
        let (Some(slowest), Some(fastest)) = (rates.iter().min(), rates.iter().max()) else {
            return Err("contains no rail with a known rate".into());
        };
        let is_less = matches!(self.state, State::Degraded | State::Unready);
        let trouble = (is_less && !self.reasons.is_empty())
            .then(|| format!("{}: {}", self.state.as_str(), self.reasons.join(", ")));
        // What makes fewer or slower rails of those that the node should have.
        let lessens = |of: &AgentFinding| {
            matches!(of.check.as_str(), "link_rate" | "device_missing")
                && self.reasons.contains(&of.reason)
        };
        let from = match self.node.is_empty() {
            true => from.to_string(),
            false => format!("{from} {}", self.node),
        };
        Ok(Rails {
            count: u32::try_from(rails.len()).unwrap_or(u32::MAX),
            rate: BitsPerSec(*slowest),
            fastest: (fastest != slowest).then_some(BitsPerSec(*fastest)),
            gpus: self.gpus.filter(|gpus| *gpus > 0),
            kind: first.filter(|first| kinds.all(|kind| kind == *first)),
            from,
            is_less: trouble.is_some() && self.findings.iter().any(lessens),
            trouble,
        })
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
        let of_rails = self.rail_ports().flat_map(|port| {
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

/// By a port's driver; none: the report does not say.
fn kind(driver: &str) -> Option<RailKind> {
    match driver {
        "" => None,
        "efa" => Some(RailKind::Efa),
        GVNIC_DRIVER => Some(RailKind::Gvnic),
        _ => Some(RailKind::Verbs),
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
            (&other, 0, "its schema is"),
            ("{}", 0, "not a report"),
            ("<html>", 0, "not a report"),
            ("", 0, "not a report"),
        ] {
            let error = asked(body, age).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn rails_of_reports() {
        let port = |rail: bool, rate: &str| {
            format!(r#"{{"device":"x","rail":{rail},"rate_bits_per_second":{rate}}}"#)
        };
        let report = |state: &str, ports: &[String]| {
            format!(
                r#"{{"schema":"selvage.dev/report/v1","time":"2026-11-23T09:00:00Z","node":"n1","state":"{state}","reasons":["LinkDown"],"gpus":8,"ports":[{}]}}"#,
                ports.join(",")
            )
        };
        let good = report("ready", &[port(true, "400000000000"), port(false, "1")]);
        let rails_of =
            |text: &str| AgentReport::read(text.as_bytes())?.bench_rails("the report of");
        let got = rails_of(&good).unwrap();
        assert_eq!(
            (got.count, got.rate, got.gpus),
            (1, BitsPerSec::from_gbps(400), Some(8))
        );
        assert_eq!((got.from.as_str(), got.trouble), ("the report of n1", None));
        // Unequal: the slowest counts. Down: it is still a rail of the node.
        let mixed = report(
            "unready",
            &[
                port(true, "400000000000"),
                port(true, "200000000000"),
                port(true, "null"),
            ],
        );
        let got = rails_of(&mixed).unwrap();
        assert_eq!((got.count, got.rate), (3, BitsPerSec::from_gbps(200)));
        assert_eq!(got.fastest, Some(BitsPerSec::from_gbps(400)));
        assert_eq!(got.trouble.as_deref(), Some("unready: LinkDown"));
        for (drivers, kind) in [
            (["efa", "efa"], Some(RailKind::Efa)),
            (["gve", "gve"], Some(RailKind::Gvnic)),
            (["mlx5_core", "bnxt_en"], Some(RailKind::Verbs)),
            (["mlx5_core", "efa"], None),
            (["", ""], None),
        ] {
            let ports = drivers.map(|driver| {
                format!(r#"{{"driver":"{driver}","rail":true,"rate_bits_per_second":1}}"#)
            });
            let got = rails_of(&report("ready", &ports)).unwrap();
            assert_eq!(got.kind, kind, "{drivers:?}");
        }
        for (text, says) in [
            ("x", "not a report"),
            ("{}", "not a report"),
            (r#"{"schema":"selvage.dev/nccl/v1"}"#, "not a report"),
            (&good.replace("report/v1", "report/v2"), "report/v2"),
            (&good.replace("report/v1", "report/"), "not a report"),
            (&report("ready", &[]), "no rail"),
            (&report("ready", &[port(true, "null")]), "no rail"),
            (&report("ready", &[port(true, "0")]), "no rail"),
        ] {
            let error = rails_of(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
