//! Which GPUs and ports belong together: those below one PCIe switch, else those of one NUMA node.
//! `templates/fabric.html` draws it.

use super::badge::{About, Badge, of_link, of_port};
use super::text::cut;
use crate::check::Finding;
use crate::observe::{Function, PciFacts, PciFunction, PcieLink};
use crate::report::{PortView, Report, port_view};
use crate::units::Bdf;
use std::{cmp::Reverse, collections::BTreeMap};

/// Rows of one group; more go to another group, so that none is taller than a screen.
const MAX_ROWS: usize = 8;

/// Bridges above a function, at most: a loop in the data ends here.
const MAX_DEPTH: usize = 32;

/// Height of a row in the drawing, in its own units.
const ROW: i32 = 46;

#[derive(Debug, Clone)]
pub(super) struct Gpu<'a> {
    /// Its number in the order of addresses, as in `nvidia-smi`.
    pub(super) number: usize,
    pub(super) bdf: Bdf,
    /// Its address as shown.
    pub(super) address: String,
    pub(super) function: Option<&'a PciFunction>,
    pub(super) place: Locality<'a>,
    pub(super) severity: Badge,
    pub(super) about: About<'a>,
}

#[derive(Debug, Clone)]
pub(super) struct PortBox<'a> {
    pub(super) view: PortView<'a>,
    /// Its function's address as shown; empty for software devices.
    pub(super) address: String,
    pub(super) function: Option<&'a PciFunction>,
    pub(super) place: Locality<'a>,
    /// The worst of the port, its card and its links.
    pub(super) severity: Badge,
    /// Its link into the fabric alone.
    pub(super) link: Badge,
    pub(super) about: About<'a>,
}

impl PortBox<'_> {
    /// Its device's name, with the port number only where the device has several.
    pub(super) fn name(&self) -> String {
        match self.view.device.ports.len() {
            0 | 1 => self.view.device.name.clone(),
            _ => self.view.subject.clone(),
        }
    }

    /// The name, short enough for its box next to a glyph.
    pub(super) fn short_name(&self) -> String {
        let glyph = usize::from(self.about.pcie().is_some());
        cut(self.name(), 12 - 2 * glyph)
    }

    /// How the link is drawn: a link that is up is whole whatever a notice says.
    pub(super) fn stroke(&self) -> Badge {
        match self.link {
            Badge::Notice if self.view.is_active() => Badge::Ok,
            Badge::Notice => Badge::Off,
            severity => severity,
        }
    }

    /// State and rate in a few words.
    pub(super) fn state(&self) -> String {
        match (self.view.is_active(), self.view.rate(), self.view.state()) {
            (true, Some(rate), _) => rate.to_string(),
            (true, None, _) => "active".into(),
            (false, _, None) => "state unknown".into(),
            (false, ..) => self.view.state_text(),
        }
    }
}

/// The bridge that the members of a group share.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Above {
    /// A PCIe switch, by the address of its upstream port.
    Switch(String),
    /// A root port with several cards below it.
    RootPort(String),
    /// None: each card has a root port of its own.
    Numa,
    /// No bridge was seen, as in most virtual machines.
    #[default]
    Unseen,
    /// Devices and GPUs that are gone.
    Gone,
}

/// Members that are drawn together.
#[derive(Debug, Clone, Default)]
pub(super) struct Block<'a> {
    pub(super) above: Above,
    pub(super) numa: Option<u32>,
    pub(super) gpus: Vec<Gpu<'a>>,
    pub(super) ports: Vec<PortBox<'a>>,
    /// Findings about devices that are missing.
    pub(super) gone: Vec<&'a Finding>,
}

impl<'a> Block<'a> {
    /// The worst in it.
    pub(super) fn severity(&self) -> Badge {
        let gpus = self.gpus.iter().map(|gpu| gpu.severity);
        let ports = self.ports.iter().map(|port| port.severity);
        let gone = self.gone.iter().map(|finding| Badge::of(finding));
        let all: Vec<Badge> = gpus.chain(ports).chain(gone).collect();
        let worst = all.iter().copied().max().unwrap_or(Badge::Off);
        // An unused port next to one in use says nothing about the group.
        match all.contains(&Badge::Ok) {
            true => worst.attention(),
            false => worst,
        }
    }

    /// Address of the shared bridge.
    pub(super) fn address(&self) -> Option<&str> {
        match &self.above {
            Above::Switch(address) | Above::RootPort(address) => Some(address),
            _ => None,
        }
    }

