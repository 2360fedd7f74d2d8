//! How bad something looks: one word, one shape and one colour for each, never a colour alone; and
//! which findings are about what.

use super::html::Html;
use crate::check::{Finding, Status, Weight};
use crate::report::port_view::ReportedPort;
use crate::report::{Report, State};
use std::collections::{BTreeMap, BTreeSet};

/// Findings told in full; each has an anchor `f-N`.
pub(super) const MAX_FINDINGS: usize = 48;

/// How something is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// As it should be.
    Ok,
    /// Not in use, and nothing says that it should be.
    Off,
    /// Something to know.
    Notice,
    /// Cannot be told.
    Unknown,
    /// Works with less.
    Degraded,
    /// Lost.
    Failing,
}

impl Severity {
    /// Of a finding.
    pub(super) fn of(finding: &Finding) -> Severity {
        Severity::judged(finding.weight, finding.status)
    }

    /// Of a finding's weight and status.
    pub(super) fn judged(weight: Weight, status: Status) -> Severity {
        match (weight, status) {
            (Weight::Notice, _) => Severity::Notice,
            (_, Status::Failing) => Severity::Failing,
            (_, Status::Degraded) => Severity::Degraded,
            (_, Status::Unknown) => Severity::Unknown,
        }
    }

    /// Of the verdict.
    pub(super) fn of_state(state: State) -> Severity {
        match state {
            State::Ready => Severity::Ok,
            State::Degraded => Severity::Degraded,
            State::Unready => Severity::Failing,
            State::Unknown => Severity::Unknown,
        }
    }

    /// The same, as far as it is worth looking there first: a notice, or a port that nobody uses, is
    /// no reason to.
    pub(super) fn attention(self) -> Severity {
        match self > Severity::Notice {
            true => self,
            false => Severity::Ok,
        }
    }

    /// The word beside the shape.
    pub(super) fn word(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Off => "not in use",
            Severity::Notice => "notice",
            Severity::Unknown => "unknown",
            Severity::Degraded => "degraded",
            Severity::Failing => "failing",
        }
    }

    /// Class that gives the colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Off => "off",
            Severity::Notice => "note",
            Severity::Unknown => "unk",
            Severity::Degraded => "deg",
            Severity::Failing => "bad",
        }
    }

    /// The shape, in a box of 16 by 16: of another outline for each.
    pub(super) fn shape(self) -> &'static str {
        match self {
            Severity::Ok => {
                "<circle class=\"s\" cx=\"8\" cy=\"8\" r=\"7\"/><path class=\"g\" d=\"M4.6 8.3l2.3 2.3 4.5-4.9\"/>"
            }
            Severity::Off => {
                "<circle class=\"r\" cx=\"8\" cy=\"8\" r=\"6\"/><path class=\"q\" d=\"M5 8h6\"/>"
            }
            Severity::Notice => {
                "<rect class=\"r\" x=\"2\" y=\"2\" width=\"12\" height=\"12\" rx=\"3\"/><path class=\"q\" d=\"M8 7.2v4M8 4.6v.2\"/>"
            }
            Severity::Unknown => {
                "<path class=\"s\" d=\"M8 .6L15.4 8 8 15.4.6 8z\"/><path class=\"g\" d=\"M6.2 6.4a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.8.6-.8 1.2M8 11.3v.1\"/>"
            }
            Severity::Degraded => {
                "<path class=\"s\" d=\"M8 1.2L15.4 14.6H.6z\"/><path class=\"g\" d=\"M8 6.2v3.8M8 12.2v.1\"/>"
            }
            Severity::Failing => {
                "<path class=\"s\" d=\"M5 .8h6L15.2 5v6L11 15.2H5L.8 11V5z\"/><path class=\"g\" d=\"M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2\"/>"
            }
        }
    }

    /// Icon of the browser's tab.
    pub(super) fn icon(self) -> &'static str {
        match self {
            Severity::Ok => {
                "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%23178a4c'/%3E%3C/svg%3E"
            }
            Severity::Degraded => {
                "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M8 1l7 14H1z' fill='%23d08700'/%3E%3C/svg%3E"
            }
            Severity::Failing => {
                "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M5 1h6l4 4v6l-4 4H5l-4-4V5z' fill='%23d92d20'/%3E%3C/svg%3E"
            }
            Severity::Off | Severity::Notice | Severity::Unknown => {
                "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M8 0l8 8-8 8-8-8z' fill='%237a5af8'/%3E%3C/svg%3E"
            }
        }
    }

    /// The shape alone, beside a word that says the same.
    pub(super) fn draw(self, html: &mut Html) {
        html.open(
            "svg",
            &[
                ("class", self.class()),
                ("viewBox", "0 0 16 16"),
                ("aria-hidden", "true"),
                ("focusable", "false"),
            ],
        );
        html.raw(self.shape());
        html.close("svg");
    }

    /// Shape and word.
    pub(super) fn badge(self, html: &mut Html, word: &str) {
        html.open("span", &[("class", "badge")]);
        self.draw(html);
        html.leaf("b", &[("class", self.class())], word);
        html.close("span");
    }
}

