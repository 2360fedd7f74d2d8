//! Any bytes as an NCCL log: no panic, the same in whatever pieces they are read, and no more memory than
//! a multiple of what was read. The first two bytes say how the rest is cut up.
#![no_main]

#[path = "../memory.rs"]
mod memory;

use libfuzzer_sys::fuzz_target;
use selvage::check::nccl::{JobContext, judge};
use selvage::observe::nccl::NcclLog;
use selvage::observe::nccl::log::LogLimits;
use selvage::source::nccl::Reader;

/// Bytes that may be held without a line, and for each byte that was read.
const BASE: usize = 64 << 10;
const PER_BYTE: usize = 128;

fn state<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (NcclLog, Reader) {
    let mut log = NcclLog::new(LogLimits::CONTAINER);
    let mut reader = Reader::default();
    for piece in pieces {
        reader.feed(piece, &mut log, None);
    }
    reader.finish(&mut log, None);
    (log, reader)
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([size, skip], log)) = bytes.split_first_chunk() else {
        return;
    };
    let ((whole, reader), held, _) = memory::of(|| state(std::iter::once(log)));
    assert!(
        held <= BASE + PER_BYTE * log.len(),
        "{held} bytes for {}",
        log.len()
    );
    let counted = whole.held() + reader.held();
    assert!(memory::counts(counted, held), "counted {counted} of {held}");
    let (head, tail) = log.split_at(usize::from(*skip).min(log.len()));
    let pieces = std::iter::once(head).chain(tail.chunks(usize::from(*size) + 1));
    let (pieced, read) = state(pieces);
    assert_eq!(
        (&whole, reader.lines(), reader.cut()),
        (&pieced, read.lines(), read.cut())
    );
    judge(&whole, &JobContext::default());
});
