//! The thread that follows the logs of this node's pods for NCCL's lines, and judges them and those of
//! log files.

use super::log_files::{LogFiles, add};
use super::registry::{JobChange, PodLookup, Registry, SavedVerdict, tenant};
use super::{Inputs, JobUpdate};
use crate::check::job_verdicts::{Jobs, LogReading, Outcomes, PodLimits};
use crate::check::nccl_jobs::FairShare;
use crate::clock::Clock;
use crate::cluster::pods::Health;
use crate::cluster::{EventKind, EventSender, PodRef};
use crate::config::Config;
use crate::host::Host;
use crate::observe::{ContainerKey, Reading};
use crate::sampler::Followed;
use crate::source::pod_logs::{Follower, LogMarks, Options, PollStats};
use crate::state::{Saver, StateDir, VERSION};
use crate::supervise;
use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Stack: paths, one line at a time, JSON of a sidecar.
const STACK: usize = 512 * 1024;

/// Longest wait for new lines.
const WAIT: Duration = Duration::from_secs(1);

/// How often all logs are judged: inits may hang, and facts about pods may follow their lines.
const JUDGE_ALL: Duration = Duration::from_secs(5);

/// How often counts are published where nothing else changes.
const PUBLISH: Duration = Duration::from_secs(10);

/// How often state that must outlive a restart is saved, if it changed.
const SAVE: Duration = Duration::from_secs(15);

/// Within this time, pods and namespaces have their share of changes that are logged and published.
const SHARED: Duration = Duration::from_secs(600);

/// Shortest time between warnings that pods hold or say too much.
const WARN: Duration = Duration::from_secs(60);

/// What the pods' logs say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodLogStatus {
    /// Verdicts and progress; the other fields are empty.
    pub(super) jobs: Jobs,
    /// How reading the pods' logs goes.
    pub(super) pods: Followed,
    /// How reading the log files goes.
    pub(super) files: Followed,
}

/// Starts the thread, which ends when the receiver of `tx` is dropped. Begun again after a panic, it
/// goes on from what was saved.
pub(super) fn spawn<T: From<JobUpdate> + Send + 'static>(
    config: Config,
    inputs: Inputs,
    node_gpus: Arc<AtomicU32>,
    tx: mpsc::Sender<T>,
) {
    let supervisor = inputs.supervisor.clone();
    let named = !config.nccl.log_files.is_empty();
    let files = named.then(|| LogFiles::spawn(&inputs, &config));
    supervisor.thread(supervise::POD_LOGS, STACK, move |task| {
        let (inputs, files) = (inputs.clone(), files.clone());
        let mut reader = LogReader::new(&config, inputs, files, Arc::clone(&node_gpus));
        while !tx.is_closed() {
            task.beat();
            let update = reader
                .step()
                .map(|status| JobUpdate::Logs(Box::new(status)));
            if update.is_some_and(|update| tx.blocking_send(update.into()).is_err()) {
                break;
            }
            reader.wait();
        }
        Ok(())
    });
}

struct LogReader {
    hang_after: Duration,
    inputs: Inputs,
    node_gpus: Arc<AtomicU32>,
    /// `None` where pods' logs are not read.
    follower: Option<Follower>,
    /// `None` where no log files are named.
    files: Option<LogFiles>,
    registry: Registry,
    totals: LogReading,
    said: FairShare,
    said_since: Millis,
    withheld: u64,
    limited: PodLimits,
    warned_at: Option<Millis>,
    published: Option<PodLogStatus>,
    judged_at: Millis,
    published_at: Millis,
    saved_at: Millis,
    unsaved: bool,
}

impl LogReader {
    fn new(
        config: &Config,
        inputs: Inputs,
        files: Option<LogFiles>,
        node_gpus: Arc<AtomicU32>,
    ) -> Self {
        let mut options = Options::new(&inputs.host, &config.nccl.pod_logs);
        options.containers = options.containers.max(config.nccl.containers);
        let mut registry = Registry::new(config.nccl.containers, config.nccl.memory().0);
        registry.at(inputs.clock.now(), None);
        options.resume = load(&inputs.state, &mut registry);
        LogReader {
            follower: config.nccl.logs.then(|| Follower::new(options)),
            files,
            registry,
            totals: LogReading::default(),
            said: FairShare::default(),
            said_since: Millis(0),
            withheld: 0,
            limited: PodLimits::default(),
            warned_at: None,
            published: None,
            judged_at: Millis(0),
            published_at: Millis(0),
            saved_at: Millis(0),
            unsaved: false,
            hang_after: config.policy.nccl.init_hang_after.0,
            inputs,
            node_gpus,
        }
    }

