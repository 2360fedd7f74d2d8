use super::*;
use crate::source::testtree::TestTree;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

struct Rig {
    tree: TestTree,
    directory: FollowedDirectory,
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
        let patterns: Vec<_> = patterns.collect::<Result<_, _>>().unwrap();
        let directory =
            FollowedDirectory::new(0, Arc::new(tree.host()), &patterns, "gpu-1.example", HANG);
        let follower = directory.follower();
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
    fn jobs(&mut self) -> Vec<(String, bool, bool)> {
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

/// After so long, an init hangs.
const HANG: Duration = Duration::from_secs(300);

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
    let fault = rig.directory.batch.fault.clone().unwrap().detail;
    assert!(fault.contains("more than 256 files of user "), "{fault}");
}

#[test]
fn a_process_that_is_gone_makes_room_for_another() {
    let mut rig = Rig::new(&["logs/*"]);
    let most = u32::try_from(MAX_WRITERS).unwrap();
    for pid in 1..=most {
        rig.process(pid, Some(1000 + pid), false);
        rig.write("log", &info("gpu-1", pid), NOW);
    }
    rig.lines();
    rig.process(most + 1, Some(42), false);
    rig.write("log", &info("gpu-1", most + 1), NOW);
    rig.lines();
    // All are there still.
    assert_eq!(rig.jobs().len(), MAX_WRITERS);
    rig.process(7, None, false);
    rig.write("log", &info("gpu-1", most + 1), NOW);
    rig.lines();
    let jobs: Vec<String> = rig.jobs().into_iter().map(|(job, ..)| job).collect();
    assert_eq!(jobs.len(), MAX_WRITERS);
    assert!(jobs.contains(&"42".into()) && !jobs.contains(&"1007".into()));
}

#[test]
fn another_file_of_the_name_tells_of_other_jobs() {
    let mut rig = Rig::new(&["logs/*"]);
    rig.process(1, Some(42), false);
    rig.write("log", &info("gpu-1", 1), NOW);
    assert_eq!(rig.lines(), [named("42", 1)]);
    // No prefix says whose line it is.
    rig.write("new", "NCCL version 2.21.5+cuda12.4\n", NOW);
    let path = |name: &str| rig.tree.path(&format!("logs/{name}"));
    std::fs::rename(path("new"), path("log")).unwrap();
    assert_eq!(rig.lines(), []);
    assert_eq!(rig.jobs(), []);
    // Another user's, before the directory is listed again.
    let key = ContainerKey {
        container: "log".into(),
        ..ContainerKey::default()
    };
    let (inode, owner) = (1, 4321);
    let file = Container {
        key,
        file: FileId { inode, owner },
        ..Container::default()
    };
    rig.directory.line(&file, info("gpu-1", 1).as_bytes());
    let (key, _) = rig.directory.batch.lines.last().unwrap();
    assert_eq!(*key, ContainerKey::of_job(4321, "log"));
}

#[test]
fn a_file_s_name_does_not_claim_another_user_s_job() {
    let mut rig = Rig::new(&["logs/slurm-%j.out"]);
    rig.write("slurm-43.out", &info("gpu-1", 99), NOW);
    assert_eq!(rig.lines(), [named("43", 1)]);
    assert_eq!(rig.jobs(), [("43".into(), false, false)]);
    // The job begins, and is another user's.
    rig.process(2, Some(43), true);
    rig.now += 31_000;
    rig.lines();
    assert_eq!(rig.jobs(), []);
    // slurmstepd alone says nothing of a job's user.
    rig.tree.file("proc/3/status", "Uid:\t0\t0\t0\t0\n");
    let cgroup = "0::/system.slice/slurmstepd.scope/job_44/slurm\n";
    rig.tree.file("proc/3/cgroup", cgroup);
    rig.now += 31_000;
    rig.write("slurm-44.out", &info("gpu-1", 98), NOW);
    assert_eq!(rig.lines(), [named("44", 1)]);
    assert_eq!(rig.jobs(), [("44".into(), false, false)]);
}

#[test]
fn why_files_are_not_read() {
    let mut rig = Rig::new(&["logs/log*"]);
    let said = |rig: &mut Rig| {
        rig.lines();
        let fault = rig.directory.batch.fault.clone();
        fault.map_or_else(String::new, |fault| fault.detail)
    };
    assert_eq!(said(&mut rig), "");
    std::fs::remove_dir(rig.tree.path("logs")).unwrap();
    assert_eq!(said(&mut rig), "logs: the directory does not exist");
    rig.tree.dir("logs");
    // Only names that the pattern fits count for the bound.
    rig.follower = Follower::new(Options {
        layout: Layout::Flat,
        names: 3,
        ..Options::new(&rig.directory.host, "logs")
    });
    for number in 0..50 {
        rig.write(&format!("other-{number}"), &info("gpu-1", 9), NOW);
    }
    rig.write("log-1", &info("gpu-1", 9), NOW);
    assert_eq!(said(&mut rig), "");
    assert_eq!(rig.jobs(), [("log-1".into(), false, false)]);
    for number in 2..5 {
        rig.write(&format!("log-{number}"), &info("gpu-1", 9), NOW);
    }
    let want = "logs: more than 3 files match; the others are not read";
    assert_eq!(said(&mut rig), want);
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_while_it_is_there() {
    let mut rig = Rig::new(&["logs/*"]);
    let mut told = |unreadable, fault: Option<&str>| {
        let stats = PollStats {
            root: Reading::Value(()),
            containers: 3,
            unreadable,
            fault: fault.map(Fault::other),
            ..PollStats::default()
        };
        rig.directory.fault(&stats).map(|fault| fault.detail)
    };
    assert_eq!(told(0, None), None);
    let denied = Some("logs: 1 of 3 files cannot be read, such as a: not permitted".into());
    assert_eq!(told(1, Some("a: not permitted")), denied);
    assert_eq!(told(1, None), denied);
    assert_eq!(told(0, None), None);
}

#[test]
fn large_files_are_read_to_their_ends_and_that_of_a_running_job_is_kept() {
    let mut rig = Rig::new(&["logs/*.txt"]);
    // More files than are held open, and more bytes than are read until the next listing.
    let (files, count) = (OPEN_FILES + 8, 2_500);
    for number in 0..files {
        let text = info("gpu-1", 9).repeat(count);
        rig.write(&format!("{number}.txt"), &text, HOUR);
    }
    let lines = rig.lines();
    assert_eq!(lines.len(), files);
    assert!(lines.iter().all(|(_, lines)| *lines == count), "{lines:?}");

    let mut rig = Rig::new(&["logs/slurm-%j.out"]);
    rig.process(1, Some(42), false);
    rig.write("slurm-42.out", &info("gpu-2", 1), 100 * HOUR);
    assert_eq!(rig.lines(), []);
    rig.write("slurm-42.out", &info("gpu-1", 9), HOUR);
    assert_eq!(rig.lines(), [named("42", 1)]);
    // The process that wrote it is not seen, but one of its job is.
    assert_eq!(rig.jobs(), [("42".into(), false, false)]);
}

#[test]
fn a_job_whose_process_is_not_seen_outlasts_the_time_after_which_its_init_hangs() {
    let mut rig = Rig::new(&["logs/*"]);
    rig.write("log", &info("gpu-1", 9), HANG + Duration::from_secs(60));
    assert_eq!(rig.lines(), [named("log", 1)]);
    assert_eq!(rig.jobs(), [("log".into(), false, false)]);
}

fn threads(all: usize) -> (SyncSender<Batch>, LogFiles, Registry) {
    let (tx, rx) = sync_channel(8);
    let files = LogFiles {
        batches: Arc::new(Mutex::new(rx)),
        dirs: vec![Latest::default(); all],
        now: Millis(0),
    };
    (tx, files, Registry::new(4, 16 << 20))
}

fn found(job: &str) -> (ContainerKey, Option<BTreeMap<ContainerKey, PodFacts>>) {
    let key = ContainerKey::of_job(1000, job);
    let jobs = [(key.clone(), facts(&key, false, false))];
    (key, Some(jobs.into()))
}

#[test]
fn a_directory_that_hangs_holds_up_no_other_for_long() {
    let (tx, mut files, mut registry) = threads(2);
    let (key, jobs) = found("42");
    let old = ContainerKey::of_job(1000, "41");
    let batch = Batch {
        jobs,
        ..Batch::default()
    };
    tx.try_send(batch).unwrap();
    for (now, gone) in [(1_000, false), (60_000, false), (61_000, true)] {
        files.take(&mut registry, Millis(now), &mut LogReading::default());
        assert!(matches!(files.look_up(&key), PodLookup::Found(_)));
        let found = files.look_up(&old);
        assert_eq!(matches!(found, PodLookup::Gone), gone, "{now} {found:?}");
    }
}

#[test]
fn a_thread_that_begins_again_does_not_add_to_what_it_said_before() {
    let (tx, mut files, mut registry) = threads(1);
    let (key, jobs) = found("42");
    let mut shown = |batch: Batch| {
        tx.try_send(batch).unwrap();
        files.take(&mut registry, Millis(1_000), &mut LogReading::default());
        registry.judge(true, HANG, None, |key| files.look_up(key), |_| {});
        registry.verdicts().len()
    };
    let is_first = true;
    let lines = vec![(key, info("gpu-1", 9).into_bytes())];
    let first = Batch {
        is_first,
        jobs: jobs.clone(),
        lines,
        ..Batch::default()
    };
    assert_eq!(shown(first), 1);
    let again = Batch {
        is_first,
        jobs,
        ..Batch::default()
    };
    assert_eq!(shown(again), 0);
}
