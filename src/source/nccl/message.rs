//! Parses messages into events, by family.

mod comm;
mod connection;
mod fault;
mod network;
pub(super) mod scan;

use crate::observe::nccl::{Event, Failure, Level};
use scan::{Scan, find};

/// Parses a message. NCCL lines that no parser rule recognises are [`Event::Unknown`].
pub fn message(level: Level, text: &str) -> Event<'_> {
    // 2.29+ prefixes some messages with the rank.
    let text = match text.strip_prefix("[Rank ") {
        Some(rest) => rest.split_once("] ").map_or(text, |(_, rest)| rest),
        None => text,
    };
    let event = by_family(text);
    match (level, event) {
        (Level::Warn, Event::Unknown | Event::Plain) => fault::warning(text),
        (Level::Info, Event::Unknown | Event::Plain) => fault::info(text).unwrap_or(event),
        (_, event) => event,
    }
}

fn by_family(text: &str) -> Event<'_> {
    match text.as_bytes().first() {
        Some(b'C') => connection::channel(text).unwrap_or_else(|| with_c(text)),
        Some(b'R') => connection::channel(text).unwrap_or_else(|| other(text)),
        _ => other(text),
    }
}

fn with_c(text: &str) -> Event<'_> {
    if let Some(rest) = text.strip_prefix("Connected all ") {
        return connection::connected(rest);
    }
    // The only trace of NCCL_NET, since 2.28.7.
    if let Some(value) = text.strip_prefix("Comm config netName reset to NCCL_NET=") {
        return Event::Env {
            name: "NCCL_NET",
            value: value.trim(),
        };
    }
    if text.starts_with("CollNet ") || text.starts_with("Comm config") || text.starts_with("CC ") {
        return Event::Plain;
    }
    other(text)
}

fn other(text: &str) -> Event<'_> {
    environment(text)
        .or_else(|| comm::lifecycle(text))
        .or_else(|| network::network(text))
        .or_else(|| version(text))
        .or_else(|| error_trace(text))
        .unwrap_or_else(|| plain(text))
}

/// `NAME set by environment to V.`
fn environment(text: &str) -> Option<Event<'_>> {
    let (name, rest) = text.split_once(' ')?;
    let value = rest.strip_prefix("set by environment to ")?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let value = value.trim();
    Some(Event::Env {
        name,
        value: value.strip_suffix('.').unwrap_or(value),
    })
}

/// `NCCL version 2.21.5+cuda12.4`, also without a prefix, and the version lines of RCCL.
pub(super) fn version(text: &str) -> Option<Event<'_>> {
    let at = find!(text, "CCL version ")?;
    let rest = text.get(at + "CCL version ".len()..)?;
    let rest = rest.trim_start_matches([':', ' ']);
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(rest.len());
    let version = rest.get(..end)?.trim_end_matches('.');
    let parts = version.split('.').count();
    (parts == 3 || parts == 2 && at == 1).then_some(Event::Version(version))
}

/// `init.cc:1402 -> 6`, also followed by `[Async thread]`.
fn error_trace(text: &str) -> Option<Event<'_>> {
    memchr::memchr(b'>', text.as_bytes())?;
    let (place, code) = text.split_once(" -> ")?;
    let (file, line) = place.rsplit_once(':')?;
    let mut scan = Scan(line);
    scan.number()?;
    let mut code = Scan(code);
    code.number()?;
    if file.contains(' ') || !scan.0.trim_start_matches([')', ']', '/']).is_empty() {
        return None;
    }
    Some(Event::ErrorTrace { file })
}

/// Starts of messages that say nothing about the network, so that unknown ones can be counted.
const PLAIN: &[&str] = &[
    "cudaDriverVersion",
    "Trees ",
    "P2P Chunksize",
    "threadThresholds",
    "Using non-device net plugin",
    "Using 256 threads",
    "Using LL",
    "Setting affinity",
    "CUDA Dev ",
    "Launch mode",
    "TUNER/Plugin",
    "PROFILER/Plugin",
    "ENV/Plugin",
    "RAS ",
    "MNNVL ",
    "NVLS ",
    "NCCL_",
    "Init timings",
    "Destroy ",
    "New proxy",
    "[Proxy ",
    "[Service ",
    "Pattern ",
    "=== System",
    "CPU/",
    "GPU/",
    "NIC/",
    "+ ",
    "- ",
    "=====",
    "Could not get speed",
    "Assigned GIN",
    "Assigned RMA",
    "Plugin Path",
    "DMA-BUF is available",
    "GDRCOPY",
    "Connected NVLS",
    "comm 0x",
    "Symmetric",
    "Attribute coll",
    "Channel ",
    "Ring ",
    "Tree ",
    "Topology",
    "TOPO/",
    "Loading topology",
    "Allocated ",
    "Dumping topology",
    "isAllDirectP2p",
    "AllReduce:",
    "AllGather:",
    "ReduceScatter:",
    "Broadcast:",
    "Reduce:",
    "AllToAll:",
    "Send:",
    "Recv:",
    "ncclGroup",
    "NCCL git version",
    "NET :",
    "NET/OFI ",
    "NET/IB ",
    "NET/IB:",
    "NET/Socket",
    "NET/Plugin",
    "Thread affinity",
    "HIP version",
    "ROCm version",
    "Librccl path",
    "Hostname ",
    "Kernel version",
];

