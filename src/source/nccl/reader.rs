//! Turns the bytes of a log, in pieces of any size, into its state.

use super::message::scan::{Scan, find};
use super::{anchor, message, prefix};
use crate::observe::nccl::event::{Phase, Time};
use crate::observe::nccl::{Event, Level, NcclLog, Record};
use crate::source::{colour::without_colour, container_log::unframe};
use std::borrow::Cow;

/// Longest line that is read, in bytes. NCCL's lines are far shorter, but people join them.
const LINE_LIMIT: usize = 64 * 1024;

/// Longest line that is joined from partial frames, in bytes.
const JOIN_LIMIT: usize = 64 * 1024;

/// Splits bytes into lines and records, and applies them to a [`NcclLog`].
#[derive(Debug, Default)]
pub struct Reader {
    /// The incomplete last line of the previous piece.
    carry: Vec<u8>,
    /// Number of lines read.
    lines: u64,
    /// Partial frames of stdout and stderr, joined so far.
    joined: [Vec<u8>; 2],
    /// A line that ended inside the mark `NCCL INFO`, and its number.
    torn: Option<(Vec<u8>, u64)>,
    /// The line before announced NCCL's last error.
    announced: bool,
    /// Number of lines that were longer than the limit.
    cut: u64,
}

impl Reader {
    /// Reads a piece of the log; an incomplete last line waits for the next piece.
    pub fn feed(&mut self, piece: &[u8], log: &mut NcclLog, read_at: Option<jiff::Timestamp>) {
        let mut rest = piece;
        if !self.carry.is_empty() {
            let Some(end) = memchr::memchr(b'\n', rest) else {
                self.keep(rest);
                return;
            };
            let (head, tail) = rest.split_at(end);
            self.keep(head);
            let line = std::mem::take(&mut self.carry);
            self.take_line(&line, log, read_at);
            self.carry = line;
            self.carry.clear();
            rest = tail.get(1..).unwrap_or_default();
        }
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (whole, tail) = rest.split_at(whole);
        self.lines_of(whole, log, read_at);
        self.keep(tail);
    }

    /// Ends the log.
    pub fn finish(&mut self, log: &mut NcclLog, read_at: Option<jiff::Timestamp>) {
        if !self.carry.is_empty() {
            let mut line = std::mem::take(&mut self.carry);
            // One rank or node would prove a job of one node, and the number may be cut.
            let one = [" nNodes 1", " nRanks 1", " nranks 1"];
            if one.iter().any(|end| line.ends_with(end.as_bytes())) {
                line.pop();
            }
            self.take_line(&line, log, read_at);
        }
        for text in std::mem::take(&mut self.joined) {
            if !text.is_empty() {
                self.text(&text, log, Time::Unknown);
            }
        }
        if let Some((line, number)) = self.torn.take() {
            whole_text(&line, number, log, Time::Unknown);
        }
    }

    /// Reads one line, without its newline.
    pub fn take_line(&mut self, line: &[u8], log: &mut NcclLog, read_at: Option<jiff::Timestamp>) {
        self.lines += 1;
        // The same lines are parsed, whatever the pieces of the log.
        let start = line.get(..LINE_LIMIT).unwrap_or(line);
        if self.expecting() || anchor::find(start, 0).is_some() {
            self.line(line, log, read_at);
        }
    }

    /// Bytes of memory that it holds: the parts of lines that are not complete.
    pub fn held(&self) -> usize {
        let torn = self.torn.as_ref().map_or(0, |(line, _)| line.capacity());
        let joined: usize = self.joined.iter().map(Vec::capacity).sum();
        self.carry.capacity() + joined + torn
    }

