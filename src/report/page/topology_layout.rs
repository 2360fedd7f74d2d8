//! What stands beside what: GPUs and ports by the PCIe switch above them, else by NUMA node. Pure;
//! `drawing.rs` draws it.

use super::severity_icon::{About, Severity, SeverityIndex, of_link, of_port};
use crate::observe::pci::{PciFacts, PciFunction};
use crate::observe::rdma::Function;
use crate::report::Report;
use crate::report::port_view::{self, ReportedPort};
use crate::units::Bdf;
use std::collections::BTreeMap;

/// Rows of one group: what is more goes to a group of its own, so that none is taller than a screen.
const MAX_ROWS: usize = 8;

/// Groups drawn; the table below has the rest.
pub(super) const MAX_GROUPS: usize = 36;

/// Bridges above a function, at most: a loop in what was read ends here.
const MAX_DEPTH: usize = 32;

/// A GPU.
#[derive(Debug, Clone)]
pub(super) struct Gpu<'a> {
    /// Its number in the order of addresses, which is what `nvidia-smi` numbers by.
    pub(super) number: usize,
    pub(super) bdf: Bdf,
    /// Its address as shown.
    pub(super) address: String,
    pub(super) function: Option<&'a PciFunction>,
    pub(super) mark: Severity,
    pub(super) about: About<'a>,
}

/// A port.
#[derive(Debug, Clone)]
pub(super) struct Port<'a> {
    pub(super) view: ReportedPort<'a>,
    /// Its function's address as shown; empty where there is none.
    pub(super) address: String,
    pub(super) function: Option<&'a PciFunction>,
    /// The worst about it, its card and its links.
    pub(super) mark: Severity,
    /// Of its link into the fabric alone.
    pub(super) link: Severity,
    pub(super) about: About<'a>,
}

impl Port<'_> {
    /// NUMA node, as the device or its function tells it.
    pub(super) fn numa(&self) -> Option<u32> {
        (self.view.device.numa_node).or_else(|| self.function?.numa_node)
    }

    /// Its device's name, with its number where the device has several.
    pub(super) fn name(&self) -> String {
        match self.view.device.ports.len() {
            0 | 1 => self.view.device.name.clone(),
            _ => self.view.name(),
        }
    }
}

/// What a group hangs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Above {
    /// A PCIe switch, by the address of its upper port.
    Switch(String),
    /// A root port with several below it.
    RootPort(String),
    /// Nothing shared: each on a root port of its own.
    Numa,
    /// No bridge was seen, as in most virtual machines.
    Unseen,
    /// Devices and GPUs that are gone.
    Gone,
}

/// What is drawn together.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    pub(super) above: Above,
    pub(super) numa: Option<u32>,
    pub(super) gpus: Vec<Gpu<'a>>,
    pub(super) ports: Vec<Port<'a>>,
    /// What is gone, in words, with what is said of it.
    pub(super) gone: Vec<(String, Severity, String)>,
}

impl Group<'_> {
    /// The worst in it.
    pub(super) fn mark(&self) -> Severity {
        let gpus = self.gpus.iter().map(|gpu| gpu.mark);
        let ports = self.ports.iter().map(|port| port.mark);
        let gone = self.gone.iter().map(|(_, mark, _)| *mark);
        let marks: Vec<Severity> = gpus.chain(ports).chain(gone).collect();
        let worst = marks.iter().copied().max().unwrap_or(Severity::Off);
        // A port that is not in use beside one that is says nothing of the group.
        match marks.contains(&Severity::Ok) {
            true => worst.attention(),
            false => worst,
        }
    }
}

/// The node, laid out.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    /// Worst first; those that are well in the order of NUMA nodes and addresses.
    pub(super) groups: Vec<Group<'a>>,
    /// All GPUs, by number.
    pub(super) gpus: Vec<Gpu<'a>>,
    /// All ports but virtual functions of this host that are no rails, by name.
    pub(super) ports: Vec<Port<'a>>,
    /// Virtual functions and their like that are left out of the drawing.
    pub(super) left_out: usize,
}

