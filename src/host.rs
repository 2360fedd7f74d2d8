//! The roots that everything is read below, and what kind of host they belong to.

pub mod recording;

use crate::files::read_regular;
use nix::sys::statfs::{SYSFS_MAGIC, statfs};
use recording::Recording;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest list of errors read.
const MAX_ERRNOS: u64 = 16 << 20;

/// Name of the file in a captured tree that lists which paths answered with an errno instead of
/// text: one `ERRNO path` a line, such as `22 sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error`.
pub const ERRNO_FILE: &str = ".selvage-errno";

/// Reads `root/.selvage-errno`; lines that do not parse are left out. No file: no errors.
fn recorded_errnos(root: &Path) -> HashMap<PathBuf, i32> {
    let bytes = read_regular(&root.join(ERRNO_FILE), MAX_ERRNOS).unwrap_or_default();
    let entry = |line: &str| {
        let (errno, path) = line.trim().split_once(' ')?;
        let path = root.join(path.trim().trim_start_matches('/'));
        Some((path, errno.parse().ok()?))
    };
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter_map(entry).collect()
}

/// Where `sys`, `proc`, `dev` and `var/log/pods` are looked for.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    /// The root with every link followed; none if it is not there.
    real_root: Option<PathBuf>,
    live: bool,
    /// Errors recorded in a captured tree, which plain files cannot show, by path.
    errnos: Arc<HashMap<PathBuf, i32>>,
    recording: Option<Arc<Recording>>,
}

impl Host {
    /// A host below `root`. It is live if `root/sys` is a kernel's sysfs; otherwise it is a
    /// directory tree, such as a capture, and netlink and ioctls are left alone.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let live = statfs(&root.join("sys")).is_ok_and(|fs| fs.filesystem_type() == SYSFS_MAGIC);
        let errnos = (!live).then(|| recorded_errnos(&root));
        Host {
            real_root: std::fs::canonicalize(&root).ok(),
            root,
            live,
            errnos: Arc::new(errnos.unwrap_or_default()),
            recording: None,
        }
    }

    /// The same host, with everything that is read through [`crate::source::tree`] recorded.
    #[must_use]
    pub fn recorded_by(self, recording: Arc<Recording>) -> Self {
        let recording = Some(recording);
        Host { recording, ..self }
    }

    /// The directory that everything is read below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The root with every link followed; none if it is not there.
    pub fn real_root(&self) -> Option<&Path> {
        self.real_root.as_deref()
    }

    /// Whether a running kernel answers below this root.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// `path` (relative, such as `sys/class/net`) below the root.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Fails with the errno that a captured tree records for a path (with the root), if it does.
    pub(crate) fn check_errno(&self, path: &Path) -> io::Result<()> {
        let errno = self.errnos.get(path);
        errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(*errno)))
    }

    /// Fails where what a path led to lies outside of a directory tree: a capture comes from others, and
    /// its links show nothing of this machine.
    pub(crate) fn check_inside(
        &self,
        real: impl FnOnce() -> io::Result<PathBuf>,
    ) -> io::Result<()> {
        let leaves = |real: &Path| self.real_root().is_some_and(|root| !real.starts_with(root));
        if !self.live && leaves(&real()?) {
            return Err(io::Error::other("a link leads out of the directory tree"));
        }
        Ok(())
    }

    /// The capture in progress, if this host is being captured.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
    }
}
