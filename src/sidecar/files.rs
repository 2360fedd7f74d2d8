//! The log files of a directory: each NCCL process writes one (`NCCL_DEBUG_FILE`), `%h.%p.log` or
//! with the container's name in front.

use crate::observe::nccl::NcclLog;
use crate::observe::nccl::log::Limits;
use crate::source::nccl::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files followed; a node has 8 or 16 GPUs, and a process a GPU.
const MAX_FILES: usize = 1024;

/// Containers told apart, by the names of files.
const MAX_CONTAINERS: usize = 16;

/// Bytes of one file taken before the others have their turn.
const SHARE: u64 = 4 << 20;

/// Bytes read at once.
const PIECE: usize = 64 * 1024;

/// Its presence says that the job is done.
const DONE: &str = "done";

/// One file.
struct Followed {
    inode: u64,
    offset: u64,
    reader: Reader,
}

/// What one look found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Bytes read.
    pub bytes: u64,
    /// More is there than one look takes.
    pub more: bool,
    /// Why the directory or a file cannot be read.
    pub fault: Option<String>,
}

/// The files and what they come to, by container (empty where names do not tell).
pub struct Files {
    dir: PathBuf,
    /// Container of files whose names tell none.
    container: String,
    files: BTreeMap<String, Followed>,
    logs: BTreeMap<String, NcclLog>,
    piece: Vec<u8>,
    done: bool,
}

impl Files {
    /// Files below a directory; nothing is opened yet.
    pub fn new(dir: &Path, container: &str) -> Self {
        Files {
            dir: dir.to_path_buf(),
            container: container.to_string(),
            files: BTreeMap::new(),
            logs: BTreeMap::new(),
            piece: vec![0; PIECE],
            done: false,
        }
    }

    /// What each container's files come to.
    pub fn logs(&self) -> &BTreeMap<String, NcclLog> {
        &self.logs
    }

    /// Whether somebody has told that the job is done.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Processes whose files there are, by the names of those.
    pub fn pids(&self) -> BTreeSet<u32> {
        self.files.keys().filter_map(|name| pid_of(name)).collect()
    }

    /// Takes in what is new. What cannot be read stops no other.
    pub fn look(&mut self, read_at: Option<jiff::Timestamp>) -> Look {
        let mut look = Look::default();
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => {
                look.fault = Some(format!("{}: {error}", self.dir.display()));
                return look;
            }
        };
        self.files.retain(|name, _| names.contains(name));
        for name in names {
            if let Err(error) = self.follow(&name, read_at, &mut look)
                && error.kind() != io::ErrorKind::NotFound
            {
                look.fault = Some(format!("{name}: {error}"));
            }
        }
        look
    }

    /// Ends what is not ended by a newline: nobody writes any more.
    pub fn finish(&mut self) {
        for (name, followed) in &mut self.files {
            if let Some(log) = self
                .logs
                .get_mut(container_of(name).unwrap_or(&self.container))
            {
                followed.reader.finish(log, None);
            }
        }
    }

    fn names(&mut self) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the directory shared with the job"
        )]
        let entries = fs::read_dir(&self.dir)?;
        for entry in entries.flatten().take(4 * MAX_FILES) {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name == DONE {
                self.done |= entry.file_type().is_ok_and(|kind| kind.is_file());
            } else if names.len() < MAX_FILES {
                names.insert(name);
            }
        }
        Ok(names)
    }

    fn follow(
        &mut self,
        name: &str,
        read_at: Option<jiff::Timestamp>,
        look: &mut Look,
    ) -> io::Result<()> {
        let path = self.dir.join(name);
        let meta = fs::symlink_metadata(&path)?;
        // The job's processes can put anything there: a link, a pipe that blocks.
        if !meta.is_file() {
            return Ok(());
        }
        let known = self
            .files
            .get(name)
            .map(|known| (known.inode, known.offset));
        if known == Some((meta.ino(), meta.len())) {
            return Ok(());
        }
        let mut file = File::options()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(&path)?;
        let meta = file.metadata()?;
        let followed = self
            .files
            .entry(name.to_string())
            .or_insert_with(|| Followed {
                inode: meta.ino(),
                offset: 0,
                reader: Reader::default(),
            });
        // Another file of this name, or cut back: NCCL opens with mode w.
        if followed.inode != meta.ino() || meta.len() < followed.offset {
            *followed = Followed {
                inode: meta.ino(),
                offset: 0,
                reader: Reader::default(),
            };
        }
        file.seek(SeekFrom::Start(followed.offset))?;
        let container = container_of(name).unwrap_or(&self.container);
        if self.logs.len() >= MAX_CONTAINERS && !self.logs.contains_key(container) {
            return Err(io::Error::other("names one container too many"));
        }
        let log = self
            .logs
            .entry(container.to_string())
            .or_insert_with(|| NcclLog::new(Limits::CONTAINER));
        let mut taken = 0;
        while taken < SHARE {
            let read = file.read(&mut self.piece)?;
            if read == 0 {
                break;
            }
            let piece = self.piece.get(..read).unwrap_or_default();
            followed.reader.feed(piece, log, read_at);
            taken += read as u64;
            followed.offset += read as u64;
        }
        look.bytes += taken;
        look.more |= taken >= SHARE;
        Ok(())
    }
}

