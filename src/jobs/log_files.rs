//! Log files of jobs outside of Kubernetes, as the settings name them: which lines are this node's,
//! and whose.
//!
//! A directory may be shared by many nodes, so a line counts where its prefix (`HOST:PID:TID`) names
//! this host. The process of that number names the job by its cgroup, if it runs as the file's owner;
//! else the file's name does (`%j`), else another process of the file, else the file stands for a job.

use super::Inputs;
use super::registry::{PodLookup, Registry};
use crate::check::job_verdicts::LogReading;
use crate::clock::Clock;
use crate::config::Config;
use crate::file_pattern::{FileNames, FilePattern, NamedIds};
use crate::host::Host;
use crate::observe::{ContainerKey, Fault, PodContainer, PodFacts, PodJob, Reading};
use crate::source::nccl::anchor::{self, VERDICT_SCHEMA};
use crate::source::pod_logs::{
    Container, FileId, FlatFile, Follower, Layout, Options, PollStats, Sink,
};
use crate::source::slurm_jobs::{self, ProcessOwner};
use crate::source::{nccl, tree};
use crate::supervise;
use crate::units::Millis;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Stack of a directory's thread: paths, one line at a time.
const STACK: usize = 512 * 1024;

/// Most directories followed, a thread each.
const MAX_DIRS: usize = 8;

/// Most files followed in one directory, and of one owner in it.
const MAX_FILES: usize = 1024;
const MAX_FILES_OF_OWNER: usize = 256;

/// Most files held open in one directory.
const OPEN_FILES: usize = 32;

/// Most processes remembered of one file.
const MAX_WRITERS: usize = 64;

/// Bytes read of each file in turn, and of all that lag behind, before what was read is handed over.
const SHARE: usize = 2 << 10;
const BATCH: usize = 256 << 10;

/// A file that was not written for so long, on top of the time after which an init hangs, is let go
/// once no process of its job is left; until then, its job counts as running.
const QUIET: Duration = Duration::from_secs(300);

/// A file that was not written for longer is read at the start only where its name says that its job
/// is running.
const OLD: Duration = Duration::from_secs(86_400);

/// How often directories are listed, jobs' processes looked for and batches sent though nothing changed.
const LIST_EVERY: Duration = Duration::from_secs(5);

/// How old a list of all running jobs may be where it only keeps files and jobs: each one takes a look
/// at all processes.
const WALK_EVERY: Duration = Duration::from_secs(30);

/// How long a directory may say nothing before jobs of an earlier run are taken for ended.
const SILENT_AFTER: Duration = Duration::from_secs(60);

/// Longest wait for new lines.
const WAIT: Duration = Duration::from_secs(1);

/// What one directory has to say.
#[derive(Debug, Default)]
struct Batch {
    dir: usize,
    /// The first one of its thread: all files are read from the beginning.
    is_first: bool,
    /// New lines with their jobs; each line ends in a newline.
    lines: Vec<(ContainerKey, Vec<u8>)>,
    /// All jobs with a file there, as pods whose only container is the job; `None`: as before.
    jobs: Option<BTreeMap<ContainerKey, PodFacts>>,
    /// Sums since the last batch; counts as they are now.
    stats: PollStats,
    /// Why files of it are not read, if so.
    fault: Option<Fault>,
    /// Bytes gone before they were read.
    lost: u64,
}

/// A directory with the patterns of its files.
struct FollowedDirectory {
    host: Arc<Host>,
    /// Names of this host.
    hosts: Vec<String>,
    dir: PathBuf,
    names: Vec<FileNames>,
    files: BTreeMap<String, LogFile>,
    /// Not listed so far.
    first: bool,
    /// A file that was not written for so long is let go once its job has ended.
    quiet: Duration,
    /// Running jobs and their users, once that mattered, and when they were looked up.
    running: Option<(Millis, BTreeMap<u32, u32>)>,
    /// The last fault of a file.
    unreadable: Option<Fault>,
    /// When and why a file was left out.
    left_out: Option<(Millis, String)>,
    /// Kinds of trouble that were logged.
    warned: BTreeSet<&'static str>,
    /// A process wrote its first line.
    new_writer: bool,
    now: Millis,
    wall: SystemTime,
    batch: Batch,
}

