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
    urgent: VecDeque<Job<R>>,
    routine: VecDeque<Job<R>>,
    done: Vec<R>,
    held_since: Option<std::time::Instant>,
    workers: usize,
    idle: usize,
    closed: bool,
}

struct Job<R> {
    since: Millis,
    urgent: bool,
    work: Work<R>,
}

impl<R> State<R> {
    fn queued(&self) -> usize {
        self.urgent.len() + self.routine.len()
    }

    fn oldest(&self) -> Option<Millis> {
        let fronts = [self.urgent.front(), self.routine.front()];
        fronts.into_iter().flatten().map(|job| job.since).min()
    }

    /// Whether to hand over what is done now rather than wait for more.
    fn ripe(&self, urgent: bool) -> bool {
        self.queued() == 0
            || (urgent && self.urgent.is_empty())
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
                    urgent: VecDeque::new(),
                    routine: VecDeque::new(),
                    done: Vec::new(),
                    held_since: None,
                    workers: 0,
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
    pub fn submit(&mut self, now: Millis, work: impl IntoIterator<Item = (bool, Work<R>)>) {
        let mut state = self.shared.lock();
        for (urgent, work) in work {
            let job = Job {
                since: now,
                urgent,
                work,
            };
            match urgent {
                true => state.urgent.push_back(job),
                false => state.routine.push_back(job),
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
        let Some(oldest) = state.oldest() else {
            return;
        };
        self.attend = Some(now.plus(PATIENCE));
        if state.workers == 0 || (state.idle == 0 && now.since(oldest) >= PATIENCE) {
            let more = state.workers.max(1).min(state.queued());
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
        for _ in 0..more.min(MAX_WORKERS.saturating_sub(state.workers)) {
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
        state.urgent.clear();
        state.routine.clear();
        drop(state);
        self.shared.work.notify_all();
    }
}

/// What a thread does.
#[expect(clippy::disallowed_methods, reason = "how long results are held back")]
fn run<R>(shared: &Shared<R>) {
    let mut state = shared.lock();
    while !state.closed {
        let Some(job) = (state.urgent.pop_front()).or_else(|| state.routine.pop_front()) else {
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
        drop(state);
        let result = catch_unwind(AssertUnwindSafe(job.work));
        state = shared.lock();
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
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Far longer than anything here takes; only a failure waits for it.
    const BOUND: Duration = Duration::from_secs(30);

    fn quick(n: u32) -> (bool, Work<u32>) {
        (false, Box::new(move || n))
    }

    fn hung(n: u32) -> (mpsc::Sender<()>, (bool, Work<u32>)) {
        let (release, held) = mpsc::channel::<()>();
        let work = move || {
            let _ = held.recv();
            n
        };
        (release, (false, Box::new(work)))
    }

    async fn results(pool: &mut Pool<u32>, count: usize) -> Vec<u32> {
        let mut all = Vec::new();
        while all.len() < count {
            tokio::time::timeout(BOUND, pool.news()).await.unwrap();
            all.extend(pool.take());
        }
        all.sort_unstable();
        all
    }

    fn workers<R: Send + 'static>(pool: &Pool<R>) -> usize {
        pool.shared.lock().workers
    }

    #[tokio::test]
    async fn hung_reads_hold_up_nobody_else() {
        let mut pool = Pool::new();
        let (releases, mut work): (Vec<_>, Vec<_>) = (100..107).map(hung).unzip();
        work.extend((0..5).map(quick));
        pool.submit(Millis(0), work);
        // Each step of the sampler's timer doubles the threads: 1, 2, 4, 8.
        for step in 1..=3 {
            assert_eq!(pool.next_attention(), Some(Millis(20 * step)));
            pool.attend(Millis(20 * step - 1));
            pool.attend(Millis(20 * step));
        }
        assert_eq!(results(&mut pool, 5).await, [0, 1, 2, 3, 4]);
        assert_eq!(pool.next_attention(), None, "nothing waits");
        pool.submit(Millis(1000), [quick(9)]);
        assert_eq!(results(&mut pool, 1).await, [9]);
        drop(releases);
        assert_eq!(results(&mut pool, 7).await, Vec::from_iter(100..107));
    }

    #[tokio::test]
    async fn one_thread_does_it_all_while_nothing_hangs() {
        let mut pool = Pool::new();
        for round in 0..20 {
            pool.submit(Millis(round), (0..50).map(quick));
            results(&mut pool, 50).await;
        }
        assert_eq!(workers(&pool), 1);
    }

    #[tokio::test]
    async fn urgent_work_goes_first() {
        let mut pool = Pool::new();
        let (order, seen) = mpsc::channel();
        let (release, first) = hung(0);
        let note = |name: &'static str| -> Work<u32> {
            let order = order.clone();
            Box::new(move || {
                let _ = order.send(name);
                1
            })
        };
        pool.submit(Millis(0), [first]);
        pool.submit(
            Millis(0),
            [(false, note("routine")), (true, note("urgent"))],
        );
        drop(release);
        results(&mut pool, 3).await;
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["urgent", "routine"]);
    }

    #[tokio::test]
    async fn a_panic_costs_its_own_result_only() {
        let mut pool = Pool::new();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let panics: Work<u32> = Box::new(|| panic!("a bug"));
        pool.submit(Millis(0), [(false, panics), quick(1)]);
        assert_eq!(results(&mut pool, 1).await, [1]);
        std::panic::set_hook(hook);
        assert_eq!(workers(&pool), 1);
    }

    #[tokio::test]
    async fn results_do_not_wait_behind_a_read_that_hangs() {
        let mut pool = Pool::new();
        let (_release, last) = hung(0);
        pool.submit(Millis(0), [quick(1), last]);
        // The quick one's result may be held back for a batch; the timer fetches it.
        let at = pool.next_attention().unwrap();
        let end = std::time::Duration::from_millis(1);
        let mut got = Vec::new();
        while got.is_empty() {
            let _ = tokio::time::timeout(end, pool.news()).await;
            pool.attend(at);
            got = pool.take();
        }
        assert_eq!(got, [1]);
    }

    #[tokio::test]
    async fn threads_end_with_the_pool() {
        let mut pool = Pool::new();
        pool.submit(Millis(0), [quick(1)]);
        results(&mut pool, 1).await;
        let shared = Arc::downgrade(&pool.shared);
        drop(pool);
        let ended = tokio::task::spawn_blocking(move || {
            while shared.strong_count() > 0 {
                std::thread::yield_now();
            }
        });
        tokio::time::timeout(BOUND, ended).await.unwrap().unwrap();
    }
}
