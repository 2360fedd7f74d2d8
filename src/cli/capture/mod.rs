//! `selvage capture`: saves what the sources read on this node as a tree of files, to attach to a
//! report and replay with `--host-root`.
//!
//! Links are made anew, so that addresses and names resolve as they did on the node. What
//! answered with an errno is told in [`tree::ERRNO_FILE`]; what a tree cannot hold (ethtool, DCB)
//! lies below `selvage/`. Left out are host names, hardware addresses of interfaces, routes but the
//! default ones, kernel parameters but those about the IOMMU, and log lines of user space. GIDs
//! stay: they hold the ports' addresses.
//!
//! [`tree::ERRNO_FILE`]: crate::source::tree::ERRNO_FILE

mod copier;
mod logs;
mod node;
mod rdma;
mod reader;

use crate::host::Host;
use crate::observe::counters::PmaSkip;
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::Reading;
use crate::source::{gvnic, infiniband, netdev, pci, tree};
use copier::Copier;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why nothing was captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Files of someone else, or of an earlier capture, would be mixed in.
    #[error("{0} is not empty; name a new or empty directory")]
    NotEmpty(PathBuf),
    /// There is no node below the root.
    #[error("{0} holds neither /sys nor /proc of a node: there is nothing to save")]
    Nothing(PathBuf),
    /// The directory cannot be made or written.
    #[error("{path}: {source}")]
    Unwritable {
        /// What could not be written.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
}

/// What a capture holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Files written.
    pub files: usize,
    /// Symbolic links made.
    pub links: usize,
    /// Paths that answered with an errno.
    pub errnos: usize,
    /// Bytes in the files.
    pub bytes: u64,
    /// Things left out because a bound was reached.
    pub left_out: usize,
    /// What could not be saved, in the system's words; bounded.
    pub troubles: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files ({} bytes), {} links, {} paths that answered with an error",
            self.files, self.bytes, self.links, self.errnos
        )?;
        if self.left_out > 0 {
            write!(f, ", {} left out for size", self.left_out)?;
        }
        Ok(())
    }
}

/// Ports whose PMA counters must stay closed.
pub type Skip<'a> = &'a dyn Fn(&RdmaDevice, u32) -> Option<PmaSkip>;

/// Saves what the sources read below `host`'s root into `out`, which must be new or empty. `skip`
/// tells the ports whose counters are excluded or restricted: their files are not opened. One file
/// that cannot be read or written stops nothing else.
///
/// # Errors
/// Only if there is nothing to save, or `out` cannot be used at all.
pub fn capture(host: &Host, out: &Path, skip: Skip<'_>) -> Result<Summary, CaptureError> {
    let there = |path| {
        tree::list(host, path)
            .value()
            .is_some_and(|names| !names.is_empty())
    };
    if !["sys/class", "sys/bus", "sys/devices", "proc"]
        .into_iter()
        .any(there)
    {
        return Err(CaptureError::Nothing(host.root().to_path_buf()));
    }
    prepare(out)?;
    let mut copier = Copier::new(host, out);
    let mut devices = match infiniband::enumerate(host) {
        Reading::Value(devices) => devices,
        _ => Vec::new(),
    };
    copier.directory("sys/class");
    for device in &devices {
        rdma::device(&mut copier, device, skip);
    }
    let gvnics = gvnic::enumerate(host);
    for function in gvnics.iter().filter_map(|device| device.pci) {
        copier.link(Path::new(gvnic::DRIVER_DIR).join(function.to_string()));
    }
    devices.extend(gvnics);
    node::verbs(&mut copier);
    let mut interfaces = netdev::of_rdma(host, &devices);
    if let Reading::Value(routes) = netdev::default_route_devices(host) {
        interfaces.extend(routes);
    }
    for interface in &interfaces {
        node::interface(&mut copier, interface);
    }
    let rdma: Vec<_> = devices.iter().filter_map(|device| device.pci).collect();
    let ends: BTreeSet<_> = (pci::gpus(host).value().into_iter().flatten().copied())
        .chain(pci::bare(host, &rdma).into_keys())
        .chain(rdma.iter().copied())
        .collect();
    node::pci(&mut copier, &ends);
    node::modules(&mut copier);
    node::drivers(&mut copier);
    node::machine(&mut copier, &interfaces);
    logs::kernel(&mut copier);
    copier.finish()
}

/// The directory must exist and be empty.
fn prepare(out: &Path) -> Result<(), CaptureError> {
    let unwritable = |source| CaptureError::Unwritable {
        path: out.to_path_buf(),
        source,
    };
    std::fs::create_dir_all(out).map_err(unwritable)?;
    let listed = tree::list(&Host::new(out), ".");
    match listed {
        Reading::Value(names) if names.is_empty() => Ok(()),
        Reading::Value(_) => Err(CaptureError::NotEmpty(out.to_path_buf())),
        _ => Err(unwritable(std::io::ErrorKind::PermissionDenied.into())),
    }
}

#[cfg(test)]
mod tests;
