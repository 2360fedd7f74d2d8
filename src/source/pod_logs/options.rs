//! What the follower takes and gives: settings, the sink for lines, statistics, the resume point.

use crate::hash::fnv1a;
use crate::host::Host;
use crate::observe::{ContainerKey, Fault, Reading};
use crate::source::tree;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One container whose log is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Container {
    /// As its directory names it. In [`Layout::Flat`] the container is the file's name, all else is empty.
    pub key: ContainerKey,
    /// Restarts before the file that is read now: other lines, other processes.
    pub restart: u32,
    /// The file that is read now.
    pub file: FileId,
}

/// A file and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileId {
    /// Its inode number.
    pub inode: u64,
    /// UID of its owner.
    pub owner: u32,
}

impl FileId {
    pub(super) fn of(meta: &Metadata) -> Self {
        let (inode, owner) = (meta.ino(), meta.uid());
        FileId { inode, owner }
    }
}

/// A regular file in a directory with [`Layout::Flat`].
#[derive(Debug, Clone, Copy)]
pub struct FlatFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// Which file it is.
    pub id: FileId,
    /// When it was last written to, by the clock of its file server.
    pub written: SystemTime,
    /// It is followed, and more of it than was read is there.
    pub unread: bool,
    /// It is followed, and cannot be read.
    pub unreadable: bool,
}

/// Receives the lines of all followed logs.
pub trait Sink {
    /// Whether a file of this name may be followed; asked before anything else of a flat layout.
    fn may_follow(&self, _name: &str) -> bool {
        true
    }

    /// Whether a file is followed, or followed on; asked at each listing of a flat layout.
    fn follows(&mut self, _file: &FlatFile<'_>) -> bool {
        true
    }

    /// Position in `chunk`, which begins with a line of the container, of the next byte of a wanted
    /// line at or after `from`. What makes a line wanted must not span a newline.
    fn wants(&self, container: &Container, chunk: &[u8], from: usize) -> Option<usize>;

    /// A wanted line: whole, with the runtime's framing, without the newline.
    fn line(&mut self, container: &Container, line: &[u8]);

    /// At least `bytes` were gone before they could be read (0: number unknown). The next line does
    /// not continue the last one.
    fn lost(&mut self, container: &Container, bytes: u64);

    /// The container's log was removed, and everything that could be read was handed over.
    fn gone(&mut self, container: &Container);
}

/// Which files below [`Options::dir`] are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The kubelet's: a directory per pod, in it one per container, in it rotated files.
    Pods,
    /// Each regular file of the directory is a log of its own.
    Flat,
}

/// Bounds and intervals of the follower.
#[derive(Debug, Clone)]
pub struct Options {
    /// Absolute link targets are resolved below this directory.
    pub root: PathBuf,
    /// The directory that holds all logs.
    pub dir: PathBuf,
    /// How `dir` is organised.
    pub layout: Layout,
    /// Where an earlier run stopped. Without it, reading begins with the current file of each
    /// container found at the first poll, and with the first line of containers that appear later.
    pub resume: Option<LogMarks>,
    /// Interval at which the directories of all pods are listed.
    pub list_every: Duration,
    /// Longest line handed over, in bytes.
    pub longest_line: usize,
    /// Size of the read buffer; raised to hold one line at least.
    pub buffer: usize,
    /// Bytes of one file read per poll before all others had their turn.
    pub share: usize,
    /// Bytes per poll after which no more is read from files that lag behind.
    pub backlog: usize,
    /// Most containers that are followed at a time.
    pub containers: usize,
    /// Most names read in the directory; in a flat layout, of those that may be followed.
    pub names: usize,
    /// Most files held open; others are opened for each read, at three times the cost.
    pub open_files: usize,
}

/// Most files held open where the process may have twice as many.
const OPEN_FILES: usize = 4096;

