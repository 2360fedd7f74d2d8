//! Any bytes as an NCCL log: no panic, bounded state, and the same in whatever pieces they are read.
//! The first two bytes say how the rest is cut up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::check::nccl::{JobContext, judge};
use selvage::observe::nccl::NcclLog;
use selvage::observe::nccl::log::Limits;
use selvage::source::nccl::Reader;

fn state<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (NcclLog, u64, u64) {
    let mut log = NcclLog::new(Limits::CONTAINER);
    let mut reader = Reader::default();
    for piece in pieces {
        reader.feed(piece, &mut log, None);
    }
    reader.finish(&mut log, None);
    (log, reader.lines(), reader.cut())
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([size, skip], log)) = bytes.split_first_chunk() else {
        return;
    };
    let whole = state(std::iter::once(log));
    let (head, tail) = log.split_at(usize::from(*skip).min(log.len()));
    let pieces = std::iter::once(head).chain(tail.chunks(usize::from(*size) + 1));
    assert_eq!(whole, state(pieces));
    judge(&whole.0, &JobContext::default());
});
