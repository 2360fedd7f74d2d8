//! Any bytes as an LLDPDU: no panic, and names that are short and printable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::observe::lldp::Neighbor;
use selvage::source::lldp::parse;

fuzz_target!(|bytes: &[u8]| {
    let Some(heard) = parse(bytes) else { return };
    let Neighbor {
        switch,
        switch_port,
        description,
        ids,
    } = heard.neighbor;
    for text in [switch, switch_port, ids.0, ids.1]
        .iter()
        .chain(&description)
    {
        assert!((1..=128).contains(&text.chars().count()), "{text:?}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
});
