//! Rule 3: rails by their nearness to GPUs.

use super::kind::{NicKind, kinds};
use super::{Open, Role, RolePort, decide};
use crate::observe::{BareNic, Distance, PciFacts, PciFunction};
use crate::units::PortKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// GPUs that a port is among the nearest of, within PIX or PXB.
pub(super) type Near = BTreeMap<PortKey, BTreeMap<String, Distance>>;

/// The least distance to each GPU.
pub fn least<'p>(
    all: impl Iterator<Item = (&'p String, &'p Distance)>,
) -> BTreeMap<&'p str, Distance> {
    let mut best: BTreeMap<&str, Distance> = BTreeMap::new();
    for (gpu, distance) in all {
        let nearest = best.entry(gpu).or_insert(*distance);
        *nearest = (*nearest).min(*distance);
    }
    best
}

/// For each port that is among the nearest of some GPU: those GPUs. A NIC without an RDMA device
/// keeps its place next to its GPU: what is further off is not the nearest.
pub(super) fn nearest(ports: &[RolePort<'_>], bare: &[&BareNic]) -> Near {
    let of_ports = ports.iter().flat_map(|port| &port.seen.distances);
    let best = least(of_ports.chain(bare.iter().flat_map(|nic| &nic.distances)));
    let mut near = Near::new();
    for port in ports {
        for (gpu, distance) in &port.seen.distances {
            if distance.is_near() && best.get(gpu.as_str()) == Some(distance) {
                let gpus = near.entry(port.key.clone()).or_default();
                gpus.insert(gpu.clone(), *distance);
            }
        }
    }
    near
}

/// Kinds that serve more than half of the GPUs that any serves: the fabric. A kind that serves a
/// GPU or two is what else is plugged in there, and a slower model than another one that serves as
/// many is for storage. Where none serves as many, those that serve most are.
fn fabric_kinds<'a>(ports: &[RolePort<'a>], near: &Near) -> Vec<NicKind<'a>> {
    let served = |of: &dyn Fn(&RolePort<'a>) -> bool| -> BTreeSet<&String> {
        let ports = ports.iter().filter(|port| of(port));
        let gpus = ports.filter_map(|port| near.get(&port.key));
        gpus.flat_map(BTreeMap::keys).collect()
    };
    let all = served(&|_| true).len();
    let mut found = kinds(ports);
    let by = |kind: &NicKind<'a>| served(&|port| port.kind().fits(kind)).len();
    let most = found.iter().map(by).max().unwrap_or(0);
    let serves_most = |kind: &NicKind<'a>| by(kind) * 2 > all;
    found.retain(|kind| by(kind) == most || serves_most(kind));
    let of_most = found.iter().filter(|kind| serves_most(kind));
    let of_most = of_most.map(|kind| (kind.fastest_gbps(), by(kind)));
    let of_most: Vec<_> = of_most.collect();
    found.retain(|kind| {
        let is_faster = |(gbps, serves): &(Option<u32>, usize)| {
            kind.fastest_gbps().is_some() && *gbps > kind.fastest_gbps() && *serves >= by(kind)
        };
        !of_most.iter().any(is_faster)
    });
    found
}

/// The number that comes most often; of several the smallest.
pub(super) fn most_common(numbers: impl Iterator<Item = usize>) -> Option<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for number in numbers {
        *counts.entry(number).or_default() += 1;
    }
    let most = (counts.into_iter()).max_by_key(|(number, count)| (*count, Reverse(*number)));
    most.map(|(number, _)| number)
}

