//! Parses messages into events, by family.

mod comm;
mod connection;
mod fault;
mod network;
pub(super) mod scan;

pub(super) use fault::{last_error, ucx};

use crate::observe::nccl::event::TestRank;
use crate::observe::nccl::{Event, Level};
use scan::{Scan, find};
use std::sync::LazyLock;

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
    connection::channel(text)
        .or_else(|| connection::connected(text))
        .or_else(|| environment(text))
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
    let version = Scan(rest).take(|b| b.is_ascii_digit() || b == b'.')?;
    let version = version.trim_end_matches('.');
    let parts = version.split('.').count();
    (parts == 3 || parts == 2 && at == 1).then_some(Event::Version(version))
}

/// `init.cc:1402 -> 6`, also followed by `[Async thread]`; since 2.30.7 `init.cc:1402 (FUNCTION) -> 6`.
fn error_trace(text: &str) -> Option<Event<'_>> {
    memchr::memchr(b'>', text.as_bytes())?;
    let (place, code) = text.split_once(" -> ")?;
    let (file, line) = place.split(" (").next()?.rsplit_once(':')?;
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
static PLAIN: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let lines = include_str!("message/plain.txt").lines();
    lines.map(|line| line.trim_end_matches('…')).collect()
});

fn plain(text: &str) -> Event<'_> {
    // Most differ in the first byte, which is cheaper to compare.
    let first = text.as_bytes().first();
    let begins = |start: &str| start.as_bytes().first() == first && text.starts_with(start);
    let known = PLAIN.iter().any(|start| begins(start));
    // `6 coll channels, 8 p2p channels, …`
    let counted = || first.is_some_and(u8::is_ascii_digit) && text.contains(" coll channels");
    match known || text.is_empty() || counted() {
        true => Event::Plain,
        false => Event::Unknown,
    }
}

/// `NCCL_NET=Socket`, `-x NCCL_IB_DISABLE=1`, `"NCCL_NET": "Socket"`: settings as scripts and
/// launchers print them.
pub(super) fn assignments(line: &str) -> impl Iterator<Item = Event<'_>> {
    let names = ["NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN"];
    names.into_iter().filter_map(|name| assignment(line, name))
}

fn last_word(text: &str) -> &str {
    text.split_whitespace().next_back().unwrap_or("")
}

fn assignment<'a>(line: &'a str, name: &'static str) -> Option<Event<'a>> {
    const WORDS: &str =
        "export env -x -e --env setenv declare + ++ ENV -env -genv sudo exec time && --export";
    // They take a name and a value without a mark between.
    const SPACED: &str = "setenv ENV -env -genv";
    let among = |words: &str, word: &str| words.split(' ').any(|known| known == word);
    let quote = ['"', '\''];
    let (before, value) = line.match_indices(name).find_map(|(at, _)| {
        let (before, rest) = (line.get(..at)?, line.get(at + name.len()..)?);
        let marked = rest.strip_prefix(quote).unwrap_or(rest).trim_start();
        let spaced = rest
            .strip_prefix(' ')
            .filter(|_| among(SPACED, last_word(before)));
        Some((before, marked.strip_prefix(['=', ':']).or(spaced)?))
    })?;
    // Part of another name, a reference, or a comment; the `#` of a prompt has no space before it.
    let part = before.ends_with(|c: char| c.is_ascii_alphanumeric() || "_${".contains(c));
    let comment = before.trim_start().starts_with('#') || before.contains(" #");
    // Sentences mention settings, too; a printed setting follows nothing, or only such words, numbers,
    // times and tags.
    let last = last_word(before);
    let is_word = |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase());
    let listed = last.is_empty()
        || among(WORDS, last)
        || before.trim() == "set"
        || before.ends_with(':')
        || last.contains('=')
        || (last.contains(|c: char| c.is_ascii_digit())
            && !last.ends_with([')', '.'])
            && !before.split_whitespace().any(is_word))
        || (last.trim_end_matches(':'))
            .ends_with(['"', '\'', '{', ',', '$', '#', '>', '(', '[', ']', ';']);
    let value = value.trim_start().trim_start_matches(quote);
    let end = value.find(|c: char| !c.is_ascii_alphanumeric());
    let (value, behind) = value.split_at_checked(end.unwrap_or(value.len()))?;
    let choice = behind.starts_with(['|', '<']);
    const SENTENCE: &str =
        "to and or is was did does works worked helps fixes if when for in on as but disables";
    let sentence = among(SENTENCE, behind.split_whitespace().next().unwrap_or(""));
    (listed && !part && !comment && !choice && !sentence).then_some(Event::Env { name, value })
}

/// An entry of nccl-tests' list of ranks: `#  Rank  0 Group  0 Pid 1034070 on host device  0 [0000:11:00] NVIDIA …`.
pub(super) fn test_rank(line: &str) -> Option<Event<'_>> {
    let at = find!(line, "Rank ")?;
    let (who, device) = line.get(at + 5..)?.split_once(" device ")?;
    let words: Vec<&str> = who.split_whitespace().take(8).collect();
    let ([rank, "Group", _, "Pid", pid, "on", host] | [rank, "Pid", pid, "on", host]) = words[..]
    else {
        return None;
    };
    let end = device.find(']').map_or(device.len(), |at| at + 1);
    Some(Event::TestRank(TestRank {
        rank: rank.parse().ok()?,
        host,
        pid: pid.parse().ok()?,
        device: device.get(..end)?.trim_start(),
    }))
}

#[cfg(test)]
mod tests;
