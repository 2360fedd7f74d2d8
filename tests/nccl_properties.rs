//! What holds of every NCCL log, whatever is in it: nothing panics, what is kept is bounded, it makes
//! no difference in which pieces the log is read, and none how the lines of two processes interleave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs
)]

mod support {
    pub mod nccl_log;
}

use proptest::prelude::*;
use selvage::check::nccl::{JobContext, NcclVerdict, judge};
use selvage::observe::nccl::NcclLog;
use selvage::observe::nccl::log::LogLimits;
use selvage::source::nccl::Reader;
use support::nccl_log::{any_log, process_lines};

fn state<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (NcclLog, u64, u64) {
    let mut log = NcclLog::new(LogLimits::CONTAINER);
    let mut reader = Reader::default();
    for piece in pieces {
        reader.feed(piece, &mut log, None);
    }
    reader.finish(&mut log, None);
    (log, reader.lines(), reader.cut())
}

/// The log in pieces that end at these places.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(bytes.len());
    let mut from = 0;
    cuts.into_iter()
        .map(|to| {
            let piece = &bytes[from..to];
            from = to;
            piece
        })
        .collect()
}

fn verdict(text: &str) -> NcclVerdict {
    let mut verdict = judge(&state([text.as_bytes()]).0, &JobContext::default());
    // Of what shows the same thing the first line is kept, whoever printed it.
    verdict.evidence.clear();
    verdict
}

fn cases(default: u32) -> ProptestConfig {
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES")
            .ok()
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn pieces_make_no_difference(
        bytes in any_log(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let whole = state([bytes.as_slice()]);
        let split = state(pieces(&bytes, &cuts));
        prop_assert_eq!(&whole, &split);
        let one = state(bytes.chunks(1));
        prop_assert_eq!(&whole, &one);
        let lines: Vec<u8> = bytes.clone();
        let mut log = NcclLog::new(LogLimits::CONTAINER);
        let mut reader = Reader::default();
        // A follower cuts the lines out itself.
        let text = lines.strip_suffix(b"\n").unwrap_or(&lines);
        if !lines.is_empty() {
            for line in text.split(|b| *b == b'\n') {
                reader.take_line(line, &mut log, None);
            }
        }
        reader.finish(&mut log, None);
        prop_assert_eq!(&whole.0, &log);
        judge(&log, &JobContext::default());
    }

    #[test]
    fn junk_harms_nothing(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let (log, _, _) = state([bytes.as_slice()]);
        judge(&log, &JobContext::default());
    }

    /// Order within each process is kept, and ranks of one communicator are different processes, as
    /// they are in any job. Not among it: what no process says of itself (a launcher's print of its
    /// settings, the last of which counts), lines whose process somebody took away, a process that
    /// takes the rank, the GPU or the id of another of its host (a restart: the later one counts), more processes,
    /// threads and names than are kept.
    #[test]
    fn interleaving_makes_no_difference(
        (a, b) in process_lines(),
        order in prop::collection::vec(any::<bool>(), 0..160),
    ) {
        let mut merged = Vec::new();
        let (mut left, mut right) = (a.iter(), b.iter());
        for first in order {
            merged.extend(if first { left.next() } else { right.next() });
        }
        merged.extend(left.chain(right));
        let merged: Vec<&str> = merged.into_iter().map(String::as_str).collect();
        let one_after_the_other = verdict(&[a.join("\n"), b.join("\n")].join("\n"));
        let other_way_round = verdict(&[b.join("\n"), a.join("\n")].join("\n"));
        prop_assert_eq!(&one_after_the_other, &other_way_round);
        prop_assert_eq!(&one_after_the_other, &verdict(&merged.join("\n")));
    }
}
