//! The report for a person at a terminal: one line that says it, a table of rails, then what is
//! wrong, why and what to do.

use super::port_view::{self, ReportedPort, ago};
use super::{Report, State};
use crate::check::Finding;
use crate::observe::dot1x::Dot1xFacts;
use crate::observe::pci::gives_away;
use crate::observe::rdma::PortState;
use crate::observe::reading::{Reading, Stamped};
use crate::observe::vf::VfLinks;
use crate::readiness;
use std::collections::BTreeMap;
use std::sync::Arc;
use writer::{Colour, Page, cut};

pub use writer::clean;

pub(super) mod writer;

/// Findings told in full; the rest is counted.
const MAX_FINDINGS: usize = 20;

/// Ports in a table that pushes the findings below it off the screen, so that they come first.
const LONG_TABLE: usize = 16;

/// Longest cell of the table, in characters.
const MAX_CELL: usize = 28;

/// How text is printed: its width and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether ANSI colours are printed.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style {
            width: 80,
            colour: false,
        }
    }
}

/// The report as text, with a newline at its end.
pub fn encode(report: &Report, style: Style) -> String {
    let mut page = Page {
        out: String::with_capacity(4096),
        width: style.width.clamp(40, 200),
        colour: style.colour,
    };
    headline(&mut page, report);
    let ports = port_view::ports(report);
    let findings_first = ports.len() > LONG_TABLE;
    if findings_first {
        findings(&mut page, report);
    }
    page.line("");
    rails(&mut page, report, &ports);
    others(&mut page, &ports);
    supplicants(&mut page, &ports);
    node_facts(&mut page, report);
    if !report.muted.is_empty() {
        page.wrapped("Muted checks: ", 2, &report.muted.join(", "));
    }
    blind_sources(&mut page, report);
    if !findings_first {
        findings(&mut page, report);
    }
    page.out
}

fn state_colour(state: State) -> Colour {
    match state {
        State::Ready => Colour::Green,
        State::Degraded => Colour::Yellow,
        State::Unready => Colour::Red,
        State::Unknown => Colour::Magenta,
    }
}

fn headline(page: &mut Page, report: &Report) {
    let word = report.state.as_str().to_uppercase();
    let lead = format!("{}  ", page.paint(state_colour(report.state), &word));
    let reasons = if report.reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", report.reasons.join(", "))
    };
    let since = match report.since == report.snapshot.at {
        true => String::new(),
        false => format!(" (for {})", ago(report, report.since)),
    };
    let young = match report.full_window {
        true => "",
        false => ", first window not complete",
    };
    page.wrapped(
        &lead,
        word.len() + 2,
        &format!("{}{reasons}{since}{young}", report.node),
    );
    for doc in readiness::explained(&report.reasons) {
        page.wrapped("  ", 2, doc.meaning);
        page.wrapped("  fix:  ", 8, doc.remedy);
    }
}

/// Reasons of the findings about a port, by its identity or its shown name.
fn reasons(report: &Report, port: &ReportedPort<'_>) -> String {
    let key = port.key.to_string();
    let name = port.name();
    let about = report.findings.iter();
    let about = about.filter(|finding| finding.key == key || finding.subject == name);
    let mut reasons: Vec<&str> = about.map(|finding| finding.reason.as_str()).collect();
    reasons.dedup();
    match (reasons.is_empty(), port.state()) {
        (false, _) => reasons.join(", "),
        (true, None) if port.device.is_gvnic() && port.port.netdev.is_none() => "in a pod".into(),
        // A port that is not up is not fine just because it has no finding.
        (true, Some(PortState::Active)) => "ok".to_string(),
        (true, _) => "-".to_string(),
    }
}

