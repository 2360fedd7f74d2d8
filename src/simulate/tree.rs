//! A directory tree as a value, and the one writer that brings a directory into that state.
//! Each file changes in one step, so that a reader never sees half a value.

use crate::host::ERRNO_FILE;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Where new text is written before it is renamed into place. A sibling of `sys`, so that no listing
/// of a kernel directory shows a half-written name.
const SCRATCH: &str = ".scratch";

/// What a path holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeEntry {
    File(Vec<u8>),
    /// A symbolic link to another path below the root.
    Link(String),
    Dir,
    /// A file that answers with an errno, under this path and under an alias. A directory cannot
    /// hold such a file: a dangling link takes its place, so that a reader which ignores the errno
    /// list finds no number instead of a wrong one.
    Errno {
        errno: i32,
        alias: String,
    },
}

/// Entries by their path below the root.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree(BTreeMap<String, TreeEntry>);

impl Tree {
    /// Entries of a text, a line each, of a directory that a line `[DIRECTORY]` names (`[]` is the root).
    ///
    /// - `NAME = TEXT`: a file of one line, which a line `|TEXT` after it prolongs
    /// - `NAME`: an empty file
    /// - `NAME/`: a directory
    /// - `NAME -> PATH`: a symbolic link
    /// - `NAME ! ERRNO PATH`: a file that answers with an errno, under its path and under this one
    pub(super) fn parse(text: &str) -> Tree {
        let mut tree = Tree::default();
        let (mut dir, mut last) = ("", String::new());
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(more) = line.strip_prefix('|') {
                if let Some(TreeEntry::File(bytes)) = tree.0.get_mut(&last) {
                    bytes.extend(more.bytes().chain(*b"\n"));
                }
            } else if let Some(name) = line.strip_prefix('[') {
                dir = name.trim_end_matches(']');
            } else {
                let (name, entry) = TreeEntry::parse(line);
                last = format!("{dir}/{name}").trim_matches('/').to_string();
                tree.0.insert(last.clone(), entry);
            }
        }
        tree
    }

    pub(super) fn file(&mut self, path: String, bytes: Vec<u8>) {
        self.0.insert(path, TreeEntry::File(bytes));
    }
}

impl TreeEntry {
    fn parse(line: &str) -> (&str, TreeEntry) {
        if let Some((name, text)) = line.split_once(" =") {
            let text = text.strip_prefix(' ').unwrap_or(text);
            return (name, TreeEntry::File(format!("{text}\n").into_bytes()));
        }
        if let Some((name, to)) = line.split_once(" -> ") {
            return (name, TreeEntry::Link(to.to_string()));
        }
        if let Some((name, answer)) = line.split_once(" ! ") {
            let (errno, alias) = answer.split_once(' ').unwrap_or_default();
            let (errno, alias) = (errno.parse().unwrap_or_default(), alias.to_string());
            return (name, TreeEntry::Errno { errno, alias });
        }
        match line.ends_with('/') {
            true => (line, TreeEntry::Dir),
            false => (line, TreeEntry::File(Vec::new())),
        }
    }
}

impl FromIterator<Tree> for Tree {
    fn from_iter<I: IntoIterator<Item = Tree>>(trees: I) -> Self {
        Tree(trees.into_iter().flat_map(|tree| tree.0).collect())
    }
}

/// Writes trees below a directory that stands for `/`.
#[derive(Debug)]
pub(super) struct TreeWriter {
    root: PathBuf,
    /// Directories that stay when their last entry goes.
    kept: BTreeSet<String>,
    errnos: BTreeMap<String, i32>,
}

impl TreeWriter {
    pub(super) fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(root.join(SCRATCH))?;
        let writer = TreeWriter {
            root,
            kept: BTreeSet::new(),
            errnos: BTreeMap::new(),
        };
        writer.write_errnos()?;
        Ok(writer)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Turns `old`, which is there, into `new`. Links in `sys/class` come last and go first, as a
    /// device appears and vanishes.
    pub(super) fn update(&mut self, old: &Tree, new: &Tree) -> io::Result<()> {
        let errnos = self.errnos.clone();
        for (path, entry) in &old.0 {
            let stays = new.0.get(path);
            if stays == Some(entry) {
                continue;
            }
            if let TreeEntry::Errno { alias, .. } = entry {
                self.errnos.remove(path);
                self.errnos.remove(alias);
            }
            if stays.is_none() {
                self.remove(path, entry)?;
            }
        }
        for (path, entry) in new.0.iter().rev() {
            let before = old.0.get(path);
            if before != Some(entry) {
                self.write(path, entry, before.is_some())?;
            }
        }
        if errnos != self.errnos {
            self.write_errnos()?;
        }
        Ok(())
    }

