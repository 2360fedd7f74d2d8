//! Processes by pod, from `/proc/[pid]/cgroup`, and the counters of a process's network namespace. Both are readable without a capability; `/proc/[pid]/ns/*` is not.
//!
//! Other pods' processes are seen only through the procfs of the node's PID namespace: with hostPID,
//! or with the node's /proc mounted below the host root.

pub mod cgroup;
pub mod net;

use crate::host::Host;
use crate::observe::{FaultKind, Reading};
use crate::source::{pod_logs, processes, slurm_jobs, tree};
use cgroup::pod_of;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most processes remembered of one pod: the first ones, the oldest as a rule.
pub const MAX_KEPT: usize = 64;

/// Processes of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPids {
    /// Number of its processes.
    pub count: u32,
    /// The lowest PIDs, at most [`MAX_KEPT`].
    pub pids: Vec<u32>,
}

/// What one walk over the processes gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walk {
    /// Processes of the pods asked for, by UID.
    pub pods: BTreeMap<String, PodPids>,
    /// Processes of any pod among them.
    pub in_pods: u32,
    /// Processes whose cgroup may not be read.
    pub denied: u32,
}

/// Walks all processes and keeps those of `wanted` pods. What ends meanwhile is left out.
pub fn walk(host: &Host, wanted: &BTreeSet<String>) -> Reading<Walk> {
    processes::pids(host).map(|pids| {
        let mut walk = Walk::default();
        for pid in pids {
            match owner_of(host, pid) {
                Reading::Value(Some(uid)) => {
                    walk.in_pods += 1;
                    if wanted.contains(&uid) {
                        let pod = walk.pods.entry(uid).or_default();
                        pod.count += 1;
                        if pod.pids.len() < MAX_KEPT {
                            pod.pids.push(pid);
                        }
                    }
                }
                Reading::Failed(_) => walk.denied += 1,
                _ => {}
            }
        }
        walk
    })
}

/// UID of the pod that a task belongs to, or of a Slurm job ([`slurm_jobs::uid`]), if to any; absent where
/// it ended, failed where its cgroup may not be read. Threads that do not lead their process are not
/// listed in /proc, but found there by their number (proc_pid_lookup), so that queue pairs may be theirs.
pub fn owner_of(host: &Host, pid: u32) -> Reading<Option<String>> {
    match processes::text(host, pid, "cgroup") {
        // ENOENT before it is opened, ESRCH after.
        Reading::Failed(fault) if fault.kind != FaultKind::Denied => Reading::Absent,
        cgroup => cgroup.map(|text| {
            let job = || slurm_jobs::job_of(&text).map(slurm_jobs::uid);
            pod_of(&text).or_else(job)
        }),
    }
}

/// Namespace and name of pods by UID, from the directories of their logs, `<namespace>_<name>_<uid>`
/// (kubernetes pkg/kubelet/kuberuntime, BuildPodLogsDirectory); empty where the directory cannot be read. A relative path is below
/// the host root.
pub fn names(host: &Host, pod_logs: &Path) -> BTreeMap<String, (String, String)> {
    let names = tree::names(host, pod_logs);
    let pods = names.iter().filter_map(|name| pod_logs::pod_dir(name));
    pods.map(|pod| (pod.uid, (pod.namespace, pod.pod)))
        .collect()
}

/// Whether PIDs that the kernel reports to this process are the same numbers as those in the host
/// root's /proc; `None` if unknown. `NSpid` lists a process's PIDs from the namespace
/// of that procfs inwards: one number says that they are one namespace.
pub fn same_pid_namespace(host: &Host) -> Option<bool> {
    let status = tree::read_text(host, "proc/self/status");
    let line = (status.value()?.lines()).find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
mod tests;
