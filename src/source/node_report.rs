//! A node's own report (`selvage.dev/report/v1`, `/report` or `selvage check -o json`), as far as it
//! says what its rails can do.

use crate::observe::bench::{RailKind, Rails};
use crate::observe::rdma::GVNIC_DRIVER;
use crate::units::BitsPerSec;
use serde::Deserialize;

#[derive(Deserialize)]
struct NodeReport {
    schema: String,
    #[serde(default)]
    node: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    reasons: Vec<String>,
    #[serde(default)]
    ports: Vec<NodePort>,
    #[serde(default)]
    findings: Vec<NodeFinding>,
    gpus: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeFinding {
    check: String,
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodePort {
    rail: bool,
    rate_bits_per_second: Option<u64>,
    driver: String,
}

/// The rails of a report, `from` being what it is called. A rail without a rate (it is down) counts
/// among them: the node has it, and what it cannot do is what a benchmark shows.
pub fn rails(text: &str, from: &str) -> Result<Rails, String> {
    let report: NodeReport =
        serde_json::from_str(text).map_err(|error| format!("not a report: {error}"))?;
    // Another version may mean something else by the same names.
    if report.schema != "selvage.dev/report/v1" {
        let schema: String = report.schema.chars().take(80).collect();
        let why = format!("not a report of selvage.dev/report/v1: its schema is {schema:?}");
        return Err(why);
    }
    let rails: Vec<&NodePort> = report.ports.iter().filter(|port| port.rail).collect();
    let rates = rails.iter().filter_map(|port| port.rate_bits_per_second);
    let rates: Vec<u64> = rates.filter(|rate| *rate > 0).collect();
    let mut kinds = rails.iter().filter_map(|port| kind(&port.driver));
    let first = kinds.next();
    let (Some(slowest), Some(fastest)) = (rates.iter().min(), rates.iter().max()) else {
        return Err("contains no rail with a known rate".into());
    };
    let trouble = match (report.state.as_str(), report.reasons.is_empty()) {
        ("degraded" | "unready", false) => {
            Some(format!("{}: {}", report.state, report.reasons.join(", ")))
        }
        _ => None,
    };
    // What makes fewer or slower rails of those that the node should have.
    let lessens = |of: &NodeFinding| {
        matches!(of.check.as_str(), "link_rate" | "device_missing")
            && report.reasons.contains(&of.reason)
    };
    let from = match report.node.is_empty() {
        true => from.to_string(),
        false => format!("{from} {}", report.node),
    };
    Ok(Rails {
        count: u32::try_from(rails.len()).unwrap_or(u32::MAX),
        rate: BitsPerSec(*slowest),
        fastest: (fastest != slowest).then_some(BitsPerSec(*fastest)),
        gpus: report.gpus.filter(|gpus| *gpus > 0),
        kind: first.filter(|first| kinds.all(|kind| kind == *first)),
        from,
        is_less: trouble.is_some() && report.findings.iter().any(lessens),
        trouble,
    })
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

    #[test]
    fn rails_of_reports() {
        let port = |rail: bool, rate: &str| {
            format!(r#"{{"device":"x","rail":{rail},"rate_bits_per_second":{rate}}}"#)
        };
        let report = |state: &str, ports: &[String]| {
            format!(
                r#"{{"schema":"selvage.dev/report/v1","node":"n1","state":"{state}","reasons":["LinkDown"],"gpus":8,"ports":[{}]}}"#,
                ports.join(",")
            )
        };
        let good = report("ready", &[port(true, "400000000000"), port(false, "1")]);
        let rails_of = |text: &str| rails(text, "the report of");
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
            (r#"{"schema":"selvage.dev/report/v1"}"#, "no rail"),
            (&report("ready", &[port(true, "null")]), "no rail"),
            (&report("ready", &[port(true, "0")]), "no rail"),
        ] {
            let error = rails_of(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
