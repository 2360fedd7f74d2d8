//! Files below a root: read, list, link. The one place where errno is given a meaning.

use crate::host::Host;
use crate::observe::{FaultKind, Reading};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

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

/// The answer of the system as a reading of `path`.
pub fn answer<T>(answer: io::Result<T>, path: impl FnOnce() -> PathBuf) -> Reading<T> {
    answer.map_or_else(|error| classify(&error, &path()), Reading::Value)
}

/// Opens a file for reading; every other reader of kernel files comes through here.
#[expect(clippy::disallowed_methods, reason = "the one opener of kernel files")]
fn open(host: &Host, path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let fd = file.as_raw_fd();
    host.check_inside(|| std::fs::read_link(format!("/proc/self/fd/{fd}")))?;
    Ok(file)
}

/// Longest sysfs attribute: a page.
const ATTRIBUTE: usize = 4096;

/// Reads a file from its beginning. An attribute below `sys/` comes whole in one read; a second one,
/// which would only say that it has ended, is left out.
fn read_at_most(file: &File, limit: usize, is_attribute: bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if is_attribute {
        let mut page = [0; ATTRIBUTE];
        let room = limit.min(ATTRIBUTE);
        let read = loop {
            match file.read_at(page.get_mut(..room).unwrap_or_default(), 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        bytes.extend_from_slice(page.get(..read).unwrap_or_default());
        if read < room || read == limit {
            return Ok(bytes);
        }
        (&mut &*file).seek(SeekFrom::Start(read as u64))?;
    }
    let left = limit.saturating_sub(bytes.len());
    file.take(left as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Most files kept open, where the process may have four times as many.
const MAX_KEPT: usize = 1024;

/// Files kept open between reads, in all directories, hold a share in this.
static KEPT: LazyLock<Arc<()>> = LazyLock::new(Arc::default);

/// How many files may be kept open.
static MAY_KEEP: LazyLock<usize> = LazyLock::new(|| may_open(4, MAX_KEPT));

/// How many files may be open for one purpose: the process's limit, divided, and `most` at most.
pub fn may_open(divisor: u64, most: usize) -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft);
    usize::try_from(limit / divisor).map_or(most, |files| files.min(most))
}

/// Device, inode and moment of the last change of a directory.
type DirectoryId = (u64, u64, i64, i64);

/// A directory whose files are read again and again: its names are listed and its files opened once.
///
/// Each round of reads begins with [`Directory::begin`], which starts over if another directory is at
/// the path now, or entries came, went or were replaced. sysfs does not stamp its directories, and need
/// not: a file of a device that is gone answers ENODEV, and is then opened by its path.
#[derive(Debug, Default)]
pub struct Directory {
    /// The directory's path below the root.
    pub path: PathBuf,
    identity: Option<DirectoryId>,
    names: Option<Vec<String>>,
    files: BTreeMap<String, (File, Arc<()>)>,
}

impl Directory {
    /// A directory below the root; nothing is opened yet.
    pub fn new(path: PathBuf) -> Self {
        Directory {
            path,
            ..Directory::default()
        }
    }

    /// Begins a round of reads. True if it is the directory of the last round, and has not changed.
    pub fn begin(&mut self, host: &Host) -> bool {
        let meta = std::fs::metadata(host.path(&self.path));
        let identity = meta.as_ref().ok().and_then(identity);
        let stands = identity.is_some() && identity == self.identity;
        if !stands {
            let gone = meta.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            self.names = gone.then(Vec::new);
            self.files.clear();
        }
        self.identity = identity;
        stands
    }

    /// Names in it, sorted.
    pub fn names(&mut self, host: &Host) -> Reading<Vec<String>> {
        if let Some(names) = &self.names {
            return Reading::Value(names.clone());
        }
        let names = list(host, &self.path);
        self.names = names.value().cloned();
        names
    }

    /// Raw bytes of a file in it, at most `limit`, with the system's own error.
    ///
    /// # Errors
    /// As [`read_raw`].
    pub fn read_raw(&mut self, host: &Host, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        if let Some((kept, _)) = self.files.get(name) {
            let answer = read_at_most(kept, limit, true);
            if !matches!(&answer, Err(error) if error.raw_os_error() == Some(libc::ENODEV)) {
                return answer;
            }
            self.files.remove(name);
        }
        let path = self.path.join(name);
        // Where a capture records, each read goes by its path.
        let may_keep = self.identity.is_some() && host.recording().is_none();
        let files = &mut self.files;
        read_with(host, &path, |full| {
            let is_attribute = path.starts_with("sys");
            let file = open(host, full)?;
            let answer = read_at_most(&file, limit, is_attribute)?;
            if is_attribute && may_keep && Arc::strong_count(&KEPT) <= *MAY_KEEP {
                files.insert(name.to_string(), (file, Arc::clone(&KEPT)));
            }
            Ok(answer)
        })
    }

    /// Text of a file in it, as [`read_text`].
    pub fn read_text(&mut self, host: &Host, name: &str) -> Reading<String> {
        let read = self.read_raw(host, name, MAX_FILE);
        answer(read, || host.path(self.path.join(name))).map(text)
    }
}

/// What a directory is now; none of one that changed within the present tick of the clock that stamps
/// it, since a later change could leave the same stamp.
fn identity(meta: &Metadata) -> Option<DirectoryId> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE).ok()?;
    let changed = (meta.mtime(), meta.mtime_nsec());
    let settled = changed < (now.tv_sec(), now.tv_nsec());
    settled.then_some((meta.dev(), meta.ino(), changed.0, changed.1))
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
    text.and_then(|text| parse_u64(&text, || path.as_ref().into()))
}

