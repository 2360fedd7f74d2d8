//! Opens, lists and resolves below the root: what the kubelet's directories hold is judged here,
//! before anything is read.

use super::names::{self, Age};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Links followed on the way to one file.
const MAX_HOPS: usize = 16;

/// Names looked at in one container's directory: a kubelet keeps a handful.
const MAX_NAMES: usize = 4096;

/// One file of a container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) restart: u32,
    pub(super) age: Age,
    pub(super) compressed: bool,
    /// Where it is, links followed.
    pub(super) path: PathBuf,
    pub(super) inode: u64,
}

/// A container's files, oldest first.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    /// Logs that are no regular file, or a link that leads to none.
    pub(super) odd: Option<String>,
    /// Files of another directory are among them, whose changes this one does not show.
    pub(super) linked: bool,
}

/// Names in a directory: UTF-8 ones with their kind and inode number, `most` of them; and how many
/// others there are.
pub(super) fn names(dir: &Path, most: usize) -> io::Result<(Vec<Name>, usize)> {
    let mut found = Vec::new();
    let mut others = 0;
    #[expect(
        clippy::disallowed_methods,
        reason = "log directories are no kernel files; their errors are judged by the caller"
    )]
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        match (entry.file_name().into_string(), entry.file_type()) {
            (Ok(name), Ok(kind)) if found.len() < most => found.push(Name {
                name,
                kind,
                inode: entry.ino(),
            }),
            _ => others += 1,
        }
    }
    Ok((found, others))
}

/// A name in a directory.
pub(super) struct Name {
    pub(super) name: String,
    pub(super) kind: std::fs::FileType,
    pub(super) inode: u64,
}

/// Lists a container's directory.
pub(super) fn list(dir: &Path, root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for Name { name, kind, inode } in names(dir, MAX_NAMES)?.0 {
        let Some((restart, rest)) = names::log(&name) else {
            continue;
        };
        let Some((age, compressed)) = names::suffix(rest) else {
            continue;
        };
        let path = dir.join(&name);
        if kind.is_file() {
            listing.entries.push(Entry {
                restart,
                age,
                compressed,
                path,
                inode,
            });
        } else if kind.is_symlink() && age == Age::Live {
            match linked(&path, root, restart) {
                Ok(entries) => {
                    listing.entries.extend(entries);
                    listing.linked = true;
                }
                Err(error) => listing.odd = Some(format!("{}: {error}", path.display())),
            }
        } else {
            listing.odd = Some(format!("{}: no regular file", path.display()));
        }
    }
    (listing.entries).sort_by_key(|file| (file.restart, file.age.rank(), file.compressed));
    // While the kubelet compresses, both are there.
    (listing.entries).dedup_by_key(|file| (file.restart, file.age.rank()));
    Ok(listing)
}

/// The file that a link leads to, with the ones rotated away beside it.
fn linked(link: &Path, root: &Path, restart: u32) -> io::Result<Vec<Entry>> {
    let real = resolve(root, link)?;
    let (Some(dir), Some(base)) = (
        real.parent(),
        real.file_name().and_then(|name| name.to_str()),
    ) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut entries = Vec::new();
    let mut live = false;
    for Name { name, kind, inode } in names(dir, MAX_NAMES)?.0 {
        let parsed = name.strip_prefix(base).and_then(names::suffix);
        let (Some((age, compressed)), true) = (parsed, kind.is_file()) else {
            continue;
        };
        live |= age == Age::Live;
        entries.push(Entry {
            restart,
            age,
            compressed,
            path: dir.join(&name),
            inode,
        });
    }
    if !live {
        return Err(io::Error::other("links to no regular file"));
    }
    Ok(entries)
}

/// `path` with every link followed as the host itself would: an absolute one begins at `root`, and
/// none leads out of it. Whoever can swap directories there while this looks is root on the node.
pub(super) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let below = path.strip_prefix(root).map_err(io::Error::other)?;
    let mut left: VecDeque<OsString> = parts(below);
    let mut real = root.to_path_buf();
    let (mut depth, mut hops) = (0usize, 0);
    while let Some(part) = left.pop_front() {
        if part == ".." {
            if depth > 0 {
                real.pop();
                depth -= 1;
            }
            continue;
        }
        real.push(&part);
        depth += 1;
        let target = match std::fs::read_link(&real) {
            Ok(target) => target,
            // No link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => continue,
            Err(error) => return Err(error),
        };
        hops += 1;
        if hops > MAX_HOPS {
            return Err(nix::errno::Errno::ELOOP.into());
        }
        real.pop();
        depth -= 1;
        if target.is_absolute() {
            real = root.to_path_buf();
            depth = 0;
        }
        for part in parts(&target).into_iter().rev() {
            left.push_front(part);
        }
    }
    Ok(real)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// Opens a regular file, and nothing else: waits for no FIFO, follows no link, becomes no terminal.
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
        return Err(io::Error::other("no regular file"));
    }
    Ok((file, meta))
}

/// Changes whenever a name comes, goes or is replaced in a directory, as coarsely as its file
/// system stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64, u64, i64, i64);

/// A directory's stamp; an error where it is none.
pub(super) fn stamp(dir: &Path) -> io::Result<Stamp> {
    let meta = std::fs::symlink_metadata(dir)?;
    if !meta.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(Stamp(
        meta.dev(),
        meta.ino(),
        meta.mtime(),
        meta.mtime_nsec(),
    ))
}

/// Tells when a directory is to be listed. Two changes within one tick of the file system's clock
/// bear the same stamp, so a changed directory is listed at the next two looks as well.
#[derive(Debug, Default)]
pub(super) struct Changes {
    stamp: Option<Stamp>,
    again: u8,
}

impl Changes {
    /// Whether to list; `told` where something else says that it changed.
    pub(super) fn seen(&mut self, stamp: Stamp, told: bool) -> bool {
        if self.stamp.replace(stamp) != Some(stamp) || told {
            self.again = 2;
            return true;
        }
        let again = self.again > 0;
        self.again = self.again.saturating_sub(1);
        again
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
