//! Wakes the follower sooner than its next look. Nothing depends on it: where inotify is refused,
//! its limits are reached or a file system tells nothing, looks alone find everything.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

/// What a watch is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The directory of all pods.
    Root,
    /// A pod's directory, by name.
    Pod(Box<str>),
    /// A container's directory, by serial number.
    Container(u64),
    /// A file that rests, by its container's.
    File(u64),
}

/// Batches of events taken in one go.
const MAX_BATCHES: usize = 1024;

/// The watches.
pub(super) struct Watches {
    inotify: Option<Inotify>,
    targets: HashMap<i32, Target>,
}

/// Something happened.
pub(super) enum Told {
    /// At this.
    At(Target),
    /// The queue ran over: anything may have.
    Everything,
}

impl Watches {
    /// With inotify where it is to be had.
    pub(super) fn new(wanted: bool) -> Self {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Watches {
            inotify: wanted.then(|| Inotify::init(flags).ok()).flatten(),
            targets: HashMap::new(),
        }
    }

    /// Watches a directory's names. False: nobody will tell.
    pub(super) fn dir(&mut self, path: &Path, target: Target) -> Option<WatchDescriptor> {
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
    pub(super) fn file(&mut self, file: &File, target: Target) -> Option<WatchDescriptor> {
        // By its descriptor: the name may be another file's by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ONESHOT;
        self.add(Path::new(&path), flags, target)
    }

    fn add(
        &mut self,
        path: &Path,
        flags: AddWatchFlags,
        target: Target,
    ) -> Option<WatchDescriptor> {
        let watch = self.inotify.as_ref()?.add_watch(path, flags).ok()?;
        self.targets.insert(watch.as_raw(), target);
        Some(watch)
    }

    /// Ends a watch; one that is gone is no matter.
    pub(super) fn end(&mut self, watch: WatchDescriptor) {
        self.targets.remove(&watch.as_raw());
        if let Some(inotify) = &self.inotify {
            let _ = inotify.rm_watch(watch);
        }
    }

    /// What happened since the last time.
    pub(super) fn take(&mut self, mut told: impl FnMut(Told)) {
        let Some(inotify) = &self.inotify else {
            return;
        };
        for _ in 0..MAX_BATCHES {
            let Ok(events) = inotify.read_events() else {
                break;
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    told(Told::Everything);
                } else if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    self.targets.remove(&event.wd.as_raw());
                } else if let Some(target) = self.targets.get(&event.wd.as_raw()) {
                    told(Told::At(target.clone()));
                }
            }
        }
    }

    /// Waits until something happens, so long at most. False: nothing can tell.
    pub(super) fn wait(&self, most: Duration) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, most), Ok(_) | Err(Errno::EINTR))
    }
}
