//! The sockets: found without following anything, asked without waiting on anybody for long.

use super::DIRECTORY;
use crate::host::Host;
use crate::observe::{FaultKind, Reading};
use crate::source::parse::is_name;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::socket::{UnixAddr, bind};
use nix::sys::stat::{Mode, SFlag, fstat};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest answer taken: STATUS is a few hundred bytes, the supplicant's own buffer 4096.
const MAX_ANSWER: usize = 8192;

/// One wait for an answer, and how many of them all questions share: 200 ms in all. A supplicant
/// answers within a millisecond; one that authenticates just now answers after its TLS step.
const WAIT: Duration = Duration::from_millis(20);
pub(super) const WAITS: u32 = 10;

const SILENT: &str = "the supplicant does not answer";

/// Unsolicited messages that are skipped; they come to clients that attach only.
const MAX_EVENTS: u32 = 4;

/// The directory of the sockets, open: what is at its path later makes no difference.
pub(super) struct SupplicantDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// A question on its way.
pub(super) struct Question {
    path: PathBuf,
    socket: UnixDatagram,
}

impl SupplicantDirectory {
    /// Opens it below the root, no link followed.
    pub(super) fn open(host: &Host) -> Result<SupplicantDirectory, Reading<String>> {
        let path = host.path(DIRECTORY.join("/"));
        let refused = |error: io::Error| meaning(&error, &path);
        host.check_errno(&path).map_err(refused)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let below = || -> nix::Result<OwnedFd> {
            let mut at = open(host.root(), flags, Mode::empty())?;
            for part in DIRECTORY {
                at = openat(&at, part, flags | OFlag::O_NOFOLLOW, Mode::empty())?;
            }
            Ok(at)
        };
        let descriptor = below().map_err(|errno| refused(errno.into()))?;
        // The last supplicant to end removes the directory and the next one makes another; a mount
        // of the first shows it empty from then on.
        if fstat(&descriptor).is_ok_and(|stat| stat.st_nlink == 0) {
            let why = "it was removed after it was mounted; restart the agent's pod to see newer supplicants";
            return Err(failed(FaultKind::Gone, &path, why));
        }
        Ok(SupplicantDirectory { descriptor, path })
    }

    /// Asks the socket under an interface's name; else what is to be said without: a recorded
    /// answer, absent where nothing is there, or a fault.
    pub(super) fn ask(&self, host: &Host, name: &str) -> Result<Question, Reading<String>> {
        if !is_name(name) {
            return Err(Reading::Absent);
        }
        let path = self.path.join(name);
        let refused = |error: io::Error| meaning(&error, &path);
        host.check_errno(&path).map_err(refused)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = openat(&self.descriptor, name, flags, Mode::empty());
        let found = found.map_err(|errno| refused(errno.into()))?;
        let stat = fstat(&found).map_err(|errno| refused(errno.into()))?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if kind == SFlag::S_IFREG && !host.is_live() {
            return Err(text(&found).map_or_else(refused, Reading::Value));
        }
        if kind != SFlag::S_IFSOCK {
            return Err(failed(FaultKind::Malformed, &path, "it is not a socket"));
        }
        match send(&found) {
            Ok(socket) => Ok(Question { path, socket }),
            Err(error) => Err(match error.kind() {
                ErrorKind::PermissionDenied => Reading::NotObservable,
                ErrorKind::ConnectionRefused => {
                    failed(FaultKind::Other, &path, "no supplicant listens")
                }
                // Its queue is full: it does not read.
                ErrorKind::WouldBlock => failed(FaultKind::Other, &path, SILENT),
                _ => failed(FaultKind::Other, &path, error),
            }),
        }
    }
}

impl Question {
    /// The answer, within what is left of the waits that all questions share.
    pub(super) fn answer(&self, waits: &mut u32) -> Reading<String> {
        let mut bytes = [0; MAX_ANSWER + 1];
        let mut events = 0;
        loop {
            let length = match self.socket.recv(&mut bytes) {
                Ok(length) => length,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    let Some(left) = waits.checked_sub(1) else {
                        return failed(FaultKind::Other, &self.path, SILENT);
                    };
                    *waits = left;
                    continue;
                }
                Err(error) => return failed(FaultKind::Other, &self.path, error),
            };
            if length > MAX_ANSWER {
                return failed(FaultKind::Malformed, &self.path, "the answer is too long");
            }
            let answer = bytes.get(..length).unwrap_or_default();
            if answer.first() != Some(&b'<') || events == MAX_EVENTS {
                return Reading::Value(String::from_utf8_lossy(answer).into_owned());
            }
            events += 1;
        }
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
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(WAIT))?;
    Ok(socket)
}

/// Reads a recorded answer.
fn text(found: &OwnedFd) -> io::Result<String> {
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = File::from(open(again.as_str(), flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(MAX_ANSWER as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The meaning of an error. A refusal is not a fault: an operator who does not let the agent in has
/// said so.
fn meaning(error: &io::Error, path: &Path) -> Reading<String> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => Reading::Absent,
        Some(Errno::EACCES | Errno::EPERM) => Reading::NotObservable,
        Some(Errno::ENOTDIR | Errno::ELOOP) => {
            failed(FaultKind::Malformed, path, "it is not a directory")
        }
        _ => failed(FaultKind::Other, path, error),
    }
}

fn failed(kind: FaultKind, path: &Path, why: impl Display) -> Reading<String> {
    Reading::failed(kind, format!("{}: {why}", path.display()))
}
