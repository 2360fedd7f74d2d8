//! Threads for what blocks for ever, one each.

use std::time::Duration;

/// Stack of a thread that makes one call.
const SMALL: usize = 128 * 1024;

/// Starts a small named thread. If there can be none, that is logged and `body` is dropped.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    spawn_with_stack(name, SMALL, body);
}

/// The same for what needs a deeper stack, in bytes; whether there is such a thread now.
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

/// What `question` answers, asked on a thread of its own; none if there can be no thread, or it
/// panicked. Given up, it leaves the thread behind.
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

/// The same where nothing is async yet; none if there is no answer within `patience`.
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
