//! Copies single files and links from below a host's root into a directory, within bounds.

use super::reader::Reader;
use super::{CaptureError, Summary};
use crate::host::Host;
use crate::observe::reading::Reading;
use crate::source::tree;
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Longest file kept.
pub const MAX_FILE: usize = 256 << 10;

/// Most files and links of one capture.
const MAX_ENTRIES: usize = 100_000;

/// Most bytes of one capture.
const MAX_BYTES: u64 = 64 << 20;

/// Most troubles told.
const MAX_TROUBLES: usize = 32;

/// Copies into one directory.
pub struct Copier<'h> {
    /// The host that is captured.
    pub host: &'h Host,
    out: PathBuf,
    reader: Reader,
    written: BTreeSet<PathBuf>,
    errnos: BTreeSet<(PathBuf, i32)>,
    summary: Summary,
}

/// What came of copying one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// It was read and written.
    Yes,
    /// There is no such file.
    Missing,
    /// Reading answered so.
    Errno(i32),
    /// Something else was in the way.
    No,
}

impl<'h> Copier<'h> {
    /// Copies from `host` into `out`.
    pub fn new(host: &'h Host, out: &Path) -> Self {
        Copier {
            host,
            out: out.to_path_buf(),
            reader: Reader::new(host),
            written: BTreeSet::new(),
            errnos: BTreeSet::new(),
            summary: Summary::default(),
        }
    }

    /// Copies a file as the sources name it. It is written where its directory really is, and an
    /// errno is recorded under the name that it was asked by.
    pub fn file(&mut self, path: impl AsRef<Path>) -> Copied {
        self.file_up_to(path, MAX_FILE)
    }

    /// The same with another bound; a longer file is cut there.
    pub fn file_up_to(&mut self, path: impl AsRef<Path>, limit: usize) -> Copied {
        let path = path.as_ref();
        let Some(place) = self.place(path) else {
            return Copied::Missing;
        };
        // Pipes and devices would hold the reader; what a tree has recorded as an error may be no
        // file at all.
        let recorded = self.host.errnos().check(&self.host.path(path)).is_err();
        match std::fs::metadata(self.host.path(path)) {
            _ if recorded => {}
            Ok(_) if self.leads_out(path) => return self.left_out(path, Errno::EXDEV),
            Ok(metadata) if metadata.is_dir() => {
                self.directory(path);
                return Copied::No;
            }
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return self.left_out(path, Errno::ETIMEDOUT),
            Err(_) => return Copied::Missing,
        }
        match self.reader.read(path, limit) {
            Ok(bytes) => match self.write(&place, &bytes) {
                Copied::No => self.left_out(path, Errno::EFBIG),
                copied => copied,
            },
            Err(error) => match error.raw_os_error() {
                Some(errno) if errno != Errno::ENOENT as i32 => {
                    self.refused(path, errno);
                    Copied::Errno(errno)
                }
                _ => Copied::Missing,
            },
        }
    }

    /// Whether a link leads to a file that is not below the root: somebody else's.
    fn leads_out(&self, path: &Path) -> bool {
        let full = self.host.path(path);
        std::fs::symlink_metadata(full).is_ok_and(|meta| meta.is_symlink())
            && tree::canonical(self.host, path).is_none()
    }

    /// Tells a replay that there was more than it has.
    fn left_out(&mut self, path: &Path, errno: Errno) -> Copied {
        self.errnos.insert((path.to_path_buf(), errno as i32));
        Copied::No
    }

    /// Several files of one directory.
    pub fn files(&mut self, dir: impl AsRef<Path>, names: &[&str]) {
        for name in names {
            self.file(dir.as_ref().join(name));
        }
    }

    /// Records that reading `path` answers with `errno`, with an empty file in its place.
    pub fn refused(&mut self, path: &Path, errno: i32) {
        if let Some(place) = self.place(path) {
            self.write(&place, b"");
            self.errnos.insert((path.to_path_buf(), errno));
        }
    }

