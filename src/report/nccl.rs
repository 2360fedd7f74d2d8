//! Verdicts on NCCL logs, as JSON and for people.

use super::text::{Colour, Page, Style, count};
use crate::check::nccl::{Fallback, NcclVerdict};
use serde::Serialize;

/// One log and the verdict on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NcclInput {
    /// Name of the file; `-` for standard input.
    pub name: String,
    /// What the log shows about the network it used.
    #[serde(flatten)]
    pub verdict: NcclVerdict,
}

/// `selvage nccl -o json`: one object, one line.
pub fn json(inputs: &[NcclInput]) -> String {
    let document = object! { schema: "selvage.dev/nccl/v1", inputs: inputs, };
    serde_json::to_string(&document).unwrap_or_default() + "\n"
}

/// The same verdicts as text for a terminal.
pub fn text(inputs: &[NcclInput], style: Style) -> String {
    let mut page = Page::new(style, 160);
    for (at, input) in inputs.iter().enumerate() {
        if at > 0 {
            page.line("");
        }
        one(&mut page, input);
    }
    page.out
}

fn one(page: &mut Page, input: &NcclInput) {
    let verdict = &input.verdict;
    let (colour, word) = match verdict.tcp_fallback {
        Fallback::Yes => (Colour::Red, "TCP FALLBACK"),
        // Whether the job does well is another question.
        Fallback::No if verdict.remedies.is_empty() => (Colour::Green, "no fallback"),
        Fallback::No => (Colour::Yellow, "no fallback, but"),
        Fallback::Configured => (Colour::Yellow, "tcp, configured"),
        Fallback::Unknown => (Colour::Magenta, "unknown"),
    };
    let name = match input.name.as_str() {
        "-" => "standard input",
        name => name,
    };
    let on = |nodes| format!(" on {}", count(nodes, "node"));
    let nodes = verdict.nodes.map_or(String::new(), on);
    let used = connections(verdict);
    let version = verdict.nccl_version.as_ref();
    let facts = [
        version.map(|version| format!("NCCL {version}")),
        (verdict.nranks).map(|ranks| count(ranks, "rank") + &nodes),
        (!used.is_empty()).then(|| format!("connections: {used}")),
        init(verdict).map(|init| format!("init {init}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let summary = format!("{name}: {}", verdict.summary);
    page.verdict((colour, word), &summary, &facts);
    page.grounds(&verdict.evidence, &[], &verdict.remedies);
}

/// Connections that were logged, by transport: `net_ib 8, p2p 4`.
pub fn connections(verdict: &NcclVerdict) -> String {
    let used = verdict.channels.iter().filter(|(_, count)| **count > 0);
    let used = used.map(|(name, count)| format!("{name} {count}"));
    used.collect::<Vec<_>>().join(", ")
}

/// How long the init took, else how it ended; `None` where that is unknown.
pub fn init(verdict: &NcclVerdict) -> Option<String> {
    match (verdict.init_complete, verdict.init_seconds) {
        (_, Some(seconds)) => Some(format!("{seconds:.1} s")),
        (Some(true), None) => Some("complete".into()),
        (Some(false), None) => Some("failed".into()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::nccl::{JobContext, judge};
    use crate::observe::nccl::NcclLog;
    use crate::observe::nccl::log::LogLimits;

    #[test]
    fn text_from_a_log_steers_no_terminal() {
        let log = NcclLog::new(LogLimits::FILE);
        let mut verdict = judge(&log, &JobContext::default());
        verdict.summary = "a\u{1b}[31mb".into();
        let input = NcclInput {
            name: "x\u{1b}]0;y".into(),
            verdict,
        };
        let text = text(&[input], Style::default());
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