    pub(super) fn height(&self) -> i32 {
        let rows = self.gpus.len().max(self.ports.len()).max(1);
        i32::try_from(rows).unwrap_or(1) * ROW
    }

    /// Members with the middles of their boxes, spread over the height.
    pub(super) fn spread<'m, T>(&self, members: &'m [T]) -> impl Iterator<Item = (&'m T, i32)> {
        let count = i32::try_from(members.len()).unwrap_or(1).max(1);
        let step = self.height() / count;
        members
            .iter()
            .zip((0..count).map(move |n| step * n + step / 2))
    }

    /// Cut into groups of a bounded number of rows; rails come before other ports.
    fn in_pieces(mut self) -> Vec<Block<'a>> {
        self.ports.sort_by_key(|port| !port.view.rail);
        let rows = self.gpus.len().max(self.ports.len());
        let piece = |at: usize| Block {
            gpus: self.gpus.iter().skip(at).take(MAX_ROWS).cloned().collect(),
            ports: self.ports.iter().skip(at).take(MAX_ROWS).cloned().collect(),
            above: self.above.clone(),
            numa: self.numa,
            gone: Vec::new(),
        };
        (0..rows).step_by(MAX_ROWS).map(piece).collect()
    }
}

/// The node, laid out.
#[derive(Debug)]
pub(super) struct Drawing<'a> {
    /// Worst first; healthy ones in the order of NUMA nodes and addresses.
    pub(super) groups: Vec<Block<'a>>,
    /// All GPUs, worst first, then by number.
    pub(super) gpus: Vec<Gpu<'a>>,
    /// All ports except virtual functions of this host that are not rails: worst first, then rails, then by
    /// name.
    pub(super) ports: Vec<PortBox<'a>>,
    /// Number of ports left out.
    pub(super) left_out: usize,
}

pub(super) fn of(report: &Report) -> Drawing<'_> {
    let pci = report.snapshot.pci.as_ref().map(|pci| &pci.value);
    let function = |address: &str| pci.and_then(|pci| pci.functions.get(address));
    let all = port_view::ports(report);
    let count = all.len();
    let bdfs = pci.map_or(&[][..], |pci| &pci.gpus);
    // Where PCI domains differ, addresses are shown with theirs.
    let in_use = all.iter().filter_map(|port| port.device.pci);
    let in_use = in_use.chain(bdfs.iter().copied());
    let whole = in_use.map(|bdf| bdf.domain).any(|domain| domain != 0);
    let gpu = |(number, bdf): (usize, &Bdf)| {
        let (about, address) = (About::gpu(report, *bdf), bdf.to_string());
        let function = function(&address);
        Gpu {
            number,
            bdf: *bdf,
            address: shown(&address, whole),
            function,
            place: Locality::of(pci, function, None, bdf.slot()),
            severity: about.severity().unwrap_or(Badge::Ok),
            about,
        }
    };
    let mut gpus: Vec<Gpu<'_>> = bdfs.iter().enumerate().map(gpu).collect();
    let mut ports: Vec<PortBox<'_>> = (all.into_iter())
        .filter(|port| port.rail || !is_virtual(port.device.function))
        .map(|view| {
            let about = About::port(report, &view);
            let address = view.address().unwrap_or_default();
            let (function, device) = (function(&address), view.device);
            let slot = device.pci.map(|pci| pci.slot());
            let card = slot.unwrap_or_else(|| device.name.clone());
            PortBox {
                function,
                place: Locality::of(pci, function, device.numa_node, card),
                address: shown(&address, whole),
                severity: of_port(&view, &about),
                link: of_link(&view, &about),
                about,
                view,
            }
        })
        .collect();
    let mut groups = groups(&gpus, &ports, whole);
    groups.extend(gone(report, &gpus, &ports));
    // Stable: healthy groups keep their places.
    groups.sort_by_key(|group| {
        let compute = !group.gpus.is_empty() || group.ports.iter().any(|port| port.view.rail);
        let worst = Reverse(group.severity().attention());
        (worst, !compute && group.gone.is_empty())
    });
    gpus.sort_by_key(|gpu| Reverse(gpu.severity.attention()));
    ports.sort_by_key(|port| (Reverse(port.severity.attention()), !port.view.rail));
    Drawing {
        left_out: count - ports.len(),
        groups,
        gpus,
        ports,
    }
}

