//! Names of `ethtool -S` by driver, turned into neutral ones. Pure. What a driver has no name for
//! stays missing: gve and ena, say, have no pause counters at all.

use crate::observe::netdev::EthtoolFacts;
use std::collections::HashMap;
use std::sync::LazyLock;

/// By driver and name: the priority in the name, and the fact that the value is.
type Names = HashMap<&'static str, HashMap<String, (u8, &'static str)>>;

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
        let (pattern, fact) = line.split_once(" = ").unwrap_or((line, ""));
        for driver in drivers.split(' ') {
            let of_driver = names.entry(driver).or_default();
            for digit in 0..8u8 {
                of_driver.insert(pattern.replace('#', &digit.to_string()), (digit, fact));
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
        let Some((priority, fact)) = names.and_then(|names| names.get(name)) else {
            continue;
        };
        if fact.is_empty() && (!blind || name.contains("_vport_")) {
            facts.other.insert(name.to_string(), *value);
        } else if !blind && let Some(place) = place(&mut facts, *priority, fact) {
            *place = Some(*value);
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

fn place<'a>(facts: &'a mut EthtoolFacts, priority: u8, fact: &str) -> Option<&'a mut Option<u64>> {
    match fact {
        "" => return None,
        "global_rx_pause" => return Some(&mut facts.global_pause.rx),
        "global_tx_pause" => return Some(&mut facts.global_pause.tx),
        _ => {}
    }
    let of_priority = facts.priorities.entry(priority).or_default();
    Some(match fact {
        "rx_pause" => &mut of_priority.pause.rx,
        "tx_pause" => &mut of_priority.pause.tx,
        "rx_pause_micros" => &mut of_priority.rx_pause_micros,
        "tx_pause_micros" => &mut of_priority.tx_pause_micros,
        "rx_discards" => &mut of_priority.rx_discards,
        "rx_packets" => &mut of_priority.rx_packets,
        "rx_bytes" => &mut of_priority.rx_bytes,
        "tx_bytes" => &mut of_priority.tx_bytes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
