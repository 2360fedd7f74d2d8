//! Any bytes as a shared library and as the loader's cache, out of a container's image: no panic, no name that
//! the file does not hold, and no more memory than a multiple of the file.
#![no_main]

#[path = "../memory.rs"]
mod memory;

use libfuzzer_sys::fuzz_target;
use selvage::source::container::libraries::{dynamic, objection, parse_cache};

const BASE: usize = 16 << 10;
const PER_BYTE: usize = 32;

fn bounded<T>(bytes: &[u8], run: impl FnOnce() -> T) -> T {
    let (result, _, most) = memory::of(run);
    assert!(
        most <= BASE + PER_BYTE * bytes.len(),
        "{most} bytes for {}",
        bytes.len()
    );
    result
}

fuzz_target!(|bytes: &[u8]| {
    for arch in [None, Some("x86_64"), Some("aarch64")] {
        objection(bytes, arch);
    }
    if let Some(dynamic) = bounded(bytes, || dynamic(bytes)) {
        for name in dynamic.needed.iter().chain(&dynamic.runpath) {
            let held = bytes
                .windows(name.len().max(1))
                .any(|part| part == name.as_bytes());
            assert!(name.is_empty() || held, "{name:?}");
        }
    }
    bounded(bytes, || parse_cache(bytes));
});
