//! What was read still is what is there; what is not, or not any more, is told.

use super::cut::Joins;
use super::fingerprint::{FIRST, Fingerprint};
use super::input::{self, Input};
use super::log::{Log, Tools};
use super::options::Sink;
use crate::units::Millis;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How long a file that was left is held, to see that nothing more was written to it.
const LEFT_FOR: Duration = Duration::from_secs(5);

/// A file that was read to its end.
pub(super) struct Left {
    file: File,
    end: u64,
    since: Millis,
}

impl Log {
    /// Size and beginning still fit what was read.
    pub(super) fn verify(&mut self, tools: &mut Tools, sink: &mut dyn Sink) -> io::Result<()> {
        let Some(ours) = &mut self.ours else {
            return Ok(());
        };
        match &ours.input {
            Input::Gz(_) => {}
            Input::Closed => {
                let meta = std::fs::symlink_metadata(&ours.path)?;
                if (meta.ino(), meta.dev()) != (ours.inode, ours.device) {
                    self.told = true;
                } else if !ours.compressed && meta.len() != ours.end {
                    self.wake();
                }
            }
            Input::Plain(file) => {
                let size = file.metadata()?.len();
                let mut buf = [0; FIRST];
                let bytes = input::first(file, &mut buf)?;
                let first = buf.get(..bytes).unwrap_or_default();
                if size < ours.offset || !ours.first.fits(first) {
                    self.restart_file(tools, sink);
                } else if ours.first.may_grow(size) {
                    ours.first = Fingerprint::of(first);
                }
            }
        }
        Ok(())
    }

    /// The file was cut back or overwritten: all in it is news, and what was not read is gone.
    pub(super) fn restart_file(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        tools.stats.truncated += 1;
        self.lose_rest(tools, sink);
        if let Some(ours) = &mut self.ours {
            (ours.offset, ours.end) = (0, 0);
            ours.first = Fingerprint::default();
        }
        self.joins = Joins::default();
        self.within_long = false;
        self.wake();
    }

    /// Tells of what was seen to be there and cannot be read any more.
    pub(super) fn lose_rest(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        let rest = self
            .ours
            .as_ref()
            .map_or(0, |ours| ours.end.saturating_sub(ours.offset));
        if rest > 0 || self.behind {
            self.lose(rest, tools, sink);
        }
    }

    pub(super) fn lose(&mut self, bytes: u64, tools: &mut Tools, sink: &mut dyn Sink) {
        tools.stats.gaps += 1;
        tools.stats.bytes_lost += bytes;
        self.joins = Joins::default();
        sink.lost(&self.who, bytes);
    }

    /// Closes what is open.
    pub(super) fn shut(&mut self, tools: &mut Tools) {
        let Some(ours) = &mut self.ours else {
            return;
        };
        match std::mem::replace(&mut ours.input, Input::Closed) {
            Input::Closed => return,
            Input::Plain(_) => {}
            Input::Gz(_) => tools.unpacking -= 1,
        }
        tools.held -= 1;
    }

    /// Closes the file that is read to go over to another; a plain one not at once.
    pub(super) fn leave(&mut self, now: Millis, tools: &mut Tools) {
        let Some(ours) = &mut self.ours else {
            return;
        };
        match std::mem::replace(&mut ours.input, Input::Closed) {
            Input::Plain(file) if tools.held <= tools.options.open_files => {
                tools.held -= usize::from(self.left.is_some());
                self.left = Some(Left {
                    file,
                    end: ours.offset,
                    since: now,
                });
                self.check_at = self.check_at.min(now.plus(LEFT_FOR));
            }
            other => {
                ours.input = other;
                self.shut(tools);
            }
        }
    }

    /// Whether something was written to the last file after all, which is lost.
    pub(super) fn look_back(&mut self, now: Millis, tools: &mut Tools, sink: &mut dyn Sink) {
        let Some(left) = &mut self.left else {
            return;
        };
        let end = left.file.metadata().map_or(left.end, |meta| meta.len());
        let late = end.saturating_sub(left.end);
        left.end = left.end.max(end);
        if now.since(left.since) >= LEFT_FOR {
            self.left = None;
            tools.held -= 1;
        }
        if late > 0 {
            self.lose(late, tools, sink);
        }
    }

    /// Ends all that it holds.
    pub(super) fn bury(&mut self, tools: &mut Tools) {
        self.shut(tools);
        tools.held -= usize::from(self.left.take().is_some());
        self.set_trouble(false, tools);
        let watches = [self.dir_watch.take(), self.file_watch.take()];
        for watch in watches.into_iter().flatten() {
            tools.watches.end(watch);
        }
    }
}
