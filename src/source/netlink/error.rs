//! What netlink's failures mean.

use crate::observe::{FaultKind, Reading};
use nix::errno::Errno;

/// Why a netlink request gave nothing, by what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetlinkError {
    /// This kernel has no such netlink family (ib_core is not loaded): use files.
    #[error("no such netlink family here")]
    NotSupported,
    /// The device is going away: enumerate again.
    #[error("the device is gone")]
    Gone,
    /// This kernel, device or driver does not tell it (EINVAL, EOPNOTSUPP): use files, ask no more.
    #[error("not available")]
    NotAvailable,
    /// A permission is missing.
    #[error("not permitted")]
    Denied,
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The answer is not what the kernel documents.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// Any other errno.
    #[error("{}", .0.desc())]
    Io(Errno),
}

/// The answer to a netlink request.
pub type Reply<T> = Result<T, NetlinkError>;

impl From<Errno> for NetlinkError {
    /// What an errno means, of a system call or in an NLMSG_ERROR.
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT | Errno::ESOCKTNOSUPPORT => {
                Self::NotSupported
            }
            Errno::ENODEV | Errno::ENXIO | Errno::EIO => Self::Gone,
            Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::ENOENT => Self::NotAvailable,
            Errno::EPERM | Errno::EACCES => Self::Denied,
            Errno::EAGAIN | Errno::ETIMEDOUT => Self::Timeout,
            other => Self::Io(other),
        }
    }
}

impl NetlinkError {
    /// The same as a reading of `what`.
    pub fn reading<T>(&self, what: &str) -> Reading<T> {
        let kind = match self {
            NetlinkError::NotSupported => return Reading::Absent,
            NetlinkError::NotAvailable => return Reading::NotObservable,
            NetlinkError::Gone => FaultKind::Gone,
            NetlinkError::Denied => FaultKind::Denied,
            NetlinkError::Timeout => FaultKind::Stalled,
            NetlinkError::Malformed(_) => FaultKind::Malformed,
            NetlinkError::Io(_) => FaultKind::Other,
        };
        Reading::failed(kind, format!("{what}: {self}"))
    }
}
