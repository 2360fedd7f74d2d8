//! Attributes that are read again and again, descriptors kept open where that is safe.
//!
//! On sysfs the kernel makes the text anew at each read from offset 0, so that one pread is a
//! sample. In a directory tree, files may be replaced: there a descriptor is good for as long as
//! its [`Directory`](super::directory::Directory) did not change.

use super::directory::{Epoch, Kept};
use super::tree::{classify, open_quietly, parse_u64};
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Attributes are at most a page.
const PAGE: usize = 4096;

/// One attribute.
#[derive(Debug)]
pub struct Attribute {
    path: PathBuf,
    kept: Option<Kept>,
    errno: Option<i32>,
}

impl Attribute {
    /// An attribute at `path` below the root; nothing is opened yet.
    pub fn new(host: &Host, path: impl AsRef<Path>) -> Self {
        Attribute {
            path: host.path(path),
            kept: None,
            errno: None,
        }
    }

    /// The system's error number behind the last read, if that failed in the system: what
    /// [`classify`] folds together, a caller may have to tell apart.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// Reads by way of `buffer` and gives the trimmed text. `epoch`: its directory's present age.
    pub fn read<'b>(
        &mut self,
        host: &Host,
        epoch: Epoch,
        buffer: &'b mut Vec<u8>,
    ) -> Reading<&'b str> {
        self.errno = None;
        let filled = match self.fill(host, epoch, buffer) {
            Ok(filled) => filled,
            Err(error) => {
                self.errno = error.raw_os_error();
                // A stale descriptor answers ENODEV for ever: open anew next time.
                self.kept = None;
                return classify(&error, &self.path);
            }
        };
        match std::str::from_utf8(buffer.get(..filled).unwrap_or_default()) {
            Ok(text) => Reading::Value(text.trim_end()),
            Err(_) => Reading::Failed(Fault {
                kind: FaultKind::Malformed,
                detail: format!("{}: not text", self.path.display()),
            }),
        }
    }

    /// Reads an unsigned decimal.
    pub fn read_u64(&mut self, host: &Host, epoch: Epoch, buffer: &mut Vec<u8>) -> Reading<u64> {
        match self.read(host, epoch, buffer) {
            Reading::Value(text) => parse_u64(text, &self.path),
            Reading::Absent => Reading::Absent,
            Reading::NotObservable => Reading::NotObservable,
            Reading::Failed(fault) => Reading::Failed(fault),
        }
    }

    fn fill(&mut self, host: &Host, epoch: Epoch, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if buffer.len() < PAGE {
            buffer.resize(PAGE, 0);
        }
        if let Some(kept) = &self.kept {
            if host.is_live() || kept.epoch == epoch {
                return read_page(&kept.file, host, buffer);
            }
            self.kept = None;
        }
        host.errnos().check(&self.path)?;
        // What is no plain file in a tree (a link to a file that may be replaced elsewhere) is not
        // kept: its directory would not tell.
        let keep = host.is_live()
            || std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_file());
        let file = open_quietly(&self.path)?;
        let filled = read_page(&file, host, buffer);
        if filled.is_ok() && keep && host.budget().take() {
            self.kept = Some(Kept::new(file, epoch, host));
        }
        filled
    }
}

/// Reads a page at most: one pread is the whole text.
fn read_page(file: &File, host: &Host, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..) {
        let room = rest.len();
        let got = file.read_at(rest, filled as u64)?;
        filled += got;
        // A short read of a regular file is its end too.
        if host.is_live() || got < room || room == 0 {
            break;
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::directory::Directory;
    use std::fs::{remove_file, rename, write};

    #[test]
    fn an_attribute_sees_a_replaced_file() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(dir.path());
        let mut directory = Directory::new(&host, "");
        let mut attribute = Attribute::new(&host, "state");
        let mut buffer = Vec::new();
        let mut read = |want: Reading<&str>| {
            let epoch = directory.epoch(&host);
            assert_eq!(attribute.read(&host, epoch, &mut buffer), want);
        };
        read(Reading::Absent);
        write(dir.path().join("state"), "4: ACTIVE\n").unwrap();
        read(Reading::Value("4: ACTIVE"));
        write(dir.path().join("state"), "1: DOWN\n").unwrap();
        read(Reading::Value("1: DOWN"));
        for round in ["2: INIT", "3: ARMED", "4: ACTIVE"] {
            write(dir.path().join("new"), round).unwrap();
            rename(dir.path().join("new"), dir.path().join("state")).unwrap();
            read(Reading::Value(round));
        }
        remove_file(dir.path().join("state")).unwrap();
        read(Reading::Absent);
    }

    #[test]
    fn a_kept_descriptor_reads_what_was_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("n"), "1000\n").unwrap();
        let host = Host::new(dir.path());
        let mut attribute = Attribute::new(&host, "n");
        let mut buffer = Vec::new();
        let left = || host.budget().left();
        let all = left();
        let epoch = Epoch::of(1);
        assert_eq!(
            attribute.read_u64(&host, epoch, &mut buffer),
            Reading::Value(1000)
        );
        assert_eq!(left(), all - 1, "kept");
        write(dir.path().join("n"), "7\n").unwrap();
        assert_eq!(
            attribute.read_u64(&host, epoch, &mut buffer),
            Reading::Value(7)
        );
        write(dir.path().join("m"), "8\n").unwrap();
        rename(dir.path().join("m"), dir.path().join("n")).unwrap();
        assert_eq!(
            attribute.read_u64(&host, Epoch::of(2), &mut buffer),
            Reading::Value(8)
        );
        drop(attribute);
        assert_eq!(left(), all, "given back");
    }

    #[test]
    fn without_budget_a_file_is_opened_each_time() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("n"), "5\n").unwrap();
        let host = Host::new(dir.path());
        host.budget().set(0);
        let mut attribute = Attribute::new(&host, "n");
        let mut buffer = Vec::new();
        for _ in 0..2 {
            assert_eq!(
                attribute.read_u64(&host, Epoch::of(1), &mut buffer),
                Reading::Value(5)
            );
            assert!(attribute.kept.is_none());
        }
    }

    #[test]
    fn more_than_a_page_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("n"), "x".repeat(3 * PAGE)).unwrap();
        let host = Host::new(dir.path());
        let mut buffer = Vec::new();
        let mut attribute = Attribute::new(&host, "n");
        let text = attribute
            .read(&host, Epoch::of(1), &mut buffer)
            .map(str::len);
        assert_eq!(text, Reading::Value(PAGE));
    }
}
