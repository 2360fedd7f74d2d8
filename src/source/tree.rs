//! Files below a root: read, list, link. The one place where errno is given a meaning.

use crate::host::Host;
use crate::observe::reading::{FaultKind, Reading};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Longest file read; kernel attributes are at most a page, `/proc` files a few.
pub const MAX_FILE: usize = 1 << 20;

/// The meaning of an I/O error for the fact that was asked for.
pub fn classify<T>(error: &io::Error, path: &Path) -> Reading<T> {
    use nix::errno::Errno;
    let failed = |kind| Reading::failed(kind, format!("{}: {error}", path.display()));
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

/// Opens a file for reading; every other reader of kernel files comes through here.
#[expect(clippy::disallowed_methods, reason = "the one opener of kernel files")]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Longest sysfs attribute: a page.
const ATTRIBUTE: usize = 4096;

/// An attribute below `sys/` comes whole in one read; a second one, which would only say that it has
/// ended, is left out.
fn read_at_most(mut file: File, limit: usize, is_attribute: bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if is_attribute {
        let mut page = [0; ATTRIBUTE];
        let room = limit.min(ATTRIBUTE);
        let read = loop {
            match file.read(page.get_mut(..room).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        bytes.extend_from_slice(page.get(..read).unwrap_or_default());
        if read < room || read == limit {
            return Ok(bytes);
        }
    }
    let left = limit.saturating_sub(bytes.len());
    file.take(left as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A directory whose files are read one after another: the way there, long by sysfs's links, is walked
/// once. Made for one round of reads, so that nothing of a device that was replaced is kept.
#[derive(Debug)]
pub struct Directory<'a> {
    host: &'a Host,
    path: &'a Path,
    fd: OnceCell<Option<OwnedFd>>,
}

impl<'a> Directory<'a> {
    /// A directory below the root; opened when the first file is read.
    pub fn new(host: &'a Host, path: &'a Path) -> Self {
        let fd = OnceCell::new();
        Directory { host, path, fd }
    }

    /// Raw bytes of a file in it, at most `limit`, with the system's own error.
    ///
    /// # Errors
    /// As [`read_raw`].
    pub fn read_raw(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        read_with(self.host, &self.path.join(name), limit, |full| {
            let of_path = || {
                let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                nix::fcntl::open(&self.host.path(self.path), flags, Mode::empty()).ok()
            };
            match self.fd.get_or_init(of_path) {
                Some(fd) => {
                    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                    Ok(openat(fd, name, flags, Mode::empty())?.into())
                }
                None => open(full),
            }
        })
    }

    /// Text of a file in it, as [`read_text`].
    pub fn read_text(&self, name: &str) -> Reading<String> {
        match self.read_raw(name, MAX_FILE) {
            Ok(bytes) => Reading::Value(text(bytes)),
            Err(error) => classify(&error, &self.host.path(self.path.join(name))),
        }
    }
}

/// Trailing white space is cut; bytes that are not UTF-8 are replaced.
fn text(bytes: Vec<u8>) -> String {
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.truncate(text.trim_end().len());
    text
}

/// Text of a file below the root. Trailing white space is cut; bytes that are not UTF-8 are replaced.
pub fn read_text(host: &Host, path: impl AsRef<Path>) -> Reading<String> {
    read_bytes(host, path, MAX_FILE).map(text)
}

/// An unsigned decimal in a file below the root.
pub fn read_u64(host: &Host, path: impl AsRef<Path>) -> Reading<u64> {
    let text = read_text(host, &path);
    text.and_then(|text| parse_u64(&text, path.as_ref()))
}

/// Raw bytes of a file below the root, at most `limit`.
pub fn read_bytes(host: &Host, path: impl AsRef<Path>, limit: usize) -> Reading<Vec<u8>> {
    match read_raw(host, &path, limit) {
        Ok(bytes) => Reading::Value(bytes),
        Err(error) => classify(&error, &host.path(path)),
    }
}

/// Raw bytes of a file below the root with the system's own error.
///
/// # Errors
/// What opening or reading answered, or the errno recorded for a captured tree.
pub fn read_raw(host: &Host, path: impl AsRef<Path>, limit: usize) -> io::Result<Vec<u8>> {
    read_with(host, path.as_ref(), limit, open)
}

fn read_with(
    host: &Host,
    path: &Path,
    limit: usize,
    open: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<Vec<u8>> {
    let full = host.path(path);
    let read = || {
        host.errnos().check(&full)?;
        read_at_most(open(&full)?, limit, path.starts_with("sys"))
    };
    match host.recording() {
        Some(recording) => recording.file(host, path, read),
        None => read(),
    }
}

/// A path below the root, noted where a capture records what is asked for.
fn noted(host: &Host, path: impl AsRef<Path>) -> PathBuf {
    if let Some(recording) = host.recording() {
        recording.path(host, path.as_ref());
    }
    host.path(path)
}

/// Names in a directory below the root, sorted.
pub fn list(host: &Host, path: impl AsRef<Path>) -> Reading<Vec<String>> {
    let path = noted(host, path);
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
        Ok(names) => {
            if let Some(recording) = host.recording() {
                recording.children(host, &path, &names);
            }
            Reading::Value(names)
        }
        Err(error) => classify(&error, &path),
    }
}

/// Names in a directory below the root, sorted; none where it cannot be listed.
pub fn names(host: &Host, path: impl AsRef<Path>) -> Vec<String> {
    list(host, path).into_value().unwrap_or_default()
}

/// Target of a symbolic link below the root, as written (not followed).
pub fn link(host: &Host, path: impl AsRef<Path>) -> Reading<PathBuf> {
    let path = noted(host, path);
    match std::fs::read_link(&path) {
        Ok(target) => Reading::Value(target),
        Err(error) => classify(&error, &path),
    }
}

/// Last component of a symbolic link's target: the driver behind `device/driver`, say.
pub fn link_name(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    let target = link(host, path).into_value()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// A path with every link followed, relative to the root; none if it leaves the root or is missing.
pub fn canonical(host: &Host, path: impl AsRef<Path>) -> Option<PathBuf> {
    let full = std::fs::canonicalize(noted(host, path)).ok()?;
    let below = full.strip_prefix(host.real_root()?).ok()?;
    Some(below.to_path_buf())
}

/// The inode number of what a path below the root leads to.
pub fn inode(host: &Host, path: impl AsRef<Path>) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let path = noted(host, path);
    host.errnos().check(&path).ok()?;
    Some(std::fs::metadata(path).ok()?.ino())
}

/// Whether something exists at a path below the root.
pub fn exists(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(noted(host, path)).is_ok()
}

/// Whether a regular file, or a link to one, is at a path below the root: one that can be read
/// to its end.
pub fn is_file(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::metadata(noted(host, path)).is_ok_and(|meta| meta.is_file())
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
        Err(_) => Reading::failed(
            FaultKind::Malformed,
            format!("{}: not a number", path.display()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::reading::Fault;

    #[test]
    fn a_tree_can_answer_with_an_errno() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("one"), "5\n").unwrap();
        std::fs::write(dir.path().join("two"), "5\n").unwrap();
        std::fs::write(
            dir.path().join(crate::host::ERRNO_FILE),
            "22 two\n13 /three\njunk\n",
        )
        .unwrap();
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
