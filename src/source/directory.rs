//! Descriptors that are kept open, and directories of a tree watched by theirs.

use super::tree::open;
use crate::host::Host;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// A directory that changed this short a time ago may change again under the same stamp: file
/// systems stamp by the tick, some by two seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// Most descriptors kept open.
const MAX_KEPT: usize = 16 * 1024;

/// How many more descriptors may be kept open: half of what the process may have.
#[derive(Debug)]
pub struct Budget(AtomicUsize);

impl Default for Budget {
    fn default() -> Self {
        use nix::sys::resource::{Resource, getrlimit};
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft);
        let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
        Budget(AtomicUsize::new(half.min(MAX_KEPT)))
    }
}

impl Budget {
    /// How many are left.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn set(&self, left: usize) {
        self.0.store(left, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        (self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less))
        .is_ok()
    }
}

/// A descriptor that is kept; gives its place back when closed.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) file: File,
    pub(super) epoch: Epoch,
    budget: Arc<Budget>,
}

impl Kept {
    /// A descriptor whose place was taken from the budget.
    pub(super) fn new(file: File, epoch: Epoch, host: &Host) -> Self {
        Kept {
            file,
            epoch,
            budget: Arc::clone(host.budget()),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An age of a directory: within one, no file of it was replaced, added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

#[cfg(test)]
impl Epoch {
    /// An age by hand.
    pub(super) fn of(age: u64) -> Self {
        Epoch(age)
    }
}

/// The way to a directory leads over links and is walked anew this often; in between, its open
/// descriptor tells what changes in it.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// A directory of attributes.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    open: Option<(Kept, SystemTime)>,
    stamp: Option<Stamp>,
    epoch: u64,
    missing: bool,
    /// While it is missing: the directory that would have it, which changes when it comes.
    parent: Option<(Kept, SystemTime, Stamp)>,
}

type Stamp = (u64, u64, i64, i64, i64, i64);

impl Directory {
    /// The directory at `path` below the root; nothing is looked at yet.
    pub fn new(host: &Host, path: impl AsRef<Path>) -> Self {
        Directory {
            path: host.path(path),
            open: None,
            stamp: None,
            epoch: 0,
            missing: false,
            parent: None,
        }
    }

    /// Whether it was not there when its age was last asked for; never said of sysfs.
    pub fn is_missing(&self) -> bool {
        self.missing
    }

    /// Its present age. On sysfs descriptors say themselves when they are stale (ENODEV).
    pub fn epoch(&mut self, host: &Host) -> Epoch {
        if !host.is_live() {
            #[expect(clippy::disallowed_methods, reason = "file stamps are wall time")]
            let now = SystemTime::now();
            if self.missing && self.parent_is_as_before(now) {
                return Epoch(self.epoch);
            }
            let meta = self.look(host, now);
            self.missing = matches!(&meta, Err(error) if error.kind() == io::ErrorKind::NotFound);
            let stamp = meta.ok().and_then(|meta| settled_stamp(&meta, now));
            if stamp.is_none() || stamp != self.stamp {
                self.epoch += 1;
            }
            self.stamp = stamp;
            self.parent = match self.missing {
                true => self.look_at_parent(host, now),
                false => None,
            };
        }
        Epoch(self.epoch)
    }

    fn parent_is_as_before(&self, now: SystemTime) -> bool {
        let Some((kept, walked, stamp)) = &self.parent else {
            return false;
        };
        let recent = now
            .duration_since(*walked)
            .is_ok_and(|age| age < WALK_EVERY);
        recent
            && (kept.file.metadata())
                .is_ok_and(|meta| meta.nlink() > 0 && settled_stamp(&meta, now) == Some(*stamp))
    }

    fn look_at_parent(&self, host: &Host, now: SystemTime) -> Option<(Kept, SystemTime, Stamp)> {
        let file = open(self.path.parent()?).ok()?;
        let stamp = settled_stamp(&file.metadata().ok()?, now)?;
        // It may have come just before that stamp was taken.
        let missing = !self.path.exists();
        (missing && host.budget().take()).then(|| (Kept::new(file, Epoch(0), host), now, stamp))
    }

    fn look(&mut self, host: &Host, now: SystemTime) -> io::Result<Metadata> {
        if let Some((kept, walked)) = &self.open
            && now
                .duration_since(*walked)
                .is_ok_and(|age| age < WALK_EVERY)
            && let Ok(meta) = kept.file.metadata()
            && meta.nlink() > 0
        {
            return Ok(meta);
        }
        self.open = None;
        let file = open(&self.path)?;
        let meta = file.metadata()?;
        if host.budget().take() {
            self.open = Some((Kept::new(file, Epoch(0), host), now));
        }
        Ok(meta)
    }
}

/// What tells this state of a directory from every later one; none where it does not yet.
fn settled_stamp(meta: &Metadata, now: SystemTime) -> Option<Stamp> {
    let modified = meta.modified().ok()?;
    let changed = u64::try_from(meta.ctime()).ok().map(Duration::from_secs)?;
    let settled = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age > SETTLED_AFTER);
    (settled(modified) && settled(SystemTime::UNIX_EPOCH + changed)).then(|| {
        (
            meta.dev(),
            meta.ino(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};

    fn age(path: &Path, by: Duration) {
        #[expect(
            clippy::disallowed_methods,
            reason = "a directory opened to be stamped"
        )]
        let dir = File::open(path).unwrap();
        #[expect(clippy::disallowed_methods, reason = "file stamps are wall time")]
        let then = SystemTime::now() - by;
        dir.set_modified(then).unwrap();
    }

    /// Stamps by hand, since no test waits three seconds: a directory that did not change keeps its
    /// age, and every way to change it ends that age.
    #[test]
    fn ages_of_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        create_dir(dir.path().join("d")).unwrap();
        let path = dir.path().join("d");
        let meta = || std::fs::metadata(&path).unwrap();
        let born = meta().modified().unwrap();
        let late = born + Duration::from_secs(3600);
        assert_eq!(settled_stamp(&meta(), born), None);
        assert_eq!(settled_stamp(&meta(), born + Duration::from_secs(2)), None);
        let first = settled_stamp(&meta(), late);
        assert!(first.is_some());
        assert_eq!(settled_stamp(&meta(), late), first);
        age(&path, Duration::from_secs(7200));
        write(path.join("x"), "1").unwrap();
        let second = settled_stamp(&meta(), late);
        assert_ne!(second, first);
        age(&path, Duration::from_secs(7200));
        assert_ne!(settled_stamp(&meta(), late), second);
    }

    #[test]
    fn a_directory_that_comes_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        create_dir(dir.path().join("device")).unwrap();
        age(&dir.path().join("device"), Duration::from_secs(7200));
        let host = Host::new(dir.path());
        let mut directory = Directory::new(&host, "device/d");
        directory.epoch(&host);
        assert!(directory.is_missing());
        // Settled or not, its parent tells.
        #[expect(clippy::disallowed_methods, reason = "file stamps are wall time")]
        let late = SystemTime::now() + Duration::from_secs(3600);
        directory.parent = directory.look_at_parent(&host, late);
        assert!(directory.parent_is_as_before(late));
        assert!(!directory.parent_is_as_before(late + WALK_EVERY));
        create_dir(dir.path().join("device/d")).unwrap();
        assert!(!directory.parent_is_as_before(late));
        directory.epoch(&host);
        assert!(!directory.is_missing());
    }
}