    fn write(&mut self, path: &str, entry: &TreeEntry, exists: bool) -> io::Result<()> {
        let at = self.root.join(path);
        make_parent(&at)?;
        match entry {
            TreeEntry::File(bytes) if exists => self.replace(path, bytes),
            TreeEntry::File(bytes) => std::fs::write(at, bytes),
            TreeEntry::Dir => {
                self.kept.insert(path.to_string());
                std::fs::create_dir_all(at)
            }
            TreeEntry::Link(to) => symlink(relative(Path::new(path), Path::new(to)), &at),
            TreeEntry::Errno { errno, alias } => {
                self.errnos.insert(path.to_string(), *errno);
                self.errnos.insert(alias.clone(), *errno);
                symlink(format!("errno-{errno}").into(), &at)
            }
        }
    }

    /// Replaces a file in one step.
    fn replace(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let scratch = self.root.join(SCRATCH).join("new");
        std::fs::write(&scratch, bytes)?;
        std::fs::rename(&scratch, self.root.join(path))
    }

    /// Removes an entry, and the directories that it leaves empty.
    fn remove(&mut self, path: &str, entry: &TreeEntry) -> io::Result<()> {
        if *entry == TreeEntry::Dir {
            self.kept.remove(path);
            let _ = std::fs::remove_dir(self.root.join(path));
        } else {
            std::fs::remove_file(self.root.join(path))?;
        }
        let mut parent = path.rsplit_once('/');
        while let Some((dir, _)) = parent {
            if self.kept.contains(dir) || std::fs::remove_dir(self.root.join(dir)).is_err() {
                break;
            }
            parent = dir.rsplit_once('/');
        }
        Ok(())
    }

    /// Removes a directory with all that it holds; its absence is fine.
    pub(super) fn remove_all(&self, path: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(self.root.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Appends to a file with one write.
    pub(super) fn append(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        let path = self.root.join(path);
        make_parent(&path)?;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(path)?;
        file.write_all(text.as_bytes())
    }

    /// Lets a path answer with an errno, whether it exists or not.
    pub(super) fn refuse(&mut self, path: &str, errno: i32) -> io::Result<()> {
        self.errnos.insert(path.to_string(), errno);
        self.write_errnos()
    }

    /// Writes the list of errnos; agents read it when they start.
    fn write_errnos(&self) -> io::Result<()> {
        let line = |(path, errno): (&String, &i32)| format!("{errno} {path}\n");
        let text: String = self.errnos.iter().map(line).collect();
        self.replace(ERRNO_FILE, text.as_bytes())
    }
}

fn symlink(target: PathBuf, at: &Path) -> io::Result<()> {
    match std::fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(target, at)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// The text of a link at `at` that leads to `to`, both relative to one root. As in the kernel
/// (fs/kernfs/symlink.c) it always ends in the target's own name.
fn relative(at: &Path, to: &Path) -> PathBuf {
    let from: Vec<Component> = at.parent().unwrap_or(Path::new("")).components().collect();
    let to: Vec<Component> = to.components().collect();
    let above = to.len().saturating_sub(1);
    let pairs = from.iter().zip(to.iter().take(above));
    let shared = pairs.take_while(|(a, b)| a == b).count();
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
            let got = relative(Path::new(at), Path::new(to));
            assert_eq!(got, Path::new(want), "{at}");
        }
    }

    #[test]
    fn an_errno_reaches_the_agent_and_leaves_no_number_for_other_readers() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TreeWriter::new(dir.path()).unwrap();
        let tree = Tree::parse("[sys/a]\nx ! 22 sys/b/x");
        writer.update(&Tree::default(), &tree).unwrap();
        assert!(std::fs::read(dir.path().join("sys/a/x")).is_err());
        let host = crate::host::Host::new(dir.path());
        for path in ["sys/a/x", "sys/b/x"] {
            assert_eq!(
                crate::source::tree::read_text(&host, path),
                crate::observe::Reading::NotObservable,
                "{path}"
            );
        }
    }

    #[test]
    fn what_a_new_tree_lacks_is_removed_with_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TreeWriter::new(dir.path()).unwrap();
        let tree = Tree::parse("[sys]\nkept/\nkept/gone/deep/x = 1");
        writer.update(&Tree::default(), &tree).unwrap();
        let less = Tree::parse("[sys]\nkept/");
        writer.update(&tree, &less).unwrap();
        assert!(dir.path().join("sys/kept").exists());
        assert!(!dir.path().join("sys/kept/gone").exists());
    }
}
