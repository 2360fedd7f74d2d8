//! Supervises the agent's long-lived work, each task of it a row of this file.
//!
//! A task that cannot be started (no thread under PID pressure) is tried again; one that panics is
//! counted, logged and started again, both with backoff; one that panics again and again ends the
//! process. Each task counts its progress: one that is silent for too long is not up, which its source,
//! the metrics and `/healthz` show.

use crate::blocking;
use crate::blocking::lock;
use backon::{BackoffBuilder, ExponentialBuilder};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What the supervisor has to know of a task.
#[derive(Debug, Clone, Copy)]
pub struct TaskSpec {
    /// Name in metrics, logs and of the thread.
    pub name: &'static str,
    /// Longest time between two signs of progress, in seconds.
    silent_secs: u64,
    /// Whether a restart of the process may help where the task makes no progress: not where a disk
    /// hangs.
    restart_helps: bool,
}

impl TaskSpec {
    const fn new(name: &'static str, silent_secs: u64, restart_helps: bool) -> Self {
        TaskSpec {
            name,
            silent_secs,
            restart_helps,
        }
    }
}

/// Follows the kernel log.
pub const KERNEL_LOG: TaskSpec = TaskSpec::new("kernel_log", 10, true);
/// Follows the logs of pods; their disk may hang.
pub const POD_LOGS: TaskSpec = TaskSpec::new("pod_logs", 5, false);
/// Follows log files of jobs outside of Kubernetes, a task for each directory; their disk may hang.
pub const LOG_FILES: TaskSpec = TaskSpec::new("log_files", 30, false);
/// Looks at pods' traffic.
pub const TCP_WATCH: TaskSpec = TaskSpec::new("tcp_watch", 60, false);
/// Writes the state directory, whose disk may hang.
pub const STATE: TaskSpec = TaskSpec::new("state", 60, false);
/// Waits for events of network devices, 30 s at a time.
pub const RTNETLINK: TaskSpec = TaskSpec::new("rtnetlink", 120, true);
/// Waits for events of RDMA devices; without ib_core, it looks for it every 180 s.
pub const RDMA_MONITOR: TaskSpec = TaskSpec::new("rdma_monitor", 400, true);
/// Runs the writer of the Node and the watch of its pods.
pub const CLUSTER: TaskSpec = TaskSpec::new("cluster", 60, true);
/// Answers HTTP requests.
pub const HTTP: TaskSpec = TaskSpec::new("http", 60, true);
/// Reloads TLS and token files.
pub const SERVE_FILES: TaskSpec = TaskSpec::new("serve_files", 60, false);

/// Writes the metrics for node_exporter; the disk may hang.
pub const TEXTFILE: TaskSpec = TaskSpec::new("textfile", 60, false);

/// Interval at which progress is compared.
const TICK: Duration = Duration::from_secs(1);

/// The process exits after this many panics of one task within this time.
const PANICS: (usize, Duration) = (5, Duration::from_secs(600));

/// `/healthz` fails once a task was not up for so many deadlines of a read.
const UNHEALTHY_DEADLINES: u32 = 12;

/// Shortest and longest wait before a task is started again.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// A task under supervision.
#[derive(Debug)]
pub struct Task {
    row: TaskSpec,
    beats: AtomicU64,
    panics: AtomicU64,
    /// The count of beats that was seen last, and when it changed.
    seen: Mutex<(u64, Instant)>,
    #[cfg(debug_assertions)]
    fault: Mutex<String>,
}

impl Task {
    /// A sign of progress.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
        #[cfg(debug_assertions)]
        testing::meet(&self.fault);
    }

    /// Runs a future with a sign of progress each second in which its thread is not blocked.
    pub async fn beating<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            self.beat();
            if let Ok(done) = tokio::time::timeout(TICK, work.as_mut()).await {
                return done;
            }
        }
    }

    /// How long it has made no progress, if that is too long.
    fn silent(&self) -> Option<Duration> {
        let silence = lock(&self.seen).1.elapsed();
        (silence >= Duration::from_secs(self.row.silent_secs)).then_some(silence)
    }

    fn is_up(&self) -> bool {
        self.beats.load(Ordering::Relaxed) > 0 && self.silent().is_none()
    }

    fn look(&self) {
        let beats = self.beats.load(Ordering::Relaxed);
        let mut seen = lock(&self.seen);
        if seen.0 != beats {
            *seen = (beats, Instant::now());
        }
    }
}

/// A task as metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its name.
    pub name: &'static str,
    /// It runs and makes progress.
    pub up: bool,
    /// How often it panicked.
    pub panics: u64,
}

/// All tasks of one agent.
#[derive(Debug, Clone)]
pub struct Supervisor(Arc<SupervisorInner>);

#[derive(Debug)]
struct SupervisorInner {
    tasks: Mutex<Vec<Arc<Task>>>,
    deadline: Duration,
    /// Changes when a task ended, or is up or not.
    news: watch::Sender<Vec<TaskStatus>>,
    /// Why the process has to end.
    failure: watch::Sender<Option<String>>,
}

