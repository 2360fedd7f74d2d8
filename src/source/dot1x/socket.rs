//! The sockets: found without following anything, asked without waiting on anybody for long.

use super::DIRECTORY;
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{UnixAddr, bind};
use nix::sys::stat::{Mode, SFlag, fstat};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Longest answer taken: STATUS is a few hundred bytes, the supplicant's own buffer 4096.
const MAX_ANSWER: usize = 8192;

/// One wait for answers, and how many of them there are: 200 ms in all. A supplicant answers within
/// a millisecond; one that authenticates just now answers after its TLS step.
const WAIT_MS: u8 = 20;
const WAITS: usize = 10;

/// Unsolicited messages that are skipped; they come to clients that attach only.
const MAX_EVENTS: usize = 4;

/// The directory of the sockets, open: what is at its path later makes no difference.
pub(super) struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// What is in an interface's place.
pub(super) enum Asked {
    /// A socket, asked or known not to be asked.
    Socket(Question),
    /// A file with the answer.
    Text(Reading<String>),
    /// Neither socket nor file.
    Nothing,
}

/// A question on its way.
pub(super) struct Question {
    path: PathBuf,
    socket: Result<UnixDatagram, Reading<String>>,
    answer: Option<Reading<String>>,
    events: usize,
}

impl Directory {
    /// Opens it below the root, no link followed.
    pub(super) fn open(host: &Host) -> Reading<Directory> {
        let path = host.path(DIRECTORY.join("/"));
        if let Err(error) = host.errnos().check(&path) {
            return meaning(&error, &path);
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let below = || -> nix::Result<OwnedFd> {
            let mut at = open(host.root(), flags, Mode::empty())?;
            for part in DIRECTORY {
                at = openat(&at, part, flags | OFlag::O_NOFOLLOW, Mode::empty())?;
            }
            Ok(at)
        };
        match below() {
            Ok(descriptor) => {
                // The last supplicant to end removes the directory and the next one makes another; a
                // mount of the first shows it empty from then on.
                if fstat(&descriptor).is_ok_and(|stat| stat.st_nlink == 0) {
                    return Reading::Failed(Fault {
                        kind: FaultKind::Gone,
                        detail: format!(
                            "{}: it was removed since it was mounted; supplicants that were started since are seen once the agent's pod is",
                            path.display()
                        ),
                    });
                }
                Reading::Value(Directory { descriptor, path })
            }
            Err(errno) => meaning(&errno.into(), &path),
        }
    }

    /// Asks what is there under an interface's name.
    pub(super) fn ask(&self, host: &Host, name: &str) -> Asked {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Asked::Nothing;
        }
        let path = self.path.join(name);
        if let Err(error) = host.errnos().check(&path) {
            return match meaning(&error, &path) {
                Reading::Absent => Asked::Nothing,
                other => Asked::Text(other),
            };
        }
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(found) => found,
            Err(errno) => {
                return match meaning(&errno.into(), &path) {
                    Reading::Absent => Asked::Nothing,
                    other => Asked::Text(other),
                };
            }
        };
        let kind = match fstat(&found) {
            Ok(stat) => SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT,
            Err(errno) => return Asked::Text(meaning(&errno.into(), &path)),
        };
        if kind == SFlag::S_IFSOCK {
            Asked::Socket(Question::put(&found, path))
        } else if kind == SFlag::S_IFREG && !host.is_live() {
            Asked::Text(text(&found, &path))
        } else {
            let detail = format!("{}: it is not a socket", path.display());
            Asked::Text(failed(FaultKind::Malformed, detail))
        }
    }
}

