//! Lines about the life of a communicator (src/init.cc).

use super::scan::{Scan, find};
use crate::observe::nccl::Event;
use crate::observe::nccl::event::{Comm, InitSeconds, Phase};

/// Parses lines that name a communicator with rank and size, in the word order of any version.
pub(super) fn lifecycle(text: &str) -> Option<Event<'_>> {
    if let Some(rest) = text.strip_prefix("Trees ") {
        return trees(rest);
    }
    if let Some(rest) = text.strip_prefix("MNNVL ") {
        let whole = rest.contains(" cliqueRank ");
        return after(rest, " cliqueSize ")
            .filter(|_| whole)
            .map(Event::Clique);
    }
    if let Some(rest) = text.strip_prefix("Cross-clique P2P enabled:") {
        return after(rest, " nvlDomainSize=").map(Event::Clique);
    }
    if text.starts_with("Init timings") {
        return timings(text);
    }
    // Most messages start with another letter.
    if !text.starts_with(['c', 'n', 'r', ':', ' ']) {
        return None;
    }
    // `comm 0x… rank 8 nranks 16 …`, also after a function's name (2.21+); 2.3 starts with the rank.
    let start = match find!(text, "comm 0x") {
        Some(at) if is_call(text.get(..at)?) => text.get(at..)?,
        _ if text.starts_with("rank ") => text,
        _ => return None,
    };
    let rank = after(start, " rank ")
        .or_else(|| after(start, "rank ").filter(|_| start.starts_with("rank ")))?;
    let nranks = after(start, " nranks ").or_else(|| after(start, " nRanks "))?;
    if rank >= nranks {
        return None;
    }
    let id = behind(start, " commId ").and_then(|mut scan| scan.pointer());
    let phase = match start {
        _ if start.contains("Init START") => Phase::Start,
        _ if start.contains("Abort COMPLETE") => Phase::Aborted,
        _ if start.contains("Destroy COMPLETE") => Phase::Destroyed,
        _ if start.ends_with("COMPLETE") || start.contains("Init COMPLETE") => Phase::Complete,
        _ => Phase::Alive,
    };
    Some(Event::Comm(Comm {
        id,
        rank,
        nranks,
        nodes: after(start, " nNodes "),
        mnnvl: after(start, " MNNVL ") == Some(1),
        split: find!(start, " parent 0x").is_some(),
        bus: behind(start, " busId ").and_then(|mut scan| scan.hex()),
        gpu: gpu(start),
        phase,
    }))
}

/// The number of the GPU, unless CUDA_VISIBLE_DEVICES may have changed it: CUDA counts only the GPUs that this
/// leaves, in its order, and NVML all of them (`commAlloc` in src/init.cc).
fn gpu(text: &str) -> Option<u32> {
    let cuda = after(text, " cudaDev ")?;
    let nvml = after(text, " nvmlDev ");
    nvml.map_or(cuda > 0, |nvml| nvml == cuda).then_some(cuda)
}

/// Whether the text is empty or the name of a function of NCCL.
fn is_call(before: &str) -> bool {
    let before = before.trim_end();
    let name = before.strip_suffix(':').unwrap_or(before);
    name.is_empty() || !name.contains(' ') && name.starts_with("nccl")
}

/// The number after a word.
fn after(text: &str, word: &str) -> Option<u32> {
    behind(text, word)?.number()
}

fn behind<'a>(text: &'a str, word: &str) -> Option<Scan<'a>> {
    Some(Scan(text.split_once(word)?.1))
}

/// `[0] 1/8/-1->0->-1 [1] …`: the middle is the printing rank.
fn trees(rest: &str) -> Option<Event<'_>> {
    let at = find!(rest, "->")?;
    let rest = rest.get(at + 2..)?;
    let rank = Scan(rest).number()?;
    Some(Event::Trees(rank))
}

/// `Init timings - ncclCommInitRank: rank 0 nranks 16 total 1.08 (kernels …)` (2.22+).
fn timings(text: &str) -> Option<Event<'_>> {
    let rank = after(text, " rank ")?;
    let nranks = after(text, " nranks ")?;
    let (_, rest) = text.split_once(" total ")?;
    let seconds: f64 = rest.split([' ', '(']).next()?.parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then_some(Event::InitSeconds(InitSeconds {
        rank,
        nranks,
        seconds,
    }))
}
