//! The temporary directory that holds the demo's nodes.

use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Upper bound of what one node's files take, in bytes.
const NODE_BYTES: u64 = 32 << 20;

/// Memory where there is enough of it, unless `TMPDIR` is set: hundreds of files are replaced each
/// second, which keeps a disk busy.
fn base(nodes: u64) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let roomy = || {
        let stat = nix::sys::statvfs::statvfs(memory).ok()?;
        let free = stat.blocks_available().saturating_mul(stat.fragment_size());
        let kind = nix::sys::statfs::statfs(memory).ok()?.filesystem_type();
        let enough = free / 2 >= NODE_BYTES.saturating_mul(nodes);
        Some(kind == nix::sys::statfs::TMPFS_MAGIC && enough)
    };
    match std::env::var_os("TMPDIR") {
        None if roomy() == Some(true) => memory.to_path_buf(),
        _ => std::env::temp_dir(),
    }
}

/// A directory for the files of so many nodes.
pub(super) fn temporary(nodes: u64) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("selvage-demo-");
    // Memory that is not writable need not stop the demo.
    (builder.tempdir_in(base(nodes))).or_else(|_| builder.tempdir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_removed_with_its_value() {
        let directory = temporary(1).unwrap();
        let path = directory.path().to_path_buf();
        std::fs::write(path.join("x"), "").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
