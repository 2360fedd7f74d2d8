//! The thread that follows the logs of this node's pods for NCCL's lines.

mod book;
mod kept;
mod word;

pub use book::{Book, Change, Pod};

use crate::agent::Wake;
use crate::check::nccl_jobs::{ContainerVerdict, LogReading};
use crate::check::policy;
use crate::clock::Clock;
use crate::cluster::pods::{Health, PodTable};
use crate::cluster::{EventKind, EventSender, PodRef};
use crate::config::Config;
use crate::host::Host;
use crate::observe::pod::ContainerKey;
use crate::observe::reading::{Fault, Reading};
use crate::source::pod_logs::{Follower, Options, PollStats, Progress};
use crate::state::StateDir;
use crate::units::Millis;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Stack: paths, one line at a time, JSON of a sidecar.
const STACK: usize = 512 * 1024;

/// Longest wait for new lines.
const WAIT: Duration = Duration::from_secs(1);

/// How often everything is judged anew: inits that do not end, pods known later than their lines.
const JUDGE_ALL: Duration = Duration::from_secs(5);

/// How often counts are told where nothing else changes.
const TELL: Duration = Duration::from_secs(10);

/// How often what must outlive a restart is written, if it changed.
const KEEP: Duration = Duration::from_secs(15);

/// What the thread is told once.
#[derive(Debug, Clone)]
pub struct Settings {
    pod_logs: PathBuf,
    containers: usize,
    policy: policy::Nccl,
}

impl Settings {
    /// Out of the agent's; none where logs are not to be read.
    pub fn of(config: &Config) -> Option<Settings> {
        config.nccl.logs.then(|| Settings {
            pod_logs: config.nccl.pod_logs.clone(),
            containers: config.nccl.containers,
            policy: config.policy.nccl.clone(),
        })
    }
}

/// What the agent is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Verdicts, worst first.
    pub containers: Vec<Arc<ContainerVerdict>>,
    /// Jobs in a row that fell back.
    pub fallbacks_in_a_row: u32,
    /// How reading goes.
    pub logs: LogReading,
    /// Why logs cannot be read, if so.
    pub fault: Option<Fault>,
    /// There are no pods' logs here.
    pub absent: bool,
}

/// What the thread works with.
pub struct Wires {
    /// The agent's clock.
    pub clock: Clock,
    /// Pods as the API server has them.
    pub pods: watch::Receiver<Arc<PodTable>>,
    /// Events on pods.
    pub events: EventSender,
    /// GPUs of this node, as last seen; 0: not known.
    pub node_gpus: Arc<AtomicU32>,
    /// Where what outlives a restart is kept.
    pub state: StateDir,
    /// The agent's loop.
    pub tx: mpsc::Sender<Wake>,
}

/// Starts the thread; the progress tells whether a read hangs. It ends with the agent.
pub fn spawn(host: &Host, settings: Settings, mut wires: Wires) -> Arc<Progress> {
    let mut options = Options::new(host, &settings.pod_logs);
    options.containers = options.containers.max(settings.containers);
    let mut book = Book::new(settings.containers);
    book.at(wires.clock.now(), None);
    options.resume = kept::load(&wires.state, &mut book);
    let mut follower = Follower::new(options);
    let progress = follower.progress();
    crate::blocking::spawn_with_stack("pod-logs", STACK, move || {
        let mut totals = Totals::default();
        let mut told = Told::default();
        let (mut judged, mut said, mut kept) = (Millis(0), Millis(0), Millis(0));
        let mut unsaved = false;
        loop {
            let now = wires.clock.now();
            book.at(now, Some(jiff::Timestamp::now()));
            let stats = follower.poll(now, &mut book);
            totals.add(&stats);
            let all =
                now.since(judged) >= JUDGE_ALL || matches!(wires.pods.has_changed(), Ok(true));
            if all {
                judged = now;
            }
            let (changed, spoke) = judge(&mut book, &settings, &mut wires, all);
            unsaved |= changed || stats.bytes > 0;
            if changed || now.since(said) >= TELL {
                let new = totals.told(&book, &stats);
                said = now;
                if new != told {
                    told = new;
                    let wake = Wake::Jobs(Box::new(told.clone()));
                    if wires.tx.blocking_send(wake).is_err() {
                        return;
                    }
                }
            }
            // What was told must not be told again, however this run ends.
            if spoke || unsaved && now.since(kept) >= KEEP {
                kept = now;
                unsaved = false;
                kept::save(&wires.state, &book, follower.state());
            }
            if wires.tx.is_closed() {
                return;
            }
            follower.wait(WAIT);
        }
    });
    progress
}