/// Lays out a report.
pub(super) fn of<'a>(report: &'a Report, marks: &SeverityIndex<'a>) -> Layout<'a> {
    let pci = report.snapshot.pci.as_ref().map(|pci| &pci.value);
    let function = |address: &str| pci.and_then(|pci| pci.functions.get(address));
    let all = port_view::ports(report);
    let whole = domains(pci, &all);
    let gpus: Vec<Gpu<'_>> = pci
        .map_or(&[][..], |pci| &pci.gpus)
        .iter()
        .enumerate()
        .map(|(number, bdf)| {
            let about = marks.gpu(*bdf);
            Gpu {
                number,
                bdf: *bdf,
                address: shown(&bdf.to_string(), whole),
                function: function(&bdf.to_string()),
                mark: about.mark().unwrap_or(Severity::Ok),
                about,
            }
        })
        .collect();
    let count = all.len();
    let ports: Vec<Port<'_>> = all
        .into_iter()
        .filter(|port| port.is_rail() || !is_part(port.device.function))
        .map(|view| {
            let about = marks.port(&view);
            Port {
                function: view.pci().and_then(|address| function(&address)),
                address: view
                    .pci()
                    .map_or_else(String::new, |pci| shown(&pci, whole)),
                mark: of_port(&view, &about),
                link: of_link(&view, &about),
                about,
                view,
            }
        })
        .collect();
    let mut groups = groups(pci, &gpus, &ports);
    for group in &mut groups {
        if let Above::Switch(address) | Above::RootPort(address) = &mut group.above {
            *address = shown(address, whole);
        }
    }
    groups.extend(gone(report, &gpus, &ports));
    // Stable: groups that are well keep their places.
    groups.sort_by_key(|group| {
        let compute = !group.gpus.is_empty() || group.ports.iter().any(|port| port.view.is_rail());
        let worst = std::cmp::Reverse(group.mark().attention());
        (worst, !compute && group.gone.is_empty())
    });
    Layout {
        left_out: count.saturating_sub(ports.len()),
        groups,
        gpus,
        ports,
    }
}