fn rails(page: &mut Page, report: &Report, ports: &[ReportedPort<'_>]) {
    if report.snapshot.devices.is_none() {
        page.line("RDMA devices could not be listed.");
        return;
    }
    if ports.is_empty() {
        page.line("No RDMA device on this node.");
        return;
    }
    let rails: Vec<&ReportedPort<'_>> = ports.iter().filter(|port| port.is_rail()).collect();
    if rails.is_empty() {
        page.line("No port is a rail (compute fabric).");
        return;
    }
    let active = rails.iter().filter(|port| port.is_up()).count();
    page.line(&format!("Rails: {active} of {} active", rails.len()));
    let mut rows: Vec<[String; 6]> =
        vec![["PORT", "PCI", "NETDEV", "STATE", "RATE", "FINDINGS"].map(String::from)];
    let shown = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    for port in rails {
        rows.push([
            port.name(),
            shown(port.pci()),
            shown(port.port.netdev.clone()),
            port.state_text(),
            shown(port.rate().map(|rate| rate.to_string())),
            reasons(report, port),
        ]);
    }
    table(page, &rows);
}

fn table(page: &mut Page, rows: &[[String; 6]]) {
    let shown = |row: &[String; 6]| {
        row.each_ref()
            .map(|cell| cut(&clean(cell), MAX_CELL).into_owned())
    };
    let rows: Vec<[String; 6]> = rows.iter().map(shown).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = width.saturating_sub(cell.chars().count());
            let shown = match (number, column) {
                (0, _) => page.paint(Colour::Bold, cell),
                (_, 5) if cell != "ok" && cell != "-" => page.paint(Colour::Red, cell),
                _ => cell.clone(),
            };
            line.push(' ');
            line.push_str(&shown);
            line.push_str(&" ".repeat(padding + 1));
        }
        page.line(&line);
    }
}

fn others(page: &mut Page, ports: &[ReportedPort<'_>]) {
    let others: Vec<&ReportedPort<'_>> = ports.iter().filter(|port| !port.is_rail()).collect();
    if others.is_empty() {
        return;
    }
    let listed: Vec<String> = if others.len() <= 4 {
        let one = |port: &&ReportedPort<'_>| {
            let rate = port.rate().map(|rate| format!(" {rate}"));
            let rate = rate.unwrap_or_default();
            format!("{} {}{rate}", port.name(), port.state_text())
        };
        others.iter().map(one).collect()
    } else {
        let states = others.iter().map(|port| port_view::word(port.state()));
        counted(states)
    };
    let text = listed.join(", ");
    page.wrapped("Other ports: ", 13, &text);
}

