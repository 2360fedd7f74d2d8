//! The thread that follows the logs of this node's pods for NCCL's lines.

use super::registry::Registry;
use super::types::{Change, PodLookup};
use super::{Inputs, Update, persist};
use crate::check::nccl_jobs::{ContainerVerdict, Jobs, LogReading};
use crate::check::policy;
use crate::clock::Clock;
use crate::cluster::pods::Health;
use crate::cluster::{EventKind, EventSender, PodRef};
use crate::config::Config;
use crate::host::Host;
use crate::observe::pod::ContainerKey;
use crate::observe::reading::{Fault, Reading};
use crate::source::pod_logs::{Follower, Options, PollStats, Progress};
use crate::units::Millis;
use std::path::PathBuf;
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

/// Settings of the reader.
#[derive(Debug, Clone)]
pub struct Settings {
    pod_logs: PathBuf,
    containers: usize,
    policy: policy::Nccl,
}

impl Settings {
    /// Derived from the agent configuration; `None` if logs are not to be read.
    pub fn of(config: &Config) -> Option<Settings> {
        config.nccl.logs.then(|| Settings {
            pod_logs: config.nccl.pod_logs.clone(),
            containers: config.nccl.containers,
            policy: config.policy.nccl.clone(),
        })
    }
}

/// What the pods' logs say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodLogStatus {
    /// Verdicts, worst first.
    pub containers: Vec<Arc<ContainerVerdict>>,
    /// Latest jobs in a row that fell back to TCP.
    pub fallbacks_in_a_row: u32,
    /// Progress of reading; `None` where this node has no pods' logs.
    pub logs: Option<LogReading>,
    /// Why logs cannot be read, if so.
    pub fault: Option<Fault>,
}

/// Starts the thread, which ends when the receiver of `tx` is dropped. The progress shows whether a
/// read hangs.
pub(super) fn spawn<T: From<Update> + Send + 'static>(
    settings: Settings,
    inputs: Inputs,
    node_gpus: Arc<AtomicU32>,
    tx: mpsc::Sender<T>,
) -> Arc<Progress> {
    let mut options = Options::new(&inputs.host, &settings.pod_logs);
    options.containers = options.containers.max(settings.containers);
    let mut registry = Registry::new(settings.containers);
    registry.at(inputs.clock.now(), None);
    options.resume = persist::load(&inputs.state, &mut registry);
    let mut reader = Reader {
        follower: Follower::new(options),
        registry,
        totals: Totals::default(),
        published: PodLogStatus::default(),
        judged_at: Millis(0),
        published_at: Millis(0),
        saved_at: Millis(0),
        unsaved: false,
        settings,
        inputs,
        node_gpus,
    };
    let progress = reader.follower.progress();
    crate::blocking::spawn_with_stack("pod-logs", STACK, move || {
        while !tx.is_closed() {
            if let Some(status) = reader.step()
                && tx
                    .blocking_send(Update::Logs(Box::new(status)).into())
                    .is_err()
            {
                return;
            }
            reader.follower.wait(WAIT);
        }
    });
    progress
}

struct Reader {
    settings: Settings,
    inputs: Inputs,
    node_gpus: Arc<AtomicU32>,
    follower: Follower,
    registry: Registry,
    totals: Totals,
    published: PodLogStatus,
    judged_at: Millis,
    published_at: Millis,
    saved_at: Millis,
    unsaved: bool,
}

impl Reader {
    /// Reads and judges what is new; the status, where it is to be published.
    fn step(&mut self) -> Option<PodLogStatus> {
        let now = self.inputs.clock.now();
        self.registry.at(now, Some(jiff::Timestamp::now()));
        let stats = self.follower.poll(now, &mut self.registry);
        self.totals.add(&stats);
        let pods_changed = matches!(self.inputs.pods.has_changed(), Ok(true));
        let all = pods_changed || now.since(self.judged_at) >= JUDGE_ALL;
        if all {
            self.judged_at = now;
        }
        let (changed, announced) = self.judge(all);
        self.unsaved |= changed || stats.bytes > 0;
        // Saved at once, so that an announcement is not repeated however this run ends.
        if announced || self.unsaved && now.since(self.saved_at) >= SAVE {
            self.saved_at = now;
            self.unsaved = false;
            persist::save(&self.inputs.state, &self.registry, self.follower.state());
        }
        if !changed && now.since(self.published_at) < PUBLISH {
            return None;
        }
        self.published_at = now;
        let status = self.totals.status(&self.registry, &stats);
        let news = status != self.published;
        self.published.clone_from(&status);
        news.then_some(status)
    }

