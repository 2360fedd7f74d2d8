//! A thread each for calls that may block without end.

use backon::{ExponentialBuilder, Retryable};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks, poisoned or not: no panic can leave the state that these locks guard half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stack of a thread that makes one call.
const SMALL: usize = 128 * 1024;

/// Starts a small named thread with a stack of so many bytes.
///
/// # Errors
/// As the system has it: under PID pressure none can be started for a while. `body` is then dropped.
pub(crate) fn try_spawn(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.into());
    builder.stack_size(stack).spawn(body).map(drop)
}

/// The same; a failure is logged. True if the thread was started.
pub(crate) fn spawn_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> bool {
    let spawned = try_spawn(name, stack, body);
    if let Err(error) = &spawned {
        tracing::warn!(%error, name, "cannot start a thread");
    }
    spawned.is_ok()
}

/// Runs `question` on a thread of its own, which is waited for while none can be started; `None` if it
/// panicked. When the future is dropped, the thread is left behind.
pub(crate) async fn ask<T: Send + 'static>(
    name: &str,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tx, rx) = tokio::sync::oneshot::channel();
    let work = Arc::new(Mutex::new(Some(move || {
        let _ = tx.send(question());
    })));
    let start = async || {
        let work = Arc::clone(&work);
        try_spawn(name, SMALL, move || {
            let taken = lock(&work).take();
            if let Some(work) = taken {
                work();
            }
        })
    };
    let waits = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(Duration::from_secs(1))
        .without_max_times();
    start.retry(waits).await.ok()?;
    drop(work);
    rx.await.ok()
}

/// The same outside of async code; `None` if no thread can be started, or no answer came within
/// `patience`.
pub(crate) fn ask_within<T: Send + 'static>(
    name: &str,
    patience: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tx, rx) = std::sync::mpsc::channel();
    spawn_with_stack(name, SMALL, move || {
        let _ = tx.send(question());
    });
    rx.recv_timeout(patience).ok()
}