/// What 802.1X says of the ports that have a supplicant.
fn supplicants(page: &mut Page, ports: &[ReportedPort<'_>]) {
    let all: Vec<_> = (ports.iter())
        .filter_map(|port| Some((port, port.dot1x?)))
        .collect();
    if all.is_empty() {
        return;
    }
    let is_authorized = |facts: &Dot1xFacts| facts.authorized == Some(true);
    let authorized = all.iter().filter(|(_, facts)| is_authorized(facts)).count();
    let mut text = format!("{authorized} of {} authorized", all.len());
    for (port, facts) in all.iter().filter(|(_, facts)| !is_authorized(facts)) {
        text.push_str(&format!(", {} {}", port.name(), facts.told()));
    }
    page.wrapped("802.1X: ", 8, &text);
}

fn node_facts(page: &mut Page, report: &Report) {
    // Without the PCI scan, the driver's list shows only GPUs that are there.
    let gpus = port_view::gpu_count(report)
        .filter(|count| *count > 0 || report.snapshot.pci.is_some())
        .map_or("unknown".into(), |count| count.to_string());
    let driver = port_view::gpudirect(report)
        .and_then(|facts| facts.driver.value())
        .map(|driver| {
            let kind = match driver.open {
                Some(true) => ", open",
                Some(false) => ", proprietary",
                None => "",
            };
            format!(" (driver {}{kind})", driver.version)
        })
        .unwrap_or_default();
    let gds = port_view::gds_name(port_view::gds_ready(report));
    let path = port_view::word(report.gpudirect.path);
    let why = if report.gpudirect.why.is_empty() {
        String::new()
    } else {
        format!(" ({})", report.gpudirect.why.join("; "))
    };
    if report.profile != super::Profile::default() {
        page.wrapped("", 2, &format!("Platform: {}", report.profile.sentence()));
    }
    if let Some(there) = report.profile.there() {
        page.wrapped("  ", 2, &there);
    }
    if let Some(functions) = virtual_functions(report) {
        page.wrapped("", 2, &format!("Virtual functions: {functions}"));
    }
    if let Some(functions) = disabled_functions(report) {
        page.wrapped("Virtual functions switched off: ", 2, &functions);
    }
    page.wrapped("", 2, &format!("GPUs: {gpus}{driver}; GDS: {gds}"));
    page.wrapped("", 2, &format!("GPUDirect RDMA: {path}{why}"));
}

/// How many there are, by driver; none where there are none.
fn virtual_functions(report: &Report) -> Option<String> {
    let pci = report.snapshot.pci.as_ref()?;
    let functions = pci
        .value
        .sriov
        .values()
        .flat_map(|of| of.functions.values());
    let listed = counted(functions.map(|driver| match driver.as_deref() {
        Some(driver) if gives_away(driver) => format!("{driver} (no verbs)"),
        driver => driver.unwrap_or("none").to_string(),
    }));
    (!listed.is_empty()).then(|| listed.join(", "))
}

/// How many there are of each word: `3 active`.
fn counted(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let counts = counts.iter();
    counts
        .map(|(word, count)| format!("{count} {word}"))
        .collect()
}

/// Those whose link is administratively down, by interface; none where there are none.
fn disabled_functions(report: &Report) -> Option<String> {
    let of = |(name, stamp): (&String, &Arc<Stamped<Reading<VfLinks>>>)| {
        Some(format!(
            "{name} vf {}",
            stamp.value.value()?.disabled_text()?
        ))
    };
    let told: Vec<String> = report.snapshot.vf_links.iter().filter_map(of).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn blind_sources(page: &mut Page, report: &Report) {
    let blind: Vec<String> = port_view::sources(report)
        .into_iter()
        .filter(|(_, source)| !source.is_absent() && !source.is_up())
        .map(|(name, source)| match source.stalled {
            0 => name.to_string(),
            stalled => format!("{name} ({stalled} stalled)"),
        })
        .collect();
    if !blind.is_empty() {
        page.wrapped("Sources that did not answer: ", 2, &blind.join(", "));
    }
}

fn findings(page: &mut Page, report: &Report) {
    for finding in report.findings.iter().take(MAX_FINDINGS) {
        page.line("");
        one_finding(page, report, finding);
    }
    let more = report.findings.len().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        page.line("");
        page.line(&format!("and {more} more: selvage check -o json"));
    }
}

fn one_finding(page: &mut Page, report: &Report, finding: &Finding) {
    let word = port_view::status(finding);
    let colour = match word {
        "failing" => Colour::Red,
        "degraded" => Colour::Yellow,
        "unknown" => Colour::Magenta,
        _ => Colour::Bold,
    };
    let lead = format!("{}  ", page.paint(colour, word));
    // A single run does not know since when.
    let since = match finding.since == report.snapshot.at {
        true => String::new(),
        false => format!(", for {}", ago(report, finding.since)),
    };
    page.wrapped(
        &lead,
        2,
        &format!(
            "{}  {} ({}{since})",
            finding.subject, finding.reason, finding.check
        ),
    );
    page.wrapped("  ", 2, &finding.message);
    if !finding.evidence.is_empty() {
        let seen: Vec<String> = finding
            .evidence
            .iter()
            .map(|(name, value)| match value {
                serde_json::Value::String(text) => format!("{name}={text}"),
                value => format!("{name}={value}"),
            })
            .collect();
        page.wrapped("  seen: ", 8, &seen.join(", "));
    }
    if !finding.remedy.is_empty() {
        page.wrapped("  fix:  ", 8, &finding.remedy);
    }
}

#[cfg(test)]
mod tests;