    /// Whether any verdict changed, and whether a pod got an Event.
    fn judge(&mut self, all: bool) -> (bool, bool) {
        let table = Arc::clone(&self.inputs.pods.borrow_and_update());
        let look_up = |key: &ContainerKey| match table.by_uid.get(&key.uid) {
            Some(facts) => PodLookup::Found(facts),
            None => match table.health {
                Health::Known if table.left_out == 0 => PodLookup::Gone,
                Health::Known | Health::Off | Health::Forbidden => PodLookup::Unavailable,
                Health::Away => PodLookup::Pending,
            },
        };
        let gpus = self.node_gpus.load(Ordering::Relaxed);
        let hang_after = self.settings.policy.init_hang_after.0;
        let mut announced = false;
        let events = &self.inputs.events;
        let announce = |change| {
            announced = true;
            publish(events, &change);
        };
        let gpus = (gpus > 0).then_some(gpus);
        let changed = (self.registry).judge(all, hang_after, gpus, look_up, announce);
        (changed, announced)
    }
}

/// Reads the logs once, without anything of an earlier run.
pub fn read_once(host: &Host, settings: &Settings, clock: Clock, patience: Duration) -> Jobs {
    let mut options = Options::new(host, &settings.pod_logs);
    options.watch = false;
    let mut follower = Follower::new(options);
    let mut registry = Registry::new(settings.containers);
    let mut totals = Totals::default();
    let began = clock.now();
    loop {
        let now = clock.now();
        // Without wall time, an init that did not end does not hang: the job may be over.
        registry.at(now, None);
        let stats = follower.poll(now, &mut registry);
        totals.add(&stats);
        if stats.bytes == 0 && stats.behind == 0 || now.since(began) >= patience {
            let hang_after = settings.policy.init_hang_after.0;
            registry.judge(true, hang_after, None, |_| PodLookup::Unavailable, drop);
            let status = totals.status(&registry, &stats);
            return Jobs {
                containers: status.containers,
                fallbacks_in_a_row: status.fallbacks_in_a_row,
                logs: status.logs,
                ..Jobs::default()
            };
        }
    }
}

/// Logs a change, and publishes it as an Event of the pod.
fn publish(events: &EventSender, change: &Change) {
    let verdict = &change.now.verdict;
    let (container, summary) = (change.now.subject(), &verdict.summary);
    let event = |reason, kind| {
        let key = &change.now.key;
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

/// Sums over all polls.
#[derive(Debug, Default)]
struct Totals {
    bytes: u64,
    dropped: u64,
}

impl Totals {
    fn add(&mut self, stats: &PollStats) {
        self.bytes += stats.bytes;
        self.dropped += stats.lines_dropped;
    }

    fn status(&self, registry: &Registry, stats: &PollStats) -> PodLogStatus {
        let (fault, absent) = match &stats.root {
            Reading::Value(()) => (None, false),
            Reading::Absent | Reading::NotObservable => (None, true),
            Reading::Failed(fault) => (Some(fault.clone()), false),
        };
        let logs = LogReading {
            containers: stats.containers as u64,
            bytes: self.bytes,
            lines_dropped: self.dropped + registry.dropped,
            bytes_lost: registry.lost,
        };
        PodLogStatus {
            containers: registry.verdicts(),
            fallbacks_in_a_row: registry.outcomes.fallbacks_in_a_row(),
            logs: (!absent).then_some(logs),
            fault,
        }
    }
}