/// Looks once at what the logs hold: for a single look, without anything of an earlier run.
pub fn look(host: &Host, settings: &Settings, clock: Clock, patience: Duration) -> Told {
    let mut options = Options::new(host, &settings.pod_logs);
    options.watch = false;
    let mut follower = Follower::new(options);
    let mut book = Book::new(settings.containers);
    let mut totals = Totals::default();
    let began = clock.now();
    loop {
        let now = clock.now();
        // An init is judged by its end, not by how long ago it began: the job may be over.
        book.at(now, None);
        let stats = follower.poll(now, &mut book);
        totals.add(&stats);
        if stats.bytes == 0 && stats.behind == 0 || now.since(began) >= patience {
            book.judge(
                true,
                settings.policy.init_hang_after.0,
                None,
                |_| Pod::Untold,
                drop,
            );
            return totals.told(&book, &stats);
        }
    }
}

/// Whether any verdict changed, and whether a pod was told of one.
fn judge(book: &mut Book, settings: &Settings, wires: &mut Wires, all: bool) -> (bool, bool) {
    let table = Arc::clone(&wires.pods.borrow_and_update());
    let gpus = wires.node_gpus.load(Ordering::Relaxed);
    let pod = |key: &ContainerKey| match table.by_uid.get(&key.uid) {
        Some(facts) => Pod::Known(facts),
        None => match table.health {
            Health::Known if table.left_out == 0 => Pod::Gone,
            Health::Known | Health::Off | Health::Forbidden => Pod::Untold,
            Health::Away => Pod::Awaited,
        },
    };
    let events = &wires.events;
    let mut spoke = false;
    let changed = book.judge(
        all,
        settings.policy.init_hang_after.0,
        (gpus > 0).then_some(gpus),
        pod,
        |change| {
            spoke = true;
            tell(events, &change);
        },
    );
    (changed, spoke)
}

/// Tells the pod of a change.
fn tell(events: &EventSender, change: &Change) {
    let container = &change.now;
    let key = &container.key;
    let verdict = &container.verdict;
    let pod = || PodRef {
        namespace: key.namespace.clone(),
        name: key.pod.clone(),
        uid: key.uid.clone(),
    };
    let words = || {
        let remedy = verdict.remedies.first().map_or("", String::as_str);
        format!("container {}: {}. {remedy}", key.container, verdict.summary)
    };
    let subject = container.subject();
    match change.fallback {
        Some(true) => {
            tracing::warn!(container = %subject, summary = %verdict.summary, "NCCL falls back to TCP");
            events.pod(pod(), "NcclTcpFallback", EventKind::Warning, words());
        }
        Some(false) => {
            tracing::info!(container = %subject, summary = %verdict.summary, "NCCL's fallback is over");
            events.pod(pod(), "NcclRdmaInUse", EventKind::Normal, words());
        }
        None => {}
    }
    if change.hangs {
        tracing::warn!(container = %subject, summary = %verdict.summary, "NCCL's init hangs");
        events.pod(pod(), "NcclInitHang", EventKind::Warning, words());
    }
}

/// Sums over all looks.
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

    fn told(&self, book: &Book, stats: &PollStats) -> Told {
        let (fault, absent) = match &stats.root {
            Reading::Value(()) => (None, false),
            Reading::Absent | Reading::NotObservable => (None, true),
            Reading::Failed(fault) => (Some(fault.clone()), false),
        };
        Told {
            containers: book.verdicts(),
            fallbacks_in_a_row: book.outcomes.fallbacks_in_a_row(),
            logs: LogReading {
                containers: stats.containers as u64,
                bytes: self.bytes,
                lines_dropped: self.dropped + book.dropped,
                bytes_lost: book.lost,
            },
            fault,
            absent,
        }
    }
}
