//! Rule 3: rails by their nearness to GPUs.

use super::{Kind, Port, Role, Roles, decide};
use crate::observe::pci::Distance;
use crate::units::PortKey;
use std::collections::{BTreeMap, BTreeSet};

/// For each port that is among the nearest of some GPU, within PIX or PXB: those GPUs.
pub(super) fn nearest<'p>(
    ports: &'p [Port<'_>],
) -> BTreeMap<&'p PortKey, BTreeMap<&'p str, Distance>> {
    let mut best: BTreeMap<&str, Distance> = BTreeMap::new();
    for (gpu, distance) in ports.iter().flat_map(|port| &port.seen.distances) {
        let nearest = best.entry(gpu).or_insert(*distance);
        *nearest = (*nearest).min(*distance);
    }
    let mut near: BTreeMap<&PortKey, BTreeMap<&str, Distance>> = BTreeMap::new();
    for port in ports {
        for (gpu, distance) in &port.seen.distances {
            if matches!(distance, Distance::Pix | Distance::Pxb)
                && best.get(gpu.as_str()) == Some(distance)
            {
                near.entry(&port.key).or_default().insert(gpu, *distance);
            }
        }
    }
    near
}

/// Rule 3.
pub(super) fn by_nearness(
    ports: &[Port<'_>],
    near: &BTreeMap<&PortKey, BTreeMap<&str, Distance>>,
    roles: &mut Roles,
) {
    let served: BTreeSet<&str> = near
        .values()
        .flat_map(|gpus| gpus.keys().copied())
        .collect();
    let mut served_by: BTreeMap<Kind<'_>, BTreeSet<&str>> = BTreeMap::new();
    for port in ports {
        if let Some(gpus) = near.get(&port.key) {
            let by_kind = served_by.entry(port.kind()).or_default();
            by_kind.extend(gpus.keys().copied());
        }
    }
    let serving_all: Vec<&Kind<'_>> = served_by
        .iter()
        .filter(|(_, gpus)| **gpus == served)
        .map(|(kind, _)| kind)
        .collect();
    for port in ports {
        let Some((gpu, distance)) = near.get(&port.key).and_then(|gpus| gpus.first_key_value())
        else {
            let why = "not among the RDMA devices nearest to any GPU";
            decide(roles, port, Role::Other, why);
            continue;
        };
        if serving_all.is_empty() || serving_all.contains(&&port.kind()) {
            let class = match distance {
                Distance::Pix => "PIX",
                _ => "PXB",
            };
            let why = format!("nearest to GPU {gpu} ({class})");
            decide(roles, port, Role::Rail, why);
        } else {
            let why = format!("near GPU {gpu}, but NICs of another kind serve every GPU");
            decide(roles, port, Role::Other, why);
        }
    }
}
