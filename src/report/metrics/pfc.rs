//! Series of the Ethernet side: PFC, pause, drops, carrier.

use crate::observe::{DcbFacts, EthtoolFacts, Reading, Stamped, priority_bit};
use crate::report::{Exposition, Report, default_counters, series};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) fn families(out: &mut Exposition, report: &Report) {
    let snapshot = &report.snapshot;
    let ethtool = read(report, "ethtool", &snapshot.ethtool);
    let dcb = read(report, "dcb", &snapshot.dcb);
    let used = priorities_in_use(&ethtool, &dcb);
    for (netdev, facts) in &ethtool {
        statistics(out, netdev, facts, &used);
    }
    for (netdev, facts) in &dcb {
        for priority in &used {
            let enabled = facts
                .pfc_enabled
                .map(|all| all & priority_bit(*priority) != 0);
            series! { out "selvage_pfc_enabled" [netdev, &priority.to_string()] enabled; }
        }
    }
    for (netdev, facts) in fresh(report, "netdev", &snapshot.netdevs) {
        let changes = facts.carrier_changes.value().copied();
        series! { out "selvage_netdev_carrier_changes_total" [netdev] changes; }
    }
}

/// What a source gave, by network device, where that is not too old.
fn fresh<'a, T>(
    report: &'a Report,
    source: &'a str,
    all: &'a BTreeMap<String, Arc<Stamped<T>>>,
) -> impl Iterator<Item = (&'a str, &'a T)> {
    let known = all.iter();
    let known = known.filter(move |(name, facts)| report.is_fresh(facts.at, (source, name)));
    known.map(|(name, facts)| (name.as_str(), &facts.value))
}

/// What was read, by network device.
fn read<'a, T>(
    report: &'a Report,
    source: &'a str,
    all: &'a BTreeMap<String, Arc<Stamped<Reading<T>>>>,
) -> BTreeMap<&'a str, &'a T> {
    fresh(report, source, all)
        .filter_map(|(name, facts)| Some((name, facts.value()?)))
        .collect()
}

fn statistics(out: &mut Exposition, netdev: &str, facts: &EthtoolFacts, used: &BTreeSet<u8>) {
    let count = |name: &str| facts.counts.get(name).copied();
    let full = out.is_full();
    for priority in (0..8).filter(|priority| full || used.contains(priority)) {
        let of_priority = |name: &str| count(&format!("prio{priority}.{name}"));
        let seconds = |name: &str| Some(of_priority(name)? as f64 / 1e6);
        let priority = priority.to_string();
        series! { out
            "selvage_pfc_discards_total" [netdev, &priority] of_priority("rx_discards");
            "selvage_pfc_pause_frames_total" [netdev, &priority, "receive"] of_priority("rx_pause_frames");
            "selvage_pfc_pause_frames_total" [netdev, &priority, "transmit"] of_priority("tx_pause_frames");
            "selvage_pfc_pause_seconds_total" [netdev, &priority, "receive"] seconds("rx_pause_micros");
            "selvage_pfc_pause_seconds_total" [netdev, &priority, "transmit"] seconds("tx_pause_micros");
        }
    }
    series! { out
        "selvage_global_pause_frames_total" [netdev, "receive"] count("global.rx_pause_frames");
        "selvage_global_pause_frames_total" [netdev, "transmit"] count("global.tx_pause_frames");
    }
    for name in &default_counters::DEFAULTS.ethtool {
        series! { out "selvage_netdev_statistic_total" [netdev, name] count(name); }
    }
}

/// Priorities with PFC on any network device of this node: where DCB says so, or where a driver
/// shows pause counters although DCB cannot be asked (mlx5 has those counters only while PFC is on in
/// either direction, and tells only one of them by DCB). One that loses PFC on one device alone keeps
/// its series there, and they read 0. Never by the counters' values.
fn priorities_in_use(
    ethtool: &BTreeMap<&str, &EthtoolFacts>,
    dcb: &BTreeMap<&str, &DcbFacts>,
) -> BTreeSet<u8> {
    let told = |netdev: &str| dcb.get(netdev).and_then(|facts| facts.pfc_enabled);
    let enabled = dcb.values().filter_map(|facts| facts.pfc_enabled);
    let enabled = enabled.fold(0, |all, enabled| all | enabled);
    let shown = ethtool
        .iter()
        .filter(|(netdev, facts)| facts.driver.starts_with("mlx5") || told(netdev).is_none())
        .fold(0, |all, (_, facts)| all | facts.shown_pause());
    let is_used = |priority: &u8| (enabled | shown) & priority_bit(*priority) != 0;
    (0..8).filter(is_used).collect()
}
