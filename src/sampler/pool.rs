//! Threads that run reads. As few as get the work done: one thread takes job after job; only when a
//! job keeps it while others wait is another thread set to work. So a tick's reads cost one wake-up,
//! and a read that hangs still delays its neighbours by no more than a moment.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Most threads; a stuck one is never taken back, so this bounds how many reads may hang.
const MOST: usize = 64;

/// Stack of a thread in bytes.
const STACK: usize = 256 * 1024;

/// A thread that found nothing to do for this long ends.
const IDLE: Duration = Duration::from_secs(20);

type Job<T> = Box<dyn FnOnce() -> T + Send>;

/// A queue of jobs, the threads that work on it, and their results.
#[derive(Debug)]
pub struct Pool<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    seen_taken: u64,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    work: Condvar,
    results: Notify,
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

struct State<T> {
    queue: VecDeque<Job<T>>,
    results: Vec<T>,
    threads: usize,
    idle: usize,
    taken: u64,
    closed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Default for Pool<T> {
    fn default() -> Self {
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue: VecDeque::new(),
                    results: Vec::new(),
                    threads: 0,
                    idle: 0,
                    taken: 0,
                    closed: false,
                }),
                work: Condvar::new(),
                results: Notify::new(),
            }),
            seen_taken: 0,
        }
    }
}

impl<T: Send + 'static> Pool<T> {
    /// Queues jobs, urgent ones before all that wait, and sees to it that a thread works on them.
    pub fn submit(&mut self, urgent: Vec<Job<T>>, others: Vec<Job<T>>) {
        if urgent.is_empty() && others.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for job in urgent.into_iter().rev() {
            state.queue.push_front(job);
        }
        state.queue.extend(others);
        self.seen_taken = state.taken;
        if state.idle > 0 {
            self.shared.work.notify_one();
        } else if state.threads == 0 {
            self.add_thread(&mut state);
        }
    }

    /// Call every moment while jobs wait: where none was taken since the last call, another thread
    /// is set to work.
    pub fn relieve(&mut self) {
        let mut state = self.shared.lock();
        if !state.queue.is_empty() && state.taken == self.seen_taken {
            if state.idle > 0 {
                self.shared.work.notify_one();
            } else {
                self.add_thread(&mut state);
            }
        }
        self.seen_taken = state.taken;
    }

    /// Results so far, oldest first.
    pub fn results(&self) -> Vec<T> {
        std::mem::take(&mut self.shared.lock().results)
    }

    /// Whether jobs wait for a thread.
    pub fn waits(&self) -> bool {
        !self.shared.lock().queue.is_empty()
    }

    /// Whether nothing waits and nothing runs.
    pub fn quiet(&self) -> bool {
        let state = self.shared.lock();
        state.queue.is_empty() && state.idle == state.threads
    }

    /// Resolves when the queue has been worked off, or a job ended while none waited.
    pub async fn ended(&self) {
        self.shared.results.notified().await;
    }

    fn add_thread(&self, state: &mut State<T>) {
        if state.threads >= MOST {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let spawned = std::thread::Builder::new()
            .name("read".into())
            .stack_size(STACK)
            .spawn(move || work(&shared));
        match spawned {
            Ok(_) => state.threads += 1,
            Err(error) => tracing::warn!(%error, "cannot start a thread for reading"),
        }
    }
}

impl<T: Send + 'static> Drop for Pool<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.queue.clear();
        self.shared.work.notify_all();
    }
}

fn work<T>(shared: &Shared<T>) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            state.taken += 1;
            drop(state);
            let result = job();
            state = shared.lock();
            state.results.push(result);
            if state.queue.is_empty() {
                shared.results.notify_one();
            }
            continue;
        }
        if state.closed {
            break;
        }
        state.idle += 1;
        let (woken, waited) = shared
            .work
            .wait_timeout(state, IDLE)
            .unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if waited.timed_out() && state.queue.is_empty() {
            break;
        }
    }
    state.threads -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn threads(pool: &Pool<u32>) -> usize {
        pool.shared.lock().threads
    }

    #[tokio::test]
    async fn one_thread_does_what_does_not_hang() {
        let mut pool = Pool::default();
        let jobs = |from: u32, to: u32| -> Vec<Job<u32>> {
            (from..to)
                .map(|n| Box::new(move || n) as Job<u32>)
                .collect()
        };
        pool.submit(jobs(0, 10), jobs(10, 40));
        let mut got = Vec::new();
        while got.len() < 40 {
            pool.ended().await;
            got.extend(pool.results());
        }
        assert_eq!(got, (0..40).collect::<Vec<_>>());
        assert_eq!(threads(&pool), 1);
    }

    #[tokio::test]
    async fn a_job_that_hangs_is_passed_by() {
        let mut pool = Pool::default();
        let (taken_tx, taken) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let hangs = Box::new(move || {
            taken_tx.send(()).unwrap();
            let _ = held.recv();
            1
        });
        pool.submit(vec![hangs], vec![Box::new(|| 2)]);
        taken.recv().unwrap();
        // Taken since the submission: time to wait. Not taken since: time for help.
        pool.relieve();
        assert_eq!(threads(&pool), 1);
        pool.relieve();
        pool.ended().await;
        assert_eq!(pool.results(), [2]);
        assert!(!pool.quiet(), "the first still hangs");
        release.send(()).unwrap();
        pool.ended().await;
        assert_eq!(pool.results(), [1]);
    }
}
