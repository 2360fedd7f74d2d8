//! The temporary directory that holds the demo's nodes.

use std::io;
use std::path::{Path, PathBuf};

/// A temporary directory that is removed at the end.
pub(super) struct TempDir(PathBuf);

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

impl TempDir {
    /// For the files of so many nodes.
    pub(super) fn new(nodes: u64) -> io::Result<Self> {
        // Memory that is not writable need not stop the demo.
        Self::below(&base(nodes)).or_else(|_| Self::below(&std::env::temp_dir()))
    }

    fn below(base: &Path) -> io::Result<Self> {
        for n in 0..100 {
            let path = base.join(format!("selvage-demo-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(TempDir(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no free name for a temporary directory"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_removed_with_its_value() {
        let directory = TempDir::new(1).unwrap();
        let path = directory.path().to_path_buf();
        std::fs::write(path.join("x"), "").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
