//! Processes by `/proc/[pid]`.

use super::tree;
use crate::host::Host;
use crate::observe::Reading;
use std::path::PathBuf;

/// Most processes examined in one walk: the kernel's own default for pid_max.
const MAX_PROCESSES: usize = 32_768;

/// The files that are read here have a line each for a cgroup hierarchy or a property; longer ones are cut.
const MAX_BYTES: usize = 16 << 10;

/// IDs of the processes, lowest first.
pub fn pids(host: &Host) -> Reading<Vec<u32>> {
    tree::list(host, "proc").map(|names| {
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        pids.truncate(MAX_PROCESSES);
        pids
    })
}

/// Path of a process's file.
pub fn file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("proc/{pid}/{name}"))
}

/// Text of a process's file.
pub fn text(host: &Host, pid: u32, name: &str) -> Reading<String> {
    let bytes = tree::read_bytes(host, file(pid, name), MAX_BYTES);
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