impl Supervisor {
    /// Without tasks yet. `deadline`: that of a read.
    pub fn new(deadline: Duration) -> Self {
        let shared = Arc::new(SupervisorInner {
            tasks: Mutex::default(),
            deadline,
            news: watch::channel(Vec::new()).0,
            failure: watch::channel(None).0,
        });
        let watched = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(shared) = watched.upgrade() {
                Supervisor(shared).look();
                tokio::time::sleep(TICK).await;
            }
        });
        Supervisor(shared)
    }

    /// Runs `body` on a thread of its own until it returns well; an error is a start that failed.
    pub fn thread(
        &self,
        row: TaskSpec,
        stack: usize,
        body: impl Fn(&Task) -> io::Result<()> + Send + Sync + 'static,
    ) {
        let body = Arc::new(body);
        self.task(row, move |task| {
            let body = Arc::clone(&body);
            let (ended, end) = tokio::sync::oneshot::channel();
            let started = blocking::try_spawn(row.name, stack, move || {
                let _ = ended.send(body(&task));
            });
            async move {
                started?;
                // Only a panic drops the sender without a word.
                end.await
                    .unwrap_or_else(|_| std::panic::resume_unwind(Box::new(row.name)))
            }
        });
    }

    /// Runs the future that `start` makes until it ends well; an error is a start that failed.
    pub fn task<F>(&self, row: TaskSpec, mut start: impl FnMut(Arc<Task>) -> F + Send + 'static)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let task = Arc::new(Task {
            row,
            beats: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            seen: Mutex::new((0, Instant::now())),
            #[cfg(debug_assertions)]
            fault: Mutex::default(),
        });
        lock(&self.0.tasks).push(Arc::clone(&task));
        let this = self.clone();
        tokio::spawn(async move {
            let mut waits = waits();
            let mut panicked = VecDeque::new();
            loop {
                let wait = match tokio::spawn(start(Arc::clone(&task))).await {
                    Ok(Ok(())) => break,
                    Ok(Err(error)) => {
                        tracing::warn!(task = row.name, %error, "a task cannot be started; trying again");
                        waits.next()
                    }
                    Err(error) if error.is_cancelled() => break,
                    Err(_) => this.after_panic(&task, &mut panicked),
                };
                let Some(wait) = wait else { return };
                tokio::time::sleep(wait).await;
            }
            lock(&this.0.tasks).retain(|other| !Arc::ptr_eq(other, &task));
            this.0.news.send_replace(this.status());
        });
    }

    /// Counts a panic; the wait before the task is started again, if it is.
    fn after_panic(&self, task: &Task, panicked: &mut VecDeque<Instant>) -> Option<Duration> {
        let (name, now) = (task.row.name, Instant::now());
        task.panics.fetch_add(1, Ordering::Relaxed);
        panicked.retain(|at| now - *at < PANICS.1);
        panicked.push_back(now);
        if panicked.len() >= PANICS.0 {
            let times = panicked.len();
            let why = format!(
                "bug in selvage: task {name} panicked {times} times within {} minutes",
                PANICS.1.as_secs() / 60
            );
            self.0.failure.send_replace(Some(why));
            return None;
        }
        tracing::error!(task = name, "bug: a task panicked; starting it again");
        waits().nth(panicked.len())
    }

    /// Resolves when the process has to end, with the reason.
    pub async fn failed(&self) -> String {
        let mut failure = self.0.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Changes whenever a task ended, is up or is not.
    pub fn news(&self) -> watch::Receiver<Vec<TaskStatus>> {
        self.0.news.subscribe()
    }

    /// Waits for the end of a task.
    pub async fn ended(&self, row: TaskSpec) {
        let mut news = self.news();
        while self.status().iter().any(|task| task.name == row.name) {
            if news.changed().await.is_err() {
                return;
            }
        }
    }

    /// Every task; those of one name as one, which is up if all of them are.
    pub fn status(&self) -> Vec<TaskStatus> {
        let mut merged: Vec<TaskStatus> = Vec::new();
        for task in lock(&self.0.tasks).iter() {
            let (name, up) = (task.row.name, task.is_up());
            let panics = task.panics.load(Ordering::Relaxed);
            match merged.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    known.up &= up;
                    known.panics += panics;
                }
                None => merged.push(TaskStatus { name, up, panics }),
            }
        }
        merged
    }

    /// How long a task has made no progress, if that is too long.
    pub fn silent(&self, row: TaskSpec) -> Option<Duration> {
        let tasks = lock(&self.0.tasks);
        let tasks = tasks.iter().filter(|task| task.row.name == row.name);
        tasks.filter_map(|task| task.silent()).max()
    }

    /// A task that a restart of the process may help.
    pub fn unhealthy(&self) -> Option<&'static str> {
        let tasks = lock(&self.0.tasks);
        let mut lasting = tasks.iter().filter(|task| task.row.restart_helps);
        let lasting = lasting.find(|task| {
            let limit = Duration::from_secs(task.row.silent_secs);
            let limit = limit + self.0.deadline * UNHEALTHY_DEADLINES;
            task.silent().is_some_and(|silence| silence >= limit)
        });
        lasting.map(|task| task.row.name)
    }

    fn look(&self) {
        #[cfg(debug_assertions)]
        testing::take(&lock(&self.0.tasks));
        lock(&self.0.tasks).iter().for_each(|task| task.look());
        let status = self.status();
        self.0.news.send_if_modified(|known| {
            let changed = *known != status;
            *known = status;
            changed
        });
    }
}

fn waits() -> backon::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(WAITS.0)
        .with_max_delay(WAITS.1)
        .without_max_times()
        .build()
}

#[cfg(debug_assertions)]
mod testing;
#[cfg(test)]
mod tests;