/// State of a file that is followed.
#[derive(Debug, Default)]
struct LogFile {
    id: FileId,
    named: NamedIds,
    /// For how long it was not written to, when that was last looked up.
    age: Duration,
    aged_at: Millis,
    writers: BTreeMap<u32, LogAuthor>,
    /// Job of the last line; `None` after a line of another host.
    last: Option<ContainerKey>,
    /// Job by the last process whose cgroup named one.
    job: Option<u32>,
    /// When there was last no room for one more process.
    full_at: Option<Millis>,
}

/// A process that wrote lines.
#[derive(Debug, Clone)]
struct LogAuthor {
    key: ContainerKey,
    /// As it was when its first line was read, if it runs as the file's owner.
    process: Option<ProcessOwner>,
    /// Its job, where only the file's name says which it is.
    by_name: Option<u32>,
}

/// Collects what the directories' threads send.
#[derive(Debug, Clone)]
pub(super) struct LogFiles {
    batches: Arc<Mutex<Receiver<Batch>>>,
    dirs: Vec<Latest>,
    now: Millis,
}

/// What a directory's thread sent last.
#[derive(Debug, Clone, Default)]
struct Latest {
    jobs: BTreeMap<ContainerKey, PodFacts>,
    /// Number of files.
    files: usize,
    /// Why it cannot be read.
    fault: Option<Fault>,
    /// What was there at the start was read.
    caught_up: bool,
    /// When it sent that; before, when its first word was first waited for.
    heard: Option<Millis>,
}

impl LogFiles {
    /// Starts a thread for each directory; they end when this is dropped.
    pub(super) fn spawn(inputs: &Inputs, config: &Config) -> Self {
        let (patterns, node) = (&config.nccl.log_files, &config.agent.node_name);
        let hang_after = config.policy.nccl.init_hang_after.0;
        let (tx, rx) = sync_channel(2);
        let mut dirs: BTreeMap<&Path, Vec<FilePattern>> = BTreeMap::new();
        for pattern in patterns {
            dirs.entry(&pattern.dir).or_default().push(pattern.clone());
        }
        let all = dirs.len().min(MAX_DIRS);
        if dirs.len() > MAX_DIRS {
            tracing::warn!(
                directories = dirs.len(),
                "nccl.log_files names more than {MAX_DIRS} directories; the others are not followed"
            );
        }
        for (number, patterns) in dirs.into_values().take(MAX_DIRS).enumerate() {
            let (host, clock, tx) = (Arc::clone(&inputs.host), inputs.clock, tx.clone());
            let node = node.to_string();
            (inputs.supervisor).thread(supervise::LOG_FILES, STACK, move |task| {
                let host = Arc::clone(&host);
                let directory = FollowedDirectory::new(number, host, &patterns, &node, hang_after);
                directory.follow(clock, &tx, || task.beat());
                Ok(())
            });
        }
        LogFiles {
            batches: Arc::new(Mutex::new(rx)),
            dirs: vec![Latest::default(); all],
            now: Millis(0),
        }
    }

    /// Hands new lines to the registry, and adds what was read.
    pub(super) fn take(&mut self, registry: &mut Registry, now: Millis, totals: &mut LogReading) {
        self.now = now;
        for dir in &mut self.dirs {
            dir.heard.get_or_insert(now);
        }
        let batches = Arc::clone(&self.batches);
        let batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
        for batch in batches.try_iter().take(2 * MAX_DIRS) {
            add(totals, &batch.stats);
            self.take_batch(batch, registry);
        }
    }

    fn take_batch(&mut self, batch: Batch, registry: &mut Registry) {
        registry.lost += batch.lost;
        let Some(dir) = self.dirs.get_mut(batch.dir) else {
            return;
        };
        if batch.is_first {
            // Its lines come once more.
            let before = std::mem::take(dir);
            registry.keep_jobs(|key| !before.jobs.contains_key(key));
        }
        for (key, text) in batch.lines {
            let job = Container {
                key,
                ..Container::default()
            };
            let lines = text.split(|byte| *byte == b'\n');
            (lines.filter(|line| !line.is_empty())).for_each(|line| registry.line(&job, line));
        }
        dir.heard = Some(self.now);
        dir.files = batch.stats.containers;
        dir.caught_up |= batch.stats.behind == 0;
        dir.fault = batch.fault;
        if let Some(jobs) = batch.jobs {
            let before = std::mem::replace(&mut dir.jobs, jobs);
            let complete = self.is_complete();
            let known =
                |key: &ContainerKey| (self.dirs.iter()).any(|dir| dir.jobs.contains_key(key));
            registry.keep_jobs(|key| known(key) || !complete && !before.contains_key(key));
        }
    }

