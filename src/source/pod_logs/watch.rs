//! inotify, which brings the next poll forward. Nothing depends on it: where it is refused, its limits
//! are reached or a file system sends no events, polling alone finds everything.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

/// The subject of a watch: a log by its serial number; `None`: the directory of all logs, or a pod's.
pub(super) type Target = Option<u64>;

/// Most batches of events read by one call.
const MAX_BATCHES: usize = 1024;

/// inotify's queue was too short.
pub(super) struct Overflow;

/// Watches end with what they watch; events of one that is stale cost a look.
pub(super) struct Watches {
    inotify: Option<Inotify>,
    targets: HashMap<i32, Target>,
}

impl Watches {
    /// With inotify where it is wanted and available.
    pub(super) fn new(wanted: bool) -> Self {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Watches {
            inotify: wanted.then(|| Inotify::init(flags).ok()).flatten(),
            targets: HashMap::new(),
        }
    }

    /// Watches a directory's names; calling it again changes nothing. False: no events will come.
    pub(super) fn dir(&mut self, path: &Path, target: Target) -> bool {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        self.add(path, flags, target)
    }

    /// Watches for the next write to an open file, once.
    pub(super) fn file(&mut self, file: &File, target: Target) -> bool {
        // By its descriptor: the name may be another file's by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ONESHOT;
        self.add(Path::new(&path), flags, target)
    }

    fn add(&mut self, path: &Path, flags: AddWatchFlags, target: Target) -> bool {
        let watch = (self.inotify.as_ref()).and_then(|inotify| inotify.add_watch(path, flags).ok());
        if let Some(watch) = watch {
            self.targets.insert(watch.as_raw(), target);
        }
        watch.is_some()
    }

    /// Takes the subjects of what happened since the last call. An error: the queue overflowed, and
    /// anything may have changed.
    pub(super) fn take(&mut self) -> Result<HashSet<Target>, Overflow> {
        let mut changed = HashSet::new();
        for _ in 0..MAX_BATCHES {
            let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events) else {
                break;
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    return Err(Overflow);
                } else if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.targets.remove(&event.wd.as_raw());
                } else {
                    changed.extend(self.targets.get(&event.wd.as_raw()));
                }
            }
        }
        Ok(changed)
    }

    /// Blocks until an inotify event or `timeout`. Returns false if inotify is unavailable.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, timeout), Ok(_) | Err(Errno::EINTR))
    }
}