    /// Number of lines read so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Number of lines whose end was dropped.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn keep(&mut self, part: &[u8]) {
        // One byte more than the limit shows that the line was longer.
        let room = (LINE_LIMIT + 1).saturating_sub(self.carry.len());
        self.carry.extend(part.iter().take(room));
    }

    /// Reads complete lines: those of interest are parsed, the others only counted.
    fn lines_of(&mut self, whole: &[u8], log: &mut NcclLog, read_at: Option<jiff::Timestamp>) {
        // Lines before this offset are counted.
        let mut done = 0;
        while let Some(at) = self.next_wanted(whole, done) {
            let before = whole.get(done..at).unwrap_or_default();
            let passed = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
            self.lines += newlines(before.get(..passed).unwrap_or_default());
            let rest = whole.get(done + passed..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..end).unwrap_or_default();
            if end > LINE_LIMIT {
                // The literal may be beyond the limit.
                self.take_line(line, log, read_at);
            } else {
                self.lines += 1;
                self.line(line, log, read_at);
            }
            done += passed + end + 1;
        }
        self.lines += newlines(whole.get(done..).unwrap_or_default());
    }

    /// Offset of the next byte that may matter, at or after the beginning of a line: that line may
    /// continue an incomplete one.
    pub fn next_wanted(&self, whole: &[u8], from: usize) -> Option<usize> {
        if self.expecting() {
            return Some(from).filter(|from| *from < whole.len());
        }
        anchor::find(whole, from)
    }

    fn expecting(&self) -> bool {
        self.announced || self.torn.is_some() || self.joined.iter().any(|text| !text.is_empty())
    }

    fn line(&mut self, line: &[u8], log: &mut NcclLog, read_at: Option<jiff::Timestamp>) {
        self.cut += u64::from(line.len() > LINE_LIMIT);
        let line = line.get(..LINE_LIMIT).unwrap_or(line);
        let (frame, text) = unframe(line);
        let time = match (frame.time, read_at) {
            (Some(text), _) => Time::Text(text),
            (None, Some(at)) => Time::At(at),
            (None, None) => Time::Unknown,
        };
        let joined = self.joined.get_mut(usize::from(frame.stderr));
        match joined.filter(|open| frame.partial || !open.is_empty() && frame.time.is_some()) {
            None => self.text(&text, log, time),
            Some(joined) => {
                let room = JOIN_LIMIT.saturating_sub(joined.len());
                joined.extend_from_slice(text.get(..room).unwrap_or(&text));
                if !frame.partial {
                    let whole = std::mem::take(joined);
                    self.text(&whole, log, time);
                }
            }
        }
    }

    fn text(&mut self, text: &[u8], log: &mut NcclLog, time: Time<'_>) {
        let announces = text
            .trim_ascii_end()
            .ends_with(anchor::LAST_ERROR.as_bytes());
        if std::mem::replace(&mut self.announced, announces) {
            let text = String::from_utf8_lossy(text);
            let event = message::last_error(&text).filter(|_| find!(&*text, "NCCL ").is_none());
            if let Some(event) = event {
                return log.apply_loose(&event, text.trim(), self.lines);
            }
        }
        if let Some((mut torn, first)) = self.torn.take() {
            torn.extend_from_slice(text);
            whole_text(&torn, first, log, time);
        } else if ends_in_mark(text) {
            self.torn = Some((text.to_vec(), self.lines));
        } else {
            whole_text(text, self.lines, log, time);
        }
    }
}

fn whole_text(text: &[u8], number: u64, log: &mut NcclLog, time: Time<'_>) {
    // Valid text is the rule, and cheaper to recognise.
    let text = std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::from);
    let mut text = without_colour(&text);
    // Go writes `>` so in JSON.
    if find!(text.as_bytes(), "\\u003").is_some() {
        text = text.replace("\\u003e", ">").replace("\\u003c", "<").into();
    }
    let (mut any, line) = (false, &*text);
    prefix::records(line, |who, level, text| {
        any = true;
        let event = message::message(level, text);
        // Ray folds lines that differ in their numbers alone: a wider communicator's, too.
        if let Event::Comm(comm) = &event
            && (comm.nodes.is_some() || comm.phase == Phase::Start)
            && comm.nranks > 1
        {
            log.folded |= repeated(line) >= Some(comm.nranks);
        }
        log.apply(&Record { who, event, text }, number, time);
    });
    if any {
        return;
    }
    if let Some((who, text)) = prefix::unmarked(&text) {
        let event = message::message(Level::Info, text);
        return log.apply(&Record { who, event, text }, number, time);
    }
    // Lines of other programs; a line with a record only quotes them.
    for event in loose(&text).into_iter().chain(message::assignments(&text)) {
        log.apply_loose(&event, text.trim(), number);
    }
}

/// How many lines like this one Ray left out: `… [repeated 15x across cluster]`.
fn repeated(line: &str) -> Option<u32> {
    let at = find!(line, " [repeated ")?;
    Scan(line.get(at + " [repeated ".len()..)?).number()
}

/// Parses lines that are known without the mark.
fn loose(text: &str) -> Option<Event<'_>> {
    let version = find!(text, "CCL version ").and_then(|at| {
        let (before, bare) = text.split_at_checked(at.checked_sub(1)?)?;
        // A colour without its escape byte, or an escape of JSON, is none of a word.
        let number = |c: char| c.is_ascii_digit() || c == ';';
        let colour = before
            .strip_suffix('m')
            .map(|of| of.trim_end_matches(number));
        let is_escape = colour.is_some_and(|of| of.ends_with('['))
            || ["\\n", "\\t", "\\r"]
                .iter()
                .any(|escape| before.ends_with(escape));
        let is_part = !is_escape && before.ends_with(|c: char| c.is_ascii_alphanumeric());
        let own = bare.starts_with(['N', 'R']) && !is_part;
        own.then(|| message::version(bare)).flatten()
    });
    let last_error = || message::last_error(text.split_once(anchor::LAST_ERROR)?.1);
    (version.or_else(|| message::test_rank(text)))
        .or_else(last_error)
        .or_else(|| message::ucx(text))
}

/// Whether a terminal wrapped the line inside the mark: `host:1:2 [7] NCCL I`.
fn ends_in_mark(text: &[u8]) -> bool {
    let ends = ["] NCCL", "] NCCL I", "] NCCL IN", "] NCCL INF", "] NCCL "];
    // Most lines end in another byte.
    matches!(text.last(), Some(b'L' | b'I' | b'N' | b'F' | b' '))
        && ends.iter().any(|end| text.ends_with(end.as_bytes()))
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
