//! Any bytes as wpa_supplicant's answer: no panic, short printable words only, and what a capture keeps of it
//! says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::observe::Reading;
use selvage::source::dot1x::{parse, text};

fuzz_target!(|bytes: &[u8]| {
    let answer = String::from_utf8_lossy(bytes);
    let Reading::Value(facts) = parse(&answer) else {
        return;
    };
    let kept = text(&facts);
    assert!(
        kept.len() < 512
            && kept
                .bytes()
                .all(|byte| byte == b'\n' || byte == b' ' || byte.is_ascii_graphic())
    );
    assert_eq!(parse(&kept), Reading::Value(facts));
});
