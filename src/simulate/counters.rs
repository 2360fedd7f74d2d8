//! Counters and statistics of each driver, from `data/counters.toml`.

use super::spec::{SysfsValue, SysfsValues};
use crate::data_files::embedded;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// Counters that traffic raises, and bytes a count.
    pub(super) traffic: BTreeMap<String, u64>,
    /// Statistics that traffic raises, without `_bytes` and `_packets`.
    pub(super) traffic_statistics: Vec<String>,
    /// Rules by table and file name.
    counters: BTreeMap<String, BTreeMap<String, String>>,
    /// Statistics by driver.
    ethtool: BTreeMap<String, Vec<Section>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    each: Each,
    /// Priorities that carry traffic without PFC.
    #[serde(default)]
    busy: Vec<u8>,
    rows: Vec<(String, String)>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Each {
    #[default]
    Once,
    Priority,
    Pfc,
}

pub(super) static TABLES: LazyLock<Tables> =
    LazyLock::new(|| embedded(include_str!("data/counters.toml")));

/// Counters of these tables; where two have the same name, the later one holds.
pub(super) fn counters(tables: &[String], seed: u64) -> SysfsValues {
    let tables = tables.iter().filter_map(|name| TABLES.counters.get(name));
    let rules = tables.flatten();
    let attrs = rules.map(|(name, rule)| {
        let text = || SysfsValue::Text(rule.clone());
        let attr = evaluate(rule, name, seed, 0).map_or_else(text, SysfsValue::Number);
        (name.clone(), attr)
    });
    attrs.collect()
}

/// What `ethtool -S` prints, with PFC on the priorities of a bitmap.
pub(super) fn ethtool(driver: &str, seed: u64, pfc: u8) -> Vec<(String, u64)> {
    let mut rows = Vec::new();
    for section in TABLES.ethtool.get(driver).into_iter().flatten() {
        let lossless = |priority: &u8| pfc >> priority & 1 == 1;
        let priorities: Vec<u8> = match section.each {
            Each::Once => vec![0],
            Each::Priority => (0..8).collect(),
            Each::Pfc => (0..8).filter(lossless).collect(),
        };
        for priority in priorities {
            let idle = section.each == Each::Priority
                && !lossless(&priority)
                && !section.busy.contains(&priority);
            for (name, rule) in &section.rows {
                let value = match idle {
                    true => 0,
                    false => evaluate(rule, name, seed, priority).unwrap_or(0),
                };
                rows.push((name.replace("{p}", &priority.to_string()), value));
            }
        }
    }
    rows
}

/// The sum of a rule's terms; `None` where one of them is not a term.
fn evaluate(rule: &str, name: &str, seed: u64, priority: u8) -> Option<u64> {
    rule.split('+').try_fold(0u64, |sum, term| {
        let at = term.find(['*', '/', '%']).unwrap_or(term.len());
        let (factor, operation) = term.split_at(at);
        let value = match factor {
            "seed" => seed,
            "mix" => mix(name, seed),
            "load" => mix("prio", seed + u64::from(priority)),
            number => number.parse().ok()?,
        };
        let operand = |text: &str| text.parse::<u64>().ok();
        let value = match operation.split_at_checked(1) {
            Some(("*", n)) => value.checked_mul(operand(n)?)?,
            Some(("/", n)) => value.checked_div(operand(n)?)?,
            Some(("%", n)) => value.checked_rem(operand(n)?)?,
            _ => value,
        };
        sum.checked_add(value)
    })
}

/// A large number that depends on name and seed (FNV-1a).
fn mix(name: &str, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = name.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash >> 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_a_statistic_is_one() {
        for section in TABLES.ethtool.values().flatten() {
            for (name, rule) in &section.rows {
                assert!(evaluate(rule, name, 1, 0).is_some(), "{name}: {rule}");
            }
        }
    }

    #[test]
    fn rules_are_sums_of_terms() {
        for (rule, want) in [
            ("12", Some(12)),
            ("1+seed%3", Some(2)),
            ("100+seed*5", Some(120)),
            ("N/A (no PMA)", None),
        ] {
            assert_eq!(evaluate(rule, "x", 4, 0), want, "{rule}");
        }
    }
}
