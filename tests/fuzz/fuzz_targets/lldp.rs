//! Any bytes as an LLDPDU, and as the two answers of a port's neighbor on InfiniBand: no panic, and names
//! that are short and printable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::observe::Neighbor;
use selvage::source::{lldp, umad};

fuzz_target!(|bytes: &[u8]| {
    let heard = lldp::parse(bytes).map(|heard| heard.neighbor);
    let (info, description) = bytes.split_at(bytes.len().min(320));
    for neighbor in heard.into_iter().chain(umad::parse(info, description)) {
        judge(neighbor);
    }
});

fn judge(neighbor: Neighbor) {
    let Neighbor {
        switch,
        switch_port,
        description,
        ids,
    } = neighbor;
    for text in [switch, switch_port, ids.0, ids.1]
        .iter()
        .chain(&description)
    {
        assert!((1..=128).contains(&text.chars().count()), "{text:?}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
