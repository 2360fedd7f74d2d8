//! Blocking reads on threads of their own, a bounded number at a time.
//!
//! One worker takes everything that is due and hands results back in batches, so that a full sample
//! costs a few wake-ups instead of hundreds. When a read keeps its worker, [`Pool::attend`] starts
//! others: a hung read holds up its own thread only. One worker stays between the rounds, since under PID
//! pressure no other could be started.

use crate::blocking;
use crate::blocking::lock;
use crate::units::Millis;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Most workers. One that is stuck in the kernel never comes back.
const MAX_WORKERS: usize = 64;

/// Most workers for jobs that are not vital: however many of those hang, the rest is still read.
const MAX_OTHERS: usize = 40;

/// Stack of a worker, in bytes.
const STACK: usize = 256 * 1024;

/// How long jobs may wait behind a read before another worker is started.
pub const NEW_WORKER_AFTER: Duration = Duration::from_millis(20);

/// While jobs wait, results that are not urgent are held back for the next ones to come along, this long
/// at most: each handover is an evaluation of the node, so a round of routine reads should be one.
const BATCH: Duration = Duration::from_millis(50);

/// A read to be run, with its priority.
pub struct ReadJob<R> {
    /// Goes before jobs that are not urgent.
    pub urgent: bool,
    /// Goes before other jobs of the same urgency, and may use the workers kept in reserve.
    pub vital: bool,
    /// The blocking read itself.
    pub work: Box<dyn FnOnce() -> R + Send>,
}

/// Jobs that wait, run and have ended.
pub struct Pool<R> {
    shared: Arc<PoolInner<R>>,
    attend: Option<Millis>,
}

struct PoolInner<R> {
    state: Mutex<PoolQueue<R>>,
    news: Notify,
    /// Wakes the worker that is idle.
    work: Condvar,
}

struct PoolQueue<R> {
    /// By rank (urgent first, then vital) and order of submission.
    queue: BTreeMap<(bool, bool, u64), ReadJob<R>>,
    submitted: u64,
    done: Vec<R>,
    /// An urgent job is among those done.
    urgent: bool,
    workers: usize,
    /// Workers busy with jobs that are not vital.
    others: usize,
    /// One of the workers waits for jobs.
    idle: bool,
    /// The pool is gone: none waits any more.
    closed: bool,
}

impl<R> PoolQueue<R> {
    /// Rank of the job that a free worker would take now.
    fn next(&self) -> Option<(bool, bool, u64)> {
        let full = self.others >= MAX_OTHERS;
        let may = |(_, job): &(&(bool, bool, u64), &ReadJob<R>)| job.vital || !full;
        self.queue.iter().find(may).map(|(rank, _)| *rank)
    }
}

impl<R> Default for Pool<R> {
    /// A pool without workers; the first job starts the first one.
    fn default() -> Self {
        Pool {
            shared: Arc::new(PoolInner {
                state: Mutex::new(PoolQueue {
                    queue: BTreeMap::new(),
                    submitted: 0,
                    done: Vec::new(),
                    urgent: false,
                    workers: 0,
                    others: 0,
                    idle: false,
                    closed: false,
                }),
                news: Notify::new(),
                work: Condvar::new(),
            }),
            attend: None,
        }
    }
}

impl<R: Send + 'static> Pool<R> {
    /// Queues jobs and wakes the idle worker. Where all are busy, or hang, one is started for urgent jobs; others
    /// wait for [`Pool::attend`].
    pub fn submit(&mut self, now: Millis, jobs: impl IntoIterator<Item = ReadJob<R>>) {
        let mut state = lock(&self.shared.state);
        for job in jobs {
            state.submitted += 1;
            let rank = (!job.urgent, !job.vital, state.submitted);
            state.queue.insert(rank, job);
        }
        let Some((can_wait, ..)) = state.next() else {
            return;
        };
        if state.idle {
            self.shared.work.notify_one();
        } else if state.workers == 0 || (!can_wait && state.workers < MAX_WORKERS) {
            self.start_workers(&mut state, 1);
        }
        self.attend.get_or_insert(now.plus(NEW_WORKER_AFTER));
    }

    /// When [`Pool::attend`] should be called; `None` while nothing waits.
    pub fn next_attention(&self) -> Option<Millis> {
        self.attend
    }

    /// Starts workers if jobs have waited too long: as many as there are already, so that a pile of
    /// hung reads is passed in a few steps.
    pub fn attend(&mut self, now: Millis) {
        if self.attend.is_none_or(|at| now < at) {
            return;
        }
        let mut state = lock(&self.shared.state);
        let room = MAX_WORKERS.saturating_sub(state.workers);
        if state.next().is_none() || room == 0 {
            // A worker that comes free takes what waits.
            self.attend = None;
            return;
        }
        self.attend = Some(now.plus(NEW_WORKER_AFTER));
        let more = state.workers.max(1).min(state.queue.len()).min(room);
        self.start_workers(&mut state, more);
    }

    /// Waits until there are results to take. Cancel safe.
    pub async fn news(&self) {
        while lock(&self.shared.state).done.is_empty() {
            self.shared.news.notified().await;
        }
        let more_to_come = || {
            let state = lock(&self.shared.state);
            !state.urgent && state.next().is_some()
        };
        let last = async {
            while more_to_come() {
                self.shared.news.notified().await;
            }
        };
        let _ = tokio::time::timeout(BATCH, last).await;
    }

    /// Takes the results there are.
    pub fn take(&mut self) -> Vec<R> {
        let mut state = lock(&self.shared.state);
        state.urgent = false;
        if state.next().is_none() {
            // Workers that are still busy have nothing to wait for, and notify when they end.
            self.attend = None;
        }
        std::mem::take(&mut state.done)
    }

    fn start_workers(&self, state: &mut PoolQueue<R>, more: usize) {
        for _ in 0..more {
            let shared = Arc::clone(&self.shared);
            // Under PID pressure, the next attention tries again.
            let started = blocking::try_spawn("reader", STACK, move || work(&shared));
            state.workers += usize::from(started.is_ok());
        }
    }
}

impl<R> Drop for Pool<R> {
    /// Workers end with their present read; nothing waits for them.
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.queue.clear();
        state.closed = true;
        self.shared.work.notify_all();
    }
}

/// Runs jobs until none is left that this worker may take and another one waits for more.
fn work<R>(shared: &PoolInner<R>) {
    let mut state = lock(&shared.state);
    loop {
        let Some(job) = state.next().and_then(|rank| state.queue.remove(&rank)) else {
            if state.idle || state.closed {
                break;
            }
            state.idle = true;
            let nothing_to_do = |state: &mut PoolQueue<R>| !state.closed && state.next().is_none();
            let woken = shared.work.wait_while(state, nothing_to_do);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
            continue;
        };
        state.others += usize::from(!job.vital);
        drop(state);
        let result = catch_unwind(AssertUnwindSafe(job.work));
        state = lock(&shared.state);
        state.others -= usize::from(!job.vital);
        let first = state.done.is_empty();
        state.done.extend(result);
        state.urgent |= job.urgent;
        if first || state.urgent || state.next().is_none() {
            shared.news.notify_one();
        }
    }
    state.workers -= 1;
}

#[cfg(test)]
mod tests;
