//! How bad something looks: one word, one shape and one colour each, never a colour alone; and which
//! findings are about which port, GPU or device.

use crate::check::{Finding, Status, Weight};
use crate::report::{PortView, Report, State};
use crate::units::Bdf;
use std::collections::BTreeSet;

/// Findings shown in full; each has an anchor `f-N`.
pub(super) const MAX_FINDINGS: usize = 48;

/// How something is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Badge {
    Ok,
    /// Not in use, and no finding says that it should be.
    Off,
    Notice,
    Unknown,
    Degraded,
    Failing,
}

impl Badge {
    pub(super) fn of(finding: &Finding) -> Badge {
        Badge::judged(finding.weight, finding.status)
    }

    pub(super) fn judged(weight: Weight, status: Status) -> Badge {
        match (weight, status) {
            (Weight::Notice, _) => Badge::Notice,
            (_, Status::Failing) => Badge::Failing,
            (_, Status::Degraded) => Badge::Degraded,
            (_, Status::Unknown) => Badge::Unknown,
        }
    }

    pub(super) fn of_state(state: &State) -> Badge {
        match state {
            State::Ready => Badge::Ok,
            State::Degraded => Badge::Degraded,
            State::Unready => Badge::Failing,
            State::Unknown => Badge::Unknown,
            State::NoFabric => Badge::Off,
        }
    }

    /// The same where it deserves attention first, else `Ok`: neither a notice nor an unused port does.
    pub(super) fn attention(self) -> Badge {
        match self > Badge::Notice {
            true => self,
            false => Badge::Ok,
        }
    }

    /// The word next to the shape, and the CSS class that gives the colour.
    fn look(self) -> (&'static str, &'static str) {
        match self {
            Badge::Ok => ("ok", "ok"),
            Badge::Off => ("not in use", "off"),
            Badge::Notice => ("notice", "note"),
            Badge::Unknown => ("unknown", "unk"),
            Badge::Degraded => ("degraded", "deg"),
            Badge::Failing => ("failing", "bad"),
        }
    }

    pub(super) fn word(self) -> &'static str {
        self.look().0
    }

    pub(super) fn class(self) -> &'static str {
        self.look().1
    }

    /// Class of an edge in the drawing: only what deserves attention has a colour.
    pub(super) fn edge(self) -> &'static str {
        match self > Badge::Notice {
            true => self.class(),
            false => "none",
        }
    }
}

/// Findings about one thing, with their numbers in the report.
#[derive(Debug, Clone)]
pub(super) struct About<'a>(pub(super) Vec<(usize, &'a Finding)>);

impl<'a> About<'a> {
    /// Findings about any of these names.
    fn named<const N: usize>(report: &'a Report, names: [Option<String>; N]) -> Self {
        let is_about = |(_, finding): &(usize, &Finding)| {
            // Of one device's several findings, some keys carry a word more (`0000:9d:00.0 config`).
            let device = finding.key.split(' ').next().unwrap_or_default();
            let mut names = names.iter().flatten();
            names.any(|name| [device, &finding.key, &finding.subject].contains(&name.as_str()))
        };
        let numbered = report.findings.iter().enumerate();
        About(numbered.filter(is_about).collect())
    }

    /// Findings about a port, its device, its PCI function or its network device.
    pub(super) fn port(report: &'a Report, port: &PortView<'_>) -> Self {
        let names = [
            Some(port.subject.clone()),
            Some(port.key.to_string()),
            Some(port.device.name.clone()),
            Some(port.device.key.to_string()),
            port.address(),
            port.device.pci.map(|pci| pci.slot()),
            port.port.netdev.clone(),
        ];
        About::named(report, names)
    }

    pub(super) fn gpu(report: &'a Report, gpu: Bdf) -> Self {
        About::named(report, [Some(gpu.to_string()), Some(gpu.slot())])
    }

    fn worst(&self, wanted: impl Fn(&Finding) -> bool) -> Option<Badge> {
        let wanted = self.0.iter().filter(|(_, finding)| wanted(finding));
        wanted.map(|(_, finding)| Badge::of(finding)).max()
    }

    pub(super) fn severity(&self) -> Option<Badge> {
        self.worst(|_| true)
    }

    /// The worst of those about the card's PCIe link.
    pub(super) fn pcie(&self) -> Option<Badge> {
        self.worst(on_pcie)
    }

    /// Reason of the worst one.
    pub(super) fn reason(&self) -> Option<&str> {
        // The first of equals; `max_by_key` takes the last.
        let worst = self.0.iter().rev().max_by_key(|(_, f)| Badge::of(f));
        worst.map(|(_, finding)| finding.reason)
    }

    /// Each reason once, with the number of its first finding.
    pub(super) fn reasons(&self) -> Vec<(usize, &str)> {
        let mut seen = BTreeSet::new();
        let all = self.0.iter().take(6);
        all.map(|(number, finding)| (*number, finding.reason))
            .filter(|(_, reason)| seen.insert(*reason))
            .collect()
    }
}

/// Whether a finding is about the PCIe link between a card and the bridge above it.
fn on_pcie(finding: &Finding) -> bool {
    finding.check == "pcie_link"
}

/// How a port is, judged by its state and the findings about it.
pub(super) fn of_port(port: &PortView<'_>, about: &About<'_>) -> Badge {
    about.severity().unwrap_or(Badge::Ok).max(of_state(port))
}

/// How a port's link into the fabric is; its PCIe side does not count.
pub(super) fn of_link(port: &PortView<'_>, about: &About<'_>) -> Badge {
    let beyond_pcie = about.worst(|finding| !on_pcie(finding));
    beyond_pcie.unwrap_or(Badge::Ok).max(of_state(port))
}

fn of_state(port: &PortView<'_>) -> Badge {
    match (port.is_active(), port.state()) {
        (true, _) => Badge::Ok,
        (false, None) => Badge::Unknown,
        (false, Some(_)) => Badge::Off,
    }
}
