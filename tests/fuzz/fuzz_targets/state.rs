//! Any bytes where the agent expects its own words: state files and annotations. No panic, and what it
//! writes of them it reads again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::cluster::budget::Ledger;
use selvage::cluster::silence::Mutes;
use selvage::state::Saved;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let ledger = Ledger::parse(Some(&text));
    assert_eq!(Ledger::parse(Some(&ledger.to_text())), ledger);
    Mutes::parse(&text, |check| check == "link_flap");
    if let Ok(saved) = serde_json::from_slice::<Saved>(bytes) {
        saved.restricted_of(Some("boot"));
        saved.memory_to_restore(Some("boot"));
    }
});
