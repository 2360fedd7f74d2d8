//! A fleet without Kubernetes: the agents at a list of addresses are asked for their reports.

use super::agent_client::{AgentClient, url};
use super::{AGENT_SILENT, FleetNode, NodeAttribute, Taint};
use crate::report::{AgentReport, State};
use futures::StreamExt;
use std::time::Duration;

/// Agents that are asked at a time.
const AT_ONCE: usize = 32;
/// How long one may take.
const AGENT_TIMEOUT: Duration = Duration::from_secs(2);

/// The addresses of a file: one `host`, `host:port` or URL a line; `#` begins a comment.
///
/// # Errors
/// Every line that is not an address, with its number; or that there is none.
pub fn parse(text: &str) -> Result<Vec<String>, Vec<String>> {
    let (mut targets, mut complaints) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let target = line.split('#').next().unwrap_or_default().trim();
        match url(target) {
            _ if target.is_empty() => {}
            Some(_) => targets.push(target.to_string()),
            None => complaints.push(format!("line {}: {target:?} is not an address", number + 1)),
        }
    }
    if targets.is_empty() && complaints.is_empty() {
        complaints.push("no address in it".into());
    }
    (complaints.is_empty().then_some(targets)).ok_or(complaints)
}

/// Asks every agent; one that does not answer is a row, too.
pub async fn ask(targets: &[String]) -> Vec<FleetNode> {
    let rows = targets.iter().map(|target| async move {
        let report = report(target).await;
        report.map_or_else(|why| silent(target, &why), row)
    });
    let rows = futures::stream::iter(rows).buffer_unordered(AT_ONCE);
    rows.collect().await
}

async fn report(target: &str) -> Result<AgentReport, String> {
    let url = url(target).ok_or("not an address")?;
    let client = AgentClient::new(url, None, AGENT_TIMEOUT)?;
    client.report().await.map(|(report, _)| report)
}

/// The row of an agent that answers, where no Node object says more.
fn row(report: AgentReport) -> FleetNode {
    let (up, rails, rate) = report.rails();
    let shared = report.shared().into_iter();
    let attributes = shared.map(|(kind, value)| NodeAttribute {
        kind,
        value: value.into(),
    });
    FleetNode {
        rails: match up == rails {
            true => rails.to_string(),
            false => format!("{up}/{rails}"),
        },
        attributes: attributes.collect(),
        gpudirect: report.gpudirect_path().unwrap_or_default().into(),
        rail_gbps: rate.map_or(String::new(), |rate| (rate / 1_000_000_000).to_string()),
        state: Some(report.state),
        reason: report.reasons.first().cloned().unwrap_or_default(),
        message: report.message().unwrap_or_default().to_string(),
        since: report.since,
        heartbeat: Some(report.time),
        node: report.node,
        taint: Taint::Unknown,
        ..FleetNode::default()
    }
}

/// The row of an agent that does not answer.
fn silent(node: &str, why: &str) -> FleetNode {
    FleetNode {
        node: node.into(),
        state: Some(State::Unknown),
        reason: AGENT_SILENT.into(),
        message: why.into(),
        silent: true,
        taint: Taint::Unknown,
        ..FleetNode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;
    use crate::report::testing::broken;
    use jiff::Timestamp;
    use std::collections::BTreeSet;

    #[test]
    fn lines_are_addresses() {
        let text =
            "# rack 1\n gpu-1 \ngpu-2:9100 # odd\n\n10.0.0.1\n[fd00::1]\nhttps://gpu-3:443\n";
        let targets = parse(text).unwrap();
        let urls: Vec<String> = targets
            .iter()
            .map(|at| url(at).unwrap().to_string())
            .collect();
        assert_eq!(
            urls,
            [
                "http://gpu-1:9949/",
                "http://gpu-2:9100/",
                "http://10.0.0.1:9949/",
                "http://[fd00::1]:9949/",
                "https://gpu-3:443/",
            ]
        );
        let wrong = parse("a b\ngpu-1\ngpu-1:x\n/path\nftp://gpu-2\n").unwrap_err();
        assert_eq!(wrong.len(), 4, "{wrong:?}");
        assert_eq!(parse("# none\n").unwrap_err(), ["no address in it"]);
        assert!(wrong[0].starts_with("line 1: "), "{wrong:?}");
    }

    #[test]
    fn a_report_is_a_row() {
        let mut report = broken();
        let made: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        report.snapshot.wall = Some(made);
        let text = json::encode(&report, None);
        let parsed = AgentReport::parse(text.as_bytes(), made).unwrap();
        let row = row(parsed);
        assert_eq!((row.state, &row.node), (Some(report.state), &report.node));
        assert_eq!(Some(&row.reason), report.reasons.first());
        assert_eq!(row.taint, Taint::Unknown);
        let kinds: BTreeSet<&str> = row.attributes.iter().map(|of| of.kind).collect();
        assert_eq!(kinds, ["driver", "firmware"].into());
        let (up, rails) = row.rails.split_once('/').expect("rails that are down");
        assert!(up.parse::<u32>().unwrap() < rails.parse().unwrap());
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