    /// Reads and judges what is new; the status, where it is to be published.
    fn step(&mut self) -> Option<PodLogStatus> {
        let now = self.inputs.clock.now();
        self.registry.at(now, Some(jiff::Timestamp::now()));
        let before = self.totals.bytes;
        let follower = self.follower.as_mut();
        let stats = follower.map(|follower| follower.poll(now, &mut self.registry));
        let stats = stats.unwrap_or_default();
        add(&mut self.totals, &stats);
        if let Some(files) = &mut self.files {
            files.take(&mut self.registry, now, &mut self.totals);
        }
        let pods_changed = matches!(self.inputs.pods.has_changed(), Ok(true));
        let all = pods_changed || now.since(self.judged_at) >= JUDGE_ALL;
        if all {
            self.judged_at = now;
        }
        let (changed, announced) = self.judge(all);
        self.note_limits(now);
        self.unsaved |= changed || self.totals.bytes > before;
        // Saved at once, so that an announcement is not repeated however this run ends.
        if announced || self.unsaved && now.since(self.saved_at) >= SAVE {
            self.saved_at = now;
            self.unsaved = false;
            let read = self.follower.as_ref().map(Follower::state);
            let read = read.unwrap_or_default();
            save(&self.inputs.saver, &self.registry, read);
        }
        let due = self.published.is_none() || now.since(self.published_at) >= PUBLISH;
        if !changed && !due {
            return None;
        }
        self.published_at = now;
        let mut status = status(&self.totals, &self.registry, &stats);
        if let Some(files) = &self.files {
            let known = status.jobs.logs.get_or_insert_with(|| self.totals.clone());
            known.containers += files.count() as u64;
            status.files = Some(files.state().map(|()| None));
        }
        status.jobs.limited = self.limited;
        let before = self.published.replace(status.clone());
        (before.as_ref() != Some(&status)).then_some(status)
    }

    /// Blocks until there may be something new.
    fn wait(&self) {
        match &self.follower {
            Some(follower) => follower.wait(WAIT),
            None => std::thread::sleep(WAIT / 4),
        }
    }

    /// Counts what bounds on pods took effect on, and warns once a minute at most.
    fn note_limits(&mut self, now: Millis) {
        let limited = PodLimits {
            logs: self.registry.evicted,
            manifests: self.inputs.pods.borrow().left_out,
            announcements: self.withheld,
        };
        let due = self.warned_at.is_none_or(|at| now.since(at) >= WARN);
        if limited != self.limited && due {
            tracing::warn!(
                logs = limited.logs,
                manifests = limited.manifests,
                announcements = limited.announcements,
                "pods exceed their share of memory, logs or Events; the largest were cut back"
            );
            self.limited = limited;
            self.warned_at = Some(now);
        }
    }

    /// Whether any verdict changed, and whether a pod got an Event.
    fn judge(&mut self, all: bool) -> (bool, bool) {
        let table = Arc::clone(&self.inputs.pods.borrow_and_update());
        let files = self.files.as_ref();
        let look_up = |key: &ContainerKey| match table.by_uid.get(&key.uid) {
            _ if key.job().is_some() => files.map_or(PodLookup::Gone, |files| files.look_up(key)),
            Some(facts) => PodLookup::Found(facts),
            None => match table.health {
                Health::Known if table.left_out == 0 => PodLookup::Gone,
                Health::Known | Health::Off | Health::Forbidden => PodLookup::Unavailable,
                Health::Away => PodLookup::Pending,
            },
        };
        let gpus = self.node_gpus.load(Ordering::Relaxed);
        let mut announced = false;
        let now = self.inputs.clock.now();
        if now.since(self.said_since) >= SHARED {
            self.said_since = now;
            self.said = FairShare::default();
        }
        let (events, said) = (&self.inputs.events, &mut self.said);
        let withheld = &mut self.withheld;
        let announce = |change: JobChange| {
            announced = true;
            match may_announce(said, &change.now.key) {
                true => publish(events, &change),
                false => *withheld += 1,
            }
        };
        let gpus = (gpus > 0).then_some(gpus);
        let changed = (self.registry).judge(all, self.hang_after, gpus, look_up, announce);
        (changed, announced)
    }
}

