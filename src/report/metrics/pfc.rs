//! Series of the Ethernet side: PFC, pause, drops, carrier.

use super::{Exposition, flag};
use crate::observe::netdev::{DcbFacts, EthtoolFacts, PriorityFacts};
use crate::report::Report;
use crate::report::catalogue::{self as cat, Detail, Family};
use crate::report::default_counters;
use std::collections::{BTreeMap, BTreeSet};

const RECEIVE: &str = "receive";
const TRANSMIT: &str = "transmit";

pub(super) fn families(exposition: &mut Exposition, report: &Report) {
    let snapshot = &report.snapshot;
    let ethtool: Vec<(&str, &EthtoolFacts)> = snapshot
        .ethtool
        .iter()
        .filter_map(|(name, facts)| Some((name.as_str(), facts.value.value()?)))
        .collect();
    let dcb: Vec<(&str, &DcbFacts)> = snapshot
        .dcb
        .iter()
        .filter_map(|(name, facts)| Some((name.as_str(), facts.value.value()?)))
        .collect();
    let used = priorities_in_use(&ethtool, &dcb);
    let full = exposition.detail == Detail::Full;
    let priorities: Vec<(&str, u8, &PriorityFacts)> = ethtool
        .iter()
        .flat_map(|(name, facts)| {
            facts
                .priorities
                .iter()
                .map(move |(priority, numbers)| (*name, *priority, numbers))
        })
        .filter(|(_, priority, _)| full || used.contains(priority))
        .collect();

    both_ways(exposition, &cat::PFC_PAUSE_FRAMES, &priorities, |numbers| {
        [numbers.pause.rx, numbers.pause.tx].map(|frames| frames.map(|frames| frames as f64))
    });
    both_ways(
        exposition,
        &cat::PFC_PAUSE_SECONDS,
        &priorities,
        |numbers| {
            [numbers.rx_pause_micros, numbers.tx_pause_micros]
                .map(|micros| micros.map(|micros| micros as f64 / 1e6))
        },
    );
    exposition.add(
        &cat::PFC_DISCARDS,
        priorities.iter().filter_map(|(netdev, priority, numbers)| {
            let labels = [(*netdev).to_string(), priority.to_string()];
            Some((labels, numbers.rx_discards? as f64))
        }),
    );
    exposition.add(
        &cat::PFC_ENABLED,
        dcb.iter()
            .filter_map(|(netdev, facts)| Some((netdev, facts.pfc_enabled?)))
            .flat_map(|(netdev, enabled)| {
                used.iter().map(move |priority| {
                    let on = enabled & bit(*priority) != 0;
                    ([(*netdev).to_string(), priority.to_string()], flag(on))
                })
            }),
    );
    exposition.add(
        &cat::GLOBAL_PAUSE_FRAMES,
        ethtool.iter().flat_map(|(netdev, facts)| {
            let pause = facts.global_pause;
            [(RECEIVE, pause.rx), (TRANSMIT, pause.tx)]
                .into_iter()
                .filter_map(move |(direction, frames)| {
                    let labels = [(*netdev).to_string(), direction.to_string()];
                    Some((labels, frames? as f64))
                })
        }),
    );
    exposition.add(
        &cat::ETHTOOL,
        ethtool.iter().flat_map(|(netdev, facts)| {
            default_counters::ETHTOOL.iter().filter_map(move |name| {
                let labels = [(*netdev).to_string(), (*name).to_string()];
                Some((labels, *facts.other.get(*name)? as f64))
            })
        }),
    );
    exposition.add(
        &cat::CARRIER_CHANGES,
        snapshot.netdevs.iter().filter_map(|(netdev, facts)| {
            let changes = *facts.value.carrier_changes.value()?;
            Some(([netdev.clone()], changes as f64))
        }),
    );
}

fn bit(priority: u8) -> u8 {
    1u8.checked_shl(u32::from(priority)).unwrap_or(0)
}

/// Priorities with PFC on any network device of this node: where DCB says so, or where a driver
/// shows pause counters although DCB cannot be asked (mlx5 has those counters only while PFC is on in
/// either direction, and tells only one of them by DCB). One that loses PFC on one device alone keeps
/// its series there, and they read 0. Never by the counters' values.
fn priorities_in_use(ethtool: &[(&str, &EthtoolFacts)], dcb: &[(&str, &DcbFacts)]) -> BTreeSet<u8> {
    let told: BTreeMap<&str, u8> = dcb
        .iter()
        .filter_map(|(netdev, facts)| Some((*netdev, facts.pfc_enabled?)))
        .collect();
    let enabled = told.values().fold(0, |all, enabled| all | enabled);
    let shown = ethtool
        .iter()
        .filter(|(netdev, facts)| facts.driver.starts_with("mlx5") || !told.contains_key(netdev))
        .flat_map(|(_, facts)| &facts.priorities)
        .filter(|(_, numbers)| numbers.pause.rx.is_some() || numbers.pause.tx.is_some())
        .map(|(priority, _)| *priority);
    (0..8)
        .filter(|priority| enabled & bit(*priority) != 0)
        .chain(shown)
        .collect()
}

fn both_ways(
    exposition: &mut Exposition,
    family: &Family,
    priorities: &[(&str, u8, &PriorityFacts)],
    values: impl Fn(&PriorityFacts) -> [Option<f64>; 2],
) {
    exposition.add(
        family,
        priorities.iter().flat_map(|(netdev, priority, numbers)| {
            [RECEIVE, TRANSMIT]
                .into_iter()
                .zip(values(numbers))
                .filter_map(move |(direction, value)| {
                    let labels = [
                        (*netdev).to_string(),
                        priority.to_string(),
                        direction.to_string(),
                    ];
                    Some((labels, value?))
                })
        }),
    );
}
