//! Log files of jobs outside of Kubernetes, as the settings name them: which lines are this node's,
//! and whose.
//!
//! A directory may be shared by many nodes, so a line counts where its prefix (`HOST:PID:TID`) names
//! this host. The process of that number names the job by its cgroup, if it runs as the file's owner;
//! else the file's name does (`%j`), else another process of the file, else the file stands for a job.

use super::Inputs;
use super::registry::{PodLookup, Registry};
use crate::check::nccl_jobs::LogReading;
use crate::clock::Clock;
use crate::file_pattern::{FilePattern, NamedIds};
use crate::host::Host;
use crate::observe::pod::{ContainerFacts, ContainerKey, Job, PodFacts};
use crate::observe::reading::{Fault, Reading};
use crate::source::nccl::anchor::{self, VERDICT_SCHEMA};
use crate::source::nccl::prefix;
use crate::source::pod_logs::{Container, FlatFile, Follower, Layout, Options, PollStats, Sink};
use crate::source::slurm_jobs::{self, ProcessOwner};
use crate::source::tree;
use crate::supervise;
use crate::units::Millis;
use memchr::memmem;
use std::collections::BTreeMap;
use std::path::Path;
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

/// A file that was not written for so long is let go once no process of its job is left; until then,
/// its job counts as running.
const QUIET: Duration = Duration::from_secs(300);

/// A file that was not written for longer is read at the start only where its name says that its job
/// is running.
const OLD: Duration = Duration::from_secs(86_400);

/// How often directories are listed, jobs' processes looked for and batches sent though nothing changed.
const LIST_EVERY: Duration = Duration::from_secs(5);

/// Longest wait for new lines.
const WAIT: Duration = Duration::from_secs(1);

/// What one directory has to say.
#[derive(Debug, Default)]
struct Batch {
    dir: usize,
    /// New lines with their jobs; each line ends in a newline.
    lines: Vec<(ContainerKey, Vec<u8>)>,
    /// All jobs with a file there, as pods whose only container is the job; `None`: as before.
    jobs: Option<BTreeMap<ContainerKey, PodFacts>>,
    /// Sums since the last batch; counts and faults as they are now.
    stats: PollStats,
    /// Bytes gone before they were read.
    lost: u64,
}

/// A directory with the patterns of its files.
struct Directory {
    host: Arc<Host>,
    hosts: Vec<String>,
    patterns: Vec<FilePattern>,
    files: BTreeMap<String, LogFile>,
    /// It was not listed yet.
    first: bool,
    /// Jobs with a process and their users, once a file's name made that matter, and when.
    running: Option<(Millis, BTreeMap<u32, u32>)>,
    /// It did not exist at the last look.
    absent: bool,
    /// That a file cannot be read was logged.
    warned: bool,
    /// A process wrote its first line.
    new_writer: bool,
    now: Millis,
    wall: SystemTime,
    batch: Batch,
}

/// State of a file that is followed.
#[derive(Debug, Default)]
struct LogFile {
    owner: u32,
    named: NamedIds,
    /// For how long it was not written to, when that was last looked up.
    age: Duration,
    aged_at: Millis,
    writers: BTreeMap<u32, Writer>,
    /// Job of the last line; `None` after a line of another host.
    last: Option<ContainerKey>,
    /// Job by the last process whose cgroup named one.
    job: Option<u32>,
}

/// A process that wrote lines.
#[derive(Debug, Clone)]
struct Writer {
    key: ContainerKey,
    /// As it was when its first line was read, if it runs as the file's owner.
    process: Option<ProcessOwner>,
}

/// What the threads of all directories said.
#[derive(Debug, Clone)]
pub(super) struct LogFiles {
    batches: Arc<Mutex<Receiver<Batch>>>,
    /// Number of directories.
    all: usize,
    dirs: BTreeMap<usize, Latest>,
}

/// The last word on a directory.
#[derive(Debug, Clone, Default)]
struct Latest {
    jobs: BTreeMap<ContainerKey, PodFacts>,
    /// Number of files.
    files: usize,
    /// Why it cannot be read.
    fault: Option<Fault>,
    /// What was there at the start was read.
    caught_up: bool,
}

impl LogFiles {
    /// Starts a thread for each directory; they end when this is dropped.
    pub(super) fn spawn(inputs: &Inputs, patterns: &[FilePattern], node: &str) -> Self {
        let (tx, rx) = sync_channel(2);
        let mut dirs: BTreeMap<&Path, Vec<FilePattern>> = BTreeMap::new();
        for pattern in patterns {
            dirs.entry(pattern.dir()).or_default().push(pattern.clone());
        }
        let all = dirs.len().min(MAX_DIRS);
        if dirs.len() > MAX_DIRS {
            tracing::warn!(
                directories = dirs.len(),
                "nccl.log_files names more than {MAX_DIRS} directories; the others are not followed"
            );
        }
        for (number, (dir, patterns)) in dirs.into_iter().take(MAX_DIRS).enumerate() {
            let (host, clock, tx) = (Arc::clone(&inputs.host), inputs.clock, tx.clone());
            let (node, dir) = (node.to_string(), dir.to_path_buf());
            (inputs.supervisor).thread(supervise::LOG_FILES, STACK, move |task| {
                let host = Arc::clone(&host);
                let directory = Directory::new(number, host, patterns.clone(), &node);
                directory.follow(&dir, clock, &tx, || task.beat());
                Ok(())
            });
        }
        LogFiles {
            batches: Arc::new(Mutex::new(rx)),
            all,
            dirs: BTreeMap::new(),
        }
    }

