//! What lets this process pin memory: `/proc/self/limits`, `/proc/self/status`,
//! `/proc/self/uid_map`; and how much there is: `/proc/meminfo`.

use crate::host::Host;
use crate::observe::container::Privileges;
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::source::tree;

/// All of it.
pub fn read(host: &Host) -> Privileges {
    let status = tree::read_text(host, "proc/self/status");
    let field = |name: &str| status.clone().and_then(|text| status_field(&text, name));
    Privileges {
        memlock: tree::read_text(host, "proc/self/limits").and_then(|text| parse_memlock(&text)),
        memory: tree::read_text(host, "proc/meminfo").and_then(|text| mem_total(&text)),
        effective: field("CapEff").and_then(|text| hex(&text)),
        bounding: field("CapBnd").and_then(|text| hex(&text)),
        uid: field("Uid").and_then(|text| effective_uid(&text)),
        first_user_namespace: tree::read_text(host, "proc/self/uid_map")
            .map(|text| is_whole(&text)),
    }
}

fn malformed<T>(what: &str) -> Reading<T> {
    Reading::Failed(Fault {
        kind: FaultKind::Malformed,
        detail: what.to_string(),
    })
}

/// Soft limit of the line `Max locked memory  8388608  8388608  bytes` (fs/proc/base.c); none:
/// unlimited.
pub fn parse_memlock(text: &str) -> Reading<Option<u64>> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|rest| rest.split_ascii_whitespace().next());
    match soft {
        Some("unlimited") => Reading::Value(None),
        Some(number) => match number.parse() {
            Ok(bytes) => Reading::Value(Some(bytes)),
            Err(_) => malformed("/proc/self/limits: no number of bytes"),
        },
        None => Reading::Absent,
    }
}

fn status_field(text: &str, name: &str) -> Reading<String> {
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.trim().to_string())
    });
    value.map_or(Reading::Absent, Reading::Value)
}

/// `MemTotal:       2113513824 kB`, in bytes.
fn mem_total(text: &str) -> Reading<u64> {
    let mut lines = text.lines();
    let Some(line) = lines.find_map(|line| line.strip_prefix("MemTotal:")) else {
        return Reading::Absent;
    };
    let number = line.trim().strip_suffix("kB").map(str::trim_end);
    match number.and_then(|number| number.parse::<u64>().ok()) {
        Some(kib) => Reading::Value(kib.saturating_mul(1024)),
        None => malformed("/proc/meminfo: no number of kB"),
    }
}

fn hex(text: &str) -> Reading<u64> {
    match u64::from_str_radix(text, 16) {
        Ok(bits) => Reading::Value(bits),
        Err(_) => malformed("/proc/self/status: no capability set"),
    }
}

/// `Uid:` real, effective, saved, file system.
fn effective_uid(text: &str) -> Reading<u32> {
    let uid = text.split_ascii_whitespace().nth(1);
    match uid.and_then(|uid| uid.parse().ok()) {
        Some(uid) => Reading::Value(uid),
        None => malformed("/proc/self/status: no user id"),
    }
}

/// Whether a map of user ids is the first namespace's: all of them, onto themselves.
fn is_whole(text: &str) -> bool {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words == ["0", "0", "4294967295"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn memlock() {
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
            assert_eq!(parse_memlock(&format!("{HEAD}{line}\n")), want, "{line}");
        }
        assert!(matches!(
            parse_memlock("Max locked memory  -5 x bytes"),
            Reading::Failed(_)
        ));
    }

    #[test]
    fn privileges() {
        let tree = TestTree::bare();
        assert_eq!(read(&tree.host()), Privileges::default());
        tree.file(
            "proc/self/status",
            "Name:\tselvage\nUid:\t1000\t1001\t1000\t1000\nCapEff:\t0000000000004000\nCapBnd:\t00000000a80425fb",
        );
        tree.file("proc/self/uid_map", "         0          0 4294967295");
        tree.file("proc/meminfo", "MemTotal:       16 kB\nMemFree: 1 kB");
        let got = read(&tree.host());
        assert_eq!(got.effective, Reading::Value(1 << 14));
        assert_eq!(got.bounding, Reading::Value(0xa804_25fb));
        assert_eq!(got.uid, Reading::Value(1001));
        assert_eq!(got.memory, Reading::Value(16 << 10));
        assert_eq!(got.first_user_namespace, Reading::Value(true));
        tree.file("proc/self/uid_map", "0 100000 65536");
        tree.file("proc/meminfo", "MemTotal: many kB");
        tree.file("proc/self/status", "Uid:\tx\nCapEff:\tzz");
        let got = read(&tree.host());
        assert_eq!(got.first_user_namespace, Reading::Value(false));
        assert!(matches!(got.effective, Reading::Failed(_)));
        assert!(matches!(got.uid, Reading::Failed(_)));
        assert!(matches!(got.memory, Reading::Failed(_)));
        assert_eq!(got.bounding, Reading::Absent);
    }
}