/// Findings by what they are about.
#[derive(Debug)]
pub(super) struct SeverityIndex<'a> {
    findings: &'a [Finding],
    about: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> SeverityIndex<'a> {
    /// Of a report.
    pub(super) fn of(report: &'a Report) -> Self {
        let mut about: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, finding) in report.findings.iter().enumerate() {
            let subject = finding.subject.as_str();
            // Of one device's several findings, some keys carry a word more (`0000:9d:00.0 config`).
            let key = finding.key.split(' ').next().unwrap_or_default();
            for name in BTreeSet::from([subject, key, finding.key.as_str()]) {
                about.entry(name).or_default().push(number);
            }
        }
        SeverityIndex {
            findings: &report.findings,
            about,
        }
    }

    /// Findings about any of these names, in the report's order.
    fn named(&self, names: &[Option<String>]) -> About<'a> {
        let numbers: BTreeSet<usize> = names
            .iter()
            .flatten()
            .filter_map(|name| self.about.get(name.as_str()))
            .flatten()
            .copied()
            .collect();
        let found = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.findings.get(number)?)));
        About(found.collect())
    }

    /// Findings about a port, its device, its PCI function or its network device.
    pub(super) fn port(&self, port: &ReportedPort<'_>) -> About<'a> {
        self.named(&[
            Some(port.name()),
            Some(port.key.to_string()),
            Some(port.device.name.clone()),
            Some(port.device.key.to_string()),
            port.pci(),
            port.device.pci.map(|pci| pci.slot()),
            port.port.netdev.clone(),
        ])
    }

    /// Findings about a GPU.
    pub(super) fn gpu(&self, gpu: crate::units::Bdf) -> About<'a> {
        self.named(&[Some(gpu.to_string()), Some(gpu.slot())])
    }

    /// The first finding of a reason.
    pub(super) fn of_reason(&self, reason: &str) -> Option<usize> {
        let is = |finding: &Finding| finding.reason == reason;
        self.findings.iter().position(is)
    }
}

/// Findings about one thing, with their numbers.
#[derive(Debug, Clone)]
pub(super) struct About<'a>(pub(super) Vec<(usize, &'a Finding)>);

impl About<'_> {
    /// The worst of them.
    pub(super) fn mark(&self) -> Option<Severity> {
        self.0
            .iter()
            .map(|(_, finding)| Severity::of(finding))
            .max()
    }

    /// The worst of those that are not about the card's PCIe link: how the port itself is.
    fn beyond_pcie(&self) -> Option<Severity> {
        let beyond = self.0.iter().filter(|(_, finding)| !on_pcie(finding));
        beyond.map(|(_, finding)| Severity::of(finding)).max()
    }

    /// The worst of those about the card's PCIe link.
    pub(super) fn pcie(&self) -> Option<Severity> {
        let on = self.0.iter().filter(|(_, finding)| on_pcie(finding));
        on.map(|(_, finding)| Severity::of(finding)).max()
    }

    /// The worst one's reason.
    pub(super) fn reason(&self) -> Option<&str> {
        // Of equals the first, which is where `max_by_key` takes the last.
        let worst = self.0.iter().rev().max_by_key(|(_, f)| Severity::of(f));
        worst.map(|(_, finding)| finding.reason.as_str())
    }

    /// Links to them.
    pub(super) fn links(&self, html: &mut Html) {
        let mut told = BTreeSet::new();
        for (number, finding) in self.0.iter().take(6) {
            if !told.insert(finding.reason.as_str()) {
                continue;
            }
            if told.len() > 1 {
                html.raw(", ");
            }
            link(html, *number, &finding.reason);
        }
        let more = self.0.len().saturating_sub(6);
        if more > 0 {
            html.text(&format!(" and {more} more"));
        }
    }
}

/// A link to a finding by its number, where that is shown.
pub(super) fn link(html: &mut Html, number: usize, text: &str) {
    if number < MAX_FINDINGS {
        html.leaf("a", &[("href", &format!("#f-{number}"))], text);
    } else {
        html.text(text);
    }
}

/// Whether a finding is about the PCIe link between a card and what is above it.
fn on_pcie(finding: &Finding) -> bool {
    finding.check == "pcie_link"
}

/// How a port is: by the findings about it, else by its state.
pub(super) fn of_port(port: &ReportedPort<'_>, about: &About<'_>) -> Severity {
    let state = of_state(port);
    about.mark().unwrap_or(state).max(state)
}

/// How a port's link into the fabric is: what is on its PCIe side is none of it.
pub(super) fn of_link(port: &ReportedPort<'_>, about: &About<'_>) -> Severity {
    let state = of_state(port);
    about.beyond_pcie().unwrap_or(state).max(state)
}

fn of_state(port: &ReportedPort<'_>) -> Severity {
    match (port.is_up(), port.state()) {
        (true, _) => Severity::Ok,
        (false, None) => Severity::Unknown,
        (false, Some(_)) => Severity::Off,
    }
}
