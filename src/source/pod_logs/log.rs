//! One container's log: which of its files is read, and how far it was.

use super::cut::Joins;
use super::files::{self, Changes, Entry};
use super::fingerprint::Fingerprint;
use super::input::{self, Input};
use super::losses::Left;
use super::names::Age;
use super::options::{Container, Options, PollStats, Sink};
use super::state::Mark;
use super::watch::{Target, Watches};
use crate::observe::reading::{Fault, Reading};
use crate::source::tree::classify;
use crate::units::Millis;
use nix::sys::inotify::WatchDescriptor;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often what nothing watches is looked at.
const UNWATCHED_EVERY: Duration = Duration::from_secs(1);

/// How often the size of a resting file that nothing watches is.
const UNTOLD_EVERY: Duration = Duration::from_millis(500);

/// What all logs share.
pub(super) struct Tools {
    pub(super) options: Options,
    pub(super) buf: Vec<u8>,
    pub(super) watches: Watches,
    pub(super) stats: PollStats,
    /// Files held open.
    pub(super) held: usize,
    /// Of these: compressed ones. Each takes some 50 KiB.
    pub(super) unpacking: usize,
    pub(super) unreadable: usize,
}

/// Which file to begin with.
pub(super) enum Begin {
    /// All of this is news.
    Oldest,
    /// The current one.
    Newest,
    /// Where an earlier run stopped.
    At(Box<Mark>),
}

/// The file that is read.
pub(super) struct Ours {
    pub(super) path: Box<Path>,
    pub(super) inode: u64,
    pub(super) device: u64,
    pub(super) age: Age,
    pub(super) compressed: bool,
    pub(super) first: Fingerprint,
    /// Where the first line not yet handled begins.
    pub(super) offset: u64,
    /// Where the last read ended: the beginning of a line may lie between.
    pub(super) end: u64,
    /// It was compressed, so whole, and is at its end.
    pub(super) spent: bool,
    pub(super) input: Input,
}

/// One container's log.
pub(super) struct Log {
    pub(super) who: Container,
    pub(super) dir: Box<Path>,
    pub(super) dir_watch: Option<WatchDescriptor>,
    pub(super) file_watch: Option<WatchDescriptor>,
    pub(super) changes: Changes,
    /// Something says that the directory changed.
    pub(super) told: bool,
    /// What bears its name and inode number is another file.
    pub(super) strange: bool,
    /// Files of other directories belong to it.
    pub(super) linked: bool,
    pub(super) begin: Begin,
    pub(super) ours: Option<Ours>,
    /// Stamp of the youngest rotated file that is known to be older than the one that is read.
    pub(super) older: Option<u64>,
    /// The file that was read before: its writer should be done with it.
    pub(super) left: Option<Left>,
    /// Since when a newer file is there.
    pub(super) superseded: Option<Millis>,
    /// The directory is gone.
    pub(super) doomed: bool,
    /// Nothing is left to do.
    pub(super) finished: bool,
    /// Read at each look; otherwise left to inotify and to checks.
    pub(super) lively: bool,
    pub(super) quiet: u8,
    /// More was there than a look would take.
    pub(super) behind: bool,
    pub(super) joins: Joins,
    pub(super) within_long: bool,
    pub(super) trouble: bool,
    pub(super) check_at: Millis,
}

impl Log {
    pub(super) fn new(who: Container, dir: Box<Path>, begin: Begin, tools: &mut Tools) -> Self {
        let dir_watch = tools.watches.dir(&dir, Target::Container(who.serial));
        Log {
            who,
            dir,
            dir_watch,
            file_watch: None,
            changes: Changes::default(),
            told: true,
            strange: false,
            linked: false,
            begin,
            ours: None,
            older: None,
            left: None,
            superseded: None,
            doomed: false,
            finished: false,
            lively: false,
            quiet: 0,
            behind: false,
            joins: Joins::default(),
            within_long: false,
            trouble: false,
            check_at: Millis(0),
        }
    }

    /// Looks at the directory and at the file's size and beginning.
    pub(super) fn check(&mut self, now: Millis, tools: &mut Tools, sink: &mut dyn Sink) {
        let every = if self.dir_watch.is_none() || self.linked || self.ours.is_none() {
            UNWATCHED_EVERY
        } else {
            tools.options.check_every
        };
        // Not all at once.
        let spread = every / 64 * u32::try_from(self.who.serial % 16).unwrap_or(0);
        self.check_at = now.plus(every + spread);
        let told = std::mem::take(&mut self.told);
        match files::stamp(&self.dir) {
            Ok(stamp)
                if self
                    .changes
                    .seen(stamp, told || self.linked || self.ours.is_none()) =>
            {
                self.relist(now, tools, sink);
            }
            Ok(_) => {}
            Err(error) if gone(&error) => self.doom(tools, sink),
            Err(error) => self.fail(&error, tools),
        }
        self.look_back(now, tools, sink);
        if let Err(error) = self.verify(tools, sink) {
            if gone(&error) {
                self.told = true;
            } else {
                self.fail(&error, tools);
            }
        }
        if !self.lively && self.file_watch.is_none() {
            self.check_at = self.check_at.min(now.plus(UNTOLD_EVERY));
        }
    }

