//! A thread each for calls that may block without end.

use std::time::Duration;

/// Stack of a thread that makes one call.
const SMALL: usize = 128 * 1024;

/// Starts a small named thread. A failure to start it is logged, and `body` dropped.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    spawn_with_stack(name, SMALL, body);
}

/// The same with a stack of so many bytes; true if the thread was started.
pub(crate) fn spawn_with_stack(
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'static,
) -> bool {
    let spawned = std::thread::Builder::new()
        .name(name.into())
        .stack_size(stack)
        .spawn(body);
    if let Err(error) = &spawned {
        tracing::warn!(%error, name, "cannot start a thread");
    }
    spawned.is_ok()
}

/// Runs `question` on a thread of its own; `None` if no thread can be started, or it panicked. When
/// the future is dropped, the thread is left behind.
pub(crate) async fn ask<T: Send + 'static>(
    name: &str,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tx, rx) = tokio::sync::oneshot::channel();
    spawn(name, move || {
        let _ = tx.send(question());
    });
    rx.await.ok()
}

/// The same outside of async code; `None` if no answer came within `patience`.
pub(crate) fn ask_within<T: Send + 'static>(
    name: &str,
    patience: Duration,
    question: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tx, rx) = std::sync::mpsc::channel();
    spawn(name, move || {
        let _ = tx.send(question());
    });
    rx.recv_timeout(patience).ok()
}
