//! Which counters are exported by default. A fixed choice by driver and link layer, never by value:
//! a series that appears with its first error has lost that error for `rate()`.

use crate::data_files::embedded;
use crate::observe::{CounterKind, Counts, LinkLayer, PortCounters, pma_kind};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

/// Everything in `default_counters.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub struct Defaults {
    /// PMA files exported as bytes and packets of the port, not as counters.
    pub pma_traffic: Vec<&'static str>,
    /// PMA files on InfiniBand.
    pub pma_infiniband: Vec<&'static str>,
    /// PMA files on Ethernet.
    pub pma_ethernet: Vec<&'static str>,
    /// ethtool statistics.
    pub ethtool: Vec<&'static str>,
    /// Hardware counters by driver.
    pub hardware: Vec<HwSelection>,
    traffic: Vec<Traffic>,
}

/// Default hardware counters of one driver.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HwSelection {
    /// Driver as the kernel names it, or what its name begins with.
    pub driver: &'static str,
    /// Loss, timeouts and failures: also shown as errors in `/report`.
    pub errors: Vec<&'static str>,
    /// Congestion signs of Ethernet ports, which a healthy port has too.
    #[serde(default)]
    pub congestion: Vec<&'static str>,
}

/// Where the value of a traffic family is counted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Traffic {
    family: &'static str,
    pma: &'static str,
    hardware: Vec<&'static str>,
    sum: Vec<&'static str>,
}

/// The default selections.
pub static DEFAULTS: LazyLock<Defaults> =
    LazyLock::new(|| embedded(include_str!("default_counters.toml")));

/// The selection for a driver.
pub fn hw_selection(driver: &str) -> Option<&'static HwSelection> {
    // The rxe driver is also called by its short name.
    let driver = if driver == "rxe" { "rdma_rxe" } else { driver };
    (DEFAULTS.hardware.iter()).find(|hw| driver.starts_with(hw.driver))
}

/// Whether a PMA file is exported by default on this link layer.
pub fn pma_by_default(layer: LinkLayer, name: &str) -> bool {
    match layer {
        LinkLayer::Infiniband => DEFAULTS.pma_infiniband.contains(&name),
        LinkLayer::Ethernet => DEFAULTS.pma_ethernet.contains(&name),
        LinkLayer::Unspecified => false,
    }
}

/// Whether a hardware counter is exported by default for this driver. Congestion shows as
/// packets (CNP, ECN) on Ethernet only.
pub fn hw_by_default(driver: &str, layer: LinkLayer, name: &str) -> bool {
    hw_selection(driver).is_some_and(|hw| {
        hw.errors.contains(&name) || (layer == LinkLayer::Ethernet && hw.congestion.contains(&name))
    })
}

/// Error counters of a port that are not zero, by name: all of PMA's that saturate but the
/// congestion and management ones, and the driver's own of the table.
pub fn nonzero_errors(driver: &str, counters: &PortCounters) -> BTreeMap<String, u64> {
    let hw = hw_selection(driver);
    let is_error = |name: &str| hw.is_some_and(|hw| hw.errors.contains(&name));
    let sticks = |name: &str| matches!(pma_kind(name), CounterKind::Saturating { .. });
    let pma = counters.pma.iter().filter(|(name, _)| {
        sticks(name) && !matches!(name.as_str(), "port_xmit_wait" | "VL15_dropped")
    });
    let hardware = counters.hw.iter().chain(counters.device_hw.iter());
    let hardware = hardware.filter(|(name, _)| is_error(name));
    pma.chain(hardware)
        .filter_map(|(name, reading)| Some((name.to_string(), *reading.value()?)))
        .filter(|(_, value)| *value > 0)
        .collect()
}

/// Traffic of a port by family; `None` where no counter shows it.
pub fn traffic(counters: &PortCounters) -> impl Iterator<Item = (&'static str, Option<u64>)> + '_ {
    let value = |group: &Counts, name: &str| group.get(name)?.value().copied();
    DEFAULTS.traffic.iter().map(move |of| {
        let hardware = |name: &&str| value(&counters.hw, name);
        let own = || of.hardware.iter().find_map(hardware);
        let parts = of.sum.iter().filter_map(hardware);
        let sum = || parts.reduce(u64::saturating_add);
        let pma = value(&counters.pma, of.pma);
        (of.family, pma.or_else(own).or_else(sum))
    })
}
