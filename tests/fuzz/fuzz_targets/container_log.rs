//! Any bytes as a line of a container's log: no panic, and the text is never longer than the line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::source::container_log::unframe;

fuzz_target!(|line: &[u8]| {
    let (_, text) = unframe(line);
    assert!(text.len() <= line.len());
});
