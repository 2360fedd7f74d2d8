//! Files below a root: read, list, link. The one place where errno is given a meaning.

use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
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
        if let Ok(text) = read_capped(&root.join(ERRNO_FILE)) {
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

    fn check(&self, path: &Path) -> io::Result<()> {
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

fn read_capped(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the one opener of kernel files")]
    let file = File::open(path)?;
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
    #[expect(clippy::disallowed_methods, reason = "the one opener of kernel files")]
    let file = File::open(&path)?;
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

/// Whether something exists at a path below the root.
pub fn exists(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(host.path(path)).is_ok()
}

/// A kernel attribute that is read again and again. On sysfs the descriptor is kept open and read
/// at offset 0 each time (the kernel makes the text anew); elsewhere the file is opened each time
/// unless the caller knows that it is the same, because a tree's files may be replaced.
#[derive(Debug)]
pub struct Attribute {
    path: PathBuf,
    file: Option<File>,
    errno: Option<i32>,
}

impl Attribute {
    /// An attribute at `path` below the root; nothing is opened yet.
    pub fn new(host: &Host, path: impl AsRef<Path>) -> Self {
        Attribute {
            path: host.path(path),
            file: None,
            errno: None,
        }
    }

    /// The system's error number behind the last read, if that failed in the system: what
    /// [`classify`] folds together, a caller may have to tell apart.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Reads into `buffer` (what it held is lost) and gives the trimmed text.
    pub fn read<'b>(&mut self, host: &Host, buffer: &'b mut Vec<u8>) -> Reading<&'b str> {
        self.read_in(host, buffer, host.is_live())
    }

    /// The same; `keep` says whether a descriptor of an earlier read still leads to this path
    /// (see [`Steady`]).
    pub fn read_in<'b>(
        &mut self,
        host: &Host,
        buffer: &'b mut Vec<u8>,
        keep: bool,
    ) -> Reading<&'b str> {
        self.errno = None;
        if !keep {
            self.file = None;
        }
        let filled = match self.fill(host, buffer) {
            Ok(filled) => filled,
            Err(error) => return self.failed(&error),
        };
        match std::str::from_utf8(buffer.get(..filled).unwrap_or_default()) {
            Ok(text) => Reading::Value(text.trim_end()),
            Err(_) => Reading::Failed(Fault {
                kind: FaultKind::Malformed,
                detail: format!("{}: not text", self.path.display()),
            }),
        }
    }

    fn failed<T>(&mut self, error: &io::Error) -> Reading<T> {
        self.errno = error.raw_os_error();
        // A stale descriptor answers ENODEV for ever: open anew next time.
        self.file = None;
        classify(error, &self.path)
    }

    /// Reads an unsigned decimal.
    pub fn read_u64(&mut self, host: &Host, buffer: &mut Vec<u8>) -> Reading<u64> {
        let path = self.path.clone();
        match self.read(host, buffer) {
            Reading::Value(text) => parse_u64(text, &path),
            Reading::Absent => Reading::Absent,
            Reading::NotObservable => Reading::NotObservable,
            Reading::Failed(fault) => Reading::Failed(fault),
        }
    }

    /// Reads from the begin into `buffer`, which is made a page long once; gives the length.
    fn fill(&mut self, host: &Host, buffer: &mut Vec<u8>) -> io::Result<usize> {
        host.errnos().check(&self.path)?;
        if self.file.is_none() {
            #[expect(clippy::disallowed_methods, reason = "the one opener of kernel files")]
            let file = File::open(&self.path)?;
            self.file = Some(file);
        }
        let Some(file) = &self.file else {
            return Err(io::Error::other("no descriptor"));
        };
        buffer.resize(4096, 0);
        let mut filled = 0;
        // Attributes fit one page: one pread is the whole text.
        while let Some(rest) = buffer.get_mut(filled..) {
            let room = rest.len();
            let got = file.read_at(rest, filled as u64)?;
            filled += got;
            // A short read of a regular file is its end too.
            if host.is_live() || got < room {
                break;
            }
        }
        Ok(filled)
    }
}

/// Whether the files of a directory are still the ones that were opened. In a live /sys they are as
/// long as they answer. In a tree a file is replaced by renaming another over it, which moves the
/// directory's modification time; a time is trusted once it was seen in an earlier round as well,
/// since a clock tick is long enough for a look and a rename.
#[derive(Debug, Default)]
pub struct Steady {
    seen: Option<(u64, i64, i64)>,
    again: bool,
}

impl Steady {
    /// Looks at the directory at the begin of a round: whether descriptors opened in earlier rounds
    /// may be used in this one.
    pub fn look(&mut self, host: &Host, dir: impl AsRef<Path>) -> bool {
        use std::os::unix::fs::MetadataExt;
        if host.is_live() {
            return true;
        }
        let seen = std::fs::metadata(host.path(dir))
            .ok()
            .map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()));
        let same = seen.is_some() && self.seen == seen;
        let keep = same && self.again;
        self.again = same;
        self.seen = seen;
        keep
    }
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

    #[test]
    fn an_attribute_sees_a_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(dir.path());
        let mut attribute = Attribute::new(&host, "state");
        let mut buffer = Vec::new();
        assert_eq!(attribute.read(&host, &mut buffer), Reading::Absent);
        std::fs::write(dir.path().join("state"), "4: ACTIVE\n").unwrap();
        assert_eq!(
            attribute.read(&host, &mut buffer),
            Reading::Value("4: ACTIVE")
        );
        std::fs::write(dir.path().join("new"), "1: DOWN\n").unwrap();
        std::fs::rename(dir.path().join("new"), dir.path().join("state")).unwrap();
        assert_eq!(
            attribute.read(&host, &mut buffer),
            Reading::Value("1: DOWN")
        );
    }
}
