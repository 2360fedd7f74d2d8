//! Any bytes as files of sysfs and configuration space, and as nccl-tests' output: no panic, and numbers that
//! are within what the formats can say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::source::bench_output::{BenchReader, parse_json};
use selvage::source::{link_text, pci_text};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = link_text::parse_state(&text);
    let _ = link_text::parse_phys_state(&text);
    let _ = link_text::parse_rate(&text);
    let (speed, width) = text.split_once('\n').unwrap_or((&text, ""));
    let _ = pci_text::parse_link(speed, width);
    let _ = pci_text::parse_aer(&text);
    let _ = pci_text::acs_redirect(bytes);
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let mut table = BenchReader::default();
    table.feed(first);
    table.feed(rest);
    table.finish();
    let _ = parse_json(&text);
});