/// Raw bytes of a file below the root, at most `limit`.
pub fn read_bytes(host: &Host, path: impl AsRef<Path>, limit: usize) -> Reading<Vec<u8>> {
    answer(read_raw(host, &path, limit), || host.path(&path))
}

/// Raw bytes of a file below the root with the system's own error.
///
/// # Errors
/// What opening or reading answered, or the errno recorded for a captured tree.
pub fn read_raw(host: &Host, path: impl AsRef<Path>, limit: usize) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    read_with(host, path, |full| {
        read_at_most(&open(host, full)?, limit, path.starts_with("sys"))
    })
}

fn read_with(
    host: &Host,
    path: &Path,
    read: impl FnOnce(&Path) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<u8>> {
    let full = host.path(path);
    let read = || {
        host.check_errno(&full)?;
        read(&full)
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
        host.check_errno(&path)?;
        host.check_inside(|| std::fs::canonicalize(&path))?;
        let mut names = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "the one lister of kernel files")]
        for entry in std::fs::read_dir(&path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    };
    let names = read();
    if let (Ok(names), Some(recording)) = (&names, host.recording()) {
        recording.children(host, &path, names);
    }
    answer(names, || path)
}

/// Names in a directory below the root, sorted; none where it cannot be listed.
pub fn names(host: &Host, path: impl AsRef<Path>) -> Vec<String> {
    list(host, path).into_value().unwrap_or_default()
}

/// Target of a symbolic link below the root, as written (not followed).
pub fn link(host: &Host, path: impl AsRef<Path>) -> Reading<PathBuf> {
    let path = noted(host, path);
    answer(std::fs::read_link(&path), || path)
}

