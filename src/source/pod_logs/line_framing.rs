//! Hands the wanted lines of a buffer to the sink. The result does not depend on how the file was
//! split into reads.

use super::options::{Container, Sink};
use memchr::{memchr, memrchr};

/// Tags of a partial line in CRI's framing (`… stdout P …`): the runtime splits lines at 16 KiB. A
/// sink that wants these too gets every split line whole, also one whose pattern lies across the
/// split. They are this short because `stdout` itself is in every line, which makes it a poor
/// search pattern.
pub const PARTIAL_TAGS: [&str; 2] = ["t P ", "r P "];

/// Whether a partial line of stdout and of stderr was handed over: its continuation is wanted, too.
pub(super) type Joins = [bool; 2];

/// The stream of a framed line, and whether the next line of that stream continues it.
fn tag(line: &[u8]) -> Option<(usize, bool)> {
    if line.starts_with(b"{\"log\":\"") {
        return docker_tag(line);
    }
    // STAMP STREAM TAG TEXT; tags after P or F are separated by colons.
    let mut words = line.splitn(4, |byte| *byte == b' ');
    if !words.next()?.first()?.is_ascii_digit() {
        return None;
    }
    let stream = stream(words.next()?.strip_prefix(b"std")?)?;
    match words.next()?.split(|byte| *byte == b':').next()? {
        b"P" => Some((stream, true)),
        b"F" => Some((stream, false)),
        _ => None,
    }
}

fn stream(name: &[u8]) -> Option<usize> {
    [b"out", b"err"].iter().position(|known| name == *known)
}

/// Docker's framing: an entry without a newline at its end is continued. `stream` and `time` come
/// after the text.
fn docker_tag(line: &[u8]) -> Option<(usize, bool)> {
    const STREAM: &[u8] = b"\"stream\":\"std";
    let tail = line.get(line.len().saturating_sub(160)..)?;
    let at = memchr::memmem::rfind(tail, STREAM)?;
    let stream = stream(tail.get(at + STREAM.len()..)?.get(..3)?)?;
    Some((stream, !tail.get(..at)?.ends_with(b"\\n\",")))
}

/// Numbers of lines by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cut {
    pub(super) lines: u64,
    /// Wanted, but longer than the limit.
    pub(super) too_long: u64,
}

/// Hands over the wanted lines of `region`; all but the last end in a newline.
pub(super) fn cut(
    region: &[u8],
    longest: usize,
    joins: &mut Joins,
    who: &Container,
    sink: &mut dyn Sink,
) -> Cut {
    let mut done = Cut::default();
    let any = |joins: &Joins| joins.iter().any(|join| *join);
    let find = |sink: &dyn Sink, from: usize| {
        let found = sink.wants(region, from)?;
        (found >= from && found < region.len()).then_some(found)
    };
    let mut at = 0;
    let mut wanted = find(sink, 0);
    while at < region.len() {
        if wanted.is_some_and(|found| found < at) {
            wanted = find(sink, at);
        }
        let start = match wanted {
            _ if any(joins) => at,
            Some(found) => {
                let before = region.get(at..found).unwrap_or_default();
                memrchr(b'\n', before).map_or(at, |newline| at + newline + 1)
            }
            None => break,
        };
        let rest = region.get(start..).unwrap_or_default();
        let len = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..len).unwrap_or_default();
        let end = start + len;
        at = end + 1;
        let mut take = wanted.is_some_and(|found| found <= end);
        // Only a line that is handed over begins a join.
        let tag = (take || any(joins)).then(|| tag(line)).flatten();
        if let Some((stream, more)) = tag
            && let Some(join) = joins.get_mut(stream)
        {
            take |= *join;
            *join = take && more;
        }
        if take && line.len() > longest {
            done.too_long += 1;
        } else if take {
            done.lines += 1;
            sink.line(who, line);
        }
    }
    done
}

#[cfg(test)]
mod tests;
