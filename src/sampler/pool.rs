//! Threads for reads that may block. One thread takes everything that is due in one go and hands
//! the results back in batches, so that a full sample costs a few wake-ups and not hundreds. When a
//! read keeps it, [`Pool::attend`] brings in others: a read that hangs holds up its own thread only.

use crate::units::Millis;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Most threads. A thread that is stuck in the kernel is never taken back.
const MAX_WORKERS: usize = 64;

/// Most of them for work that is not vital: however much of that hangs, the rest is read.
const MAX_OTHERS: usize = 40;

/// Stack of a thread in bytes.
const STACK: usize = 256 * 1024;

/// How long work may wait behind a read before another thread is brought in.
pub const PATIENCE: Duration = Duration::from_millis(20);

/// Results are held back this long for the next ones to come along.
const BATCH: Duration = Duration::from_millis(5);

/// A thread without work ends after this long, if another one is left.
const IDLE: Duration = Duration::from_secs(20);

/// Work: gives its result.
pub type Work<R> = Box<dyn FnOnce() -> R + Send>;

/// The threads, and what is on its way through them.
pub struct Pool<R> {
    shared: Arc<Shared<R>>,
    attend: Option<Millis>,
}

struct Shared<R> {
    state: Mutex<State<R>>,
    work: Condvar,
    news: Notify,
}

struct State<R> {
    /// By rank: urgent before routine, in each the vital before the rest.
    queues: [VecDeque<Queued<R>>; 4],
    done: Vec<R>,
    held_since: Option<std::time::Instant>,
    workers: usize,
    /// Threads busy with what is not vital.
    others: usize,
    idle: usize,
    closed: bool,
}

/// Work to be done.
pub struct Job<R> {
    /// Goes before what is not.
    pub urgent: bool,
    /// May use the threads that are kept back.
    pub vital: bool,
    /// The work.
    pub work: Work<R>,
}

struct Queued<R> {
    since: Millis,
    job: Job<R>,
}

impl<R> State<R> {
    /// Whether what is not vital has all the threads that it may have.
    fn full(&self) -> bool {
        self.others >= MAX_OTHERS
    }

    /// What a free thread may take now, first things first.
    fn open(&self) -> impl Iterator<Item = &VecDeque<Queued<R>>> {
        let full = self.full();
        let may = move |queue: &&VecDeque<Queued<R>>| {
            (queue.front()).is_some_and(|queued| queued.job.vital || !full)
        };
        self.queues.iter().filter(may)
    }

    fn next(&mut self) -> Option<Job<R>> {
        let full = self.full();
        let may = |queue: &&mut VecDeque<Queued<R>>| {
            (queue.front()).is_some_and(|queued| queued.job.vital || !full)
        };
        let queued = self.queues.iter_mut().find(may)?.pop_front()?;
        Some(queued.job)
    }

    /// Work that free threads would take.
    fn queued(&self) -> usize {
        let of = |vital: bool| {
            let queues = self.queues.iter().skip(usize::from(!vital)).step_by(2);
            queues.map(VecDeque::len).sum::<usize>()
        };
        of(true) + of(false).min(MAX_OTHERS.saturating_sub(self.others))
    }

    fn urgent(&self) -> bool {
        self.queues.iter().take(2).any(|queue| !queue.is_empty())
    }

    fn oldest(&self) -> Option<Millis> {
        let fronts = self.open().filter_map(VecDeque::front);
        fronts.map(|queued| queued.since).min()
    }

    /// Whether to hand over what is done now rather than wait for more.
    fn ripe(&self, urgent: bool) -> bool {
        self.queued() == 0
            // The next read may keep the last thread.
            || self.workers >= MAX_WORKERS
            || (urgent && !self.urgent())
            || self
                .held_since
                .is_some_and(|since| since.elapsed() >= BATCH)
    }
}