impl Question {
    /// Asks the very socket that was found, whatever its path leads to by now.
    fn put(found: &OwnedFd, path: PathBuf) -> Question {
        let socket = send(found).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Reading::NotObservable,
            ErrorKind::ConnectionRefused => failed(
                FaultKind::Other,
                format!("{}: no supplicant listens", path.display()),
            ),
            // Its queue is full: it does not read.
            ErrorKind::WouldBlock => silent(&path),
            _ => failed(FaultKind::Other, format!("{}: {error}", path.display())),
        });
        Question {
            path,
            socket,
            answer: None,
            events: 0,
        }
    }

    /// Takes what has come.
    fn receive(&mut self) {
        let Ok(socket) = &self.socket else { return };
        let mut bytes = [0; MAX_ANSWER + 1];
        self.answer = match socket.recv(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => Some(failed(
                FaultKind::Other,
                format!("{}: {error}", self.path.display()),
            )),
            Ok(length) if length > MAX_ANSWER => Some(failed(
                FaultKind::Malformed,
                format!("{}: the answer is too long", self.path.display()),
            )),
            Ok(length) => {
                let answer = bytes.get(..length).unwrap_or_default();
                if answer.first() == Some(&b'<') && self.events < MAX_EVENTS {
                    self.events += 1;
                    return;
                }
                Some(Reading::Value(String::from_utf8_lossy(answer).into_owned()))
            }
        };
    }
}

/// Our own end has an abstract address that the kernel chooses: a path of ours might not lead here
/// from the supplicant's mounts. It is connected before it has an address, so that only the
/// supplicant ever can send to it. Network namespaces have abstract addresses of their own: elsewhere
/// than in the supplicant's no answer comes.
fn send(found: &OwnedFd) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
    bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
    socket.send(b"STATUS")?;
    Ok(socket)
}

/// The answers, in the order of the questions; what does not come in time has failed.
pub(super) fn answers(mut questions: Vec<Question>) -> Vec<Reading<String>> {
    let mut waits = 0;
    // A turn that does not wait takes a message, of which there are few; whatever a socket does else,
    // the turns end.
    for _ in 0..WAITS + questions.len().saturating_mul(MAX_EVENTS + 2) {
        let (mut waiting, mut polled) = (Vec::new(), Vec::new());
        for question in &mut questions {
            if question.answer.is_none() && question.socket.is_ok() {
                waiting.push(question);
            }
        }
        for question in &waiting {
            if let Ok(socket) = &question.socket {
                polled.push(PollFd::new(socket.as_fd(), PollFlags::POLLIN));
            }
        }
        if polled.is_empty() || waits == WAITS {
            break;
        }
        match poll(&mut polled, PollTimeout::from(WAIT_MS)) {
            Ok(0) | Err(_) => waits += 1,
            Ok(_) => {
                let ready: Vec<bool> = (polled.iter())
                    .map(|fd| fd.revents().is_none_or(|events| !events.is_empty()))
                    .collect();
                for (question, ready) in waiting.into_iter().zip(ready) {
                    if ready {
                        question.receive();
                    }
                }
            }
        }
    }
    questions
        .into_iter()
        .map(|question| match (question.socket, question.answer) {
            (Err(why), _) => why,
            (Ok(_), Some(answer)) => answer,
            (Ok(_), None) => silent(&question.path),
        })
        .collect()
}

fn silent(path: &Path) -> Reading<String> {
    failed(
        FaultKind::Other,
        format!("{}: the supplicant does not answer", path.display()),
    )
}

/// Reads a recorded answer.
fn text(found: &OwnedFd, path: &Path) -> Reading<String> {
    let read = || -> io::Result<String> {
        let again = format!("/proc/self/fd/{}", found.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let file = File::from(open(again.as_str(), flags, Mode::empty())?);
        let mut bytes = Vec::new();
        file.take(MAX_ANSWER as u64).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => Reading::Value(text),
        Err(error) => meaning(&error, path),
    }
}

/// The meaning of an error. A refusal is not a fault: an operator who does not let the agent in has
/// said so.
fn meaning<T>(error: &io::Error, path: &Path) -> Reading<T> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => Reading::Absent,
        Some(Errno::EACCES | Errno::EPERM) => Reading::NotObservable,
        Some(Errno::ENOTDIR | Errno::ELOOP) => failed(
            FaultKind::Malformed,
            format!("{}: it is not a directory", path.display()),
        ),
        _ => failed(FaultKind::Other, format!("{}: {error}", path.display())),
    }
}

fn failed<T>(kind: FaultKind, detail: String) -> Reading<T> {
    Reading::Failed(Fault { kind, detail })
}