    /// Writes a text of the capture's own at `path`.
    pub fn text(&mut self, path: impl AsRef<Path>, text: &str) {
        self.write(path.as_ref(), text.as_bytes());
    }

    /// Makes a directory, where the host has one.
    pub fn directory(&mut self, path: impl AsRef<Path>) {
        let Some(place) = tree::canonical(self.host, path.as_ref()) else {
            return;
        };
        if self.host.path(&place).is_dir() && self.room(0) {
            let made = std::fs::create_dir_all(self.out.join(&place));
            self.note(&place, made);
        }
    }

    /// Makes a symbolic link anew, if it is one and leads nowhere outside of the root.
    pub fn link(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let (Reading::Value(target), Some(place)) = (tree::link(self.host, path), self.place(path))
        else {
            return;
        };
        let from = place.parent().unwrap_or(Path::new(""));
        if !stays_inside(from, &target) || !self.written.insert(place.clone()) || !self.room(0) {
            return;
        }
        let destination = self.out.join(&place);
        let made = make_parent(&destination)
            .and_then(|()| std::os::unix::fs::symlink(&target, &destination));
        if self.note(&place, made) {
            self.summary.links += 1;
        }
    }

    /// Names in a directory of the host; none if it cannot be listed, which is recorded.
    pub fn list(&mut self, path: impl AsRef<Path>) -> Vec<String> {
        self.directory(&path);
        match tree::list(self.host, path) {
            Reading::Value(names) => names,
            _ => Vec::new(),
        }
    }

    /// Writes the errors down and tells what was done.
    pub fn finish(mut self) -> Result<Summary, CaptureError> {
        self.summary.errnos = self.errnos.len();
        if !self.errnos.is_empty() {
            let text: String = self
                .errnos
                .iter()
                .map(|(path, errno)| format!("{errno} {}\n", path.display()))
                .collect();
            let path = self.out.join(tree::ERRNO_FILE);
            std::fs::write(&path, text)
                .map_err(|source| CaptureError::Unwritable { path, source })?;
        }
        Ok(self.summary)
    }

    /// Where a path really lies: its directory with every link followed, and its name.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        let parent = tree::canonical(self.host, path.parent()?)?;
        Some(parent.join(path.file_name()?))
    }

    fn write(&mut self, place: &Path, bytes: &[u8]) -> Copied {
        if !self.written.insert(place.to_path_buf()) {
            return Copied::Yes;
        }
        if !self.room(bytes.len() as u64) {
            return Copied::No;
        }
        let destination = self.out.join(place);
        let made = make_parent(&destination).and_then(|()| std::fs::write(&destination, bytes));
        if !self.note(place, made) {
            return Copied::No;
        }
        self.summary.files += 1;
        self.summary.bytes += bytes.len() as u64;
        Copied::Yes
    }

    fn room(&mut self, bytes: u64) -> bool {
        let room = self.summary.files + self.summary.links < MAX_ENTRIES
            && self.summary.bytes + bytes <= MAX_BYTES;
        if !room {
            self.summary.left_out += 1;
        }
        room
    }

    fn note(&mut self, place: &Path, made: io::Result<()>) -> bool {
        if let Err(error) = &made
            && self.summary.troubles.len() < MAX_TROUBLES
        {
            let trouble = format!("{}: {error}", place.display());
            self.summary.troubles.push(trouble);
        }
        made.is_ok()
    }
}

fn make_parent(destination: &Path) -> io::Result<()> {
    destination.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Whether a link's target, seen from its directory below the root, stays below the root.
fn stays_inside(from: &Path, target: &Path) -> bool {
    let mut depth = 0usize;
    for component in from.join(target).components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside() {
        for (from, target, want) in [
            ("sys/class/net", "../../devices/virtual/net/lo", true),
            ("sys", "..", true),
            ("sys", "../..", false),
            ("sys", "/etc/shadow", false),
            ("sys/a", "../../../etc", false),
        ] {
            assert_eq!(
                stays_inside(Path::new(from), Path::new(target)),
                want,
                "{target}"
            );
        }
    }
}
