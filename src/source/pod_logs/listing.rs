//! Lists, resolves and opens files below the root: what the directories hold is judged here, before
//! anything is read.

use super::names::{self, Age};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Most links followed on the way to one file.
const MAX_HOPS: usize = 16;

/// Most names read in one container's directory: a kubelet keeps a handful.
const MAX_NAMES: usize = 4096;

/// Most names examined in one directory, whether wanted or not.
const MAX_EXAMINED: usize = 1 << 20;

/// One file of a container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) restart: u32,
    pub(super) age: Age,
    pub(super) compressed: bool,
    /// Where it is, links followed.
    pub(super) path: PathBuf,
    pub(super) inode: u64,
}

/// A container's files, oldest first.
#[derive(Debug, Default)]
pub(super) struct LogListing {
    pub(super) entries: Vec<Found>,
    /// A log that is not a regular file, or a link that leads to none.
    pub(super) odd: Option<String>,
}

/// A name in a directory.
pub(super) struct Name {
    pub(super) name: String,
    pub(super) kind: FileType,
    inode: u64,
}

impl Name {
    fn entry(&self, dir: &Path, restart: u32, (age, compressed): (Age, bool)) -> Found {
        Found {
            restart,
            age,
            compressed,
            path: dir.join(&self.name),
            inode: self.inode,
        }
    }
}

/// The first `most` UTF-8 names in a directory that are wanted, and whether there may be more.
pub(super) fn names(
    dir: &Path,
    most: usize,
    wanted: impl Fn(&str) -> bool,
) -> io::Result<(Vec<Name>, bool)> {
    let mut found = Vec::new();
    // Log directories are not kernel files.
    #[expect(clippy::disallowed_methods, reason = "callers judge the errors")]
    for (number, entry) in std::fs::read_dir(dir)?.enumerate() {
        if found.len() >= most || number >= MAX_EXAMINED {
            return Ok((found, true));
        }
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let inode = entry.ino();
        if let (true, Ok(kind)) = (wanted(&name), entry.file_type()) {
            found.push(Name { name, kind, inode });
        }
    }
    Ok((found, false))
}

/// Lists a container's directory.
pub(super) fn list(dir: &Path, root: &Path) -> io::Result<LogListing> {
    let mut listing = LogListing::default();
    for found in names(dir, MAX_NAMES, |_| true)?.0 {
        let log = names::log(&found.name);
        let suffix = log.and_then(|(restart, rest)| Some((restart, names::suffix(rest)?)));
        let Some((restart, suffix)) = suffix else {
            continue;
        };
        let path = dir.join(&found.name);
        if found.kind.is_file() {
            listing.entries.push(found.entry(dir, restart, suffix));
        } else if found.kind.is_symlink() && suffix.0 == Age::Live {
            match linked(&path, root, restart) {
                Ok(entries) => listing.entries.extend(entries),
                Err(error) => listing.odd = Some(format!("{}: {error}", path.display())),
            }
        } else {
            listing.odd = Some(format!("{}: not a regular file", path.display()));
        }
    }
    let key = |file: &Found| (file.restart, file.age);
    (listing.entries).sort_by_key(|file| (key(file), file.compressed));
    // While the kubelet compresses, both are there.
    (listing.entries).dedup_by_key(|file| key(file));
    Ok(listing)
}

/// The one file of a log that is not rotated.
pub(super) fn single(path: &Path) -> io::Result<LogListing> {
    let meta = std::fs::symlink_metadata(path)?;
    let entry = Found {
        restart: 0,
        age: Age::Live,
        compressed: false,
        path: path.to_path_buf(),
        inode: meta.ino(),
    };
    Ok(LogListing {
        entries: meta.is_file().then_some(entry).into_iter().collect(),
        ..LogListing::default()
    })
}

/// The file that a link leads to, and the ones rotated away next to it.
fn linked(link: &Path, root: &Path, restart: u32) -> io::Result<Vec<Found>> {
    let real = resolve(root, link)?;
    let name = real.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some(base)) = (real.parent(), name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut entries = Vec::new();
    for found in names(dir, MAX_NAMES, |_| true)?.0 {
        let rest = found.name.strip_prefix(base);
        let rest = rest.filter(|_| found.kind.is_file());
        let suffix = rest.and_then(names::suffix);
        entries.extend(suffix.map(|suffix| found.entry(dir, restart, suffix)));
    }
    if !entries.iter().any(|entry| entry.age == Age::Live) {
        return Err(io::Error::other("links to no regular file"));
    }
    Ok(entries)
}

/// `path` with every link followed as the host itself would: an absolute target begins at `root`, and
/// none leads out of it. Only root on the node could swap directories meanwhile.
pub(super) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let below = path.strip_prefix(root).map_err(io::Error::other)?;
    let mut left: VecDeque<OsString> = parts(below).collect();
    let mut real = PathBuf::new();
    let mut hops = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(part);
        let target = match std::fs::read_link(root.join(&real)) {
            Ok(target) => target,
            // Not a link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => continue,
            Err(error) => return Err(error),
        };
        hops += 1;
        if hops > MAX_HOPS {
            return Err(nix::errno::Errno::ELOOP.into());
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::new();
        }
        left = parts(&target).chain(left).collect();
    }
    Ok(root.join(real))
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// Opens a regular file and nothing else: never waits for a FIFO, follows a link or takes a terminal.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    use nix::libc::{O_NOATIME, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};
    let plain = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    let open = |flags| File::options().read(true).custom_flags(flags).open(path);
    let file = match open(plain | O_NOATIME) {
        // Only the owner may leave the access time alone.
        Err(error) if error.raw_os_error() == Some(nix::libc::EPERM) => open(plain)?,
        other => other?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok((file, meta))
}

/// The file does not exist (any more).
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

#[cfg(test)]
mod tests;