/// Last component of a symbolic link's target: the driver behind `device/driver`, say.
pub fn link_name(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    let target = link(host, path).into_value()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// A path with every link followed, relative to the root; none if it leaves the root or is missing.
pub fn canonical(host: &Host, path: impl AsRef<Path>) -> Option<PathBuf> {
    let full = std::fs::canonicalize(noted(host, path)).ok()?;
    Some(full.strip_prefix(host.real_root()?).ok()?.to_path_buf())
}

/// The inode number of what a path below the root leads to.
pub fn inode(host: &Host, path: impl AsRef<Path>) -> Option<u64> {
    let path = noted(host, path);
    host.check_errno(&path).ok()?;
    Some(std::fs::metadata(path).ok()?.ino())
}

/// Whether something exists at a path below the root.
pub fn exists(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(noted(host, path)).is_ok()
}

/// Bytes of what a container names by its own absolute path; absent where nothing is there. Only a regular
/// file is read: links below another root point out of it, and still are the container's own.
pub fn read_regular(host: &Host, path: &str, limit: usize) -> Reading<Vec<u8>> {
    let path = path.trim_start_matches('/');
    if path.is_empty() || !exists(host, path) {
        return Reading::Absent;
    }
    match is_file(host, path) {
        true => read_bytes(host, path, limit),
        false => Reading::malformed("not a regular file"),
    }
}

/// Whether a regular file, or a link to one, is at a path below the root: one that can be read
/// to its end.
pub fn is_file(host: &Host, path: impl AsRef<Path>) -> bool {
    std::fs::metadata(noted(host, path)).is_ok_and(|meta| meta.is_file())
}

/// An unsigned decimal as sysfs prints counters. The text `N/A (no PMA)` of older kernels means
/// not observable.
pub fn parse_u64(text: &str, path: impl FnOnce() -> PathBuf) -> Reading<u64> {
    let text = text.trim();
    if text.starts_with("N/A") {
        return Reading::NotObservable;
    }
    let odd = |_| format!("{}: not a number", path().display());
    Reading::parsed(text.parse().map_err(odd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Fault;

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

    /// A directory of the tree, read until its change is a tick old and its files are kept.
    fn settled(host: &Host, path: &str) -> Directory {
        let mut directory = Directory::new(path.into());
        while directory.files.is_empty() {
            directory.begin(host);
            directory.read_text(host, "one");
        }
        directory
    }

    #[test]
    fn a_kept_file_shows_what_is_there_now() {
        let dir = tempfile::tempdir().unwrap();
        let counters = dir.path().join("sys/counters");
        let write = |name: &str, text: &str| std::fs::write(counters.join(name), text).unwrap();
        let host = Host::new(dir.path());
        std::fs::create_dir_all(&counters).unwrap();
        write("one", "1\n");
        let mut kept = settled(&host, "sys/counters");
        let mut read = |host: &Host| {
            kept.begin(host);
            let names = kept.names(host).value().map_or(0, Vec::len);
            (names, kept.read_text(host, "one").into_value())
        };
        let long = "2".repeat(5000);
        write("one", &long);
        assert_eq!(read(&host), (1, Some(long)), "written over");
        write("one.new", "3");
        std::fs::rename(counters.join("one.new"), counters.join("one")).unwrap();
        write("two", "4");
        assert_eq!(
            read(&host),
            (2, Some("3".into())),
            "replaced, and another came"
        );
        std::fs::rename(&counters, dir.path().join("sys/old")).unwrap();
        assert_eq!(read(&host), (0, None), "gone");
        std::fs::create_dir_all(&counters).unwrap();
        write("one", "5");
        assert_eq!(read(&host), (1, Some("5".into())), "another directory");
    }

    #[test]
    fn what_is_kept_open_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("sys")).unwrap();
        std::fs::write(dir.path().join("sys/one"), "1\n").unwrap();
        let directory = settled(&Host::new(dir.path()), "sys");
        let file = &directory.files["one"].0;
        assert!(Arc::strong_count(&KEPT) > 1);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        assert!(Path::new(&path).exists());
        drop(directory);
        let still = std::fs::read_link(path).ok();
        assert_ne!(still, Some(dir.path().join("sys/one")));
    }

    #[test]
    fn links_of_a_tree_are_followed_inside_it_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        std::fs::create_dir_all(root.join("sys")).unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        std::fs::write(root.join("sys/one"), "1").unwrap();
        for (name, target, read) in [
            ("inside", "../sys/one", true),
            ("sibling", "../../secret", false),
            ("absolute", "/proc/self/status", false),
        ] {
            std::os::unix::fs::symlink(target, root.join("sys").join(name)).unwrap();
            let text = read_text(&Host::new(&root), format!("sys/{name}"));
            assert_eq!(text.value().is_some(), read, "{name}: {text:?}");
        }
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        let listed = list(&Host::new(&root), "up");
        assert!(matches!(listed, Reading::Failed(_)), "{listed:?}");
    }

    #[test]
    fn numbers() {
        let path = || "x".into();
        assert_eq!(parse_u64("12\n", path), Reading::Value(12));
        assert_eq!(parse_u64("N/A (no PMA)", path), Reading::NotObservable);
        assert!(matches!(parse_u64("", path), Reading::Failed(_)));
        assert!(matches!(parse_u64("-1", path), Reading::Failed(_)));
    }
}
