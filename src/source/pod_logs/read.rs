//! One look at the file that is read.

use super::cut;
use super::fingerprint::Fingerprint;
use super::input::{Input, Then};
use super::log::{Log, Tools};
use super::options::Sink;
use crate::units::Millis;
use memchr::{memchr, memrchr};

/// What a look costs at least, in bytes read.
const LOOKING: u64 = 4 << 10;

/// The same where bytes are unpacked.
const UNPACKING: u64 = 256 << 10;

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// Bytes were handled, and nothing more is there for now.
    Some,
    /// More is there than was asked for.
    More,
    /// Nothing new.
    Nothing,
    /// Nothing new, and nothing will come.
    Ended,
    /// It cannot be read.
    Trouble,
}

impl Log {
    /// A turn among all others: checks what is due, reads a share of what is new.
    pub(super) fn turn(&mut self, now: Millis, tools: &mut Tools, sink: &mut dyn Sink) {
        if self.finished {
            return;
        }
        if self.told || now >= self.check_at {
            self.check(now, tools, sink);
        }
        if self.lively && !self.behind {
            let share = tools.options.share;
            self.look_on(share, now, tools, sink);
        }
    }

    /// Looks, and does what follows from it. What it cost, in bytes.
    pub(super) fn look_on(
        &mut self,
        most: usize,
        now: Millis,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> u64 {
        let before = tools.stats.bytes;
        let looked = self.look(most, false, tools, sink);
        self.behind = looked == Looked::More;
        match looked {
            // The beginning of a line, longer than was asked for.
            Looked::More if tools.stats.bytes == before => {}
            Looked::Some | Looked::More => {
                self.quiet = 0;
                // Its writer is not done with it.
                self.superseded = self.superseded.map(|_| now);
            }
            Looked::Ended if self.doomed => self.finished = true,
            Looked::Ended => self.next(now, tools, sink),
            Looked::Nothing => self.idle(now, tools, sink),
            Looked::Trouble => {
                // Tried again at the next check; where it was renamed or removed, that is now.
                self.lively = self.told;
                self.finished |= self.doomed;
            }
        }
        let ours = self.ours.as_ref().map(|ours| &ours.input);
        let unpacking = matches!(ours, Some(Input::Gz(_)));
        if tools.held > tools.options.open_files && !unpacking {
            self.shut(tools);
        }
        let worked = tools.stats.bytes - before;
        worked.max(if unpacking { UNPACKING } else { LOOKING })
    }

    /// At the end of what is there.
    fn idle(&mut self, now: Millis, tools: &mut Tools, sink: &mut dyn Sink) {
        let rotated = (self.superseded)
            .is_some_and(|since| now.since(since) >= tools.options.linger && self.quiet > 0);
        if rotated || self.doomed {
            let last = self.look(tools.options.buffer, true, tools, sink);
            match last {
                Looked::More => self.behind = true,
                _ if self.doomed => self.finished = true,
                _ => self.next(now, tools, sink),
            }
            return;
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet == 1 && self.cut_back() {
            self.restart_file(tools, sink);
        } else if self.quiet >= tools.options.quiet_looks && self.superseded.is_none() {
            self.rest(tools);
        }
    }

    fn cut_back(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| match &ours.input {
            Input::Plain(file) => file.metadata().is_ok_and(|meta| meta.len() < ours.offset),
            _ => false,
        })
    }

    /// Leaves a file that nobody writes to inotify, or to the checks.
    fn rest(&mut self, tools: &mut Tools) {
        let Some(ours) = &self.ours else {
            return;
        };
        if let Input::Plain(file) = &ours.input {
            let target = super::watch::Target::File(self.who.serial);
            self.file_watch = tools.watches.file(file, target);
            // Written to before the watch was there?
            if !file.metadata().is_ok_and(|meta| meta.len() == ours.end) {
                self.quiet = 0;
                return;
            }
        }
        self.lively = false;
        self.shut(tools);
        if self.file_watch.is_none() {
            self.check_at = Millis(0);
        }
    }

    /// Reads at most so many bytes. With `last`, what has no newline is a line as well.
    pub(super) fn look(
        &mut self,
        most: usize,
        last: bool,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> Looked {
        let closed = match &self.ours {
            None => return Looked::Nothing,
            Some(ours) if ours.spent => return Looked::Ended,
            Some(ours) => matches!(ours.input, Input::Closed),
        };
        if closed && !self.reopen(tools) {
            return Looked::Trouble;
        }
        let mut buf = std::mem::take(&mut tools.buf);
        let most = most.min(buf.len());
        let room = buf.get_mut(..most).unwrap_or_default();
        let looked = self.read(room, last, tools, sink);
        tools.buf = buf;
        looked
    }

    fn read(
        &mut self,
        room: &mut [u8],
        last: bool,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> Looked {
        let Some(ours) = &mut self.ours else {
            return Looked::Nothing;
        };
        let filled = match ours.input.fill(ours.offset, room) {
            Ok(filled) => filled,
            Err(error) => {
                let spent = matches!(ours.input, Input::Gz(_));
                ours.spent = spent;
                self.fail(&error, tools);
                if !spent {
                    return Looked::Trouble;
                }
                // What is compressed is whole: it will not get better.
                self.lose(0, tools, sink);
                self.shut(tools);
                return Looked::Ended;
            }
        };
        let bytes = room.get(..filled.bytes).unwrap_or_default();
        let fresh = ours.offset + bytes.len() as u64 > ours.end;
        ours.end = ours.end.max(ours.offset + bytes.len() as u64);
        if ours.offset == 0 && ours.first.may_grow(bytes.len() as u64) {
            ours.first = Fingerprint::of(bytes);
        }
        let ended = filled.state == Then::End || last && filled.state == Then::Pause;
        let longest = tools.options.longest_line;
        let mut from = 0;
        if self.within_long {
            match memchr(b'\n', bytes) {
                Some(newline) => {
                    from = newline + 1;
                    self.within_long = false;
                }
                None => from = bytes.len(),
            }
        }
        let rest = bytes.get(from..).unwrap_or_default();
        let whole = match memrchr(b'\n', rest) {
            _ if ended => rest.len(),
            Some(newline) => newline + 1,
            None => 0,
        };
        let region = rest.get(..whole).unwrap_or_default();
        let done = cut::cut(region, longest, &mut self.joins, &self.who, sink);
        tools.stats.lines += done.lines;
        tools.stats.lines_dropped += done.too_long;
        let mut passed = from + whole;
        if passed == 0 && bytes.len() > longest {
            self.within_long = true;
            tools.stats.lines_dropped += 1;
            passed = bytes.len();
        }
        ours.input.pass(bytes, passed);
        ours.offset += passed as u64;
        tools.stats.bytes += passed as u64;
        match filled.state {
            Then::More => Looked::More,
            Then::End => {
                ours.spent = true;
                self.shut(tools);
                Looked::Ended
            }
            Then::Pause if passed > 0 || fresh => Looked::Some,
            Then::Pause => Looked::Nothing,
        }
    }
}
