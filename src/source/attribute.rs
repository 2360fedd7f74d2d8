//! Attributes that are read again and again, descriptors kept open where that is safe.
//!
//! On sysfs the kernel makes the text anew at each read from offset 0, so that one pread is a
//! sample. In a directory tree, files may be replaced: there a descriptor is good for as long as
//! its [`Directory`] did not change.

use super::tree::{classify, open, open_quietly, parse_u64};
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// Attributes are at most a page.
const PAGE: usize = 4096;

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
    fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        (self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less))
        .is_ok()
    }
}

/// A descriptor that is kept; gives its place back when closed.
#[derive(Debug)]
struct Kept {
    file: File,
    epoch: Epoch,
    budget: Arc<Budget>,
}

impl Kept {
    /// A descriptor whose place was taken from the budget.
    fn new(file: File, epoch: Epoch, host: &Host) -> Self {
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

/// One attribute.
#[derive(Debug)]
pub struct Attribute {
    path: PathBuf,
    kept: Option<Kept>,
    errno: Option<i32>,
}

impl Attribute {
    /// An attribute at `path` below the root; nothing is opened yet.
    pub fn new(host: &Host, path: impl AsRef<Path>) -> Self {
        Attribute {
            path: host.path(path),
            kept: None,
            errno: None,
        }
    }

    /// The system's error number behind the last read, if that failed in the system: what
    /// [`classify`] folds together, a caller may have to tell apart.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Reads by way of `buffer` and gives the trimmed text. `epoch`: its directory's present age.
    pub fn read<'b>(
        &mut self,
        host: &Host,
        epoch: Epoch,
        buffer: &'b mut Vec<u8>,
    ) -> Reading<&'b str> {
        self.errno = None;
        let filled = match self.fill(host, epoch, buffer) {
            Ok(filled) => filled,
            Err(error) => {
                self.errno = error.raw_os_error();
                // A stale descriptor answers ENODEV for ever: open anew next time.
                self.kept = None;
                return classify(&error, &self.path);
            }
        };
        match std::str::from_utf8(buffer.get(..filled).unwrap_or_default()) {
            Ok(text) => Reading::Value(text.trim_end()),
            Err(_) => Reading::Failed(Fault {
                kind: FaultKind::Malformed,
                detail: format!("{}: not text", self.path.display()),
            }),
        }
    }

    /// Reads an unsigned decimal.
    pub fn read_u64(&mut self, host: &Host, epoch: Epoch, buffer: &mut Vec<u8>) -> Reading<u64> {
        match self.read(host, epoch, buffer) {
            Reading::Value(text) => parse_u64(text, &self.path),
            Reading::Absent => Reading::Absent,
            Reading::NotObservable => Reading::NotObservable,
            Reading::Failed(fault) => Reading::Failed(fault),
        }
    }

    fn fill(&mut self, host: &Host, epoch: Epoch, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if buffer.len() < PAGE {
            buffer.resize(PAGE, 0);
        }
        if let Some(kept) = &self.kept {
            if host.is_live() || kept.epoch == epoch {
                return read_page(&kept.file, host, buffer);
            }
            self.kept = None;
        }
        host.errnos().check(&self.path)?;
        // What is no plain file in a tree (a link to a file that may be replaced elsewhere) is not
        // kept: its directory would not tell.
        let keep = host.is_live()
            || std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_file());
        let file = open_quietly(&self.path)?;
        let filled = read_page(&file, host, buffer);
        if filled.is_ok() && keep && host.budget().take() {
            self.kept = Some(Kept::new(file, epoch, host));
        }
        filled
    }
}

/// Reads a page at most: one pread is the whole text.
fn read_page(file: &File, host: &Host, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..) {
        let room = rest.len();
        let got = file.read_at(rest, filled as u64)?;
        filled += got;
        // A short read of a regular file is its end too.
        if host.is_live() || got < room || room == 0 {
            break;
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, remove_file, rename, write};

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

    #[test]
    fn an_attribute_sees_a_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(dir.path());
        let mut directory = Directory::new(&host, "");
        let mut attribute = Attribute::new(&host, "state");
        let mut buffer = Vec::new();
        let mut read = |want: Reading<&str>| {
            let epoch = directory.epoch(&host);
            assert_eq!(attribute.read(&host, epoch, &mut buffer), want);
        };
        read(Reading::Absent);
        write(dir.path().join("state"), "4: ACTIVE\n").unwrap();
        read(Reading::Value("4: ACTIVE"));
        write(dir.path().join("state"), "1: DOWN\n").unwrap();
        read(Reading::Value("1: DOWN"));
        for round in ["2: INIT", "3: ARMED", "4: ACTIVE"] {
            write(dir.path().join("new"), round).unwrap();
            rename(dir.path().join("new"), dir.path().join("state")).unwrap();
            read(Reading::Value(round));
        }
        remove_file(dir.path().join("state")).unwrap();
        read(Reading::Absent);
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

    #[test]
    fn a_kept_descriptor_reads_what_was_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("n"), "1000\n").unwrap();
        let host = Host::new(dir.path());
        let mut attribute = Attribute::new(&host, "n");
        let mut buffer = Vec::new();
        let left = || host.budget().0.load(Ordering::Relaxed);
        let all = left();
        let epoch = Epoch(1);
        assert_eq!(
            attribute.read_u64(&host, epoch, &mut buffer),
            Reading::Value(1000)
        );
        assert_eq!(left(), all - 1, "kept");
        write(dir.path().join("n"), "7\n").unwrap();
        assert_eq!(
            attribute.read_u64(&host, epoch, &mut buffer),
            Reading::Value(7)
        );
        write(dir.path().join("m"), "8\n").unwrap();
        rename(dir.path().join("m"), dir.path().join("n")).unwrap();
        assert_eq!(
            attribute.read_u64(&host, Epoch(2), &mut buffer),
            Reading::Value(8)
        );
        drop(attribute);
        assert_eq!(left(), all, "given back");
    }

    #[test]
    fn without_budget_a_file_is_opened_each_time() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("n"), "5\n").unwrap();
        let host = Host::new(dir.path());
        host.budget().0.store(0, Ordering::Relaxed);
        let mut attribute = Attribute::new(&host, "n");
        let mut buffer = Vec::new();
        for _ in 0..2 {
            assert_eq!(
                attribute.read_u64(&host, Epoch(1), &mut buffer),
                Reading::Value(5)
            );
            assert!(attribute.kept.is_none());
        }
    }

    #[test]
    fn more_than_a_page_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("n"), "x".repeat(3 * PAGE)).unwrap();
        let host = Host::new(dir.path());
        let mut buffer = Vec::new();
        let mut attribute = Attribute::new(&host, "n");
        let text = attribute.read(&host, Epoch(1), &mut buffer).map(str::len);
        assert_eq!(text, Reading::Value(PAGE));
    }
}
