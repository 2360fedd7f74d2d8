//! A fleet for a person at a terminal: one line of counts, the causes, then a table.

use super::{Fleet, FleetNode, ORDER, Taint, causes::SharedCause};
use crate::report::text::{Page, after_colon, clean, count};
use crate::report::{State, Style};
use crate::units::span_text;
use jiff::{SignedDuration, Timestamp};

/// Widest screen that is made use of, in columns.
const WIDEST: usize = 400;
/// Names that are listed of the nodes that share nothing but a reason.
const NAMES: usize = 8;
/// A column: its head, and what it shows of a node.
type Column = (&'static str, fn(&FleetNode, Timestamp) -> String);

/// Columns of the table of nodes that are not ready.
const COLUMNS: &[Column] = &[
    ("NODE", |node, _| node.node.clone()),
    ("VERDICT", |node, _| {
        node.state.map_or("-", |state| state.as_str()).into()
    }),
    ("REASON", |node, _| {
        match node.silent && node.reason != super::AGENT_SILENT {
            true => format!("{} (silent)", node.reason),
            false => node.reason.clone(),
        }
    }),
    ("SINCE", |node, now| age(node.since, now)),
    ("RAILS", |node, _| match node.rail_gbps.as_str() {
        "" => node.rails.clone(),
        gbps => format!("{}x{gbps}G", node.rails),
    }),
    ("TAINT", |node, _| match node.taint {
        Taint::None => String::new(),
        Taint::Applied => "yes".into(),
        Taint::Unknown => "?".into(),
        other => other.as_str().into(),
    }),
];

/// What `-o wide` adds.
const WIDE: &[Column] = &[
    ("SEEN", |node, now| age(node.heartbeat, now)),
    ("KIND", |node, _| node.fabric_kind.clone()),
    ("GPUDIRECT", |node, _| node.gpudirect.clone()),
    ("GDS", |node, _| node.gds.clone()),
    ("CORDON", |node, _| {
        if node.cordoned { "yes" } else { "" }.into()
    }),
    ("MUTED", |node, _| {
        let muted: Vec<&str> = node.muted.keys().map(String::as_str).collect();
        muted.join(",")
    }),
    ("SHARES", |node, _| {
        let all = node.attributes.iter();
        let all: Vec<String> = all.map(|of| format!("{}={}", of.kind, of.value)).collect();
        all.join(", ")
    }),
    // Also why an agent does not answer.
    ("MESSAGE", |node, _| node.message.clone()),
];

/// The fleet as text; `wide` lists all nodes, with more columns.
pub fn encode(fleet: &Fleet, style: Style, wide: bool) -> String {
    let mut page = Page::new(style, WIDEST);
    page.whole("", 2, &headline(fleet));
    if !fleet.causes.is_empty() {
        page.line("");
    }
    for cause in &fleet.causes {
        page.whole("", 2, &sentence(cause));
    }
    let shown = fleet.nodes.iter().filter(|node| wide || node.is_faulty());
    let shown: Vec<&FleetNode> = shown.collect();
    if !shown.is_empty() {
        page.line("");
        let columns = COLUMNS.iter().chain(WIDE.iter().filter(|_| wide));
        table(&mut page, &columns.collect::<Vec<_>>(), &shown, fleet.time);
    }
    page.out
}

fn headline(fleet: &Fleet) -> String {
    let counts = &fleet.counts;
    let of = |state: &State| Some((counts.by_state.get(state.as_str())?, state.as_str()));
    let by_state = ORDER.iter().filter_map(of);
    let by_state = by_state.map(|(nodes, state)| format!("{nodes} {state}"));
    let mut parts: Vec<String> = by_state.collect();
    if counts.without_agent > 0 {
        parts.push(format!("{} without an agent", counts.without_agent));
    }
    let nodes = count(counts.nodes, "node");
    let parts = after_colon(&parts);
    let taints = fleet.budget.as_ref().map_or(String::new(), |budget| {
        let withheld = match budget.withheld {
            0 => String::new(),
            withheld => format!(", {withheld} withheld"),
        };
        let (taints, allowed) = (budget.taints, budget.allowed);
        format!("; taints: {taints} of {allowed} allowed{withheld}")
    });
    format!("{nodes}{parts}{taints}")
}

fn sentence(cause: &SharedCause) -> String {
    let nodes = cause.nodes.len();
    let mut reasons: Vec<_> = cause.reasons.iter().collect();
    reasons.sort_by_key(|(_, nodes)| std::cmp::Reverse(**nodes));
    let named = |reason: &str| match reason {
        "" => "no reason".to_string(),
        reason => reason.to_string(),
    };
    if let (Some(kind), Some(value), Some(of), Some((faulty, others))) =
        (cause.kind, &cause.value, cause.of, cause.elsewhere)
    {
        let counted = |(reason, nodes): (&String, &usize)| format!("{nodes} {}", named(reason));
        let reasons: Vec<String> = reasons.into_iter().map(counted).collect();
        return format!(
            "{kind} {value}: {nodes} of {of} nodes not ready, {faulty} of {others} elsewhere: {}",
            reasons.join(", ")
        );
    }
    let reasons = reasons.into_iter().map(|(reason, _)| named(reason));
    let reasons: Vec<String> = reasons.collect();
    let mut names: Vec<&str> = cause.nodes.iter().take(NAMES).map(String::as_str).collect();
    let more = format!("and {} more", nodes.saturating_sub(NAMES));
    if nodes > NAMES {
        names.push(&more);
    }
    let (reasons, names) = (reasons.join(", "), names.join(", "));
    format!("{reasons}: {}: {names}", count(nodes, "node"))
}

fn table(page: &mut Page, columns: &[&Column], nodes: &[&FleetNode], now: Timestamp) {
    let cell = |text: String| match text.is_empty() {
        true => "-".to_string(),
        false => clean(&text).into_owned(),
    };
    let heads = columns.iter().map(|(head, _)| head.to_string()).collect();
    let mut rows: Vec<Vec<String>> = vec![heads];
    for node in nodes {
        let shown = columns.iter().map(|(_, show)| cell(show(node, now)));
        rows.push(shown.collect());
    }
    let verdict = columns.iter().position(|(head, _)| *head == "VERDICT");
    page.table("", rows, |page, column, cell| {
        match Some(column) == verdict {
            true => page.judged(cell),
            false => cell.to_string(),
        }
    });
}

/// As kubectl writes ages.
fn age(moment: Option<Timestamp>, now: Timestamp) -> String {
    let Some(moment) = moment else {
        return String::new();
    };
    let age = now.duration_since(moment).max(SignedDuration::ZERO);
    span_text(age.unsigned_abs())
        .replace("min", "m")
        .replace(' ', "")
}
