//! Why a run is slower than its rails, as far as the log and the node's report tell.

use super::Limit;
use super::shape::Shape;
use super::verdict::LogFacts;
use crate::check::nccl::{NcclVerdict, Network};
use crate::observe::bench::{RailKind, Rails};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::event::{Net, Transport};
use std::collections::BTreeSet;

/// Settings that cost bandwidth where they are set, and what for. From NCCL's documentation of its
/// environment variables.
const SETTINGS: [(&str, &str); 11] = [
    (
        "NCCL_IB_HCA",
        "it chooses the NICs: all rails must be among them",
    ),
    (
        "NCCL_PXN_DISABLE",
        "1 keeps GPUs from their neighbours' NICs",
    ),
    (
        "NCCL_NET_GDR_LEVEL",
        "LOC or a low level turns GPUDirect RDMA off",
    ),
    ("NCCL_NET_GDR_READ", "0 sends by way of the host's memory"),
    ("NCCL_PROTO", "LL and LL128 are for small messages"),
    ("NCCL_ALGO", "it takes the choice from NCCL"),
    ("NCCL_MAX_NCHANNELS", "few channels do not fill all rails"),
    ("NCCL_MAX_CTAS", "few channels do not fill all rails"),
    ("NCCL_P2P_DISABLE", "1 takes NVLink away inside the node"),
    (
        "NCCL_SHM_DISABLE",
        "1 makes ranks of one node use the network",
    ),
    ("NCCL_IB_DISABLE", "1 forbids RDMA"),
];

/// What carries data: by the log's connections, else by what the rails are.
fn kind(nccl: Option<&NcclVerdict>, rails: &Rails) -> Option<RailKind> {
    match nccl.map(|nccl| nccl.network) {
        Some(Network::Ib | Network::Roce | Network::IbOrRoce) => Some(RailKind::Verbs),
        // libfabric drives NICs of others too.
        Some(Network::Ofi) => Some(RailKind::Efa),
        Some(Network::Fastrak | Network::Tcpx) => Some(RailKind::Gvnic),
        _ => rails.kind,
    }
}

/// How to see that all rails are in use.
fn see_rails(kind: Option<RailKind>) -> &'static str {
    match kind {
        None | Some(RailKind::Verbs) => {
            "See which NICs NCCL uses: NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,ENV,NET; NCCL_IB_HCA, the pod's RDMA resources."
        }
        Some(RailKind::Efa) => {
            "See how many NICs the libfabric plugin (aws-ofi-nccl) found: NCCL_DEBUG=INFO logs NET/OFI Selected provider is efa (found … nics); the pod must ask for all of its node's vpc.amazonaws.com/efa, and fi_info -p efa in it list them."
        }
        Some(RailKind::Gvnic) => {
            "See that the plugin has all interfaces: NCCL_FASTRAK_IFNAME (TCPXO) or NCCL_GPUDIRECTTCPX_SOCKET_IFNAME (TCPX) names all of the pod's GPU networks, and the pod has an interface in each."
        }
    }
}

/// What is left where nothing in particular is seen.
fn compare(kind: Option<RailKind>) -> &'static str {
    match kind {
        None | Some(RailKind::Verbs) => {
            "Compare pairs of nodes to find the slow one; then selvage check there: rate and width of links and PCIe, errors, PFC pauses; on RoCE ECN and routing by the switches."
        }
        Some(RailKind::Efa) => {
            "Compare pairs of nodes to find the slow one; then selvage check there; nodes in one placement group, current versions of the EFA driver, libfabric and aws-ofi-nccl."
        }
        Some(RailKind::Gvnic) => {
            "Compare pairs of nodes to find the slow one; then selvage check there; nodes in one compact placement, the plugin's settings as its version asks for (nccl-env-profile.sh), its receive daemon beside each pod."
        }
    }
}

