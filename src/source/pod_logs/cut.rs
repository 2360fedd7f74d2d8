//! Cuts the lines that somebody wants out of whole lines. What comes out does not depend on how the
//! file was split into reads.

use super::options::{Container, Sink};
use memchr::{memchr, memrchr};

/// What tags a partial line in CRI's framing (`… stdout P …`): the runtime splits lines at 16 KiB. A
/// finder that looks for these too gets every split line whole, also one whose literal lies across
/// the split. They are this short because `stdout` itself is in every line, which makes it a bad
/// thing to look for.
pub const PARTIAL_TAGS: [&str; 2] = ["t P ", "r P "];

/// Streams of which a partial line was handed over: what continues it is wanted, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Joins {
    stdout: bool,
    stderr: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

impl Joins {
    fn any(self) -> bool {
        self.stdout || self.stderr
    }

    fn of(&mut self, stream: Stream) -> &mut bool {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// The stream of a framed line, and whether the next line of that stream continues it.
fn tag(line: &[u8]) -> Option<(Stream, bool)> {
    if line.starts_with(b"{\"log\":\"") {
        return docker_tag(line);
    }
    // STAMP STREAM TAG TEXT; tags after P or F are separated by colons.
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let stamp = words.next()?;
    if !stamp.first()?.is_ascii_digit() {
        return None;
    }
    let stream = match words.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    match words.next()?.split(|byte| *byte == b':').next()? {
        b"P" => Some((stream, true)),
        b"F" => Some((stream, false)),
        _ => None,
    }
}

/// Docker's framing: an entry without a newline at its end is continued. `stream` and `time` come
/// after the text.
fn docker_tag(line: &[u8]) -> Option<(Stream, bool)> {
    const STREAM: &[u8] = b"\"stream\":\"std";
    let tail = line.get(line.len().saturating_sub(160)..)?;
    let at = memchr::memmem::rfind(tail, STREAM)?;
    let stream = match tail.get(at + STREAM.len()..)?.get(..3)? {
        b"out" => Stream::Stdout,
        b"err" => Stream::Stderr,
        _ => return None,
    };
    Some((stream, !tail.get(..at)?.ends_with(b"\\n\",")))
}

/// What came of cutting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cut {
    pub(super) lines: u64,
    /// Wanted, but longer than what is handled.
    pub(super) too_long: u64,
}

/// Hands over the wanted ones of `region`'s lines; all but the last end in a newline.
pub(super) fn cut(
    region: &[u8],
    longest: usize,
    joins: &mut Joins,
    who: &Container,
    sink: &mut dyn Sink,
) -> Cut {
    let mut done = Cut::default();
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
            _ if joins.any() => at,
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
        let mut take_it = wanted.is_some_and(|found| found <= end);
        // Only a line that is handed over begins a join.
        let tag = (take_it || joins.any()).then(|| tag(line)).flatten();
        if let Some((stream, more)) = tag {
            let join = joins.of(stream);
            take_it |= *join;
            *join = take_it && more;
        }
        if take_it && line.len() > longest {
            done.too_long += 1;
        } else if take_it {
            done.lines += 1;
            sink.line(who, line);
        }
    }
    done
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
