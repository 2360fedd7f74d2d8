//! How much memory this process may pin and share: `/dev/shm`, `/proc/self/limits`, `/proc/self/status`,
//! `/proc/self/uid_map` and `/proc/meminfo`. Containers and saved trees may have only parts of these
//! files, so every field is read alone.

use crate::host::Host;
use crate::observe::{Privileges, Reading, SharedMemory};
use crate::source::tree;
use std::path::Path;

/// Reads all privileges of this process.
pub(crate) fn privileges(host: &Host) -> Privileges {
    let status = tree::read_text(host, "proc/self/status");
    let hex = |text: &str| u64::from_str_radix(text.trim(), 16).ok();
    let mask = |name| status.clone().and_then(|text| field(&text, name, hex));
    let effective_uid = |text: &str| text.split_ascii_whitespace().nth(1)?.parse().ok();
    Privileges {
        memlock: tree::read_text(host, "proc/self/limits").and_then(|text| memlock(&text)),
        memory: tree::read_text(host, "proc/meminfo").and_then(|text| {
            field(&text, "MemTotal:", |rest| {
                let kib: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
                Some(kib.saturating_mul(1024))
            })
        }),
        effective: mask("CapEff:"),
        bounding: mask("CapBnd:"),
        uid: status.and_then(|text| field(&text, "Uid:", effective_uid)),
        // The initial namespace maps all user ids onto themselves.
        first_user_namespace: tree::read_text(host, "proc/self/uid_map")
            .map(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"])),
    }
}

/// Soft limit of the line `Max locked memory  8388608  8388608  bytes` (fs/proc/base.c); `None` if
/// unlimited.
fn memlock(limits: &str) -> Reading<Option<u64>> {
    field(limits, "Max locked memory", |rest| {
        match rest.split_ascii_whitespace().next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        }
    })
}

/// The rest of the line that begins with `name`, parsed.
fn field<T>(text: &str, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    let Some(rest) = text.lines().find_map(|line| line.strip_prefix(name)) else {
        return Reading::Absent;
    };
    let odd = || format!("{name} unexpected value {:?}", rest.trim());
    Reading::parsed(parse(rest).ok_or_else(odd))
}

/// File of a directory tree that records the size and free space of `/dev/shm`: `SIZE FREE`, in bytes.
const SHM: &str = "selvage/shm";

/// Size and free space of `/dev/shm` (shm_overview(7)); not observable in a directory tree that did not record them.
pub(crate) fn shared_memory(host: &Host) -> Reading<SharedMemory> {
    if !host.is_live() {
        let text = tree::read_text(host, SHM);
        let recorded = text.value().and_then(|text| shm_sizes(text));
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

fn shm_sizes(text: &str) -> Option<SharedMemory> {
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
    fn memlock_limits() {
        const HEAD: &str =
            "Limit                     Soft Limit           Hard Limit           Units     \n";
        for (line, want) in [
            (
                "Max locked memory         8388608              8388608              bytes     ",
                Reading::Value(Some(8 << 20)),
            ),
            (
                "Max locked memory         unlimited            unlimited            bytes     ",
                Reading::Value(None),
            ),
            ("Max open files 1 1 files", Reading::Absent),
        ] {
            assert_eq!(memlock(&format!("{HEAD}{line}\n")), want, "{line}");
        }
        assert!(matches!(
            memlock("Max locked memory  -5 x bytes"),
            Reading::Failed(_)
        ));
    }

    #[test]
    fn privileges_by_line() {
        let tree = TestTree::bare();
        assert_eq!(privileges(&tree.host()), Privileges::default());
        tree.file(
            "proc/self/status",
            "Name:\tselvage\nUid:\t1000\t1001\t1000\t1000\nCapEff:\t0000000000004000\nCapBnd:\t00000000a80425fb",
        );
        tree.file("proc/self/uid_map", "         0          0 4294967295");
        tree.file("proc/meminfo", "MemTotal:       16 kB\nMemFree: 1 kB");
        let got = privileges(&tree.host());
        assert_eq!(got.effective, Reading::Value(1 << 14));
        assert_eq!(got.bounding, Reading::Value(0xa804_25fb));
        assert_eq!(got.uid, Reading::Value(1001));
        assert_eq!(got.memory, Reading::Value(16 << 10));
        assert_eq!(got.first_user_namespace, Reading::Value(true));
        tree.file("proc/self/uid_map", "0 100000 65536");
        tree.file("proc/meminfo", "MemTotal: many kB");
        tree.file("proc/self/status", "Uid:\tx\nCapEff:\tzz");
        let got = privileges(&tree.host());
        assert_eq!(got.first_user_namespace, Reading::Value(false));
        assert!(matches!(got.effective, Reading::Failed(_)));
        assert!(matches!(got.uid, Reading::Failed(_)));
        assert!(matches!(got.memory, Reading::Failed(_)));
        assert_eq!(got.bounding, Reading::Absent);
    }

    #[test]
    fn shared_memory_recorded_and_live() {
        let tree = TestTree::bare();
        assert_eq!(shared_memory(&tree.host()), Reading::NotObservable);
        tree.file(SHM, "67108864 1000");
        let got = shared_memory(&tree.host()).value().copied().unwrap();
        assert_eq!((got.size, got.free), (64 << 20, 1000));
        tree.file(SHM, "much");
        assert_eq!(shared_memory(&tree.host()), Reading::NotObservable);
        let live = Host::new("/");
        if live.is_live() {
            assert!(shared_memory(&live).value().is_some_and(|shm| shm.size > 0));
        }
    }
}
