//! Any text as a kernel log: no panic, and records mean the same whichever way they are read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::source::kernel_log::assemble::Assembler;
use selvage::source::kernel_log::{decode, record};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut assembler = Assembler::default();
    for line in text.split('\n') {
        assembler.feed(line, &mut |_, _| ());
    }
    assembler.finish(&mut |_, _| ());
    if let Some(record) = record::parse(&text) {
        decode(&record.text, record.device.as_deref());
    }
});
