//! The report for a person at a terminal: one line that says it, a table of rails, then what is
//! wrong, why and what to do.

use super::{PortView, Report, port_view};
use crate::check::Finding;
use crate::observe::{Dot1xFacts, PortState, gives_away};
use crate::readiness;
use crate::settings_macro::defaults;
use std::collections::BTreeMap;

use writer::cut;
pub(crate) use writer::{Colour, Page, after_colon, complain, count};
pub use writer::{clean, clean_lines};

pub(crate) mod writer;

/// Findings told in full; the rest is counted.
const MAX_FINDINGS: usize = 20;

/// Ports in a table that pushes the findings below it off the screen, so that they come first.
const LONG_TABLE: usize = 16;

/// Longest cell of the table, in characters.
const MAX_CELL: usize = 28;

defaults! {
    /// How text is printed: its width and colours.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    Style {
        /// Columns of the terminal.
        width: usize = 80,
        /// Whether ANSI colours are printed.
        colour: bool = false,
    }
}

impl Style {
    /// The query of `/report` that asks for text in this style.
    pub fn query(self) -> String {
        let Style { width, colour } = self;
        format!("format=text&width={width}&colour={colour}")
    }

    /// Reads such a query; nothing where JSON is wanted.
    pub fn from_query(query: &str) -> Option<Style> {
        let value = |name| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let width = value("width").and_then(|width| width.parse().ok());
        (value("format") == Some("text")).then(|| Style {
            width: width.unwrap_or(Style::default().width).clamp(20, 1000),
            colour: value("colour") == Some("true"),
        })
    }
}

/// The report as text, with a newline at its end.
pub fn encode(report: &Report, style: Style) -> String {
    let mut page = Page::new(style, 200);
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
    neighbors(&mut page, &ports);
    node_facts(&mut page, report);
    page.listed("Muted checks: ", 2, &report.muted, ", ");
    let blind = blind_sources(report);
    page.listed("Sources that did not answer: ", 2, &blind, ", ");
    if !findings_first {
        findings(&mut page, report);
    }
    page.out
}

fn headline(page: &mut Page, report: &Report) {
    let word = report.state.as_str().to_uppercase();
    let lead = format!("{}  ", page.judged(&word));
    let since = match report.since == report.snapshot.at {
        true => String::new(),
        false => format!(" (for {})", port_view::ago(report, report.since)),
    };
    let young = match report.full_window {
        true => "",
        false => ", first window not complete",
    };
    let sentence = format!("{}{}{since}{young}", report.node, report.because());
    page.wrapped(&lead, word.len() + 2, &sentence);
    for doc in readiness::explained(&report.reasons) {
        page.wrapped("  ", 2, &doc.meaning);
        page.wrapped("  fix:  ", 8, doc.remedy());
    }
}

/// Reasons of the findings about a port, by its identity or its shown name.
fn reasons(report: &Report, port: &PortView<'_>) -> String {
    let key = port.key.to_string();
    let about = report.findings.iter();
    let about = about.filter(|finding| finding.key == key || finding.subject == port.subject);
    let mut reasons: Vec<&str> = about.map(|finding| finding.reason).collect();
    reasons.dedup();
    match (reasons.is_empty(), port.state()) {
        (false, _) => reasons.join(", "),
        (true, None) if port.device.is_gvnic() && port.port.netdev.is_none() => "in a pod".into(),
        // A port that is not up is not fine just because it has no finding.
        (true, Some(PortState::Active)) => "ok".to_string(),
        (true, _) => "-".to_string(),
    }
}

