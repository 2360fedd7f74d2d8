//! Whether the file still holds what was read, and what is lost where it does not.

use super::input::{self, Input};
use super::line_framing::Joins;
use super::log::{Held, Log, Tools};
use super::options::{Fingerprint, Sink};
use crate::units::Millis;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How long a finished file is held open, to see whether more is written to it.
const HELD_FOR: Duration = Duration::from_secs(5);

/// A file that was read to its end.
pub(super) struct LeftFile {
    held: Held,
    end: u64,
    since: Millis,
}

impl LeftFile {
    /// When it is closed.
    pub(super) fn until(&self) -> Millis {
        self.since.plus(HELD_FOR)
    }
}

impl Log {
    /// Compares the file's size and beginning with what was read.
    pub(super) fn verify(&mut self, tools: &mut Tools, sink: &mut dyn Sink) -> io::Result<()> {
        let (Some(file), Some(place)) = (&self.file, &mut self.place) else {
            return Ok(());
        };
        match &file.input {
            Input::Gz { .. } => {}
            Input::Closed => {
                let meta = std::fs::symlink_metadata(&file.path)?;
                if (meta.ino(), meta.dev()) != (place.inode, file.device) {
                    self.changed = true;
                } else if !file.compressed && meta.len() != file.end {
                    self.wake();
                }
            }
            Input::Plain(open, _) => {
                let size = open.metadata()?.len();
                let beginning = input::beginning(open)?;
                if size < place.offset || !place.first.fits(&beginning) {
                    self.restart_file(tools, sink);
                } else {
                    place.first.extend(&beginning);
                }
            }
        }
        Ok(())
    }

    /// Whether the open file is shorter than what was read of it.
    pub(super) fn is_cut_back(&self) -> bool {
        let (Some(file), Some(place)) = (&self.file, &self.place) else {
            return false;
        };
        match &file.input {
            Input::Plain(open, _) => open.metadata().is_ok_and(|meta| meta.len() < place.offset),
            Input::Closed | Input::Gz { .. } => false,
        }
    }

    /// The file was cut back or overwritten: all in it is new, and what was not read is gone.
    pub(super) fn restart_file(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        tools.stats.truncated += 1;
        self.lose_rest(tools, sink);
        if let (Some(file), Some(place)) = (&mut self.file, &mut self.place) {
            (place.offset, file.end) = (0, 0);
            place.first = Fingerprint::default();
        }
        self.joins = Joins::default();
        self.within_long = false;
        self.wake();
    }

    /// Bytes that were seen and not handed over: the beginning of a line.
    pub(super) fn unread_bytes(&self) -> u64 {
        let end = self.file.as_ref().map_or(0, |file| file.end);
        end.saturating_sub(self.place.map_or(0, |place| place.offset))
    }

    /// Reports what was seen to be there and cannot be read any more.
    pub(super) fn lose_rest(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        let rest = self.unread_bytes();
        if rest > 0 || self.behind {
            self.lose(rest, tools, sink);
        }
    }

    pub(super) fn lose(&mut self, bytes: u64, tools: &mut Tools, sink: &mut dyn Sink) {
        tools.stats.gaps += 1;
        self.joins = Joins::default();
        sink.lost(&self.who, bytes);
    }

    pub(super) fn close(&mut self) {
        if let Some(file) = &mut self.file {
            file.input = Input::Closed;
        }
    }

    /// Goes away from the file that is read; a plain one is held open for a while.
    pub(super) fn leave(&mut self, tools: &mut Tools) {
        let Some(file) = self.file.take() else {
            return;
        };
        if let Input::Plain(open, slot) = file.input
            && tools.open.taken() <= tools.options.open_files
        {
            self.left = Some(LeftFile {
                held: (open, slot),
                end: self.place.map_or(0, |place| place.offset),
                since: tools.now,
            });
            self.check_at = self.check_at.min(tools.now.plus(HELD_FOR));
        }
    }

    /// Reports what was written to the last file after all, which is lost.
    pub(super) fn look_back(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        let Some(left) = &mut self.left else {
            return;
        };
        let end = left.held.0.metadata().map_or(left.end, |meta| meta.len());
        let late = end.saturating_sub(left.end);
        left.end = left.end.max(end);
        if tools.now >= left.until() {
            self.left = None;
        }
        if late > 0 {
            self.lose(late, tools, sink);
        }
    }
}