/// Whether addresses differ in their domains, so that these have to be shown.
fn domains(pci: Option<&PciFacts>, ports: &[ReportedPort<'_>]) -> bool {
    let gpus = pci.into_iter().flat_map(|pci| pci.gpus.iter().copied());
    let mut all = gpus.chain(ports.iter().filter_map(|port| port.device.pci));
    all.any(|bdf| bdf.domain != 0)
}

/// An address, without the domain where all have the first.
fn shown(address: &str, whole: bool) -> String {
    match address.strip_prefix("0000:") {
        Some(rest) if !whole => rest.to_string(),
        _ => address.to_string(),
    }
}

fn is_part(function: Function) -> bool {
    matches!(function, Function::VirtualOfHost | Function::SubFunction)
}

/// Bridges above a function, the root port first.
fn bridges<'a>(pci: &'a PciFacts, function: Option<&'a PciFunction>) -> Vec<&'a str> {
    let mut above = Vec::new();
    let mut at = function.and_then(|function| function.parent.as_deref());
    while let Some(bridge) = at
        && above.len() < MAX_DEPTH
    {
        above.push(bridge);
        let next = pci.functions.get(bridge);
        at = next.and_then(|function| function.parent.as_deref());
    }
    above.reverse();
    above
}

/// One end of the plan: a GPU or a port.
enum End<'p, 'a> {
    Gpu(&'p Gpu<'a>),
    Port(&'p Port<'a>),
}

fn groups<'a>(pci: Option<&'a PciFacts>, gpus: &[Gpu<'a>], ports: &[Port<'a>]) -> Vec<Group<'a>> {
    let above = |function| pci.map_or(Vec::new(), |pci| bridges(pci, function));
    let numa = |function: Option<&PciFunction>| function.and_then(|function| function.numa_node);
    let ends: Vec<(End<'_, 'a>, Vec<&str>, Option<u32>, String)> = gpus
        .iter()
        .map(|gpu| {
            let slot = gpu.bdf.slot();
            (End::Gpu(gpu), above(gpu.function), numa(gpu.function), slot)
        })
        .chain(ports.iter().map(|port| {
            let slot = port.view.device.pci.map(|pci| pci.slot());
            let slot = slot.unwrap_or_else(|| port.view.device.name.clone());
            (End::Port(port), above(port.function), port.numa(), slot)
        }))
        .collect();
    // Root port to the cards below it, and to the bridges that all of these share.
    let mut roots: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    for (_, above, _, slot) in &ends {
        let Some(root) = above.first() else { continue };
        let (cards, shared) = roots
            .entry(root)
            .or_insert_with(|| (Vec::new(), above.clone()));
        if !cards.contains(&slot.as_str()) {
            cards.push(slot);
        }
        let same = shared.iter().zip(above).take_while(|(a, b)| a == b).count();
        shared.truncate(same);
    }
    let mut found: BTreeMap<(Option<u32>, Above), Group<'a>> = BTreeMap::new();
    for (end, above, numa, _) in &ends {
        let shared = above.first().and_then(|root| roots.get(root));
        let above = match shared {
            Some((cards, shared)) if cards.len() > 1 => match shared.get(1).or(shared.first()) {
                Some(bridge) if shared.len() > 1 => Above::Switch((*bridge).to_string()),
                Some(bridge) => Above::RootPort((*bridge).to_string()),
                None => Above::Unseen,
            },
            Some(_) => Above::Numa,
            None => Above::Unseen,
        };
        let group = found.entry((*numa, above.clone())).or_insert(Group {
            above,
            numa: *numa,
            gpus: Vec::new(),
            ports: Vec::new(),
            gone: Vec::new(),
        });
        match end {
            End::Gpu(gpu) => group.gpus.push((*gpu).clone()),
            End::Port(port) => group.ports.push((*port).clone()),
        }
    }
    found.into_values().flat_map(in_pieces).collect()
}

/// A group cut into pieces of a bounded number of rows; rails stand before other ports.
fn in_pieces(mut group: Group<'_>) -> Vec<Group<'_>> {
    group.ports.sort_by_key(|port| !port.view.is_rail());
    let mut pieces = Vec::new();
    let (mut gpus, mut ports) = (group.gpus.into_iter(), group.ports.into_iter());
    loop {
        let piece = Group {
            above: group.above.clone(),
            numa: group.numa,
            gpus: gpus.by_ref().take(MAX_ROWS).collect(),
            ports: ports.by_ref().take(MAX_ROWS).collect(),
            gone: Vec::new(),
        };
        if piece.gpus.is_empty() && piece.ports.is_empty() {
            return pieces;
        }
        pieces.push(piece);
    }
}

/// What findings say is missing and the drawing has no place for.
fn gone<'a>(report: &Report, gpus: &[Gpu<'_>], ports: &[Port<'_>]) -> Option<Group<'a>> {
    let placed = |number: usize| {
        let of_gpu = |gpu: &Gpu<'_>| gpu.about.0.iter().any(|(n, _)| *n == number);
        let of_port = |port: &Port<'_>| port.about.0.iter().any(|(n, _)| *n == number);
        gpus.iter().any(of_gpu) || ports.iter().any(of_port)
    };
    let gone: Vec<_> = report
        .findings
        .iter()
        .enumerate()
        .filter(|(number, finding)| finding.check == "device_missing" && !placed(*number))
        .map(|(_, finding)| {
            let reason = finding.reason.clone();
            (finding.subject.clone(), Severity::of(finding), reason)
        })
        .filter(|(_, mark, _)| *mark > Severity::Unknown)
        .take(MAX_ROWS)
        .collect();
    (!gone.is_empty()).then_some(Group {
        above: Above::Gone,
        numa: None,
        gpus: Vec::new(),
        ports: Vec::new(),
        gone,
    })
}