    /// Whether all directories were read once, but for those that say nothing.
    fn is_complete(&self) -> bool {
        let is_silent = |at: Millis| self.now.since(at) >= SILENT_AFTER;
        (self.dirs.iter()).all(|dir| dir.caught_up || dir.heard.is_some_and(is_silent))
    }

    /// Looks up a job by its key.
    pub(super) fn look_up(&self, key: &ContainerKey) -> PodLookup<'_> {
        let known = self.dirs.iter().filter_map(|dir| dir.jobs.get(key));
        match known.max_by_key(|job| (!job.finished, job.is_job(&key.container))) {
            Some(job) if !job.finished => PodLookup::Found(job),
            None if !self.is_complete() => PodLookup::Pending,
            _ => PodLookup::Gone,
        }
    }

    /// Number of files that are followed.
    pub(super) fn count(&self) -> usize {
        self.dirs.iter().map(|dir| dir.files).sum()
    }

    /// Whether all directories can be read.
    pub(super) fn state(&self) -> Reading<()> {
        let mut faults = self.dirs.iter().filter_map(|dir| dir.fault.clone());
        faults.next().map_or(Reading::Value(()), Reading::Failed)
    }
}

/// Adds a poll to the sums over all polls.
pub(super) fn add(totals: &mut LogReading, poll: &PollStats) {
    totals.bytes += poll.bytes;
    totals.lines_dropped += poll.lines_dropped;
}

