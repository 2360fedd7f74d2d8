//! What the follower is told, what it tells, and to whom.

use super::state::ResumeState;
use crate::host::Host;
use crate::observe::pod::ContainerKey;
use crate::observe::reading::{Fault, Reading};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One container whose log is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// As its directory names it.
    pub key: ContainerKey,
    /// How often it was restarted before the file that is read now: other lines, other processes.
    pub restart: u32,
    /// Never given twice by one follower.
    pub serial: u64,
}

/// Who wants lines.
pub trait Sink {
    /// Where in `chunk` (whole lines) the next interesting byte is, at or after `from`. What it looks
    /// for must not span a newline. With [`super::PARTIAL_TAGS`] among it, no split line is missed.
    fn wants(&self, chunk: &[u8], from: usize) -> Option<usize>;

    /// A line that holds an interesting byte, or continues one that the runtime split: whole, with
    /// the runtime's framing, without the newline.
    fn line(&mut self, container: &Container, line: &[u8]);

    /// So many bytes at least were gone before they could be read (0: nobody knows how many). What
    /// comes next does not join on.
    fn lost(&mut self, container: &Container, bytes: u64);

    /// The container's directory is gone, and all that could be read was.
    fn gone(&mut self, container: &Container);
}

/// How to follow.
#[derive(Debug, Clone)]
pub struct Options {
    /// Links that lead to an absolute path lead below this.
    pub root: PathBuf,
    /// The directory of all pods' directories.
    pub pods: PathBuf,
    /// Where an earlier run stopped. Without it, what is there at the first look is read from the
    /// beginning of each container's current file; containers that come later, from their first line.
    pub resume: Option<ResumeState>,
    /// Wake by inotify. Looks find everything without it, later.
    pub watch: bool,
    /// Pause between looks while lines come.
    pub pause: Duration,
    /// Looks in a row that find nothing before a file is left to inotify, its descriptor closed.
    pub quiet_looks: u8,
    /// How long a rotated file is read on after its last line: the runtime may still be writing to
    /// it while the new one is there.
    pub linger: Duration,
    /// How often directories that inotify watches are looked at all the same; the others, every second.
    pub check_every: Duration,
    /// Longest line handed over, in bytes.
    pub longest_line: usize,
    /// Size of the one buffer that is read into; more than a line at least.
    pub buffer: usize,
    /// Bytes of one file read in a look before all others had their turn.
    pub share: usize,
    /// Bytes of files that lag behind read in one look, together.
    pub backlog: usize,
    /// Bytes of rotated files that are caught up on, a container; what is older is lost.
    pub catch_up: u64,
    /// Containers followed.
    pub containers: usize,
    /// Files held open; more are opened for each look, at three times the cost.
    pub open_files: usize,
}

/// Most files held open where the process may have that many twice.
const OPEN_FILES: usize = 4096;

impl Options {
    /// The usual; a relative `pods` is below the host's root.
    #[must_use]
    pub fn new(host: &Host, pods: impl AsRef<Path>) -> Self {
        use nix::sys::resource::{Resource, getrlimit};
        let pods = host.path(pods);
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft);
        Options {
            root: if pods.starts_with(host.root()) {
                host.root().to_path_buf()
            } else {
                PathBuf::from("/")
            },
            pods,
            resume: None,
            watch: true,
            pause: Duration::from_millis(70),
            quiet_looks: 8,
            linger: Duration::from_millis(500),
            check_every: Duration::from_secs(5),
            longest_line: 64 << 10,
            buffer: 128 << 10,
            share: 16 << 10,
            backlog: 4 << 20,
            catch_up: 256 << 20,
            containers: 8192,
            open_files: usize::try_from(limit / 2).map_or(OPEN_FILES, |half| half.min(OPEN_FILES)),
        }
    }
}

/// What one look came to.
#[derive(Debug, Clone, Default)]
pub struct PollStats {
    /// Containers followed.
    pub containers: usize,
    /// Of these: read at each look.
    pub lively: usize,
    /// Of these: more was there than this look would take.
    pub behind: usize,
    /// Files held open.
    pub open_files: usize,
    /// Bytes handled.
    pub bytes: u64,
    /// Lines handed over.
    pub lines: u64,
    /// Bytes that were gone before they could be read, as far as known.
    pub bytes_lost: u64,
    /// How often bytes were gone, known how many or not.
    pub gaps: u64,
    /// Lines too long to be handed over that were wanted or may have been.
    pub lines_dropped: u64,
    /// Files that were cut back or overwritten in place, and were begun anew.
    pub truncated: u64,
    /// Files finished after the next one was there.
    pub rotations: u64,
    /// Names that are no pod's, container's or log's, found by this look.
    pub odd_names: u64,
    /// Containers beyond the bound, left aside.
    pub left_aside: usize,
    /// Whether the directory of all pods could be listed the last time.
    pub root: Reading<()>,
    /// Containers whose log cannot be read at the moment.
    pub unreadable: usize,
    /// The last trouble found by this look: a file or directory that cannot be read, a link that
    /// leads nowhere.
    pub fault: Option<Fault>,
}
