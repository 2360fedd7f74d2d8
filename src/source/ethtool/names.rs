//! Names of `ethtool -S` by driver, turned into neutral ones. Pure. What a driver has no name for
//! stays missing: gve and ena, say, have no pause counters at all.

use crate::observe::EthtoolFacts;
use std::{collections::HashMap, sync::LazyLock};

/// By driver and name: the neutral name, empty where the driver's own is kept.
type Names = HashMap<&'static str, HashMap<String, String>>;

/// `names.txt`, each `#` written out.
static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names::new();
    let mut drivers = "";
    for line in include_str!("names.txt").lines().map(str::trim) {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(list) = line.strip_suffix(':') {
            drivers = list;
            continue;
        }
        let (pattern, neutral) = line.split_once(" = ").unwrap_or((line, ""));
        for driver in drivers.split(' ') {
            let of_driver = names.entry(driver).or_default();
            for digit in ["0", "1", "2", "3", "4", "5", "6", "7"] {
                of_driver.insert(pattern.replace('#', digit), neutral.replace('#', digit));
            }
        }
    }
    names
});

/// Packet counters of the physical port, and of the function itself.
const PHYSICAL: &[&str] = &["rx_packets_phy", "tx_packets_phy"];
const OWN: &[&str] = &[
    "rx_packets",
    "rx_vport_unicast_packets",
    "rx_vport_rdma_unicast_packets",
];

/// The known ones among a driver's statistics.
pub fn facts<S: AsRef<str>>(driver: &str, statistics: &[(S, u64)]) -> EthtoolFacts {
    let mut facts = EthtoolFacts {
        driver: driver.to_string(),
        ..EthtoolFacts::default()
    };
    let names = NAMES.get(driver).or_else(|| NAMES.get("*"));
    let blind = is_blind(statistics);
    for (name, value) in statistics {
        let name = name.as_ref();
        let Some(neutral) = names.and_then(|names| names.get(name)) else {
            continue;
        };
        if !blind || name.contains("_vport_") {
            let kept = if neutral.is_empty() { name } else { neutral };
            facts.counts.insert(kept.to_string(), *value);
        }
    }
    facts
}

/// A virtual function of mlx5 has the names of the physical port's counters, but the device does
/// not fill them in: traffic of its own on a port without a single packet shows that.
fn is_blind<S: AsRef<str>>(statistics: &[(S, u64)]) -> bool {
    let sum = |names: &[&str]| {
        let known = statistics.iter().filter(|s| names.contains(&s.0.as_ref()));
        known.map(|(_, value)| *value).reduce(u64::saturating_add)
    };
    sum(PHYSICAL) == Some(0) && sum(OWN).is_some_and(|own| own > 0)
}

#[cfg(test)]
mod tests;