fn plain(text: &str) -> Event<'_> {
    // Most differ in the first byte, which is cheaper to compare.
    let first = text.as_bytes().first();
    let begins = |start: &str| start.as_bytes().first() == first && text.starts_with(start);
    let known = PLAIN.iter().any(|start| begins(start));
    // `6 coll channels, 8 p2p channels, …`
    let counted = || first.is_some_and(u8::is_ascii_digit) && text.contains(" coll channels");
    if known || text.is_empty() || counted() {
        Event::Plain
    } else {
        Event::Unknown
    }
}

/// NCCL's last error as PyTorch prints it, which may be the only trace of it.
pub(super) fn last_error(line: &str) -> Option<Event<'_>> {
    find!(line, "is neither AF_INET").map(|_| Event::Failure(Failure::Ifname))
}

/// `NCCL_NET=Socket`, `-x NCCL_IB_DISABLE=1`, `"NCCL_NET": "Socket"`: settings as scripts and
/// launchers print them.
pub(super) fn assignments(line: &str) -> impl Iterator<Item = Event<'_>> {
    ["NCCL_IB_DISABLE", "NCCL_NET"]
        .into_iter()
        .filter_map(|name| assignment(line, name))
}

fn assignment<'a>(line: &'a str, name: &'static str) -> Option<Event<'a>> {
    let quote = ['"', '\''];
    let (before, value) = line.match_indices(name).find_map(|(at, _)| {
        let rest = line.get(at + name.len()..)?;
        let rest = rest.strip_prefix(quote).unwrap_or(rest).trim_start();
        Some((line.get(..at)?, rest.strip_prefix(['=', ':'])?))
    })?;
    // Part of another name, or a comment; the `#` of a prompt has no space before it.
    if before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        || before.trim_start().starts_with('#')
        || before.contains(" #")
    {
        return None;
    }
    // Sentences mention settings, too; a printed setting follows nothing, or only such words.
    let last = before.split_whitespace().next_back().unwrap_or("");
    const WORDS: [&str; 9] = [
        "export", "env", "-x", "-e", "--env", "setenv", "set", "declare", "+",
    ];
    let listed = last.is_empty()
        || WORDS.contains(&last)
        || last.contains('=')
        || last.ends_with(['"', '\'', '{', ',', '$', '#', '>', '(', '['])
        || last.ends_with("]:");
    if !listed {
        return None;
    }
    let value = value.trim_start().trim_start_matches(quote);
    let end = value.find(|c: char| !c.is_ascii_alphanumeric());
    if end.is_some_and(|end| {
        value
            .get(end..)
            .is_some_and(|rest| rest.starts_with(['|', '<']))
    }) {
        return None;
    }
    Some(Event::Env {
        name,
        value: value.get(..end.unwrap_or(value.len()))?,
    })
}

/// An entry of nccl-tests' list of ranks: `#  Rank  0 Group  0 Pid 1034070 on host device  0 [0000:11:00] NVIDIA …`.
pub(super) fn test_rank(line: &str) -> Option<Event<'_>> {
    let at = find!(line, "Rank ")?;
    let mut scan = Scan(line.get(at + 5..)?);
    let rank = scan.spaces().number()?;
    if let Some(rest) = scan.spaces().0.strip_prefix("Group ") {
        scan = Scan(rest);
        scan.spaces().number()?;
    }
    let rest = scan.spaces().0.strip_prefix("Pid ")?;
    let mut scan = Scan(rest);
    let pid = scan.spaces().number()?;
    let rest = scan.0.strip_prefix(" on ")?.trim_start();
    let (host, rest) = rest.split_once(' ')?;
    let device = rest.trim_start().strip_prefix("device ")?;
    let end = device.find(']').map_or(device.len(), |at| at + 1);
    Some(Event::TestRank {
        rank,
        host,
        pid,
        device: device.get(..end)?.trim_start(),
    })
}

#[cfg(test)]
mod tests;
