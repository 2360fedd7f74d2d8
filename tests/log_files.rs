//! The agent on a host without Kubernetes: NCCL's log files of jobs, as `nccl.log_files` names them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{Series, Server, get, node, parse};

/// Everything here takes a second or two; a machine that is busy may need longer.
const BOUND: Duration = Duration::from_secs(60);

const FALLBACK: &str = "selvage_nccl_tcp_fallback";

struct Rig {
    dir: tempfile::TempDir,
    agent: Server,
}

impl Rig {
    fn new(prepare: impl FnOnce(&Path)) -> Rig {
        let (dir, _) = node("h100_ib");
        for logs in ["shared", "nccl"] {
            fs::create_dir(dir.path().join(logs)).unwrap();
        }
        prepare(dir.path());
        let settings = [
            "--node-name=gpu-1.example",
            "--set=cluster.mode=off",
            "--set=nccl.log_files=shared/slurm-%j.out,shared/*.txt,nccl/%h.%p.log",
        ];
        let agent = Server::agent(dir.path(), &settings);
        Rig { dir, agent }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The fallback of a job, as exported now.
    fn fallback(&self, job: &str) -> Option<f64> {
        let of_job = |series: &&Series| {
            let label = |name: &str| series.labels.get(name).map(String::as_str);
            let without_pod = ["namespace", "pod", "container"];
            series.family == FALLBACK
                && label("job") == Some(job)
                && without_pod
                    .iter()
                    .all(|name| label(name).unwrap_or_default().is_empty())
        };
        let (code, body) = get(&self.agent.address, "/metrics");
        assert_eq!(code, 200);
        parse(&body).iter().find(of_job).map(|series| series.value)
    }

    fn until_channels(&self, job: &str, transport: &str) {
        let labels = format!(r#"container="",job="{job}",transport="{transport}"}} 1"#);
        let end = Instant::now() + BOUND;
        while !get(&self.agent.address, "/metrics").1.contains(&labels) {
            assert!(Instant::now() < end, "no {labels}");
            support::pause();
        }
    }

    fn until(&self, job: &str, want: Option<f64>) {
        let end = Instant::now() + BOUND;
        while self.fallback(job) != want {
            let (_, metrics) = get(&self.agent.address, "/metrics");
            let nccl = metrics
                .lines()
                .filter(|line| line.starts_with("selvage_nccl"));
            let nccl: Vec<&str> = nccl.collect();
            assert!(
                Instant::now() < end,
                "no {want:?} of {job}: {nccl:#?}\n{}",
                self.agent.log()
            );
            support::pause();
        }
    }
}

/// A process of a Slurm job that runs as the owner of the test's files.
fn process(root: &Path, pid: u32, job: u32) {
    let dir = root.join(format!("proc/{pid}"));
    fs::create_dir_all(&dir).unwrap();
    let uid = fs::metadata(&dir).unwrap().uid();
    fs::write(
        dir.join("status"),
        format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
    )
    .unwrap();
    let cgroup = format!("0::/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0\n");
    fs::write(dir.join("cgroup"), cgroup).unwrap();
}

/// What a rank on `host` prints whose data goes by `via` to another node.
fn rank(host: &str, pid: u32, via: &str) -> String {
    let head = format!("{host}:{pid}:{pid} [0] NCCL INFO");
    format!(
        "{head} comm 0x8 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n\
         {head} Channel 00/0 : 0[0] -> 8[0] [send] via NET/{via}/0\n"
    )
}

fn append(path: &Path, text: &str) {
    let file = File::options().append(true).create(true).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn jobs_are_named_by_cgroup_and_by_the_files_names() {
    let rig = Rig::new(|root| process(root, 4711, 42));
    // A file as NCCL_DEBUG_FILE makes it: the process says which job it is.
    append(
        &rig.path("nccl/gpu-1.4711.log"),
        &rank("gpu-1", 4711, "Socket"),
    );
    rig.until("42", Some(1.0));
    // Another node's file and lines are not this node's, in the same directory or the same file.
    append(
        &rig.path("nccl/gpu-2.4711.log"),
        &rank("gpu-2", 4711, "Socket"),
    );
    append(
        &rig.path("shared/slurm-7.out"),
        &rank("gpu-2", 4711, "Socket"),
    );
    append(&rig.path("shared/slurm-7.out"), &rank("gpu-1", 99, "IB"));
    // Its process is not visible, but its file's name has the number.
    rig.until("7", Some(0.0));
    // Neither: the file stands for the job.
    append(&rig.path("shared/train.txt"), &rank("GPU-1", 77, "Socket"));
    rig.until("train.txt", Some(1.0));
    assert_eq!(rig.fallback("7"), Some(0.0));
    // Rotated by renaming, and by cutting back.
    let out = rig.path("shared/slurm-8.out");
    append(&out, &rank("gpu-1", 88, "Socket"));
    rig.until("8", Some(1.0));
    fs::rename(&out, rig.path("shared/slurm-8.out.1")).unwrap();
    append(&out, &rank("gpu-1", 88, "IB"));
    rig.until_channels("8", "net_ib");
    File::options()
        .write(true)
        .open(&out)
        .unwrap()
        .set_len(0)
        .unwrap();
    append(&out, &rank("gpu-1", 88, "OFI"));
    rig.until_channels("8", "net_ofi");
    append(&rig.path("shared/slurm-9.out"), &rank("gpu-1", 9, "Socket"));
    rig.until("9", Some(1.0));
    // Deleted: the job goes with its file.
    fs::remove_file(rig.path("shared/slurm-9.out")).unwrap();
    rig.until("9", None);
    assert_eq!(rig.fallback("42"), Some(1.0));
    let (_, report) = get(&rig.agent.address, "/report");
    assert!(report.contains("job 42: "), "{report}");
}

#[test]
fn hostile_files_are_harmless() {
    let rig = Rig::new(|root| {
        let at = |name: &str| root.join("shared").join(name);
        mkfifo(&at("slurm-1.out"), Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", at("slurm-2.out")).unwrap();
        fs::create_dir(at("slurm-3.out")).unwrap();
        // A link to a file that would count.
        fs::write(root.join("elsewhere"), rank("gpu-1", 4, "Socket")).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), at("slurm-4.out")).unwrap();
        // A line without an end, and one that never was text.
        fs::write(at("slurm-5.out"), "NCCL INFO ".repeat(1 << 20)).unwrap();
        fs::write(at("slurm-6.out"), [0xff; 4096]).unwrap();
        // A process of another user's job, named by a file that is not theirs.
        process(root, 4712, 43);
        let status = root.join("proc/4712/status");
        fs::write(status, "Uid:\t123456\t123456\t123456\t123456\n").unwrap();
    });
    append(
        &rig.path("shared/slurm-8.out"),
        &rank("gpu-1", 4712, "Socket"),
    );
    rig.until("8", Some(1.0));
    append(
        &rig.path("shared/slurm-5.out"),
        &format!("\n{}", rank("gpu-1", 5, "Socket")),
    );
    rig.until("5", Some(1.0));
    for job in ["1", "2", "3", "4", "6", "43"] {
        assert_eq!(rig.fallback(job), None, "{job}");
    }
    let (_, metrics) = get(&rig.agent.address, "/metrics");
    assert!(
        metrics.contains("selvage_source_up{source=\"log_files\"} 1"),
        "{metrics}"
    );
}
