//! The kernel log as syslog(2) gives it: `<PRI>[ssssss.uuuuuu] text`, a line each, the records of
//! several lines with the same prefix on each (kernel/printk/printk.c: `record_print_text`). Built
//! with CONFIG_PRINTK_CALLER, `[T123]` or `[C0]` follows the stamp.
//!
//! Nothing numbers the lines: one is found again by its stamp and a hash of it.

use std::collections::HashMap;

use super::{LineMark, Position, decode};
use crate::hash::fnv1a;

/// A message with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyslogMessage {
    /// Syslog facility (times 8) and level. The kernel's own facility is 0 and user space cannot
    /// write it.
    pub priority: u32,
    /// Microseconds of the kernel's local clock since boot.
    pub ts_us: u64,
    /// Its lines, joined by newlines.
    pub text: String,
    /// Place of its last line, where reading resumes.
    pub place: Position,
}

/// A record in the form of `/dev/kmsg`, with its number and stamp.
pub fn raw_record(priority: u32, (seq, ts_us): (u64, u64), text: &str) -> String {
    let mut raw = format!("{priority},{seq},{ts_us},-;");
    for byte in text.bytes() {
        match byte {
            b'\\' | 0..=31 | 127.. => raw.push_str(&format!("\\x{byte:02x}")),
            _ => raw.push(char::from(byte)),
        }
    }
    raw.push('\n');
    raw
}

/// One line of the ring, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line<'a> {
    /// All before the text: the same on each line of a record.
    prefix: &'a [u8],
    priority: u32,
    ts_us: u64,
    text: &'a [u8],
    whole: &'a [u8],
}

/// The kernel was told to stamp no lines (`printk.time=0`): they cannot be found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the kernel stamps no lines, so that none can be told from another: write Y to \
     /sys/module/printk/parameters/time"
)]
pub struct Unstamped;

/// The end of the log, or all of it.
#[derive(Debug, Default)]
pub struct SyslogLines<'a> {
    lines: Vec<Line<'a>>,
}

impl<'a> SyslogLines<'a> {
    /// Splits what one call gave. The kernel gives whole records; what is torn all the same is
    /// passed over.
    ///
    /// # Errors
    /// [`Unstamped`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Unstamped> {
        let mut parsed = Self::default();
        let mut unstamped = false;
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (whole, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            match line(whole) {
                Some(line) => parsed.lines.push(line),
                None => unstamped |= priority(whole).is_some(),
            }
        }
        if unstamped && parsed.lines.is_empty() {
            return Err(Unstamped);
        }
        Ok(parsed)
    }

    /// The line at which what came after `place` begins, their number if nothing is new; `None` where the
    /// last line handled is not among these. `all`: these are all lines that the ring holds.
    pub fn after(&self, place: &Position, all: bool) -> Option<usize> {
        let Some(ts_us) = place.last_ts_us else {
            return all.then_some(0);
        };
        let Some(mark) = place.last_line else {
            // Read another way: what is stamped later is new.
            let old = self.lines.iter().rposition(|line| line.ts_us <= ts_us);
            return old.map(|old| old + 1);
        };
        // Most lines differ in their stamp. Stamps need not rise from line to line.
        let is_same = |line: &Line<'_>| line.ts_us == ts_us && fnv1a(line.whole) == mark.hash;
        let same = self.lines.iter().zip(1..).filter(|(line, _)| is_same(line));
        let (found, (_, next)) = (1..).zip(same.take(mark.count as usize)).last()?;
        // Of several, some may have left the ring.
        (found == mark.count || all).then_some(next)
    }

    /// The messages from a line on, without those stamped before `floor_us`.
    pub fn messages(&self, from: usize, floor_us: u64) -> Vec<SyslogMessage> {
        let mut seen: HashMap<u64, u32> = HashMap::new();
        let mut messages: Vec<SyslogMessage> = Vec::new();
        let mut open: Option<(&[u8], String)> = None;
        for (i, line) in self.lines.iter().enumerate() {
            let hash = fnv1a(line.whole);
            let equal = seen.entry(hash).or_default();
            *equal += 1;
            if i < from || line.ts_us < floor_us {
                continue;
            }
            let count = *equal;
            let place = Position::marked(LineMark { hash, count }, line.ts_us);
            let text = String::from_utf8_lossy(line.text);
            if let Some((prefix, first)) = &open
                && *prefix == line.prefix
                && !stands_alone(first, &text)
                && let Some(message) = messages.last_mut()
            {
                message.text.push('\n');
                message.text.push_str(&text);
                message.place = place;
                continue;
            }
            open = Some((line.prefix, text.clone().into_owned()));
            messages.push(SyslogMessage {
                priority: line.priority,
                ts_us: line.ts_us,
                text: text.into_owned(),
                place,
            });
        }
        messages
    }
}

/// Whether a line with the prefix of the one before is a record of its own.
///
/// Lines of one record and records of one microsecond look alike. A record's text may quote what
/// users name (a path, a process), with line breaks in it: believing each line would let anybody
/// write an Xid. So the first line decides, unless the same speaker says something of a device in
/// both, which none that quotes does.
fn stands_alone(first: &str, text: &str) -> bool {
    fn speaker(text: &str) -> &str {
        text.split([' ', ':']).next().unwrap_or_default()
    }
    !speaker(first).is_empty()
        && speaker(first) == speaker(text)
        && decode(text, None).is_some_and(|event| event.pci.is_some())
}

/// `<PRI>`: the number, and what follows.
fn priority(line: &[u8]) -> Option<(u32, &[u8])> {
    let rest = line.strip_prefix(b"<")?;
    let end = memchr::memchr(b'>', rest.get(..rest.len().min(11))?)?;
    let (digits, rest) = rest.split_at_checked(end)?;
    Some((number(digits)?.try_into().ok()?, rest.get(1..)?))
}

/// `[  123.456789]` in microseconds, and what follows.
pub fn stamp(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"[")?.trim_ascii_start();
    let (seconds, rest) = rest.split_at_checked(memchr::memchr(b'.', rest)?)?;
    let (micros, rest) = rest.get(1..)?.split_at_checked(6)?;
    let ts_us = number(seconds)?
        .checked_mul(1_000_000)?
        .checked_add(number(micros)?)?;
    Some((ts_us, rest.strip_prefix(b"]")?))
}

fn line(whole: &[u8]) -> Option<Line<'_>> {
    let (priority, rest) = priority(whole)?;
    let (ts_us, mut text) = stamp(rest)?;
    if text.starts_with(b"[") {
        let end = memchr::memmem::find(text, b"] ")?;
        text = text.get(end + 1..)?;
    }
    text = text.strip_prefix(b" ")?;
    Some(Line {
        prefix: whole.get(..whole.len() - text.len())?,
        priority,
        ts_us,
        text,
        whole,
    })
}

/// Digits only: `parse` alone would accept a sign.
fn number(digits: &[u8]) -> Option<u64> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests;