impl FollowedDirectory {
    fn new(
        dir: usize,
        host: Arc<Host>,
        patterns: &[FilePattern],
        node: &str,
        hang_after: Duration,
    ) -> Self {
        let hostname = tree::read_text(&host, "etc/hostname");
        let names = [Some(node.to_string()), hostname.into_value()];
        let short = |name: &String| name.trim().split('.').next().map(str::to_string);
        let hosts = names.iter().flatten().filter_map(short);
        let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).collect();
        let names = patterns.iter().filter_map(|pattern| pattern.names(&hosts));
        FollowedDirectory {
            dir: (patterns.first()).map_or_else(PathBuf::new, |pattern| pattern.dir.clone()),
            names: names.collect(),
            hosts,
            host,
            files: BTreeMap::new(),
            first: true,
            quiet: hang_after + QUIET,
            running: None,
            unreadable: None,
            left_out: None,
            warned: BTreeSet::new(),
            new_writer: false,
            now: Millis(0),
            wall: SystemTime::UNIX_EPOCH,
            batch: Batch {
                dir,
                is_first: true,
                ..Batch::default()
            },
        }
    }

    fn follower(&self) -> Follower {
        Follower::new(Options {
            layout: Layout::Flat,
            containers: MAX_FILES,
            list_every: LIST_EVERY,
            share: SHARE,
            backlog: BATCH,
            open_files: OPEN_FILES,
            ..Options::new(&self.host, &self.dir)
        })
    }

    /// Until the receiver is gone.
    fn follow(mut self, clock: Clock, tx: &SyncSender<Batch>, beat: impl Fn()) {
        let mut follower = self.follower();
        let mut due = Millis(0);
        loop {
            beat();
            let now = clock.now();
            self.poll(&mut follower, now, jiff::Timestamp::now());
            if self.new_writer || now >= due {
                self.batch.jobs = Some(self.jobs());
                (self.new_writer, due) = (false, now.plus(LIST_EVERY));
            }
            if self.batch.jobs.is_some() || !self.batch.lines.is_empty() {
                let next = Batch {
                    dir: self.batch.dir,
                    ..Batch::default()
                };
                let mut batch = std::mem::replace(&mut self.batch, next);
                // Until there is room, nothing more is read.
                while let Err(error) = tx.try_send(batch) {
                    let TrySendError::Full(full) = error else {
                        return;
                    };
                    batch = full;
                    beat();
                    follower.wait(WAIT);
                }
            }
            follower.wait(WAIT);
        }
    }

    fn poll(&mut self, follower: &mut Follower, now: Millis, wall: jiff::Timestamp) {
        (self.now, self.wall) = (now, wall.into());
        let stats = follower.poll(now, self);
        self.first &= stats.root.value().is_none();
        self.batch.fault = self.fault(&stats);
        let before = &self.batch.stats;
        self.batch.stats = PollStats {
            bytes: before.bytes + stats.bytes,
            lines_dropped: before.lines_dropped + stats.lines_dropped,
            ..stats
        };
    }

    /// Why files are not read, if so; the first time, it is logged.
    fn fault(&mut self, stats: &PollStats) -> Option<Fault> {
        let unreadable = stats.fault.clone().or(self.unreadable.take());
        self.unreadable = unreadable.filter(|_| stats.unreadable > 0);
        let left_out = self.left_out.take();
        self.left_out = left_out.filter(|(at, _)| self.now.since(*at) < 2 * LIST_EVERY);
        let (what, fault) = self.trouble(stats)?;
        if self.warned.insert(what) {
            tracing::warn!(what, detail = fault.detail, "job logs not read");
        }
        Some(fault)
    }

    /// Why files are not read, if so: in words for the log, and as the source's fault.
    fn trouble(&self, stats: &PollStats) -> Option<(&'static str, Fault)> {
        let at = self.dir.display();
        let too_many = |why: &str| Fault::other(format!("{at}: {why}; the others are not read"));
        if let Reading::Failed(fault) = &stats.root {
            return Some(("a directory cannot be read", fault.clone()));
        }
        if stats.root == Reading::Absent {
            let fault = Fault::other(format!("{at}: the directory does not exist"));
            return Some(("waiting for a directory", fault));
        }
        if let Some(fault) = &self.unreadable {
            let (count, all, first) = (stats.unreadable, stats.containers, &fault.detail);
            let detail = format!("{at}: {count} of {all} files cannot be read, such as {first}");
            let kind = fault.kind;
            return Some(("files cannot be read", Fault { kind, detail }));
        }
        if let Some(most) = stats.more_names {
            let fault = too_many(&format!("more than {most} files match"));
            return Some(("too many files in a directory", fault));
        }
        let (_, why) = self.left_out.as_ref()?;
        Some(("too many files to follow", too_many(why)))
    }

    /// Jobs of the files, and whether they have ended: no process of theirs is left, and nothing was
    /// written for a while.
    fn jobs(&mut self) -> BTreeMap<ContainerKey, PodFacts> {
        let files = std::mem::take(&mut self.files);
        let mut jobs: BTreeMap<&ContainerKey, (bool, bool)> = BTreeMap::new();
        for file in files.values() {
            let owner = file.id.owner;
            let recent = file.age + self.now.since(file.aged_at) < self.quiet;
            for (pid, writer) in &file.writers {
                // The job may have begun after its name was used.
                let named = writer.by_name;
                if named.is_some_and(|job| self.belongs_to_other_user(job, owner, WALK_EVERY)) {
                    continue;
                }
                let (proven, finished) = jobs.entry(&writer.key).or_insert((false, true));
                *proven |= writer.process.is_some_and(|process| process.job.is_some());
                *finished &= !recent && !self.is_alive(*pid, writer, owner);
            }
        }
        let facts = |(key, (proven, finished)): (&ContainerKey, _)| {
            (key.clone(), facts(key, proven, finished))
        };
        let jobs = jobs.into_iter().map(facts).collect();
        self.files = files;
        jobs
    }

    /// Whether a process, or another one of its job, is left.
    fn is_alive(&mut self, pid: u32, writer: &LogAuthor, owner: u32) -> bool {
        let is_left = writer.is_left(&self.host, pid);
        let job = || writer.key.container.parse().ok();
        is_left || job().is_some_and(|job| self.running(WALK_EVERY).get(&job) == Some(&owner))
    }

    /// Jobs that have a process, with their users, as they were at most so long ago.
    fn running(&mut self, ago: Duration) -> &BTreeMap<u32, u32> {
        let known = self.running.take();
        let known = known.filter(|(at, _)| self.now.since(*at) < ago);
        let read = || (self.now, slurm_jobs::running(&self.host));
        &self.running.insert(known.unwrap_or_else(read)).1
    }

    /// Whether a job is known to be another user's. Where only root's processes are in its cgroup, these
    /// are slurmstepd: nothing is known.
    fn belongs_to_other_user(&mut self, job: u32, owner: u32, ago: Duration) -> bool {
        let user = self.running(ago).get(&job);
        user.is_some_and(|user| ![0, owner].contains(user))
    }

    /// Whether a file's name says that its job is running.
    fn is_running(&mut self, owner: u32, named: NamedIds) -> bool {
        let process = |pid| slurm_jobs::owner_of(&self.host, pid);
        (named.pid.and_then(process)).is_some_and(|process| process.user == owner)
            || (named.job).is_some_and(|job| self.running(WALK_EVERY).get(&job) == Some(&owner))
    }

    /// What a file's name says, if it is to be followed.
    fn named(&self, name: &str) -> Option<NamedIds> {
        self.names.iter().find_map(|names| names.read(name))
    }

    /// Whether a known file is followed on.
    fn follows_on(&mut self, known: LogFile, file: &FlatFile<'_>) -> bool {
        let (owner, named) = (known.id.owner, known.named);
        let age = known.age;
        let alive = |of: &mut Self| {
            let mut writers = known.writers.iter();
            writers.any(|(pid, writer)| of.is_alive(*pid, writer, owner))
        };
        let follows = age < self.quiet
            || file.unread
            || file.unreadable && age < OLD
            || alive(self)
            || known.writers.is_empty() && self.is_running(owner, named);
        self.files.insert(file.name.to_string(), known);
        follows
    }

    /// Why a file of this owner cannot be followed as well, if so.
    fn why_left_out(&self, owner: u32) -> Option<String> {
        let of_owner = self.files.values().filter(|file| file.id.owner == owner);
        if self.files.len() >= MAX_FILES {
            return Some(format!("more than {MAX_FILES} files"));
        }
        let full = of_owner.count() >= MAX_FILES_OF_OWNER;
        full.then(|| format!("more than {MAX_FILES_OF_OWNER} files of user {owner}"))
    }

    /// The job of a process that wrote to a file.
    fn writer(&mut self, name: &str, file: &LogFile, pid: u32) -> LogAuthor {
        let owner = file.id.owner;
        let process = slurm_jobs::owner_of(&self.host, pid);
        let process = process.filter(|process| process.user == owner);
        let by_cgroup = process.and_then(|process| process.job);
        // Anybody may give a file the number of a job that runs as another user.
        let by_name = (file.named.job).filter(|job| {
            by_cgroup.is_none() && !self.belongs_to_other_user(*job, owner, LIST_EVERY)
        });
        let job = by_cgroup.or(by_name).or(file.job);
        let job = job.map_or_else(|| name.to_string(), |job| job.to_string());
        LogAuthor {
            key: ContainerKey::of_job(owner, &job),
            process,
            by_name,
        }
    }
}

