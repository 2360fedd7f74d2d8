//! Reads files of the host with a deadline: a capture is wanted most where something hangs.

use crate::blocking;
use crate::host::Host;
use crate::source::tree;
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// How long one file is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

type Question = (PathBuf, usize);
type Answer = io::Result<Vec<u8>>;

/// Reads on a thread of its own; one that hangs is left behind.
pub struct Reader {
    host: Host,
    patience: Duration,
    thread: Option<(mpsc::Sender<Question>, mpsc::Receiver<Answer>)>,
    /// Directories in which a file hung: the rest of them is not waited for.
    hung: BTreeSet<PathBuf>,
}

impl Reader {
    /// A reader below the host's root.
    pub fn new(host: &Host) -> Self {
        Reader {
            host: host.clone(),
            patience: PATIENCE,
            thread: None,
            hung: BTreeSet::new(),
        }
    }

    /// Reads a file, as [`tree::read_raw`] does.
    ///
    /// # Errors
    /// What reading answered; ETIMEDOUT if it did not answer.
    pub fn read(&mut self, path: &Path, limit: usize) -> Answer {
        let timeout = || io::Error::from_raw_os_error(Errno::ETIMEDOUT as i32);
        let directory = path.parent().unwrap_or(path);
        if self.hung.contains(directory) {
            return Err(timeout());
        }
        let host = &self.host;
        let (questions, answers) = self.thread.get_or_insert_with(|| start(host.clone()));
        let asked = questions.send((path.to_path_buf(), limit));
        match asked.map(|()| answers.recv_timeout(self.patience)) {
            Ok(Ok(answer)) => answer,
            _ => {
                self.thread = None;
                self.hung.insert(directory.to_path_buf());
                Err(timeout())
            }
        }
    }
}

fn start(host: Host) -> (mpsc::Sender<Question>, mpsc::Receiver<Answer>) {
    let (ask, questions) = mpsc::channel::<Question>();
    let (answer, answers) = mpsc::channel();
    blocking::spawn("capture", move || {
        for (path, limit) in questions {
            if answer.send(tree::read_raw(&host, path, limit)).is_err() {
                return;
            }
        }
    });
    (ask, answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn a_file_that_hangs_is_left_behind() {
        let tree = TestTree::new();
        for dir in ["a", "b"] {
            tree.file(&format!("{dir}/one"), "1");
        }
        let pipe = tree.path("a/hangs");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut reader = Reader::new(&tree.host());
        assert!(reader.read(Path::new("a/one"), 10).is_ok());
        reader.patience = Duration::from_millis(1);
        let errno = |answer: Answer| answer.unwrap_err().raw_os_error();
        let timeout = Some(Errno::ETIMEDOUT as i32);
        assert_eq!(errno(reader.read(Path::new("a/hangs"), 10)), timeout);
        reader.patience = PATIENCE;
        assert_eq!(errno(reader.read(Path::new("a/one"), 10)), timeout);
        assert!(reader.read(Path::new("b/one"), 10).is_ok());
        // Let the thread go.
        drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    }
}
