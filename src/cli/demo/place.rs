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

impl Directory {
    pub(super) fn new() -> io::Result<Self> {
        let base = std::env::temp_dir();
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
        let directory = Directory::new().unwrap();
        let path = directory.path().to_path_buf();
        std::fs::write(path.join("x"), "").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
