//! From one file of a container to the next: where to begin, where to go on, what is lost between.

use super::files::{self, Changes, Entry};
use super::fingerprint::Fingerprint;
use super::input::{self, Gz, Input};
use super::log::{Begin, Log, Ours, Tools, gone};
use super::options::Sink;
use super::state::Mark;
use crate::units::Millis;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Compressed files open at a time; who needs another waits.
const MAX_UNPACKING: usize = 4;

/// How much smaller logs get by packing, for judging what catching up would cost.
const PACKED: u64 = 10;

impl Log {
    /// Opens the first file.
    pub(super) fn start(
        &mut self,
        entries: &[Entry],
        now: Millis,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) {
        let at = match &self.begin {
            Begin::At(mark) => {
                let mark = (**mark).clone();
                self.who.restart = mark.restart;
                self.older = mark.older;
                self.within_long = mark.within_long;
                return self.find(&mark, entries, now, tools, sink);
            }
            Begin::Newest => entries.len().checked_sub(1),
            Begin::Oldest => entries.iter().position(|entry| self.newer(entry)),
        };
        if let Some(at) = at {
            self.open(entries, at, None, now, tools, sink);
        }
    }

    /// What was read is not where it was, and not open.
    pub(super) fn recover(
        &mut self,
        entries: &[Entry],
        now: Millis,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) {
        let Some(mark) = self.mark() else {
            return;
        };
        self.find(&mark, entries, now, tools, sink);
    }

    /// Finds a file by what is known of it, also compressed; else what is newer.
    fn find(
        &mut self,
        mark: &Mark,
        entries: &[Entry],
        now: Millis,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) {
        let mut found = None;
        let by_inode = |entry: &&(usize, &Entry)| entry.1.inode == mark.inode;
        let candidates: Vec<_> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.restart == mark.restart)
            .collect();
        let others = candidates.iter().rev().filter(|entry| !by_inode(entry));
        for (at, entry) in candidates.iter().filter(by_inode).chain(others) {
            let same = if mark.first.len == 0 {
                // Nothing of it was read yet.
                Ok(entry.inode == mark.inode)
            } else {
                input::fits(&entry.path, entry.compressed, mark.first)
            };
            match same {
                Ok(true) => {
                    found = Some(*at);
                    break;
                }
                // It was renamed just now: another look.
                Err(error) if gone(&error) => return self.told = true,
                Ok(false) | Err(_) => {}
            }
        }
        if let Some(at) = found {
            self.open(entries, at, Some(mark), now, tools, sink);
            return;
        }
        let here = self.ours.is_some()
            && (candidates.iter()).any(|(_, entry)| entry.inode == mark.inode && !entry.compressed);
        tools.stats.truncated += u64::from(here);
        let rest = (self.ours.as_ref()).map_or(0, |ours| ours.end.saturating_sub(ours.offset));
        // What rested had been read: it ended, or was removed. What an earlier run left may have grown.
        let unread = self.ours.is_none() || self.lively && !here;
        if unread || rest > 0 || self.behind {
            self.lose(rest, tools, sink);
        }
        self.within_long = false;
        (self.ours, self.begin) = (None, Begin::Oldest);
        if let Some(at) = entries.iter().position(|entry| self.newer(entry)) {
            self.open(entries, at, None, now, tools, sink);
        }
    }

    /// The file that is read is at its end, and a newer one is there.
    pub(super) fn next(&mut self, now: Millis, tools: &mut Tools, sink: &mut dyn Sink) {
        let listing = match files::list(&self.dir, &tools.options.root) {
            Ok(listing) => listing,
            Err(error) => {
                self.told = true;
                return self.fail(&error, tools);
            }
        };
        let place = self
            .still(&listing.entries)
            .or_else(|| self.packed(&listing.entries));
        if let Some(at) = place {
            self.note_place(&listing.entries, at);
        }
        let at = match place {
            Some(at) => Some(at + 1).filter(|at| *at < listing.entries.len()),
            None => listing.entries.iter().position(|entry| self.newer(entry)),
        };
        let Some(at) = at else {
            return self.stay();
        };
        if self.open(&listing.entries, at, None, now, tools, sink) {
            tools.stats.rotations += 1;
        } else {
            // The next check finds it anew.
            self.stay();
        }
    }

    /// The compressed copy of the file that was read to its end by its descriptor.
    fn packed(&self, entries: &[Entry]) -> Option<usize> {
        let first = self.ours.as_ref()?.first;
        entries.iter().position(|entry| {
            let candidate = entry.compressed && entry.restart == self.who.restart;
            candidate
                && first.len > 0
                && self.newer(entry)
                && input::fits(&entry.path, true, first).unwrap_or(false)
        })
    }

    fn stay(&mut self) {
        self.superseded = None;
        self.changes = Changes::default();
        self.lively &= !(self.ours.as_ref()).is_some_and(|ours| ours.spent);
    }

    /// Goes over to a file. False: not now; it is tried again.
    fn open(
        &mut self,
        entries: &[Entry],
        at: usize,
        from: Option<&Mark>,
        now: Millis,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> bool {
        let (at, lost) = match from {
            None => within(entries, at, tools.options.catch_up),
            Some(_) => (at, None),
        };
        let Some(entry) = entries.get(at) else {
            return false;
        };
        if entry.compressed && tools.unpacking >= MAX_UNPACKING {
            self.told = true;
            return false;
        }
        match begin(entry, from) {
            Ok(Some(ours)) => {
                self.leave(now, tools);
                if let Some(bytes) = lost {
                    self.lose(bytes, tools, sink);
                }
                if let Some(watch) = self.file_watch.take() {
                    tools.watches.end(watch);
                }
                if entry.restart != self.who.restart {
                    self.who.restart = entry.restart;
                    self.older = None;
                    self.joins = Default::default();
                }
                self.within_long &= ours.offset > 0;
                tools.held += 1;
                tools.unpacking += usize::from(entry.compressed);
                self.ours = Some(ours);
                self.note_place(entries, at);
                self.superseded = (at + 1 < entries.len()).then_some(now);
                // Whatever it holds waits until those that lag less had their turn.
                self.behind = true;
                self.wake();
                true
            }
            Ok(None) => {
                self.told = true;
                false
            }
            Err(error) => {
                self.told = gone(&error);
                self.fail(&error, tools);
                false
            }
        }
    }

    /// Opens the file again that was closed. False: it is not what it was.
    pub(super) fn reopen(&mut self, tools: &mut Tools) -> bool {
        let Some(ours) = &mut self.ours else {
            return false;
        };
        match files::open(&ours.path) {
            Ok((file, meta)) if (meta.ino(), meta.dev()) == (ours.inode, ours.device) => {
                if meta.len() < ours.offset || !input::begins(&file, ours.first) {
                    (self.told, self.strange) = (true, true);
                    return false;
                }
                ours.input = Input::Plain(file);
                tools.held += 1;
                true
            }
            Ok(_) => {
                self.told = true;
                false
            }
            Err(error) => {
                self.told = gone(&error);
                self.fail(&error, tools);
                false
            }
        }
    }
}

