//! Where the demo's nodes live and serve.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// `wanted`, or the next port above that is free.
pub(super) fn free_address(wanted: SocketAddr) -> io::Result<SocketAddr> {
    let mut last = None;
    for offset in 0..50u16 {
        let Some(port) = wanted.port().checked_add(offset) else {
            break;
        };
        let address = SocketAddr::new(wanted.ip(), port);
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return listener.local_addr(),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no free port")))
}

/// A temporary directory that is removed at the end.
pub(super) struct Directory(PathBuf);

/// What a node's files take, at most, in bytes.
const NODE_BYTES: u64 = 32 << 20;

/// Memory where there is enough: hundreds of files a second are written anew, which on a disk makes
/// for much waiting. `TMPDIR` says otherwise.
fn base(nodes: usize) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let is_there = || {
        let stat = nix::sys::statvfs::statvfs(memory).ok()?;
        let free = stat.blocks_available().saturating_mul(stat.fragment_size());
        let kind = nix::sys::statfs::statfs(memory).ok()?.filesystem_type();
        (kind == nix::sys::statfs::TMPFS_MAGIC
            && free / 2 >= NODE_BYTES.saturating_mul(nodes as u64))
        .then(|| memory.to_path_buf())
    };
    match std::env::var_os("TMPDIR") {
        None => is_there().unwrap_or_else(std::env::temp_dir),
        Some(_) => std::env::temp_dir(),
    }
}

impl Directory {
    /// For the files of so many nodes.
    pub(super) fn new(nodes: usize) -> io::Result<Self> {
        let made = Self::in_base(&base(nodes));
        // Memory that cannot be written is no reason not to play.
        made.or_else(|_| Self::in_base(&std::env::temp_dir()))
    }

    fn in_base(base: &Path) -> io::Result<Self> {
        for n in 0..100 {
            let path = base.join(format!("selvage-demo-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Directory(path)),
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

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_passed_by() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let free = free_address(address).unwrap();
        assert!(free.port() > address.port());
    }

    #[test]
    fn the_directory_goes_with_the_demo() {
        let directory = Directory::new(1).unwrap();
        let path = directory.path().to_path_buf();
        std::fs::write(path.join("x"), "").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
