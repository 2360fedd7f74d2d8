//! Any bytes as what the kernel writes for ETHTOOL: no panic, and no fact that was not said.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::source::ethtool::{items, names, parse_names, parse_values};

const DRIVERS: &[&str] = &[
    "mlx5_core",
    "bnxt_en",
    "ice",
    "gve",
    "ena",
    "i40e",
    "irdma",
    "",
];
/// Bytes of a name, and of the heads of the two answers.
const NAME: usize = 32;
const HEADS: (usize, usize) = (12, 8);

fuzz_target!(|bytes: &[u8]| {
    let Some(([driver, count], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let driver = DRIVERS[usize::from(*driver) % DRIVERS.len()];
    let count = u32::from(*count);
    let (strings, values) = rest.split_at(rest.len().min(HEADS.0 + count as usize * NAME));
    let strings = items(strings, HEADS.0, count, NAME);
    let values = items(values, HEADS.1, count, 8);
    let (Ok(strings), Ok(values)) = (strings, values) else {
        return;
    };
    let values = parse_values(values);
    let named = parse_names(strings).into_iter().zip(values.clone());
    let named: Vec<(String, u64)> = named.collect();
    let facts = names::facts(driver, &named);
    assert!(facts.counts.values().all(|value| values.contains(value)));
});
