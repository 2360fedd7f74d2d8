//! Files below a simulated root: written whole or not at all, so that a reader never sees half a value.

use crate::host::ERRNO_FILE;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Where new text is written before it is renamed into place. Beside `sys`, not within it, so that
/// no lister of a kernel directory meets a half-written name.
const SCRATCH: &str = ".scratch";

/// A directory that stands for `/`.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    serial: u64,
    errnos: BTreeMap<String, i32>,
}

impl Files {
    pub(super) fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(root.join(SCRATCH))?;
        Ok(Files {
            root,
            serial: 0,
            errnos: BTreeMap::new(),
        })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file for the first time; its directory is made.
    pub(super) fn put(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.root.join(path);
        make_parent(&path)?;
        std::fs::write(path, text)
    }

    /// Replaces a file in one step.
    pub(super) fn replace(
        &mut self,
        path: impl AsRef<Path>,
        text: impl AsRef<[u8]>,
    ) -> io::Result<()> {
        let path = self.root.join(path);
        make_parent(&path)?;
        self.serial += 1;
        let scratch = self.root.join(SCRATCH).join(self.serial.to_string());
        std::fs::write(&scratch, text)?;
        std::fs::rename(&scratch, path)
    }

    /// Adds to the end of a file with one write.
    pub(super) fn append(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        let path = self.root.join(path);
        make_parent(&path)?;
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        file.write_all(text.as_bytes())
    }

    /// A directory, perhaps empty.
    pub(super) fn dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        std::fs::create_dir_all(self.root.join(path))
    }

    /// A symbolic link to another place below the root, relative as sysfs has them.
    pub(super) fn link(&self, at: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let target = relative(at.as_ref(), to.as_ref());
        let at = self.root.join(at);
        make_parent(&at)?;
        match std::fs::remove_file(&at) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(target, at)
    }

    /// A file that answers with an errno. A directory cannot hold such a file: in its place stands
    /// a link that leads nowhere, so that a reader which knows nothing of the errno file finds no
    /// number instead of a wrong one. `also` are the other paths by which it is reached.
    pub(super) fn errno(&mut self, path: &str, also: &[String], errno: i32) -> io::Result<()> {
        let at = self.root.join(path);
        make_parent(&at)?;
        std::os::unix::fs::symlink(format!("errno-{errno}"), at)?;
        for path in also.iter().map(String::as_str).chain([path]) {
            self.errnos.insert(path.to_string(), errno);
        }
        Ok(())
    }

    /// A path, be it there or not, that answers with an errno.
    pub(super) fn refuse(&mut self, path: &str, errno: i32) -> io::Result<()> {
        self.errnos.insert(path.to_string(), errno);
        self.write_errnos()
    }

    /// Writes the list of errnos; agents read it when they start.
    pub(super) fn write_errnos(&mut self) -> io::Result<()> {
        let text: String = self
            .errnos
            .iter()
            .map(|(path, errno)| format!("{errno} {path}\n"))
            .collect();
        self.replace(ERRNO_FILE, text)
    }

    /// Removes a file, a link or a whole directory; nothing there is fine.
    pub(super) fn remove(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let full = self.root.join(path);
        let prefix = format!("{}/", path.display());
        self.errnos
            .retain(|known, _| !known.starts_with(&prefix) && Path::new(known) != path);
        let meta = match std::fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if !meta.is_dir() {
            return std::fs::remove_file(full);
        }
        // Out of sight first: whoever lists meanwhile sees all of it or nothing.
        self.serial += 1;
        let away = self.root.join(SCRATCH).join(self.serial.to_string());
        std::fs::rename(full, &away)?;
        std::fs::remove_dir_all(away)
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => std::fs::create_dir_all(parent),
        None => Ok(()),
    }
}

/// The text of a link at `at` that leads to `to`, both relative to one root. As in the kernel
/// (fs/kernfs/symlink.c) it always ends in the target's own name.
fn relative(at: &Path, to: &Path) -> PathBuf {
    let from: Vec<Component> = at.parent().unwrap_or(Path::new("")).components().collect();
    let to: Vec<Component> = to.components().collect();
    let above = to.len().saturating_sub(1);
    let shared = from
        .iter()
        .zip(to.iter().take(above))
        .take_while(|(a, b)| a == b)
        .count();
    let mut path = PathBuf::new();
    for _ in shared..from.len() {
        path.push("..");
    }
    path.extend(to.get(shared..).unwrap_or_default());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_as_in_sysfs() {
        for (at, to, want) in [
            (
                "sys/class/net/eth0",
                "sys/devices/pci0000:00/net/eth0",
                "../../devices/pci0000:00/net/eth0",
            ),
            ("sys/devices/a/b/device", "sys/devices/a", "../../a"),
            ("proc/net", "proc/self/net", "self/net"),
        ] {
            assert_eq!(
                relative(Path::new(at), Path::new(to)),
                Path::new(want),
                "{at}"
            );
        }
    }

    #[test]
    fn an_errno_shows_to_the_agent_and_holds_no_number_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::new(dir.path()).unwrap();
        files.errno("sys/a/x", &["sys/b/x".into()], 22).unwrap();
        files.write_errnos().unwrap();
        assert!(std::fs::read(dir.path().join("sys/a/x")).is_err());
        let host = crate::host::Host::new(dir.path());
        for path in ["sys/a/x", "sys/b/x"] {
            assert_eq!(
                crate::source::tree::read_text(&host, path),
                crate::observe::reading::Reading::NotObservable,
                "{path}"
            );
        }
    }
}
