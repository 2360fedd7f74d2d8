//! Threads for what blocks for ever, one each.

/// Starts a small named thread. If there can be none, that is logged and `body` is dropped.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    let spawned = std::thread::Builder::new()
        .name(name.into())
        .stack_size(128 * 1024)
        .spawn(body);
    if let Err(error) = spawned {
        tracing::warn!(%error, name, "cannot start a thread");
    }
}
