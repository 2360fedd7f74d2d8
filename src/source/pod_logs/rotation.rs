//! From one file of a container to the next: where to begin, where to go on, what is lost in between.

use super::names::Age;
use super::{Found, Log, OpenFile, Point, Sink, Tools, input, is_gone, taken};
use std::io;

/// Most compressed files open at a time; others wait.
const MAX_UNPACKING: usize = 4;

impl Log {
    /// Goes on with what the directory holds now.
    pub(super) fn follow(&mut self, entries: &[Found], tools: &mut Tools, sink: &mut dyn Sink) {
        let Some(place) = self.place() else {
            return self.begin(entries, tools);
        };
        let more_after = |at: usize| at + 1 < entries.len();
        match self.locate(entries) {
            // It was renamed just now.
            Err(_) => self.changed = true,
            Ok(Some(at)) if self.is_open() || self.is_at(entries.get(at)) => {
                self.note_place(entries, at);
                self.supersede(more_after(at), tools.now);
            }
            Ok(Some(at)) => _ = self.open(entries, at, place, tools),
            Ok(None) if self.is_open() => {
                let newer = entries.iter().any(|entry| self.is_newer(entry));
                self.supersede(newer, tools.now);
            }
            Ok(None) => self.lose_file(entries, tools, sink),
        }
    }

    /// Opens the first file.
    fn begin(&mut self, entries: &[Found], tools: &mut Tools) {
        let at = match self.newest {
            true => entries.len().checked_sub(1),
            false => entries.iter().position(|entry| self.is_newer(entry)),
        };
        if let Some(at) = at {
            self.open(entries, at, Point::default(), tools);
        }
    }

    /// The file is gone, or was cut back while it was closed.
    fn lose_file(&mut self, entries: &[Found], tools: &mut Tools, sink: &mut dyn Sink) {
        let inode = self.file.as_ref().map(|file| file.place.inode);
        let is_it = |entry: &Found| Some(entry.inode) == inode && !entry.compressed;
        let cut_back = entries.iter().any(is_it);
        // A quiet file had been read: it ended, or was removed. What an earlier run left may have grown.
        let unread = self.file.is_none() || self.lively && !cut_back;
        let rest = self.unread_bytes();
        if unread || rest > 0 || self.behind {
            sink.lost(&self.who, rest);
        }
        self.within_long = false;
        (self.file, self.resume, self.newest) = (None, None, false);
        self.begin(entries, tools);
    }

    /// The file that is read is at its end, and a newer one exists.
    pub(super) fn next_file(&mut self, tools: &mut Tools) {
        let entries = match self.list(tools) {
            Ok(listing) => listing.entries,
            Err(error) => {
                self.changed = true;
                return self.fail(&error, tools);
            }
        };
        let next = match self.locate(&entries) {
            Ok(Some(at)) => {
                self.note_place(&entries, at);
                Some(at + 1).filter(|next| *next < entries.len())
            }
            Ok(None) => entries.iter().position(|entry| self.is_newer(entry)),
            Err(_) => None,
        };
        if !next.is_some_and(|at| self.open(&entries, at, Point::default(), tools)) {
            // The next check finds the newer file again.
            self.superseded = None;
            self.lively &= !(self.file.as_ref()).is_some_and(|file| file.spent);
            self.check_at = tools.now;
        }
    }

    /// Which entry is the file that is read: the one of its inode number, unless another file got that
    /// while it was closed; else, compressed or copied, the one that begins like it. An error where it
    /// was renamed meanwhile.
    fn locate(&self, entries: &[Found]) -> io::Result<Option<usize>> {
        let Some(place) = self.place() else {
            return Ok(None);
        };
        let youngest_first = entries.iter().enumerate().rev();
        let own = youngest_first.filter(|(_, entry)| entry.restart == self.who.restart);
        let mut candidates: Vec<(usize, &Found)> = own.collect();
        candidates.sort_by_key(|(_, entry)| entry.inode != place.inode);
        for (at, entry) in candidates {
            let by_inode = entry.inode == place.inode;
            // An open file's inode number is its own; an empty file has nothing else.
            let same = if place.first.len == 0 || by_inode && self.is_open() {
                by_inode
            } else {
                match input::is_same(entry, place.first, place.offset) {
                    Err(error) if is_gone(&error) => return Err(error),
                    same => same.unwrap_or(false),
                }
            };
            if same {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Whether the closed file is this entry, as it was when it was opened.
    fn is_at(&self, entry: Option<&Found>) -> bool {
        let known = (self.file.as_ref()).map(|file| (file.place.inode, file.compressed));
        known.is_some() && known == entry.map(|entry| (entry.inode, entry.compressed))
    }

    /// Takes over where the file stands now: it may have been renamed.
    fn note_place(&mut self, entries: &[Found], at: usize) {
        let (Some(file), Some(entry)) = (&mut self.file, entries.get(at)) else {
            return;
        };
        file.path.clone_from(&entry.path);
        let upto = entries.iter().take(at + 1);
        let stamps = upto.filter(|older| older.restart == entry.restart);
        if let Some(stamp) = stamps.filter_map(stamp).max() {
            self.older = Some(stamp);
        }
    }

    /// Whether a file is known to be newer than the one that was read last.
    fn is_newer(&self, entry: &Found) -> bool {
        let known_older = matches!(entry.age, Age::Stamp(_)) && stamp(entry) <= self.older;
        entry.restart > self.who.restart || entry.restart == self.who.restart && !known_older
    }

    /// Goes over to a file. False: not now; it is tried again.
    fn open(&mut self, entries: &[Found], at: usize, place: Point, tools: &mut Tools) -> bool {
        let Some(entry) = entries.get(at) else {
            return false;
        };
        if entry.compressed && taken(&tools.unpacking) >= MAX_UNPACKING {
            self.changed = true;
            return false;
        }
        let opened = OpenFile::open(entry, place, tools);
        let Some(file) = self.opened(opened, tools) else {
            return false;
        };
        self.newest = false;
        if entry.restart != self.who.restart {
            self.who.restart = entry.restart;
            self.older = None;
        }
        self.who.file = file.id;
        self.within_long &= file.place.offset > 0;
        self.file = Some(file);
        self.note_place(entries, at);
        self.superseded = (at + 1 < entries.len()).then_some(tools.now);
        // Read in this very poll, once all others had their turn.
        self.behind = true;
        self.wake();
        true
    }
}

/// Stamp of a file that the kubelet rotated.
fn stamp(entry: &Found) -> Option<u64> {
    match entry.age {
        Age::Stamp(stamp) => Some(stamp),
        Age::Number(_) | Age::Live => None,
    }
}