/// Opens a file; none where the name is another file's by now.
fn begin(entry: &Entry, mark: Option<&Mark>) -> io::Result<Option<Ours>> {
    let (file, meta) = files::open(&entry.path)?;
    if meta.ino() != entry.inode {
        return Ok(None);
    }
    let mut first = mark.map_or_else(Fingerprint::default, |mark| mark.first);
    let offset = mark.map_or(0, |mark| mark.offset);
    let mut from = offset;
    let input = if entry.compressed {
        drop(file);
        Input::Gz(Box::new(Gz::open(&entry.path, offset)?))
    } else {
        first = input::fingerprint(&file)?;
        if meta.len() < offset {
            from = 0;
        }
        Input::Plain(file)
    };
    Ok(Some(Ours {
        path: entry.path.clone().into_boxed_path(),
        inode: meta.ino(),
        device: meta.dev(),
        age: entry.age,
        compressed: entry.compressed,
        first,
        offset: from,
        end: from,
        spent: false,
        input,
    }))
}

/// The first file from `at` on from which all that is rotated is within the bound, and the bytes
/// passed over if it is another.
fn within(entries: &[Entry], at: usize, most: u64) -> (usize, Option<u64>) {
    let size = |entry: &Entry| std::fs::symlink_metadata(&entry.path).map_or(0, |meta| meta.len());
    let (mut total, mut passed, mut lost) = (0u64, 0, None);
    for (index, entry) in entries.iter().enumerate().skip(at).rev() {
        if index + 1 == entries.len() {
            continue;
        }
        let bytes = size(entry);
        total =
            total.saturating_add(bytes.saturating_mul(if entry.compressed { PACKED } else { 1 }));
        if total > most {
            passed = passed.max(index + 1);
            lost = Some(lost.unwrap_or(0) + bytes);
        }
    }
    (at.max(passed), lost)
}