/// `CONTAINER.HOST.PID.log`: hosts are cut at their first dot, and containers' names are DNS labels.
fn container_of(name: &str) -> Option<&str> {
    let mut parts = name.strip_suffix(".log")?.split('.');
    let (container, _, pid) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && pid.parse::<u32>().is_ok();
    (whole && crate::units::is_dns_label(container)).then_some(container)
}

fn pid_of(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".log").unwrap_or(name);
    stem.rsplit('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::nccl::{Beside, Fallback, judge};

    const CHANNEL: &str = "n1:7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/";

    fn fallback(files: &Files, container: &str) -> Fallback {
        judge(&files.logs()[container], &Beside::default()).tcp_fallback
    }

    #[test]
    fn grown_new_cut_back_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::new(dir.path(), "");
        assert_eq!(files.look(None), Look::default());
        let file = dir.path().join("n1.7.log");
        fs::write(&file, format!("{CHANNEL}Soc")).unwrap();
        files.look(None);
        assert_eq!(fallback(&files, ""), Fallback::Unknown, "half a line");
        fs::write(&file, format!("{CHANNEL}Socket/0\n")).unwrap();
        files.look(None);
        assert_eq!(fallback(&files, ""), Fallback::Yes);
        // A second container's own.
        let other = dir.path().join("trainer.n1.9.log");
        fs::write(&other, format!("{CHANNEL}IB/0\n")).unwrap();
        files.look(None);
        assert_eq!(fallback(&files, "trainer"), Fallback::No);
        assert_eq!(files.pids(), [7, 9].into());
        // Cut back: read from the start.
        fs::write(&other, "n1:9:9 [0] NCCL INFO Using network IB\n").unwrap();
        let look = files.look(None);
        assert_eq!(look.bytes, 38);
        assert_eq!(files.look(None).bytes, 0);
        assert!(!files.done());
        fs::write(dir.path().join("done"), "").unwrap();
        files.look(None);
        assert!(files.done());
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&dir.path().join("a.1.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(dir.path().join("b.2.log")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("c.3.log")).unwrap();
        let mut files = Files::new(dir.path(), "");
        assert_eq!(files.look(None), Look::default());
        let mut gone = Files::new(&dir.path().join("none"), "");
        assert!(gone.look(None).fault.is_some());
    }

    #[test]
    fn names() {
        for (name, container, pid) in [
            ("node-1.42.log", None, Some(42)),
            ("trainer.node-1.42.log", Some("trainer"), Some(42)),
            ("tra\u{202e}ner.node-1.42.log", None, Some(42)),
            ("a.b.c.42.log", None, Some(42)),
            ("trainer.node-1.x.log", None, None),
            ("nccl.txt", None, None),
            ("", None, None),
        ] {
            assert_eq!(
                (container_of(name), pid_of(name)),
                (container, pid),
                "{name}"
            );
        }
    }
}
