//! Driver statistics as `ethtool -S` shows them, reduced to what tells of PFC, drops and the link.

mod ioctl;
pub mod names;

#[cfg(fuzzing)]
pub use ioctl::{items, parse_names, parse_values};

use crate::observe::{EthtoolFacts, Reading};
use crate::source::tree;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::{os::fd::AsFd, path::Path};

/// One interface's statistics now. A driver without statistics is not observable; a sample during
/// which the list of statistics changed is read once more, then given up. A hung driver holds the
/// caller inside ioctl(2).
pub fn read(interface: &str) -> Reading<EthtoolFacts> {
    let mut statistics = dump(interface);
    if statistics == Err(Errno::EAGAIN) {
        statistics = dump(interface);
    }
    match statistics {
        Ok((_, statistics)) if statistics.is_empty() => Reading::NotObservable,
        Ok((driver, statistics)) => Reading::Value(names::facts(&driver, &statistics)),
        Err(Errno::ENOTTY) => Reading::NotObservable,
        Err(errno) => tree::classify(&errno.into(), &Path::new("ethtool").join(interface)),
    }
}

/// All statistics of an interface under the driver's own names, and the driver's name: what a
/// capture keeps. The names are read each time: drivers may move them within a list of the same
/// length (mlx5 does when PFC is set up).
///
/// # Errors
/// What the kernel answered; `EAGAIN` if the list changed under the read.
pub fn dump(interface: &str) -> nix::Result<(String, Vec<(String, u64)>)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let owned = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
    let fd = owned.as_fd();
    let driver = ioctl::driver(fd, interface)?;
    let count = ioctl::count(fd, interface)?;
    if count == 0 {
        return Ok((driver, Vec::new()));
    }
    let names = ioctl::names(fd, interface, count)?;
    let values = ioctl::values(fd, interface, count)?;
    if ioctl::count(fd, interface)? != count {
        return Err(Errno::EAGAIN);
    }
    Ok((driver, names.into_iter().zip(values).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Fault, FaultKind};

    #[test]
    fn interfaces_without_statistics_and_without_existence() {
        assert_eq!(read("lo"), Reading::NotObservable);
        for name in ["no-such-if0", "", "a-name-much-too-long"] {
            assert!(matches!(
                read(name),
                Reading::Failed(Fault {
                    kind: FaultKind::Gone,
                    ..
                })
            ));
        }
    }
}
