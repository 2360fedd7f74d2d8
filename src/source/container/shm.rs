//! `/dev/shm` (shm_overview(7)).

use crate::host::Host;
use crate::observe::container::SharedMemory;
use crate::observe::reading::Reading;
use crate::source::tree;
use std::path::Path;

/// `TMPFS_MAGIC` of include/uapi/linux/magic.h.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// What a directory tree records of it: size and free bytes.
pub const RECORDED: &str = "selvage/shm";

/// Size and room.
pub fn read(host: &Host) -> Reading<SharedMemory> {
    if !host.is_live() {
        return match tree::read_text(host, RECORDED) {
            Reading::Value(text) => parse(&text),
            // A tree of files has no such file system, recorded or not.
            _ => Reading::NotObservable,
        };
    }
    let path = host.path("dev/shm");
    match nix::sys::statvfs::statvfs(&path) {
        Ok(fs) => {
            let block = fs.fragment_size();
            Reading::Value(SharedMemory {
                size: fs.blocks().saturating_mul(block),
                free: fs.blocks_available().saturating_mul(block),
                tmpfs: nix::sys::statfs::statfs(&path)
                    .is_ok_and(|fs| fs.filesystem_type().0 == TMPFS_MAGIC),
            })
        }
        Err(errno) => tree::classify(&errno.into(), Path::new("/dev/shm")),
    }
}

/// `SIZE FREE`, in bytes.
fn parse(text: &str) -> Reading<SharedMemory> {
    let mut numbers = text
        .split_ascii_whitespace()
        .map(|word| word.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(size), Some(free)) => Reading::Value(SharedMemory {
            size,
            free,
            tmpfs: true,
        }),
        _ => Reading::NotObservable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn recorded_and_live() {
        let tree = TestTree::bare();
        assert_eq!(read(&tree.host()), Reading::NotObservable);
        tree.file(RECORDED, "67108864 1000");
        let got = read(&tree.host()).value().copied().unwrap();
        assert_eq!((got.size, got.free), (64 << 20, 1000));
        tree.file(RECORDED, "much");
        assert_eq!(read(&tree.host()), Reading::NotObservable);
        let live = Host::new("/");
        if live.is_live() {
            assert!(read(&live).value().is_some_and(|shm| shm.size > 0));
        }
    }
}