fn rails(page: &mut Page, report: &Report, ports: &[PortView<'_>]) {
    let rails: Vec<&PortView<'_>> = ports.iter().filter(|port| port.rail).collect();
    if let Some(note) = port_view::fabric_note(report, ports.len(), rails.len()) {
        return page.line(note);
    }
    let active = rails.iter().filter(|port| port.is_active()).count();
    page.line(&format!("Rails: {active} of {} active", rails.len()));
    let heads = ["PORT", "PCI", "NETDEV", "STATE", "RATE", "FINDINGS"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    let shown = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    let cell = |text: String| cut(&clean(&text), MAX_CELL).into_owned();
    for port in rails {
        let row = [
            port.subject.clone(),
            shown(port.address()),
            shown(port.port.netdev.clone()),
            port.state_text(),
            shown(port.rate().map(|rate| rate.to_string())),
            reasons(report, port),
        ];
        rows.push(row.map(cell).to_vec());
    }
    let narrow = page.width < 80;
    if narrow {
        // The port names the device, too.
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    let findings = heads.len() - 1 - usize::from(narrow);
    page.table("  ", rows, |page, column, cell| match cell {
        found if column == findings && !["ok", "-"].contains(&found) => {
            page.paint(Colour::Red, found)
        }
        cell => cell.to_string(),
    });
}

fn others(page: &mut Page, ports: &[PortView<'_>]) {
    let others: Vec<&PortView<'_>> = ports.iter().filter(|port| !port.rail).collect();
    let listed: Vec<String> = if others.len() <= 4 {
        let one = |port: &&PortView<'_>| {
            let rate = port.rate().map(|rate| format!(" {rate}"));
            let rate = rate.unwrap_or_default();
            format!("{} {}{rate}", port.subject, port.state_text())
        };
        others.iter().map(one).collect()
    } else {
        let word = |port: &&PortView<'_>| port.state().map_or("unknown", PortState::as_str).into();
        counted(others.iter().map(word))
    };
    page.listed("Other ports: ", 13, &listed, ", ");
}

/// What 802.1X says of the ports that have a supplicant.
fn supplicants(page: &mut Page, ports: &[PortView<'_>]) {
    let all = ports.iter().filter_map(|port| Some((port, port.dot1x?)));
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        return;
    }
    let is_authorized = |facts: &Dot1xFacts| facts.authorized == Some(true);
    let authorized = all.iter().filter(|(_, facts)| is_authorized(facts)).count();
    let mut text = format!("{authorized} of {} authorized", all.len());
    for (port, facts) in all.iter().filter(|(_, facts)| !is_authorized(facts)) {
        text.push_str(&format!(", {} {}", port.subject, facts.summary()));
    }
    page.wrapped("802.1X: ", 8, &text);
}

/// Which switches the rails reach.
fn neighbors(page: &mut Page, ports: &[PortView<'_>]) {
    let known = ports.iter().filter_map(|port| {
        let neighbor = port.neighbor?;
        Some(format!("{} {neighbor}", port.subject))
    });
    page.listed("Neighbors: ", 2, &known.collect::<Vec<_>>(), ", ");
}

fn node_facts(page: &mut Page, report: &Report) {
    let gpus = port_view::gpu_count_text(report);
    let driver = port_view::gpudirect(report).and_then(|facts| facts.driver.value());
    let driver = driver.map_or(String::new(), |driver| {
        let kind = match driver.open {
            Some(true) => ", open",
            Some(false) => ", proprietary",
            None => "",
        };
        format!(" (driver {}{kind})", driver.version)
    });
    let gds = port_view::gds_name(port_view::gds_ready(report));
    let path = report.gpudirect.path.as_str();
    let why = match report.gpudirect.why.as_slice() {
        [] => String::new(),
        why => format!(" ({})", why.join("; ")),
    };
    if report.profile != super::Profile::default() {
        page.wrapped("", 2, &format!("Platform: {}", report.profile.sentence()));
    }
    if let Some(there) = report.profile.there() {
        page.wrapped("  ", 2, &there);
    }
    page.listed("Virtual functions: ", 2, &virtual_functions(report), ", ");
    let disabled = disabled_functions(report);
    page.listed("Virtual functions switched off: ", 2, &disabled, "; ");
    page.wrapped("", 2, &format!("GPUs: {gpus}{driver}; GDS: {gds}"));
    page.wrapped("", 2, &format!("GPUDirect RDMA: {path}{why}"));
}

/// How many there are, by driver.
fn virtual_functions(report: &Report) -> Vec<String> {
    let pci = report.snapshot.pci.as_ref();
    let of = pci.into_iter().flat_map(|pci| pci.value.sriov.values());
    let drivers = of.flat_map(|of| of.functions.values());
    counted(drivers.map(|driver| match driver.as_deref() {
        Some(driver) if gives_away(Some(driver)) => format!("{driver} (no verbs)"),
        driver => driver.unwrap_or("none").to_string(),
    }))
}

/// How many there are of each word: `3 active`.
fn counted(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let counts = counts.iter().map(|(word, count)| format!("{count} {word}"));
    counts.collect()
}

/// Those whose link is administratively down, by interface.
fn disabled_functions(report: &Report) -> Vec<String> {
    let disabled = report.snapshot.vf_links.iter().filter_map(|(name, stamp)| {
        let disabled = stamp.value.value()?.disabled_text()?;
        Some(format!("{name} vf {disabled}"))
    });
    disabled.collect()
}

fn blind_sources(report: &Report) -> Vec<String> {
    let sources = port_view::sources(report).into_iter();
    let blind = sources.filter(|(_, source)| !source.is_absent() && !source.is_up());
    let shown = blind.map(|(name, source)| match source.stalled {
        0 => name.to_string(),
        stalled => format!("{name} ({stalled} stalled)"),
    });
    shown.collect()
}

fn findings(page: &mut Page, report: &Report) {
    let is_lead = |finding: &&Finding| finding.caused_by.is_none();
    let leads = || report.findings.iter().filter(is_lead);
    for finding in leads().take(MAX_FINDINGS) {
        page.line("");
        one_finding(page, report, finding);
        let followers: Vec<String> = (report.followers(finding))
            .map(|follower| format!("{} {}", follower.subject, follower.reason))
            .collect();
        page.listed("  with it: ", 2, &followers, ", ");
    }
    let more = leads().count().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        page.line("");
        page.line(&format!("and {more} more: selvage check -o json"));
    }
}

fn one_finding(page: &mut Page, report: &Report, finding: &Finding) {
    let word = port_view::status(finding.weight, finding.status);
    let lead = format!("{}  ", page.judged(word));
    // A single run does not know since when.
    let since = match finding.since == report.snapshot.at {
        true => String::new(),
        false => format!(", for {}", port_view::ago(report, finding.since)),
    };
    let (subject, reason, check) = (&finding.subject, &finding.reason, &finding.check);
    page.wrapped(&lead, 2, &format!("{subject}  {reason} ({check}{since})"));
    page.wrapped("  ", 2, &finding.message);
    let seen = finding.evidence.iter().map(|(name, value)| match value {
        serde_json::Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    });
    let seen: Vec<String> = seen.collect();
    page.listed("  seen: ", 8, &seen, ", ");
    if !finding.remedy.is_empty() {
        page.wrapped("  fix:  ", 8, &finding.remedy);
    }
}

#[cfg(test)]
mod tests;