/// Reads the logs once, without anything of an earlier run.
pub fn read_once(host: &Host, config: &Config, clock: Clock) -> Jobs {
    let mut follower = Follower::new(Options::new(host, &config.nccl.pod_logs));
    let mut registry = Registry::new(config.nccl.containers, config.nccl.memory().0);
    let mut totals = LogReading::default();
    let began = clock.now();
    loop {
        let now = clock.now();
        // Without wall time, an init that did not end does not hang: the job may be over.
        registry.at(now, None);
        let stats = follower.poll(now, &mut registry);
        add(&mut totals, &stats);
        let late = now.since(began) >= config.intervals.deadline.duration();
        if stats.bytes == 0 && stats.behind == 0 || late {
            let hang_after = config.policy.nccl.init_hang_after.0;
            registry.judge(true, hang_after, None, |_| PodLookup::Unavailable, drop);
            return status(&totals, &registry, &stats).jobs;
        }
    }
}

/// Logs a change, and publishes it as an Event of the pod.
fn publish(events: &EventSender, change: &JobChange) {
    let verdict = &change.now.verdict;
    let (container, summary) = (change.now.subject(), &verdict.summary);
    let event = |reason, kind| {
        let key = &change.now.key;
        // A job outside of Kubernetes has no object that could have Events.
        if key.job().is_some() {
            return;
        }
        let pod = PodRef {
            namespace: key.namespace.clone(),
            name: key.pod.clone(),
            uid: key.uid.clone(),
        };
        let remedy = verdict.remedies.first().map_or("", String::as_str);
        let message = format!("container {}: {summary}. {remedy}", key.container);
        events.pod(pod, reason, kind, message);
    };
    match change.fallback {
        Some(true) => {
            tracing::warn!(%container, %summary, "NCCL fell back to TCP");
            event("NcclTcpFallback", EventKind::Warning);
        }
        Some(false) => {
            tracing::info!(%container, %summary, "NCCL uses RDMA again");
            event("NcclRdmaInUse", EventKind::Normal);
        }
        None => {}
    }
    if change.hangs {
        tracing::warn!(%container, %summary, "NCCL init hangs");
        event("NcclInitHang", EventKind::Warning);
    }
}

/// Whether one thing more may be said of a pod and its namespace, or of a job and its user.
fn may_announce(said: &mut FairShare, key: &ContainerKey) -> bool {
    said.may(tenant(key), key.job().unwrap_or(&key.uid))
}

fn status(totals: &LogReading, registry: &Registry, stats: &PollStats) -> PodLogStatus {
    let logs = LogReading {
        containers: stats.containers as u64,
        bytes: totals.bytes,
        lines_dropped: totals.lines_dropped + registry.dropped,
        bytes_lost: registry.lost,
    };
    let is_there = matches!(stats.root, Reading::Value(()) | Reading::Failed(_));
    let (fallbacks_in_a_row, fallback_namespaces) = registry.outcomes.fallbacks_in_a_row();
    let jobs = Jobs {
        containers: registry.verdicts(),
        fallbacks_in_a_row,
        fallback_namespaces,
        logs: is_there.then_some(logs),
        ..Jobs::default()
    };
    PodLogStatus {
        pods: Some(stats.root.clone().map(|()| None)),
        files: None,
        jobs,
    }
}

/// State kept over a restart of the agent: how far logs were read, and the verdicts so far. The lines that
/// NCCL prints at its start may be rotated away by then.
const FILE: &str = "jobs.json";

#[derive(Serialize, Deserialize)]
struct SavedJobs {
    version: u32,
    read: LogMarks,
    verdicts: Vec<SavedVerdict>,
    outcomes: Outcomes,
}

/// Restores the registry; returns the follower's place.
fn load(state: &StateDir, registry: &mut Registry) -> Option<LogMarks> {
    let saved: SavedJobs = state.read(FILE)?;
    registry.restore(saved.verdicts, saved.outcomes);
    Some(saved.read)
}

/// Hands both over to be written. A failure costs memory over a restart, nothing else.
fn save(saver: &Saver, registry: &Registry, read: LogMarks) {
    let saved = SavedJobs {
        version: VERSION,
        read,
        verdicts: registry.save(),
        outcomes: registry.outcomes.clone(),
    };
    saver.put(FILE, &saved);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_s_jobs_do_not_silence_those_of_others() {
        let mut said = FairShare::default();
        for number in 0..100 {
            may_announce(&mut said, &ContainerKey::of_job(1000, &number.to_string()));
        }
        let mut may = |user, job| may_announce(&mut said, &ContainerKey::of_job(user, job));
        assert!(!may(1000, "100"));
        // A job has the same quota as a pod; another job of its user has its own.
        assert_eq!(
            [(); 5].map(|()| may(1001, "7")),
            [true, true, true, true, false]
        );
        assert!(may(1001, "8"));
    }
}
