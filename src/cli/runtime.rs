//! What the async part of a command runs on.

use std::future::Future;
use std::io;

/// Threads for what blocks once, such as the kernel log of a single look; reads have their own.
const BLOCKING: usize = 4;

/// Stack of such a thread in bytes.
const BLOCKING_STACK: usize = 256 * 1024;

/// Resolves at SIGTERM, SIGINT or, when the terminal is closed, SIGHUP.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = hangup.recv() => {}
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Runs a future on one thread, with readers beside it. Readers that are stuck in the kernel are
/// left behind: the process ends all the same.
pub(crate) fn on_runtime<T>(future: impl Future<Output = T>) -> io::Result<T> {
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING)
        .thread_stack_size(BLOCKING_STACK)
        .thread_keep_alive(std::time::Duration::from_secs(20))
        .build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}

/// Kernel files stay open between reads, a thousand of them on a node with many ports. The soft
/// limit is low for the sake of select(2), which nobody here calls.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const ENOUGH: u64 = 32 * 1024;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < ENOUGH.min(hard)
    {
        // Without it, files are opened at each read.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, ENOUGH.min(hard), hard);
    }
}