    /// Hands new lines to the registry. Returns what was read.
    pub(super) fn take(&mut self, registry: &mut Registry) -> LogReading {
        let mut reading = LogReading::default();
        let batches = Arc::clone(&self.batches);
        let batches = batches.lock().unwrap_or_else(PoisonError::into_inner);
        for batch in batches.try_iter().take(2 * MAX_DIRS) {
            reading.bytes += batch.stats.bytes;
            reading.lines_dropped += batch.stats.lines_dropped;
            registry.lost += batch.lost;
            for (key, text) in batch.lines {
                let job = Container { key, restart: 0 };
                for line in text
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    registry.line(&job, line);
                }
            }
            let dir = self.dirs.entry(batch.dir).or_default();
            dir.files = batch.stats.containers;
            dir.caught_up |= batch.stats.behind == 0;
            dir.fault = match batch.stats.root {
                Reading::Failed(fault) => Some(fault),
                _ => None,
            };
            if let Some(jobs) = batch.jobs {
                let before = std::mem::replace(&mut dir.jobs, jobs);
                let complete = self.is_complete();
                let known = |key: &ContainerKey| {
                    let mut dirs = self.dirs.values();
                    dirs.any(|dir| dir.jobs.contains_key(key))
                };
                registry.keep_jobs(|key| known(key) || !complete && !before.contains_key(key));
            }
        }
        reading
    }

    /// Whether all directories were read once.
    fn is_complete(&self) -> bool {
        self.dirs.values().filter(|dir| dir.caught_up).count() == self.all
    }

    /// Looks up a job by its key.
    pub(super) fn look_up(&self, key: &ContainerKey) -> PodLookup<'_> {
        let known = self.dirs.values().filter_map(|dir| dir.jobs.get(key));
        match known.max_by_key(|job| (!job.finished, job.is_job(&key.container))) {
            Some(job) if !job.finished => PodLookup::Found(job),
            Some(_) => PodLookup::Gone,
            None if self.is_complete() => PodLookup::Gone,
            None => PodLookup::Pending,
        }
    }

    /// Number of files that are followed.
    pub(super) fn count(&self) -> usize {
        self.dirs.values().map(|dir| dir.files).sum()
    }

    /// Why a directory cannot be read, if so.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.dirs.values().find_map(|dir| dir.fault.clone())
    }
}

impl Directory {
    fn new(dir: usize, host: Arc<Host>, patterns: Vec<FilePattern>, node: &str) -> Self {
        let hostname = tree::read_text(&host, "etc/hostname");
        let names = [Some(node.to_string()), hostname.into_value()];
        let short = |name: &String| name.trim().split('.').next().map(str::to_string);
        let hosts = names.iter().flatten().filter_map(short);
        Directory {
            hosts: hosts.filter(|host| !host.is_empty()).collect(),
            host,
            patterns,
            files: BTreeMap::new(),
            first: true,
            absent: false,
            warned: false,
            running: None,
            new_writer: false,
            now: Millis(0),
            wall: SystemTime::UNIX_EPOCH,
            batch: Batch {
                dir,
                ..Batch::default()
            },
        }
    }

    fn follower(&self, dir: &Path) -> Follower {
        Follower::new(Options {
            layout: Layout::Flat,
            containers: MAX_FILES,
            list_every: LIST_EVERY,
            share: SHARE,
            backlog: BATCH,
            open_files: OPEN_FILES,
            ..Options::new(&self.host, dir)
        })
    }

