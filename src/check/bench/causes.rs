//! Why a run is slower than its rails, as far as the log and the node's report show.

use super::{decide::Case, topology::Topology};
use crate::check::nccl::{NcclVerdict, Network};
use crate::observe::bench::{RailKind, Rails};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::event::{Net, Transport};
use std::collections::BTreeSet;

/// Settings that can cost bandwidth, each as `NAME=VALUE: EFFECT` with the value that does not (a default
/// that is spelled out, or what is set for a measurement); NCCL's documentation of its environment variables.
const SETTINGS: &str = include_str!("settings.txt");

/// Name, harmless value and effect of each.
fn settings() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    SETTINGS.lines().filter_map(|line| {
        let (setting, effect) = line.split_once(": ")?;
        let (name, harmless) = setting.split_once('=')?;
        Some((name, harmless, effect))
    })
}

/// Below this part of line rate most of the rails may not be in use at all.
const FEW_RAILS: f64 = 0.25;

/// What to do if no log shows which network was used.
const NO_LOG: &str = "Run it again with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,NET (mpirun -x …) and give its output too: the log shows which network and which NICs were used.";

/// What carries data: by the log's connections, or else by the kind of the rails.
fn kind(nccl: Option<&NcclVerdict>, rails: &Rails) -> RailKind {
    match nccl.map(|nccl| nccl.network) {
        Some(Network::Ib | Network::Roce | Network::IbOrRoce) => RailKind::Verbs,
        Some(Network::Ofi) => RailKind::Efa,
        Some(Network::Fastrak | Network::Tcpx) => RailKind::Gvnic,
        _ => rails.kind.unwrap_or(RailKind::Verbs),
    }
}

/// What to do about rails of a kind: `AllRails` to see whether all are in use, `EachNode` if nothing in
/// particular is found.
fn advice(what: &str, kind: RailKind) -> String {
    let text = super::remedy(&format!("{what}.{}", kind.as_str()));
    text.unwrap_or_default().to_string()
}

/// Facts in NCCL's log, apart from the verdict on it, that explain a bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogFacts {
    /// NICs that connections use; InfiniBand and RoCE only.
    pub nics: Option<u32>,
    /// NICs that NCCL found; InfiniBand and RoCE only.
    pub listed: Option<u32>,
    /// NVLink joins the nodes.
    pub mnnvl: bool,
    /// Switches reduce data (SHARP).
    pub in_network: bool,
    /// `NCCL_ALGO=Ring` is set.
    pub ring: bool,
    /// Settings that can cost bandwidth, with their values.
    pub settings: Vec<(String, String)>,
}

impl LogFacts {
    /// Extracts them from a log.
    pub fn of(log: &NcclLog) -> Self {
        let over_ib = log.channels.over.get(&Transport::Net(Net::Ib)).copied();
        let listed: BTreeSet<u32> = log.links.iter().map(|(number, _)| *number).collect();
        let costly = |(name, harmless, _): (&str, &str, &str)| {
            let value = log.env.get(name)?;
            let costs = !value.eq_ignore_ascii_case(harmless);
            costs.then(|| (name.to_string(), value.clone()))
        };
        let algorithm = log.env.get("NCCL_ALGO");
        LogFacts {
            nics: (over_ib > Some(0) && !log.channels.nics.is_empty())
                .then_some(log.channels.nics.len() as u32),
            listed: (!listed.is_empty()).then_some(listed.len() as u32),
            mnnvl: log.mnnvl || log.channels.over.contains_key(&Transport::Mnnvl),
            in_network: log.channels.over.contains_key(&Transport::CollNet),
            ring: algorithm.is_some_and(|name| name.eq_ignore_ascii_case("ring")),
            settings: settings().filter_map(costly).collect(),
        }
    }

    /// The value of a setting that can cost bandwidth.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(set, _)| set == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Notes on a run, and what to do about it, one sentence each.
type Advice = (Vec<String>, Vec<String>);

/// Those for a run below line rate.
pub(super) fn of_low_bandwidth(case: &Case<'_>, rails: &Rails, ratio: f64) -> Advice {
    let (mut notes, mut remedies) = (Vec::new(), Vec::new());
    let (nccl, facts, count) = (case.nccl, case.facts, rails.count);
    let kind = kind(nccl, rails);
    // NICs in the log are those of verbs; plugins show several as one.
    let ranks = case.topology.map_or(0, Topology::fewest_ranks);
    let fewer = |nics: &u32| *nics < count.min(ranks);
    if let Some(listed) = facts.listed.filter(fewer) {
        notes.push(format!(
            "NCCL found {listed} NICs; the node has {count} rails"
        ));
        remedies.push(match facts.setting("NCCL_IB_HCA") {
            Some(value) => format!("NCCL_IB_HCA is {value}: name all rails, or unset it."),
            None => "Give the pod all RDMA devices of its node (its resource request), and look for ports that are down: selvage check.".into(),
        });
    } else if let Some(nics) = facts.nics.filter(fewer) {
        let used = format!("connections in the log use {nics} NICs");
        notes.push(format!("{used}; the node has {count} rails"));
        remedies.push("One rank for each GPU of the node (mpirun -N, or -g); a topology in the container that shows each GPU its NIC (no VM that hides PCIe; NCCL_TOPO_FILE).".into());
    } else if ratio < FEW_RAILS && facts.nics.is_none() {
        remedies.push(advice("AllRails", kind));
    }
    // Plugins ignore NCCL's settings for verbs.
    let applies = |name: &str| kind == RailKind::Verbs || !name.starts_with("NCCL_IB_");
    for (name, _, effect) in settings() {
        if let Some(value) = facts.setting(name).filter(|_| applies(name)) {
            notes.push(format!("{name}={value}: {effect}"));
        }
    }
    if let Some(trouble) = &rails.trouble {
        notes.push(format!("{} says {trouble}", rails.from));
        remedies.push("Fix what the node's own report names first: selvage check there.".into());
    }
    let shown = |nccl: &&NcclVerdict| !matches!(nccl.network, Network::Unknown | Network::None);
    match nccl.filter(shown) {
        Some(nccl) => remedies.extend(nccl.remedies.iter().take(3).cloned()),
        None => remedies.push(NO_LOG.into()),
    }
    if remedies.is_empty() {
        remedies.push(advice("EachNode", kind));
    }
    (notes, remedies)
}