impl Options {
    /// Default settings for the pods' logs; a relative `dir` is below the host's root.
    #[must_use]
    pub fn new(host: &Host, dir: impl AsRef<Path>) -> Self {
        let dir = host.path(dir);
        let root = Some(host.root()).filter(|root| dir.starts_with(root));
        Options {
            root: root.unwrap_or(Path::new("/")).to_path_buf(),
            dir,
            layout: Layout::Pods,
            resume: None,
            list_every: Duration::from_secs(2),
            longest_line: 64 << 10,
            buffer: 128 << 10,
            share: 16 << 10,
            backlog: 1 << 20,
            containers: 8192,
            names: 16_384,
            open_files: tree::may_open(2, OPEN_FILES),
        }
    }
}

/// What one poll found and did.
#[derive(Debug, Clone, Default)]
pub struct PollStats {
    /// Number of containers that are followed now.
    pub containers: usize,
    /// Of these, containers that hold more than this poll would take.
    pub behind: usize,
    /// Number of files that are held open now.
    pub open_files: usize,
    /// Bytes read since the start.
    pub bytes: u64,
    /// Wanted lines that were too long to be handed over.
    pub lines_dropped: u64,
    /// Whether the directory of all logs can be listed.
    pub root: Reading<()>,
    /// The bound on names, where that directory holds more.
    pub more_names: Option<usize>,
    /// Containers whose log cannot be read at the moment.
    pub unreadable: usize,
    /// The last fault of this poll: a file or directory that cannot be read, a dangling link.
    pub fault: Option<Fault>,
}

/// The resume point of all containers. It outlives a reboot: files are identified by their
/// beginnings, not by their device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogMarks {
    /// Resume point of each followed log.
    pub logs: Vec<Mark>,
}

/// How far one container's log was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// UID of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// Restart number of the file that is read.
    pub restart: u32,
    /// The place in that file.
    #[serde(flatten)]
    pub place: Point,
    /// Stamp of the youngest rotated file that is known to be older (`20241114101112`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<u64>,
    /// The line at the offset exceeds the longest line: its rest is skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within_long: bool,
}

/// A place in a file; outlives its descriptor and the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Its inode number: the first guess where to find it.
    pub inode: u64,
    /// Its beginning, which identifies it.
    pub first: Fingerprint,
    /// Byte offset of the first line not yet handled; in a compressed file, of its content.
    pub offset: u64,
}

/// A hash of a file's first bytes: distinguishes it from another file that got the same inode number.
/// A log only grows, so they stay, and a CRI line opens with a stamp in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Number of bytes hashed; 0: the file was empty, so nothing identifies it.
    pub len: u16,
    /// Their hash (FNV-1a, 64 bits).
    pub hash: u64,
}

impl Fingerprint {
    /// Most bytes hashed.
    pub(super) const MAX: usize = 256;

    pub(super) fn of(bytes: &[u8]) -> Self {
        let first = bytes.get(..Self::MAX).unwrap_or(bytes);
        Self {
            len: u16::try_from(first.len()).unwrap_or_default(),
            hash: fnv1a(first),
        }
    }

    /// Takes more of the same file's beginning into account.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if usize::from(self.len) < bytes.len().min(Self::MAX) {
            *self = Self::of(bytes);
        }
    }

    /// Whether a file that begins with `bytes` may be the same one.
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        let first = bytes.get(..usize::from(self.len));
        first.is_some_and(|first| self.len == 0 || fnv1a(first) == self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grew_is_the_same_and_another_is_not() {
        const MAX: usize = Fingerprint::MAX;
        let long = [b'x'; 2 * MAX];
        let mut other = long;
        other[MAX - 1] = b'y';
        for (before, now, same) in [
            (&b""[..], &b"abc"[..], true),
            (b"abc", b"abcdef", true),
            (b"abc", b"abd", false),
            (b"abc", b"ab", false),
            (&long[..], &long[..], true),
            (&long[..MAX], &long[..], true),
            (&long[..], &other[..], false),
        ] {
            assert_eq!(Fingerprint::of(before).fits(now), same, "{before:?}");
        }
        let mut first = Fingerprint::of(b"abc");
        first.extend(b"ab");
        assert_eq!(first, Fingerprint::of(b"abc"));
        first.extend(&long);
        assert_eq!(first, Fingerprint::of(&long));
    }
}