    /// Until the receiver is gone.
    fn follow(mut self, dir: &Path, clock: Clock, tx: &SyncSender<Batch>, beat: impl Fn()) {
        let mut follower = self.follower(dir);
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
        let absent = stats.root == Reading::Absent;
        if absent && !std::mem::replace(&mut self.absent, absent) {
            let dir = self.patterns.first().map(FilePattern::dir);
            tracing::warn!(
                ?dir,
                "directory of nccl.log_files does not exist; waiting for it"
            );
        }
        self.first &= stats.root.value().is_none();
        if let Some(fault) = &stats.fault
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!(
                detail = fault.detail,
                "log files of nccl.log_files cannot be read"
            );
        }
        let before = &self.batch.stats;
        self.batch.stats = PollStats {
            bytes: before.bytes + stats.bytes,
            lines_dropped: before.lines_dropped + stats.lines_dropped,
            ..stats
        };
    }

    /// Jobs of the files, and whether they have ended: no process of theirs is left, and nothing was
    /// written for a while.
    fn jobs(&self) -> BTreeMap<ContainerKey, PodFacts> {
        let mut jobs: BTreeMap<&ContainerKey, (bool, bool)> = BTreeMap::new();
        for file in self.files.values() {
            let recent = file.age + self.now.since(file.aged_at) < QUIET;
            for (pid, writer) in &file.writers {
                let (proven, finished) = jobs.entry(&writer.key).or_insert((false, true));
                *proven |= writer.process.is_some_and(|process| process.job.is_some());
                *finished &= !recent && !self.is_alive(*pid, writer);
            }
        }
        let facts = |(key, (proven, finished)): (&ContainerKey, _)| {
            (key.clone(), facts(key, proven, finished))
        };
        jobs.into_iter().map(facts).collect()
    }

    fn is_alive(&self, pid: u32, writer: &Writer) -> bool {
        writer.process.is_some() && slurm_jobs::owner_of(&self.host, pid) == writer.process
    }

    /// Jobs that have a process now, with their users.
    fn running(&mut self) -> &BTreeMap<u32, u32> {
        let known = self.running.take();
        let known = known.filter(|(at, _)| self.now.since(*at) < LIST_EVERY);
        let read = || (self.now, slurm_jobs::running(&self.host));
        &self.running.insert(known.unwrap_or_else(read)).1
    }

    /// Whether a file's name says that its job is running.
    fn is_running(&mut self, owner: u32, named: NamedIds) -> bool {
        let process = named
            .pid
            .and_then(|pid| slurm_jobs::owner_of(&self.host, pid));
        process.is_some_and(|process| process.user == owner)
            || (named.job).is_some_and(|job| self.running().get(&job) == Some(&owner))
    }

    /// The job of a process that wrote to a file.
    fn writer(&mut self, name: &str, file: &LogFile, pid: u32) -> Writer {
        let process = slurm_jobs::owner_of(&self.host, pid);
        let process = process.filter(|process| process.user == file.owner);
        let by_cgroup = process.and_then(|process| process.job);
        // A name may be anybody's word for a job that runs as another user.
        let by_name = || {
            let mut user = |job| self.running().get(&job).copied();
            { file.named.job }.filter(|job| user(*job).is_none_or(|user| user == file.owner))
        };
        let job = by_cgroup.or_else(by_name).or(file.job);
        let job = job.map_or_else(|| name.to_string(), |job| job.to_string());
        let key = ContainerKey::of_job(file.owner, &job);
        Writer { key, process }
    }
}

/// A job as a pod with one container. Only what its cgroup names is known to be a job of this node.
fn facts(key: &ContainerKey, proven: bool, finished: bool) -> PodFacts {
    let name = key.container.clone();
    let slurm = name.bytes().all(|byte| byte.is_ascii_digit());
    let kind = if slurm { "Slurm" } else { "file" };
    let container = ContainerFacts {
        gpus: proven.into(),
        may_lock_memory: true,
        privileged: true,
        other_devices: true,
        ..ContainerFacts::default()
    };
    PodFacts {
        uid: key.uid.clone(),
        job: Some(Job {
            kind: kind.into(),
            name: name.clone(),
        }),
        host_network: true,
        finished,
        containers: [(name, container)].into(),
        ..PodFacts::default()
    }
}

impl Sink for Directory {
    fn follows(&mut self, file: &FlatFile<'_>) -> bool {
        let patterns = self.patterns.iter();
        let Some(named) = { patterns }.find_map(|of| of.matches(file.name, &self.hosts)) else {
            return false;
        };
        let Some((owner, written)) = file.owner_and_time() else {
            return false;
        };
        // A clock that is behind the file server's finds no age.
        let age = self.wall.duration_since(written).unwrap_or_default();
        let now = self.now;
        if let Some(known) = self.files.get_mut(file.name) {
            (known.age, known.aged_at) = (age, now);
            let known = known.writers.clone();
            return age < QUIET
                || known
                    .iter()
                    .any(|(pid, writer)| self.is_alive(*pid, writer));
        }
        let limit = if self.first { OLD } else { QUIET };
        if age >= limit && !(self.first && self.is_running(owner, named)) {
            return false;
        }
        let of_owner = self.files.values().filter(|file| file.owner == owner);
        if self.files.len() >= MAX_FILES || of_owner.count() >= MAX_FILES_OF_OWNER {
            return false;
        }
        let aged_at = now;
        let new = LogFile {
            owner,
            named,
            age,
            aged_at,
            ..LogFile::default()
        };
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
        match prefix::author(line) {
            Some((host, pid)) if self.hosts.iter().any(|own| own.eq_ignore_ascii_case(&host)) => {
                let pid = pid.unwrap_or_default();
                let writer = match of.writers.get(&pid) {
                    Some(writer) => writer.clone(),
                    None => self.writer(name, &of, pid),
                };
                of.job = writer.process.and_then(|process| process.job).or(of.job);
                of.last = Some(writer.key.clone());
                if of.writers.len() < MAX_WRITERS && of.writers.insert(pid, writer).is_none() {
                    self.new_writer = true;
                }
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
