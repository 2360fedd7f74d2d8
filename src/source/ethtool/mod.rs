//! Driver statistics as `ethtool -S` shows them, reduced to what tells of PFC, drops and the link.

mod ioctl;
pub mod names;

use crate::observe::netdev::EthtoolFacts;
use crate::observe::reading::{Fault, FaultKind, Reading};
use names::Map;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Names are read again each so many reads: drivers may move them within a list of the same length
/// (mlx5 does when PFC is set up). At the default interval of 15 s, once a minute.
const NAMES_EVERY: u32 = 4;

/// Reads one interface's statistics again and again. Holds a socket of its own; a hung driver holds
/// the caller inside ioctl(2).
#[derive(Debug)]
pub struct StatsReader {
    interface: String,
    socket: Option<OwnedFd>,
    known: Option<Known>,
}

/// What is remembered between reads.
#[derive(Debug)]
struct Known {
    count: u32,
    map: Map,
    reads: u32,
}

/// Why a read gave nothing.
enum Trouble {
    Errno(Errno),
    /// The list changed under the read.
    Shifted,
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Trouble::Errno(errno)
    }
}

impl StatsReader {
    /// A reader for an interface; nothing is opened yet.
    pub fn new(interface: impl Into<String>) -> Self {
        StatsReader {
            interface: interface.into(),
            socket: None,
            known: None,
        }
    }

    /// The interface that is read.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Forgets the names: to be called when a notification tells that link or DCB settings of the
    /// interface changed.
    pub fn names_may_have_changed(&mut self) {
        self.known = None;
    }

    /// Reads. A driver without statistics is not observable; a sample during which the list of
    /// statistics changed is read once more, then given up.
    pub fn read(&mut self) -> Reading<EthtoolFacts> {
        let mut outcome = self.attempt();
        if let Err(Trouble::Shifted) = outcome {
            self.known = None;
            outcome = self.attempt();
        }
        if outcome.is_err() {
            self.known = None;
        }
        match outcome {
            Ok(Some(facts)) => Reading::Value(facts),
            Ok(None) => Reading::NotObservable,
            Err(Trouble::Errno(errno)) => self.failed(errno),
            Err(Trouble::Shifted) => Reading::Failed(Fault {
                kind: FaultKind::Other,
                detail: format!("ethtool {}: statistics changed while read", self.interface),
            }),
        }
    }

    fn attempt(&mut self) -> Result<Option<EthtoolFacts>, Trouble> {
        if self.socket.is_none() {
            let fd = socket(
                AddressFamily::Inet,
                SockType::Datagram,
                SockFlag::SOCK_CLOEXEC,
                None,
            )?;
            self.socket = Some(fd);
        }
        let Some(owned) = &self.socket else {
            return Ok(None);
        };
        let fd = owned.as_fd();
        let count = ioctl::count(fd, &self.interface)?;
        if count == 0 {
            return Ok(None);
        }
        let mut known = match self.known.take() {
            Some(known) if known.count == count && known.reads < NAMES_EVERY => known,
            _ => read_names(fd, &self.interface, count)?,
        };
        known.reads += 1;
        let values = ioctl::values(fd, &self.interface, count)?.ok_or(Trouble::Shifted)?;
        if ioctl::count(fd, &self.interface)? != count {
            return Err(Trouble::Shifted);
        }
        let facts = known.map.apply(&values);
        self.known = Some(known);
        Ok(Some(facts))
    }

    fn failed(&self, errno: Errno) -> Reading<EthtoolFacts> {
        let kind = match errno {
            Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOTTY | Errno::ENOSYS => {
                return Reading::NotObservable;
            }
            Errno::ENODEV | Errno::ENXIO | Errno::EIO => FaultKind::Gone,
            Errno::EPERM | Errno::EACCES => FaultKind::Denied,
            _ => FaultKind::Other,
        };
        Reading::Failed(Fault {
            kind,
            detail: format!("ethtool {}: {}", self.interface, errno.desc()),
        })
    }
}

/// All statistics of an interface under the driver's own names, and the driver's name: what a
/// capture keeps.
///
/// # Errors
/// What the kernel answered; `EAGAIN` if the list changed under the read.
pub fn dump(interface: &str) -> nix::Result<(String, Vec<(String, u64)>)> {
    let owned = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let fd = owned.as_fd();
    let driver = ioctl::driver(fd, interface)?;
    let count = ioctl::count(fd, interface)?;
    if count == 0 {
        return Ok((driver, Vec::new()));
    }
    let names = ioctl::names(fd, interface, count)?.ok_or(Errno::EAGAIN)?;
    let values = ioctl::values(fd, interface, count)?.ok_or(Errno::EAGAIN)?;
    Ok((driver, names.into_iter().zip(values).collect()))
}

fn read_names(fd: BorrowedFd<'_>, interface: &str, count: u32) -> Result<Known, Trouble> {
    let driver = ioctl::driver(fd, interface)?;
    let names = ioctl::names(fd, interface, count)?.ok_or(Trouble::Shifted)?;
    Ok(Known {
        count,
        map: names::map(&driver, names.iter().map(String::as_str)),
        reads: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_without_statistics_and_without_existence() {
        assert_eq!(StatsReader::new("lo").read(), Reading::NotObservable);
        for name in ["no-such-if0", "", "a-name-much-too-long"] {
            assert!(matches!(
                StatsReader::new(name).read(),
                Reading::Failed(Fault {
                    kind: FaultKind::Gone,
                    ..
                })
            ));
        }
    }
}
