//! The few literals that a line of interest holds. Everything else in a training log is passed over
//! at the speed of memory.

use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::OnceLock;

/// Begins a sidecar's verdict in the log of its container.
pub const VERDICT_SCHEMA: &str = "selvage.dev/nccl-verdict/v1";

/// What a line of interest holds: the mark of NCCL and RCCL (which is also in the variables that
/// scripts print and in the version line), nccl-tests' table of ranks, PyTorch's echo of the last
/// error, a sidecar's verdict, and the mark of a line that CRI split. Few, and rare in their first
/// bytes: then one pass of the vector search finds them all.
const LITERALS: [&str; 6] = [
    "CCL",
    "Pid ",
    "AF_INET",
    VERDICT_SCHEMA,
    "dout P ",
    "derr P ",
];

/// Offset of the first byte at or after `from` that makes its line worth a look.
pub fn find(haystack: &[u8], from: usize) -> Option<usize> {
    static FINDER: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    // The literals are constants: building them cannot fail.
    let finder = FINDER.get_or_init(|| {
        // Only of this kind is the search for the leftmost by vector instructions.
        let kind = MatchKind::LeftmostFirst;
        AhoCorasick::builder().match_kind(kind).build(LITERALS).ok()
    });
    let found = finder.as_ref()?.find(haystack.get(from..)?)?;
    Some(from + found.start())
}
