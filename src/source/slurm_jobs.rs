//! Slurm's jobs by their processes: `/proc/[pid]/cgroup` names the job where Slurm tracks processes by
//! cgroups (slurm src/plugins/cgroup).
//!
//! | cgroup | path |
//! |---|---|
//! | v2 | `/system.slice/slurmstepd.scope/job_12/step_0/user/task_0` |
//! | v2, several slurmd | `/system.slice/gpu-1_slurmstepd.scope/job_12/…` |
//! | v1 | `/slurm/uid_1000/job_12/step_batch` |
//!
//! These paths count from the root alone: below a cgroup that systemd delegates to a user, the user makes
//! any name. From within a container's cgroup namespace all paths begin with `/..`, and no job is named.

use crate::host::Host;
use crate::source::{processes, tree};
use std::collections::BTreeMap;

/// Who runs a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessOwner {
    /// UID by which it makes files.
    pub user: u32,
    /// Number of the Slurm job that it belongs to.
    pub job: Option<u32>,
}

/// Who runs a process; `None` if there is none of this number.
pub fn owner_of(host: &Host, pid: u32) -> Option<ProcessOwner> {
    let user = user_of(&text(host, pid, "status")?)?;
    let job = text(host, pid, "cgroup").as_deref().and_then(job_of);
    Some(ProcessOwner { user, job })
}

/// Jobs that have a process, by number, with the user who runs them. slurmstepd, which runs as root, is
/// in each job's cgroup.
pub fn running(host: &Host) -> BTreeMap<u32, u32> {
    let mut jobs = BTreeMap::new();
    for pid in processes::pids(host).into_value().unwrap_or_default() {
        if let Some(job) = text(host, pid, "cgroup").as_deref().and_then(job_of)
            && jobs.get(&job).is_none_or(|user| *user == 0)
        {
            let status = text(host, pid, "status");
            jobs.insert(job, status.as_deref().and_then(user_of).unwrap_or(0));
        }
    }
    jobs
}

fn text(host: &Host, pid: u32, name: &str) -> Option<String> {
    processes::text(host, pid, name).into_value()
}

/// Stands for a job where pods go by their UID, which this is none of.
pub fn uid(job: u32) -> String {
    format!("job {job}")
}

/// Whether the host has GPUs, by their drivers.
pub fn has_gpus(host: &Host) -> bool {
    let drivers = ["proc/driver/nvidia/version", "sys/module/amdgpu"];
    drivers.iter().any(|driver| tree::exists(host, driver))
}

/// The job in a process's list of cgroups, `id:controllers:path` a line.
pub(super) fn job_of(text: &str) -> Option<u32> {
    let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.find_map(|path| {
        let mut parts = path.strip_prefix('/')?.split('/');
        let (top, next, job) = (parts.next()?, parts.next()?, parts.next()?);
        let v2 = top == "system.slice" && next.ends_with("slurmstepd.scope");
        let v1 = top.starts_with("slurm") && next.starts_with("uid_");
        (v1 || v2).then(|| job.strip_prefix("job_")?.parse().ok())?
    })
}

/// `Uid:` in a process's status: real, effective, saved and filesystem UID (proc(5)).
fn user_of(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn jobs_in_cgroups() {
        for (text, want) in [
            (
                "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n",
                Some(12),
            ),
            (
                "0::/system.slice/gpu-1_slurmstepd.scope/job_7/step_batch/slurm\n",
                Some(7),
            ),
            (
                "9:cpuset:/\n5:memory:/slurm/uid_1000/job_12/step_batch/task_0\n",
                Some(12),
            ),
            ("5:memory:/slurm_gpu-1/uid_0/job_3\n", Some(3)),
            ("0::/system.slice/slurmstepd.scope/system\n", None),
            ("0::/user.slice/user-1000.slice/job_12\n", None),
            ("0::/system.slice/slurmstepd.scope/job_x\n", None),
            // Made by a user in what systemd delegates.
            (
                "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_42/x\n",
                None,
            ),
            (
                "0::/user.slice/user@1000.service/system.slice/slurmstepd.scope/job_42\n",
                None,
            ),
            ("0::/user.slice/uid_1000/job_42/step_0\n", None),
            ("0::/user.slice/slurm/uid_1000/job_42/step_0\n", None),
            // As seen from within a container's cgroup namespace.
            (
                "0::/../../system.slice/slurmstepd.scope/job_42/step_0\n",
                None,
            ),
            ("5:memory:/../slurm/uid_1000/job_42\n", None),
            ("0::/\n", None),
            ("", None),
        ] {
            assert_eq!(job_of(text), want, "{text}");
        }
    }

    #[test]
    fn processes() {
        let tree = TestTree::new();
        tree.file(
            "proc/10/cgroup",
            "0::/system.slice/slurmstepd.scope/job_12/step_0\n",
        );
        tree.file("proc/10/status", "Name:\tpython\nUid:\t0\t0\t0\t1000\n");
        tree.file("proc/11/status", "Name:\tbash\nUid:\t0\t0\t0\t0\n");
        tree.file("proc/12/status", "Name:\tbash\n");
        let host = tree.host();
        let owner = |user, job| Some(ProcessOwner { user, job });
        assert_eq!(owner_of(&host, 10), owner(1000, Some(12)));
        assert_eq!(owner_of(&host, 11), owner(0, None));
        assert_eq!(owner_of(&host, 12), None);
        assert_eq!(owner_of(&host, 14), None);
        tree.file(
            "proc/13/cgroup",
            "0::/system.slice/slurmstepd.scope/job_12/slurm\n",
        );
        tree.file("proc/13/status", "Uid:\t0\t0\t0\t0\n");
        assert_eq!(running(&host), [(12, 1000)].into());
    }

    #[test]
    fn gpus_by_their_drivers() {
        for (file, want) in [
            ("proc/driver/nvidia/version", true),
            ("sys/module/amdgpu/version", true),
            ("sys/module/mlx5_core/version", false),
        ] {
            let tree = TestTree::new();
            tree.file(file, "1.0\n");
            assert_eq!(has_gpus(&tree.host()), want, "{file}");
        }
    }
}