/// Rule 3: ports of NICs that are nearest to a GPU by PCI topology.
pub(super) fn by_nearness(open: &mut Open<'_>, near: &Near) {
    let (ports, pci) = (&open.ports, open.pci);
    let fabric = fabric_kinds(ports, near);
    let of_fabric = |port: &RolePort<'_>| fabric.iter().any(|kind| kind.fits(&port.kind()));
    let mut serving: BTreeMap<&str, usize> = BTreeMap::new();
    for port in ports {
        for gpu in near.get(&port.key).into_iter().flat_map(BTreeMap::keys) {
            *serving.entry(gpu).or_default() += usize::from(of_fabric(port));
        }
    }
    let usual = most_common(serving.values().copied());
    let rails = (ports.iter()).filter(|port| of_fabric(port) && near.contains_key(&port.key));
    let rails: Vec<&RolePort<'_>> = rails.collect();
    let is_left = |gpu: &str| serving.get(gpu) < usual.as_ref();
    for port in ports {
        let mut gpus = near.get(&port.key).into_iter().flatten();
        let (first, is_like) = (gpus.clone().next(), of_fabric(port));
        let (role, why) = match (gpus.find(|(gpu, _)| is_like || is_left(gpu)), first) {
            (Some((gpu, distance)), _) => {
                let why = format!("nearest to GPU {gpu} ({})", distance.as_str());
                (Role::Rail, why)
            }
            (None, Some((gpu, _))) => {
                let why = format!("near GPU {gpu}, but NICs of another kind serve the GPUs");
                (Role::Other, why)
            }
            (None, None) if is_like && like_a_rail_without_gpu(port, &rails, pci) => {
                let why = "like the rails in make and place, though no GPU is seen near it";
                (Role::Rail, why.into())
            }
            (None, None) => {
                let why = "not among the RDMA devices nearest to any GPU";
                (Role::Other, why.into())
            }
        };
        decide(&mut open.roles, port, role, why);
    }
}

/// Whether a port of the rails' kind hangs where a rail hangs, its GPU being away: below as many
/// bridges as most rails, with their board. One of the two must be known; both, where GPUs of other
/// rails are near.
fn like_a_rail_without_gpu(
    port: &RolePort<'_>,
    rails: &[&RolePort<'_>],
    pci: Option<&PciFacts>,
) -> bool {
    let function = |port: &RolePort<'_>| port.device.pci.map_or(0, |pci| pci.function);
    let first = port.port.number == 1
        && (function(port) == 0 || rails.iter().any(|rail| function(rail) == function(port)));
    if !first {
        return false;
    }
    let others_near = port.seen.distances.values().any(|of| of.is_near());
    let depth = |port: &RolePort<'_>| pci.and_then(|pci| depth(pci, &port.device.pci?.to_string()));
    let alike = |of: &dyn Fn(&RolePort<'_>) -> Option<bool>| {
        let votes: Vec<bool> = rails.iter().filter_map(|rail| of(rail)).collect();
        let for_it = votes.iter().filter(|vote| **vote).count();
        (!votes.is_empty()).then_some(for_it * 2 > votes.len())
    };
    let place = (depth(port)).and_then(|own| alike(&|rail| Some(depth(rail)? == own)));
    let board =
        alike(&|rail| Some(rail.device.board_id.as_ref()? == port.device.board_id.as_ref()?));
    let known = [place, board].into_iter().flatten().count();
    let alike = place != Some(false) && board != Some(false);
    alike && known > usize::from(others_near)
}

/// Deeper than any machine: a bound against a tree that loops.
const DEEPEST: usize = 32;

/// A function and the bridges above it, with their addresses.
pub fn upwards<'p>(
    pci: &'p PciFacts,
    address: &str,
) -> impl Iterator<Item = (&'p String, &'p PciFunction)> + use<'p> {
    let above = |(_, of): &(_, &PciFunction)| pci.functions.get_key_value(of.parent.as_ref()?);
    std::iter::successors(pci.functions.get_key_value(address), above).take(DEEPEST)
}

/// Bridges above a function.
fn depth(pci: &PciFacts, address: &str) -> Option<usize> {
    let bridges = upwards(pci, address).count().checked_sub(1)?;
    (bridges + 1 < DEEPEST).then_some(bridges)
}
