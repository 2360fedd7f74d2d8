//! Files below a root: read, list, link. The one place where errno is given a meaning.

use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest file taken; kernel attributes are at most a page, `/proc` files a few.
pub const MAX_FILE: usize = 1 << 20;

/// Name of the file in a captured tree that tells which paths answered with an errno instead of
/// text: one `ERRNO path` a line, such as `22 sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error`.
pub const ERRNO_FILE: &str = ".selvage-errno";

/// Errors recorded beside a captured tree: what a directory of plain files cannot show.
#[derive(Debug, Default, Clone)]
pub struct RecordedErrnos {
    by_path: HashMap<PathBuf, i32>,
}

impl RecordedErrnos {
    /// Reads `root/.selvage-errno`; lines that do not parse are left out. No file: no errors.
    pub fn load(root: &Path) -> Self {
        let mut by_path = HashMap::new();
        if let Ok(text) = read_regular(&root.join(ERRNO_FILE)) {
            for line in text.lines() {
                let Some((errno, path)) = line.trim().split_once(' ') else {
                    continue;
                };
                if let Ok(errno) = errno.parse() {
                    by_path.insert(root.join(path.trim().trim_start_matches('/')), errno);
                }
            }
        }
        RecordedErrnos { by_path }
    }

    /// Fails with the errno recorded for a path, if there is one.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        match self.by_path.get(path) {
            Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(()),
        }
    }
}

/// What an I/O error means for the fact behind it.
pub fn classify<T>(error: &io::Error, path: &Path) -> Reading<T> {
    use nix::errno::Errno;
    let failed = |kind| {
        Reading::Failed(Fault {
            kind,
            detail: format!("{}: {error}", path.display()),
        })
    };
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR) => Reading::Absent,
        Some(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EISDIR) => {
            Reading::NotObservable
        }
        Some(Errno::EACCES | Errno::EPERM) => failed(FaultKind::Denied),
        Some(Errno::ENODEV | Errno::ENXIO | Errno::EIO) => failed(FaultKind::Gone),
        _ if error.kind() == io::ErrorKind::InvalidData => failed(FaultKind::Malformed),
        _ => failed(FaultKind::Other),
    }
}

/// Opens a file: nobody else does.
#[expect(clippy::disallowed_methods, reason = "the one opener of kernel files")]
pub(super) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file without leaving a trace of reading it in its access time, where that is allowed
/// (only its owner may).
pub(super) fn open_quietly(path: &Path) -> io::Result<File> {
    let quiet = nix::libc::O_NOATIME;
    match File::options().read(true).custom_flags(quiet).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(path),
        other => other,
    }
}

fn read_capped(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = open(path)?;
    file.take(MAX_FILE as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The same of a file that must be a regular one: nothing else is waited for.
fn read_regular(path: &Path) -> io::Result<String> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Text of a file below the root. Trailing white space is cut; bytes that are not UTF-8 are replaced.
pub fn read_text(host: &Host, path: impl AsRef<Path>) -> Reading<String> {
    let path = host.path(path);
    match host.errnos().check(&path).and_then(|()| read_capped(&path)) {
        Ok(mut text) => {
            text.truncate(text.trim_end().len());
            Reading::Value(text)
        }
        Err(error) => classify(&error, &path),
    }
}

/// Raw bytes of a file below the root, at most `limit`.
pub fn read_bytes(host: &Host, path: impl AsRef<Path>, limit: usize) -> Reading<Vec<u8>> {
    match read_raw(host, &path, limit) {
        Ok(bytes) => Reading::Value(bytes),
        Err(error) => classify(&error, &host.path(path)),
    }
}

/// Raw bytes of a file below the root with the system's own error, for those who record it.
///
/// # Errors
/// What opening or reading answered, or what is recorded beside the tree.
pub fn read_raw(host: &Host, path: impl AsRef<Path>, limit: usize) -> io::Result<Vec<u8>> {
    let path = host.path(path);
    host.errnos().check(&path)?;
    let mut bytes = Vec::new();
    let file = open(&path)?;
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Names in a directory below the root, sorted.
pub fn list(host: &Host, path: impl AsRef<Path>) -> Reading<Vec<String>> {
    let path = host.path(path);
    let read = || -> io::Result<Vec<String>> {
        host.errnos().check(&path)?;
        let mut names = Vec::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the one lister of kernel directories"
        )]
        for entry in std::fs::read_dir(&path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    };
    match read() {
        Ok(names) => Reading::Value(names),
        Err(error) => classify(&error, &path),
    }
}

/// Target of a symbolic link below the root, as written (not followed).
pub fn link(host: &Host, path: impl AsRef<Path>) -> Reading<PathBuf> {
    let path = host.path(path);
    match std::fs::read_link(&path) {
        Ok(target) => Reading::Value(target),
        Err(error) => classify(&error, &path),
    }
}

/// Last component of a symbolic link's target: the driver behind `device/driver`, say.
pub fn link_name(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    match link(host, path) {
        Reading::Value(target) => target
            .file_name()
            .map(|name| name.to_string_lossy().into_owned()),
        _ => None,
    }
}

/// A path with every link followed, relative to the root; none if it leaves the root or is missing.
pub fn canonical(host: &Host, path: impl AsRef<Path>) -> Option<PathBuf> {
    let root = std::fs::canonicalize(host.root()).ok()?;
    let full = std::fs::canonicalize(host.path(path)).ok()?;
    full.strip_prefix(&root).ok().map(Path::to_path_buf)
}

/// The inode number of what a path below the root leads to.
pub fn inode(host: &Host, path: impl AsRef<Path>) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let path = host.path(path);
    host.errnos().check(&path).ok()?;
    Some(std::fs::metadata(path).ok()?.ino())
}

/// Whether something exists at a path below the root.
pub fn exists(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(host.path(path)).is_ok()
}

/// Whether a regular file, or a link to one, is at a path below the root: what can be read to its
/// end.
pub fn is_file(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::metadata(host.path(path)).is_ok_and(|meta| meta.is_file())
}

/// An unsigned decimal as sysfs prints counters. The text `N/A (no PMA)` of older kernels means
/// not observable.
pub fn parse_u64(text: &str, path: &Path) -> Reading<u64> {
    let text = text.trim();
    if text.starts_with("N/A") {
        return Reading::NotObservable;
    }
    match text.parse() {
        Ok(value) => Reading::Value(value),
        Err(_) => Reading::Failed(Fault {
            kind: FaultKind::Malformed,
            detail: format!("{}: not a number", path.display()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_can_answer_with_an_errno() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("one"), "5\n").unwrap();
        std::fs::write(dir.path().join("two"), "5\n").unwrap();
        std::fs::write(dir.path().join(ERRNO_FILE), "22 two\n13 /three\njunk\n").unwrap();
        let host = Host::new(dir.path());
        assert_eq!(read_text(&host, "one"), Reading::Value("5".into()));
        assert_eq!(read_text(&host, "two"), Reading::NotObservable);
        assert!(matches!(
            read_text(&host, "three"),
            Reading::Failed(Fault {
                kind: FaultKind::Denied,
                ..
            })
        ));
        assert_eq!(read_text(&host, "four"), Reading::Absent);
    }

    #[test]
    fn numbers() {
        let path = Path::new("x");
        assert_eq!(parse_u64("12\n", path), Reading::Value(12));
        assert_eq!(parse_u64("N/A (no PMA)", path), Reading::NotObservable);
        assert!(matches!(parse_u64("", path), Reading::Failed(_)));
        assert!(matches!(parse_u64("-1", path), Reading::Failed(_)));
    }
}