impl LogAuthor {
    /// Whether the process is the one that it was.
    fn is_left(&self, host: &Host, pid: u32) -> bool {
        self.process.is_some() && slurm_jobs::owner_of(host, pid) == self.process
    }
}

impl LogFile {
    fn new(id: FileId, named: NamedIds) -> Self {
        LogFile {
            id,
            named,
            ..LogFile::default()
        }
    }

    /// Notes a line of a process; whether it is its first one.
    fn wrote(&mut self, pid: u32, writer: LogAuthor, now: Millis, host: &Host) -> bool {
        self.job = writer.process.and_then(|process| process.job).or(self.job);
        self.last = Some(writer.key.clone());
        if self.writers.contains_key(&pid) {
            return false;
        }
        self.make_room(now, host);
        let has_room = self.writers.len() < MAX_WRITERS;
        has_room && self.writers.insert(pid, writer).is_none()
    }

    /// Forgets a process that is gone, if the list is full.
    fn make_room(&mut self, now: Millis, host: &Host) {
        let due = self.full_at.is_none_or(|at| now.since(at) >= LIST_EVERY);
        if self.writers.len() < MAX_WRITERS || !due {
            return;
        }
        let mut writers = self.writers.iter();
        let gone = writers.find(|(pid, writer)| !writer.is_left(host, **pid));
        let gone = gone.map(|(pid, _)| *pid);
        self.full_at = gone.is_none().then_some(now);
        if let Some(pid) = gone {
            self.writers.remove(&pid);
        }
    }
}