/// An address, without the domain where all are in the first.
fn shown(address: &str, whole: bool) -> String {
    match address.strip_prefix("0000:") {
        Some(rest) if !whole => rest.to_string(),
        _ => address.to_string(),
    }
}

fn is_virtual(function: Function) -> bool {
    matches!(function, Function::VirtualOfHost | Function::SubFunction)
}

/// PCIe link of a function: `32 GT/s x16`, and its maximum where that is more.
pub(super) fn pcie(function: &Option<&PciFunction>) -> Option<String> {
    let text = |link: &PcieLink| {
        let speed = f64::from(link.megatransfers) / 1000.0;
        format!("{speed} GT/s x{}", link.width)
    };
    let function = function.as_ref()?;
    let current = function.current.value()?;
    let is_more =
        |max: &PcieLink| max.megatransfers > current.megatransfers || max.width > current.width;
    Some(match function.max.value() {
        Some(max) if is_more(max) => format!("{} of {}", text(current), text(max)),
        _ => text(current),
    })
}

/// Where a GPU or port is plugged in.
#[derive(Debug, Clone)]
pub(super) struct Locality<'a> {
    root_port: Option<&'a str>,
    /// The bridge below the root port: a switch's upstream port.
    switch: Option<&'a str>,
    pub(super) numa: Option<u32>,
    card: String,
}

impl<'a> Locality<'a> {
    /// `numa`: where that is known of the device itself.
    fn of(
        pci: Option<&'a PciFacts>,
        function: Option<&'a PciFunction>,
        numa: Option<u32>,
        card: String,
    ) -> Self {
        let parent = |function: &'a PciFunction| function.parent.as_deref();
        let up = |bridge: &&str| parent(pci?.functions.get(*bridge)?);
        let above = std::iter::successors(function.and_then(parent), up);
        let mut bridges: Vec<&str> = above.take(MAX_DEPTH).collect();
        Locality {
            root_port: bridges.pop(),
            switch: bridges.pop(),
            numa: numa.or_else(|| function?.numa_node),
            card,
        }
    }
}

fn groups<'a>(gpus: &[Gpu<'a>], ports: &[PortBox<'a>], whole: bool) -> Vec<Block<'a>> {
    let places = || {
        let of_gpus = gpus.iter().map(|gpu| &gpu.place);
        of_gpus.chain(ports.iter().map(|port| &port.place))
    };
    let above = |place: &Locality<'_>| {
        let Some(root) = place.root_port else {
            return Above::Unseen;
        };
        let below = places().filter(|of| of.root_port == Some(root));
        let below: Vec<&Locality<'_>> = below.collect();
        match place.switch {
            _ if below.iter().all(|of| of.card == place.card) => Above::Numa,
            Some(switch) if below.iter().all(|of| of.switch == place.switch) => {
                Above::Switch(shown(switch, whole))
            }
            _ => Above::RootPort(shown(root, whole)),
        }
    };
    let mut found: BTreeMap<(Option<u32>, Above), Block<'a>> = BTreeMap::new();
    let key = |place: &Locality<'_>| (place.numa, above(place));
    for gpu in gpus {
        let group = found.entry(key(&gpu.place)).or_default();
        group.gpus.push(gpu.clone());
    }
    for port in ports {
        let group = found.entry(key(&port.place)).or_default();
        group.ports.push(port.clone());
    }
    let mut pieces = Vec::new();
    for ((numa, above), mut group) in found {
        (group.numa, group.above) = (numa, above);
        pieces.extend(group.in_pieces());
    }
    pieces
}

/// Missing devices that have no place in the drawing.
fn gone<'a>(report: &'a Report, gpus: &[Gpu<'_>], ports: &[PortBox<'_>]) -> Option<Block<'a>> {
    let about = gpus.iter().map(|gpu| &gpu.about);
    let about = about.chain(ports.iter().map(|port| &port.about));
    let placed: Vec<usize> = about.flat_map(|a| a.0.iter().map(|(n, _)| *n)).collect();
    let is_gone = |(number, finding): &(usize, &Finding)| {
        finding.check == "device_missing"
            && !placed.contains(number)
            && Badge::of(finding) > Badge::Unknown
    };
    let gone = report.findings.iter().enumerate().filter(is_gone);
    let gone: Vec<&Finding> = gone.map(|(_, finding)| finding).take(MAX_ROWS).collect();
    (!gone.is_empty()).then(|| Block {
        above: Above::Gone,
        gone,
        ..Block::default()
    })
}
