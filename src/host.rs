//! The roots that everything is read below, and what kind of host they belong to.

use crate::source::name_lists::NameLists;
use std::path::{Path, PathBuf};

/// `SYSFS_MAGIC` of include/uapi/linux/magic.h.
const SYSFS_MAGIC: i64 = 0x6265_6572;

/// Where `sys`, `proc`, `dev` and `var/log/pods` are looked for.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    live: bool,
    errnos: std::sync::Arc<crate::source::tree::RecordedErrnos>,
    budget: std::sync::Arc<crate::source::directory::Budget>,
    names: std::sync::Arc<NameLists>,
}

impl Host {
    /// A host below `root`. It is live if `root/sys` is a kernel's sysfs; otherwise it is a
    /// directory tree, such as a capture, and netlink and ioctls are left alone.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let live = nix::sys::statfs::statfs(&root.join("sys"))
            .is_ok_and(|fs| fs.filesystem_type().0 == SYSFS_MAGIC);
        let errnos = if live {
            Default::default()
        } else {
            crate::source::tree::RecordedErrnos::load(&root)
        };
        Host {
            root,
            live,
            errnos: std::sync::Arc::new(errnos),
            budget: Default::default(),
            names: Default::default(),
        }
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a running kernel answers below this root.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// `path` (relative, such as `sys/class/net`) below the root.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Errors recorded beside a captured tree.
    pub(crate) fn errnos(&self) -> &crate::source::tree::RecordedErrnos {
        &self.errnos
    }

    /// Lists of names that readers share.
    pub(crate) fn names(&self) -> &NameLists {
        &self.names
    }

    /// How many descriptors may be kept open.
    pub(crate) fn budget(&self) -> &std::sync::Arc<crate::source::directory::Budget> {
        &self.budget
    }
}