/// A job as a pod with one container. Only what its cgroup names is known to be a job of this node.
fn facts(key: &ContainerKey, proven: bool, finished: bool) -> PodFacts {
    let name = key.container.clone();
    let slurm = name.bytes().all(|byte| byte.is_ascii_digit());
    let kind = if slurm { "Slurm" } else { "file" };
    let container = PodContainer {
        gpus: proven.into(),
        privileged: true,
        other_devices: true,
        ..PodContainer::default()
    };
    PodFacts {
        uid: key.uid.clone(),
        job: Some(PodJob {
            kind: kind.into(),
            name: name.clone(),
        }),
        host_network: true,
        finished,
        containers: [(name, container)].into(),
        ..PodFacts::default()
    }
}

impl Sink for FollowedDirectory {
    fn may_follow(&self, name: &str) -> bool {
        self.named(name).is_some()
    }

    fn follows(&mut self, file: &FlatFile<'_>) -> bool {
        let Some(named) = self.named(file.name) else {
            return false;
        };
        let (id, now) = (file.id, self.now);
        // A clock that is behind the file server's finds no age.
        let age = self.wall.duration_since(file.written).unwrap_or_default();
        let dated = |file| LogFile {
            age,
            aged_at: now,
            ..file
        };
        if let Some(known) = self.files.remove(file.name) {
            // Another file of this name tells of other jobs, perhaps another user's.
            let same = Some(known).filter(|known| known.id == id);
            let known = same.unwrap_or_else(|| LogFile::new(id, named));
            return self.follows_on(dated(known), file);
        }
        let limit = if self.first { OLD } else { self.quiet };
        if age >= limit && !(self.first && self.is_running(id.owner, named)) {
            return false;
        }
        if let Some(why) = self.why_left_out(id.owner) {
            self.left_out = Some((now, why));
            return false;
        }
        let new = dated(LogFile::new(id, named));
        self.files.insert(file.name.to_string(), new);
        true
    }

    fn wants(&self, _: &Container, chunk: &[u8], from: usize) -> Option<usize> {
        anchor::find(chunk, from)
    }

    fn line(&mut self, file: &Container, line: &[u8]) {
        let name = &file.key.container;
        // What a sidecar says of containers is for their pod's own log.
        if memmem::find(line, VERDICT_SCHEMA.as_bytes()).is_some() {
            return;
        }
        let Some(mut of) = self.files.remove(name) else {
            return;
        };
        // Its name is another file's since the directory was listed.
        if of.id != file.file {
            of = LogFile {
                age: of.age,
                aged_at: of.aged_at,
                ..LogFile::new(file.file, of.named)
            };
        }
        match nccl::prefix::author(line) {
            Some((host, pid)) if self.hosts.iter().any(|own| own.eq_ignore_ascii_case(&host)) => {
                let pid = pid.unwrap_or_default();
                let known = of.writers.get(&pid).cloned();
                let writer = known.unwrap_or_else(|| self.writer(name, &of, pid));
                self.new_writer |= of.wrote(pid, writer, self.now, &self.host);
            }
            Some(_) => of.last = None,
            None => {}
        }
        if let Some(key) = &of.last {
            let lines = &mut self.batch.lines;
            if lines.last().is_none_or(|(last, _)| last != key) {
                lines.push((key.clone(), Vec::new()));
            }
            if let Some((_, text)) = lines.last_mut() {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
        }
        self.files.insert(name.clone(), of);
    }

    fn lost(&mut self, file: &Container, bytes: u64) {
        self.batch.lost += bytes;
        if let Some(of) = self.files.get_mut(&file.key.container) {
            of.last = None;
        }
    }

    fn gone(&mut self, file: &Container) {
        self.files.remove(&file.key.container);
    }
}

#[cfg(test)]
mod tests;