/// What the log tells beside its verdict.
pub(super) fn facts(log: &NcclLog) -> LogFacts {
    let over_ib = log.whole.over.get(&Transport::Net(Net::Ib)).copied();
    let listed: BTreeSet<u32> = log.links.iter().map(|(number, _)| *number).collect();
    let set = |name: &str| {
        let value = log.env.get(name)?;
        // Defaults said aloud, and what is asked for to measure.
        let harmless = match name {
            "NCCL_NET_GDR_READ" => value == "1",
            "NCCL_PROTO" => value.eq_ignore_ascii_case("simple"),
            "NCCL_ALGO" => value.eq_ignore_ascii_case("ring"),
            name => value == "0" && name.ends_with("_DISABLE"),
        };
        (!harmless).then(|| value.clone())
    };
    LogFacts {
        nics: (over_ib > Some(0) && !log.whole.nics.is_empty())
            .then_some(log.whole.nics.len() as u32),
        listed: (!listed.is_empty()).then_some(listed.len() as u32),
        mnnvl: log.mnnvl || log.whole.over.contains_key(&Transport::Mnnvl),
        in_network: log.whole.over.contains_key(&Transport::CollNet),
        ring: log
            .env
            .get("NCCL_ALGO")
            .is_some_and(|algo| algo.eq_ignore_ascii_case("ring")),
        settings: SETTINGS
            .iter()
            .filter_map(|(name, _)| Some(((*name).to_string(), set(name)?)))
            .collect(),
    }
}

/// What is told of a run below line rate: notes of what was seen, and remedies.
pub(super) fn slow(
    nccl: Option<&NcclVerdict>,
    facts: &LogFacts,
    shape: &Shape,
    rails: &Rails,
    few: Option<u32>,
) -> (Vec<String>, Vec<String>) {
    let (mut notes, mut remedies) = (Vec::new(), Vec::new());
    let kind = kind(nccl, rails);
    let rdma = nccl.filter(|nccl| !matches!(nccl.network, Network::Unknown | Network::None));
    // Of IB and RoCE alone: plugins put several NICs into one.
    let able = rails.count.min(shape.least());
    if let Some(listed) = facts.listed.filter(|listed| *listed < able) {
        notes.push(format!(
            "NCCL found {listed} NICs; the node has {} rails",
            rails.count
        ));
        remedies.push(match facts.setting("NCCL_IB_HCA") {
            Some(value) => format!("NCCL_IB_HCA is {value}: name all rails, or unset it."),
            None => "Give the pod all RDMA devices of its node (its resource request), and look for ports that are down: selvage check.".into(),
        });
    } else if let Some(nics) = facts.nics.filter(|nics| *nics < able) {
        notes.push(format!(
            "connections in the log go over {nics} NICs; the node has {} rails",
            rails.count
        ));
        remedies.push("One rank for each GPU of the node (mpirun -N, or -g); a topology in the container that shows each GPU its NIC (no VM that hides PCIe; NCCL_TOPO_FILE).".into());
    } else if let Some(few) = few {
        notes.push(format!(
            "the number is what {few} of {} rails carry",
            rails.count
        ));
        if facts.nics.is_none() {
            remedies.push(see_rails(kind).into());
        }
    }
    // Plugins read none of NCCL's settings for verbs.
    let verbs = matches!(kind, None | Some(RailKind::Verbs));
    let read = |name: &str| verbs || !name.starts_with("NCCL_IB_");
    for (name, why) in SETTINGS.into_iter().filter(|(name, _)| read(name)) {
        if let Some(value) = facts.setting(name) {
            notes.push(format!("{name}={value}: {why}"));
        }
    }
    if let Some(trouble) = &rails.trouble {
        notes.push(format!("{} says {trouble}", rails.from));
        remedies.push("Mend what the node's own report names first: selvage check there.".into());
    }
    match rdma {
        Some(nccl) => remedies.extend(nccl.remedies.iter().take(3).cloned()),
        None => remedies.push(NO_LOG.into()),
    }
    if remedies.is_empty() {
        remedies.push(compare(kind).into());
    }
    (notes, remedies)
}

/// What to do where no log says which network was used.
pub(super) const NO_LOG: &str = "Run it again with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,NET (mpirun -x …) and give its output along: the log says which network and which NICs were used.";

/// How many rails alone would give this number, if it is near one: 80 to 100 % of one, 88 to 98 % of
/// two or more, up to half of those in use (beyond, the steps lie too close to say anything).
pub(super) fn few_rails(ratio: f64, limit: Limit, rails: &Rails) -> Option<u32> {
    let rate = rails.rate.bytes_per_sec();
    let in_use = (limit.node / rate).round();
    (1..=rails.count)
        .take_while(|few| f64::from(*few) <= in_use / 2.0)
        .find(|few| {
            let part = ratio * limit.node / (rate * f64::from(*few));
            match few {
                1 => (0.8..=1.0).contains(&part),
                _ => (0.88..=0.98).contains(&part),
            }
        })
}