    /// The directory is gone: what is open is read to its end.
    pub(super) fn doom(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        self.doomed = true;
        match &self.ours {
            Some(ours) if !matches!(ours.input, Input::Closed) => self.wake(),
            _ => {
                if self.lively {
                    self.lose_rest(tools, sink);
                }
                self.finished = true;
            }
        }
    }

    /// The directory's files, and the place of ours among them.
    fn relist(&mut self, now: Millis, tools: &mut Tools, sink: &mut dyn Sink) {
        let listing = match files::list(&self.dir, &tools.options.root) {
            Ok(listing) => listing,
            Err(error) => {
                self.told = gone(&error);
                return self.fail(&error, tools);
            }
        };
        self.linked = listing.linked;
        match listing.odd {
            Some(odd) if !self.trouble => {
                self.set_trouble(true, tools);
                tools.stats.fault = Some(Fault {
                    kind: crate::observe::reading::FaultKind::Other,
                    detail: odd,
                });
            }
            Some(_) => {}
            None => self.set_trouble(false, tools),
        }
        let entries = &listing.entries;
        if self.ours.is_none() {
            return self.start(entries, now, tools, sink);
        }
        match self.still(entries) {
            Some(at) => {
                self.note_place(entries, at);
                self.supersede(at + 1 < entries.len(), now);
            }
            None if self.holds() => {
                let newer = entries.iter().any(|entry| self.newer(entry));
                self.supersede(newer, now);
            }
            None => self.recover(entries, now, tools, sink),
        }
    }

    /// Where the file that is read stands.
    pub(super) fn place(&self, entries: &[Entry]) -> Option<usize> {
        let ours = self.ours.as_ref()?;
        entries.iter().position(|entry| {
            entry.inode == ours.inode
                && entry.restart == self.who.restart
                && entry.compressed == ours.compressed
        })
    }

    /// The same, unless another file came to its inode number while it was not open.
    pub(super) fn still(&mut self, entries: &[Entry]) -> Option<usize> {
        let strange = std::mem::take(&mut self.strange);
        let at = self.place(entries)?;
        let (ours, entry) = (self.ours.as_ref()?, entries.get(at)?);
        let fits = || input::fits(&entry.path, entry.compressed, ours.first).unwrap_or(false);
        (self.holds() || !strange && fits()).then_some(at)
    }

    /// Takes over where it stands now: it may have been renamed.
    pub(super) fn note_place(&mut self, entries: &[Entry], at: usize) {
        let (Some(ours), Some(entry)) = (&mut self.ours, entries.get(at)) else {
            return;
        };
        if *ours.path != *entry.path {
            ours.path = entry.path.clone().into_boxed_path();
        }
        ours.age = entry.age;
        let older = entries.iter().take(at + 1).rev();
        let stamps = older
            .filter(|older| older.restart == entry.restart)
            .filter_map(|older| match older.age {
                Age::Stamp(stamp) => Some(stamp),
                _ => None,
            });
        if let Some(stamp) = stamps.max() {
            self.older = Some(stamp);
        }
    }

    /// Whether a file is known to be newer than the one that was read last.
    pub(super) fn newer(&self, entry: &Entry) -> bool {
        entry.restart > self.who.restart
            || entry.restart == self.who.restart
                && match entry.age {
                    Age::Stamp(stamp) => self.older.is_none_or(|older| stamp > older),
                    Age::Number(_) | Age::Live => true,
                }
    }

    fn supersede(&mut self, yes: bool, now: Millis) {
        if !yes {
            self.superseded = None;
        } else if self.superseded.is_none() {
            self.superseded = Some(now);
            self.wake();
        }
    }

    pub(super) fn wake(&mut self) {
        self.lively = true;
        self.quiet = 0;
    }

    /// Only looks will find what is written to it.
    pub(super) fn untold(&self) -> bool {
        let resting = self.ours.is_some() && !self.lively;
        self.dir_watch.is_none() || self.linked || resting && self.file_watch.is_none()
    }

    pub(super) fn holds(&self) -> bool {
        (self.ours.as_ref()).is_some_and(|ours| !matches!(ours.input, Input::Closed))
    }

    pub(super) fn fail(&mut self, error: &io::Error, tools: &mut Tools) {
        let path = self.ours.as_ref().map_or(&self.dir, |ours| &ours.path);
        if let (Reading::Failed(fault), false) = (classify::<()>(error, path), self.trouble) {
            tools.stats.fault = Some(fault);
        }
        self.set_trouble(true, tools);
    }

    pub(super) fn set_trouble(&mut self, trouble: bool, tools: &mut Tools) {
        match (self.trouble, trouble) {
            (false, true) => tools.unreadable += 1,
            (true, false) => tools.unreadable -= 1,
            _ => {}
        }
        self.trouble = trouble;
    }

    /// Where an other run would go on.
    pub(super) fn mark(&self) -> Option<Mark> {
        let Some(ours) = &self.ours else {
            return match &self.begin {
                Begin::At(mark) => Some((**mark).clone()),
                _ => None,
            };
        };
        Some(Mark {
            uid: self.who.key.uid.clone(),
            container: self.who.key.container.clone(),
            restart: self.who.restart,
            inode: ours.inode,
            first: ours.first,
            offset: ours.offset,
            older: self.older,
            within_long: self.within_long,
        })
    }
}

/// Not there (any more).
pub(super) fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}
