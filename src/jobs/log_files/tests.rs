use super::*;
use crate::source::testtree::TestTree;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

struct Rig {
    tree: TestTree,
    directory: Directory,
    follower: Follower,
    now: u64,
}

impl Rig {
    fn new(patterns: &[&str]) -> Rig {
        let tree = TestTree::new();
        tree.dir("logs");
        let patterns = patterns
            .iter()
            .map(|text| FilePattern::try_from((*text).to_string()));
        let patterns = patterns.collect::<Result<_, _>>().unwrap();
        let directory = Directory::new(0, Arc::new(tree.host()), patterns, "gpu-1.example");
        let follower = directory.follower(Path::new("logs"));
        Rig {
            tree,
            directory,
            follower,
            now: 1_000_000,
        }
    }

    /// Appends to a file that was written so long ago.
    fn write(&self, name: &str, text: &str, age: Duration) {
        let path = self.tree.path(&format!("logs/{name}"));
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let now = SystemTime::from(jiff::Timestamp::now());
        file.set_modified(now - age).unwrap();
    }

    /// A process that runs as the owner of the files, or as the next user.
    fn process(&self, pid: u32, job: Option<u32>, others: bool) {
        let uid = std::fs::metadata(self.tree.path("logs")).unwrap().uid() + u32::from(others);
        let status = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        self.tree.file(&format!("proc/{pid}/status"), &status);
        let job = job.map(|job| format!("0::/system.slice/slurmstepd.scope/job_{job}/step_0\n"));
        self.tree.file(
            &format!("proc/{pid}/cgroup"),
            job.as_deref().unwrap_or("0::/\n"),
        );
    }

    /// What ten seconds of looking give: jobs with the number of their lines.
    fn lines(&mut self) -> Vec<(String, usize)> {
        for _ in 0..20 {
            self.now += 500;
            let now = Millis(self.now);
            self.directory
                .poll(&mut self.follower, now, jiff::Timestamp::now());
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (key, text) in std::mem::take(&mut self.directory.batch.lines) {
            let lines = text.iter().filter(|byte| **byte == b'\n').count();
            *counts.entry(key.container).or_default() += lines;
        }
        counts.into_iter().collect()
    }

    /// Jobs, whether the cgroup named them, and whether they have ended.
    fn jobs(&self) -> Vec<(String, bool, bool)> {
        let jobs = self.directory.jobs();
        let row = |(key, facts): (&ContainerKey, &PodFacts)| {
            (
                key.container.clone(),
                facts.is_job(&key.container),
                facts.finished,
            )
        };
        jobs.iter().map(row).collect()
    }
}

fn info(host: &str, pid: u32) -> String {
    format!("{host}:{pid}:{pid} [0] NCCL INFO Using network Socket\n")
}

fn named(job: &str, lines: usize) -> (String, usize) {
    (job.to_string(), lines)
}

const NOW: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn whose_line_it_is() {
    let mut rig = Rig::new(&["logs/slurm-%j.out", "logs/*"]);
    rig.process(1, Some(42), false);
    rig.process(2, Some(43), true);
    rig.process(3, None, false);
    let (here, there) = (|pid| info("gpu-1", pid), |pid| info("gpu-2", pid));
    for (name, text, want) in [
        ("by-cgroup", here(1), &[("42", 1)][..]),
        ("slurm-7.out", here(1), &[("42", 1)]),
        ("slurm-8.out", here(3), &[("8", 1)]),
        ("gone", here(99), &[("gone", 1)]),
        // The job of this number is another user's.
        ("slurm-43.out", here(99), &[("slurm-43.out", 1)]),
        // Another process of the file tells.
        ("with-another", here(1) + &here(99), &[("42", 2)]),
        // A process of another user tells nothing of this user's file.
        ("foreign", here(2), &[("foreign", 1)]),
        ("elsewhere", there(1), &[]),
        (
            "no-host",
            "[0] NCCL INFO Using network Socket\n".into(),
            &[],
        ),
        // A line without a prefix goes with the one before it.
        (
            "loose",
            here(3) + "NCCL version 2.21.5+cuda12.4\n",
            &[("loose", 2)],
        ),
        (
            "loose-there",
            there(3) + "NCCL version 2.21.5+cuda12.4\n",
            &[],
        ),
        ("torn-in", there(1).trim_end().to_string() + &here(1), &[]),
        (
            "sidecar",
            here(3) + "{\"schema\":\"selvage.dev/nccl-verdict/v1\"}\n",
            &[("sidecar", 1)],
        ),
    ] {
        rig.write(name, &text, NOW);
        let want: Vec<_> = want.iter().map(|(job, lines)| named(job, *lines)).collect();
        assert_eq!(rig.lines(), want, "{name}");
    }
}

#[test]
fn a_file_is_let_go_once_it_is_quiet_and_its_job_has_ended() {
    let mut rig = Rig::new(&["logs/*"]);
    rig.process(1, Some(42), false);
    rig.write("log", &info("gpu-1", 1), NOW);
    assert_eq!(rig.lines(), [named("42", 1)]);
    assert_eq!(rig.jobs(), [("42".into(), true, false)]);
    // Quiet for an hour, as NCCL is: its process is there.
    rig.write("log", "", HOUR);
    rig.lines();
    assert_eq!(rig.jobs(), [("42".into(), true, false)]);
    // The process is another job's by now.
    rig.process(1, Some(43), false);
    assert_eq!(rig.jobs(), [("42".into(), true, true)]);
    rig.lines();
    assert_eq!(rig.jobs(), []);
    // Written to again: only what is new is read.
    rig.write("log", &info("gpu-1", 1), NOW);
    assert_eq!(rig.lines(), [named("43", 1)]);
}

#[test]
fn at_the_start_files_of_a_day_and_those_of_running_jobs_are_read() {
    let mut rig = Rig::new(&["logs/slurm-%j.out", "logs/%h.%p.log", "logs/*.txt"]);
    rig.process(1, Some(42), false);
    rig.process(2, None, false);
    rig.process(3, None, true);
    for (name, age) in [
        ("today.txt", HOUR),
        ("week.txt", 100 * HOUR),
        ("slurm-42.out", 100 * HOUR),
        ("slurm-41.out", 100 * HOUR),
        ("gpu-1.2.log", 100 * HOUR),
        ("gpu-1.3.log", 100 * HOUR),
        ("gpu-1.4.log", 100 * HOUR),
        ("not-named", NOW),
    ] {
        rig.write(name, &info("gpu-1", 9), age);
    }
    let want = ["42", "gpu-1.2.log", "today.txt"].map(|job| named(job, 1));
    assert_eq!(rig.lines(), want);
    // Later ones are read from their beginning, unless they are old.
    rig.write("new.txt", &info("gpu-1", 9), NOW);
    rig.write("moved-here.txt", &info("gpu-1", 9), HOUR);
    assert_eq!(rig.lines(), [named("new.txt", 1)]);
}

#[test]
fn one_owner_s_files_do_not_crowd_out_the_directory() {
    let mut rig = Rig::new(&["logs/*"]);
    for number in 0..MAX_FILES_OF_OWNER + 50 {
        rig.write(&format!("{number}"), &info("gpu-1", 1), NOW);
    }
    assert_eq!(rig.lines().len(), MAX_FILES_OF_OWNER);
}
