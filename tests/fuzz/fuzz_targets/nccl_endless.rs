//! Any lines as an NCCL log without an end: what is held of it stays below a bound, and is counted.
#![no_main]

#[path = "../endless.rs"]
mod endless;
#[path = "../memory.rs"]
mod memory;

use libfuzzer_sys::fuzz_target;
use selvage::check::nccl::{JobContext, judge};
use selvage::observe::nccl::NcclLog;
use selvage::observe::nccl::log::LogLimits;
use selvage::source::nccl::Reader;

/// So little is kept that a small log fills it.
const LIMITS: LogLimits = LogLimits {
    processes: 4,
    groups: 2,
    seats: 8,
};

/// Bytes of the log, and of memory at most: half as many, so that something that keeps what it reads is found.
/// Names, evidence, parts of lines and counts of connections have bounds of their own; seeds come to 111 KiB.
const LOG: usize = 512 << 10;
const MOST: usize = 256 << 10;

fuzz_target!(|bytes: &[u8]| {
    let text = endless::log(bytes.get(..2048).unwrap_or(bytes), LOG);
    let ((log, reader), held, most) = memory::of(|| {
        let mut log = NcclLog::new(LIMITS);
        let mut reader = Reader::default();
        for piece in text.chunks(16 << 10) {
            reader.feed(piece, &mut log, None);
        }
        (log, reader)
    });
    assert!(most <= MOST, "{most} bytes");
    let counted = log.held() + reader.held();
    assert!(memory::counts(counted, held), "counted {counted} of {held}");
    judge(&log, &JobContext::default());
});
