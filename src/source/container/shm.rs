//! Size of `/dev/shm` (shm_overview(7)).

use crate::host::Host;
use crate::observe::container::SharedMemory;
use crate::observe::reading::Reading;
use crate::source::tree;
use std::path::Path;

/// File of a directory tree that records size and free space: `SIZE FREE`, in bytes.
const RECORDED: &str = "selvage/shm";

/// Size and free space; not observable in a directory tree that did not record them.
pub(crate) fn read(host: &Host) -> Reading<SharedMemory> {
    if !host.is_live() {
        let text = tree::read_text(host, RECORDED);
        let recorded = text.value().and_then(|text| parse(text));
        return recorded.map_or(Reading::NotObservable, Reading::Value);
    }
    match nix::sys::statvfs::statvfs(&host.path("dev/shm")) {
        Ok(fs) => Reading::Value(SharedMemory {
            size: fs.blocks().saturating_mul(fs.fragment_size()),
            free: fs.blocks_available().saturating_mul(fs.fragment_size()),
        }),
        Err(errno) => tree::classify(&errno.into(), Path::new("/dev/shm")),
    }
}

fn parse(text: &str) -> Option<SharedMemory> {
    let (size, free) = text.split_once(' ')?;
    Some(SharedMemory {
        size: size.parse().ok()?,
        free: free.trim().parse().ok()?,
    })
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
