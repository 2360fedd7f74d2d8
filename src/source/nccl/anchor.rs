//! The few literals that a line of interest holds. Everything else in a training log is passed over
//! at the speed of memory.

use aho_corasick::AhoCorasick;
use std::sync::OnceLock;

/// Begins a sidecar's verdict in the log of its container.
pub const VERDICT_SCHEMA: &str = "selvage.dev/nccl-verdict/v1";

/// What a line of interest holds: NCCL's own mark (the version line has it too, RCCL's differs by
/// a letter), the two variables by which scripts tell that sockets are meant, nccl-tests' table of ranks, PyTorch's echo of the last error, a sidecar's verdict,
/// and the mark of a line that CRI split.
const LITERALS: [&str; 9] = [
    "NCCL ",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "RCCL version",
    " Pid ",
    "neither AF_INET",
    VERDICT_SCHEMA,
    " stdout P ",
    " stderr P ",
];

/// Offset of the first byte at or after `from` that makes its line worth a look.
pub fn find(haystack: &[u8], from: usize) -> Option<usize> {
    static FINDER: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    // The literals are constants: building them cannot fail.
    let finder = FINDER.get_or_init(|| AhoCorasick::new(LITERALS).ok());
    let found = finder.as_ref()?.find(haystack.get(from..)?)?;
    Some(from + found.start())
}
