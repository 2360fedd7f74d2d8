//! The few literals that lines of interest contain. The rest of a training log is skipped at the speed
//! of memory.

use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// Marks a sidecar's verdict in the log of its container.
pub const VERDICT_SCHEMA: &str = "selvage.dev/nccl-verdict/v1";

/// PyTorch prints NCCL's last error in the next line.
pub const LAST_ERROR: &str = "Last error:";

/// Literals of lines of interest: the mark of NCCL and RCCL (also part of the version line and of
/// variables that scripts print), nccl-tests' list of ranks, what PyTorch prints before the last error, UCX's
/// errors, a sidecar's verdict, what 2.1 says of its network without a mark, and the mark of a line that CRI split. They are few and their first bytes are rare, so that one pass of the vectorised search
/// finds them all.
const LITERALS: [&str; 8] = [
    "CCL",
    "Pid ",
    LAST_ERROR,
    "hw_synd ",
    VERDICT_SCHEMA,
    "Using internal Network ",
    "dout P ",
    "derr P ",
];

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| finder(LITERALS));

/// A finder of any of these literals; building one from constants cannot fail.
pub(super) fn finder<'a>(literals: impl IntoIterator<Item = &'a str>) -> Option<AhoCorasick> {
    // Only this kind of match uses vector instructions.
    let kind = MatchKind::LeftmostFirst;
    AhoCorasick::builder().match_kind(kind).build(literals).ok()
}

/// Offset of the first literal at or after `from`.
pub fn find(haystack: &[u8], from: usize) -> Option<usize> {
    let found = FINDER.as_ref()?.find(haystack.get(from..)?)?;
    Some(from + found.start())
}