impl<R> Shared<R> {
    /// A thread that panicked elsewhere leaves the state whole: nothing here panics half-way.
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send + 'static> Default for Pool<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Send + 'static> Pool<R> {
    /// A pool without threads; the first work brings the first one.
    pub fn new() -> Self {
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queues: Default::default(),
                    done: Vec::new(),
                    held_since: None,
                    workers: 0,
                    others: 0,
                    idle: 0,
                    closed: false,
                }),
                work: Condvar::new(),
                news: Notify::new(),
            }),
            attend: None,
        }
    }

    /// Queues work; what is urgent goes before what is not.
    pub fn submit(&mut self, now: Millis, work: impl IntoIterator<Item = Job<R>>) {
        let mut state = self.shared.lock();
        for job in work {
            let rank = usize::from(!job.urgent) * 2 + usize::from(!job.vital);
            if let Some(queue) = state.queues.get_mut(rank) {
                queue.push_back(Queued { since: now, job });
            }
        }
        if state.queued() == 0 {
            return;
        }
        if state.workers == 0 {
            self.add_workers(&mut state, 1);
        } else if state.idle > 0 {
            self.shared.work.notify_one();
        }
        drop(state);
        self.attend.get_or_insert(now.plus(PATIENCE));
    }

    /// Moment at which [`Pool::attend`] wants to be called; none while nothing waits.
    pub fn next_attention(&self) -> Option<Millis> {
        self.attend
    }

    /// Brings in threads if work has waited too long. As many as there are already, so that a pile
    /// of hung reads is got past in a few steps.
    pub fn attend(&mut self, now: Millis) {
        if self.attend.is_none_or(|at| now < at) {
            return;
        }
        let mut state = self.shared.lock();
        let room = MAX_WORKERS.saturating_sub(state.workers);
        let Some(oldest) = state.oldest().filter(|_| room > 0) else {
            // Nothing can be done for what waits: a thread that comes free takes it.
            self.attend = (!state.done.is_empty()).then(|| now.plus(PATIENCE));
            return;
        };
        self.attend = Some(now.plus(PATIENCE));
        if state.workers == 0 || (state.idle == 0 && now.since(oldest) >= PATIENCE) {
            let more = state.workers.max(1).min(state.queued()).min(room);
            self.add_workers(&mut state, more);
        }
    }

    /// Waits until there are results to take. Cancel safe.
    pub async fn news(&self) {
        self.shared.news.notified().await;
    }

    /// The results there are.
    pub fn take(&mut self) -> Vec<R> {
        let mut state = self.shared.lock();
        state.held_since = None;
        if state.queued() == 0 {
            // Whoever still works has nothing to wait for, and hands over when it ends.
            self.attend = None;
        }
        std::mem::take(&mut state.done)
    }

    fn add_workers(&self, state: &mut State<R>, more: usize) {
        for _ in 0..more {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new()
                .name("reader".into())
                .stack_size(STACK)
                .spawn(move || run(&shared));
            match spawned {
                Ok(_) => state.workers += 1,
                Err(error) => {
                    tracing::warn!(%error, "cannot start a reader");
                    return;
                }
            }
        }
    }
}

impl<R> Drop for Pool<R> {
    /// Threads end when their read does; nobody waits for them.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.queues = Default::default();
        drop(state);
        self.shared.work.notify_all();
    }
}

/// What a thread does.
#[expect(clippy::disallowed_methods, reason = "how long results are held back")]
fn run<R>(shared: &Shared<R>) {
    let mut state = shared.lock();
    while !state.closed {
        let Some(job) = state.next() else {
            state.idle += 1;
            let waited = shared.work.wait_timeout(state, IDLE);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.queued() == 0 && state.idle > 0 {
                break;
            }
            continue;
        };
        state.others += usize::from(!job.vital);
        drop(state);
        let result = catch_unwind(AssertUnwindSafe(job.work));
        state = shared.lock();
        state.others -= usize::from(!job.vital);
        if let Ok(result) = result {
            state.done.push(result);
            state.held_since.get_or_insert_with(std::time::Instant::now);
        }
        if !state.done.is_empty() && state.ripe(job.urgent) {
            shared.news.notify_one();
        }
    }
    state.workers -= 1;
}

#[cfg(test)]
mod tests;
