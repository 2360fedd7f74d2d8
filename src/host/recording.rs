//! What was read below a host's root, kept so that `selvage capture` can write it as a tree that
//! answers every source as the node did.
//!
//! The one opener of kernel files, `source/tree.rs`, reports each path here. Links are recorded on
//! the way, so that addresses and names resolve in the copy as they did on the node.

use super::Host;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Symbolic links followed for one path, as the kernel bounds them.
const MAX_LINKS: usize = 40;

/// What a path of the captured tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// A directory that was looked into or passed.
    Directory,
    /// A symbolic link with its target, as written.
    Link(PathBuf),
    /// A file with its content; `None` until it was read.
    File(Option<Vec<u8>>),
}

/// Entries by their real place below the root, and errors by the path that was asked for.
#[derive(Debug, Default, Clone)]
pub struct Recorded {
    /// Directories, links and files, by real place.
    pub entries: BTreeMap<PathBuf, Stored>,
    /// Paths whose reading answered with an errno, or has not answered yet (`ETIMEDOUT`).
    pub errnos: BTreeMap<PathBuf, i32>,
    /// Files opened so far.
    pub opened: usize,
}

/// A capture in progress, shared by all readers.
#[derive(Debug, Default)]
pub struct Recording(Mutex<Recorded>);

impl Recording {
    /// What has been recorded so far.
    pub fn recorded(&self) -> Recorded {
        self.lock().clone()
    }

    /// Each step of a recording is whole, whatever happened to the thread that made it.
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what is at a path without reading it.
    pub(crate) fn path(&self, host: &Host, path: &Path) {
        let mut recorded = self.lock();
        if let Some(place) = recorded.walk(host.root(), path)
            && let Ok(meta) = std::fs::symlink_metadata(host.path(&place))
            && !recorded.entries.contains_key(&place)
        {
            let entry = match meta.is_dir() {
                true => Stored::Directory,
                false => Stored::File(None),
            };
            recorded.entries.insert(place, entry);
        }
    }

    /// Records which links and directories a directory holds: a replay lists those too. Its files
    /// are recorded as they are read.
    pub(crate) fn children(&self, host: &Host, directory: &Path, names: &[String]) {
        let Ok(directory) = directory.strip_prefix(host.root()) else {
            return;
        };
        for name in names {
            let path = directory.join(name);
            let meta = std::fs::symlink_metadata(host.path(&path));
            match meta.map(|meta| meta.file_type()) {
                Ok(kind) if kind.is_dir() => self.path(host, &path),
                Ok(kind) if kind.is_symlink() => _ = self.lock().walk(host.root(), &path),
                _ => {}
            }
        }
    }

    /// Reads a file by way of `read` and records the answer. Until there is one, the path counts as
    /// timed out. What is not a regular file below the root is refused.
    pub(crate) fn file(
        &self,
        host: &Host,
        path: &Path,
        read: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let asked = path.to_path_buf();
        let refuse = |errno: Errno| {
            self.lock().errnos.insert(asked.clone(), errno as i32);
            Err(errno.into())
        };
        let place = self.lock().walk(host.root(), path);
        let known = host.check_errno(&host.path(path)).is_err();
        match (&place, std::fs::metadata(host.path(path))) {
            _ if known => {}
            (None, Ok(_)) => return refuse(Errno::EXDEV),
            (_, Ok(meta)) if !meta.is_file() && !meta.is_dir() => return refuse(Errno::ETIMEDOUT),
            _ => {}
        }
        if let Some(place) = place.as_ref().filter(|_| host.path(path).is_file()) {
            let mut recorded = self.lock();
            recorded.opened += 1;
            let unanswered = Errno::ETIMEDOUT as i32;
            recorded.errnos.insert(asked.clone(), unanswered);
            let entry = recorded.entries.entry(place.clone());
            entry.or_insert(Stored::File(None));
        }
        let answer = read();
        let mut recorded = self.lock();
        match (&answer, place) {
            (Ok(bytes), Some(place)) => {
                recorded.errnos.remove(&asked);
                let longer = |entry: &Stored| match entry {
                    Stored::File(Some(known)) => bytes.len() > known.len(),
                    _ => true,
                };
                if recorded.entries.get(&place).is_none_or(longer) {
                    let entry = Stored::File(Some(bytes.clone()));
                    recorded.entries.insert(place, entry);
                }
            }
            (Err(error), Some(place)) if !missing(error) => {
                let errno = error.raw_os_error().unwrap_or(Errno::EIO as i32);
                recorded.errnos.insert(asked, errno);
                recorded.entries.entry(place).or_insert(Stored::File(None));
            }
            _ => {
                recorded.errnos.remove(&asked);
            }
        }
        answer
    }
}

fn missing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ENOTDIR | Errno::EISDIR)
    )
}

impl Recorded {
    /// The real place of a path, every link on the way followed and recorded; none where a link
    /// leads out of the root.
    fn walk(&mut self, root: &Path, path: &Path) -> Option<PathBuf> {
        let names = |path: &Path| -> Vec<PathBuf> {
            let names = path.components().rev();
            names.map(|name| PathBuf::from(name.as_os_str())).collect()
        };
        let mut rest = names(path);
        let mut place = PathBuf::new();
        let mut passed: Vec<(PathBuf, Stored)> = Vec::new();
        let mut links = 0;
        let mut inside = true;
        while let Some(next) = rest.pop() {
            match next.components().next() {
                Some(Component::Normal(name)) => place.push(name),
                Some(Component::ParentDir) if !place.as_os_str().is_empty() => {
                    place.pop();
                    continue;
                }
                Some(Component::CurDir) => continue,
                _ => inside = false,
            }
            if !inside || links > MAX_LINKS {
                // The link that leads out stays out.
                let is_link = |(_, entry): &(PathBuf, Stored)| matches!(entry, Stored::Link(_));
                let link = passed.iter().rposition(is_link);
                passed.truncate(link.unwrap_or(0));
                inside = false;
                break;
            }
            match std::fs::read_link(root.join(&place)) {
                Ok(target) => {
                    links += 1;
                    passed.push((place.clone(), Stored::Link(target.clone())));
                    place.pop();
                    rest.extend(names(&target));
                }
                Err(_) if !rest.is_empty() && root.join(&place).is_dir() => {
                    passed.push((place.clone(), Stored::Directory));
                }
                Err(_) => {}
            }
        }
        self.entries.extend(passed);
        inside.then_some(place)
    }
}
