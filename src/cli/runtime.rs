//! The async runtime and the stop signals of commands that need them.

use std::future::Future;
use std::io;

/// Threads for blocking work, such as reading the kernel log once; periodic reads have their own.
const BLOCKING: usize = 4;

/// Stack size of such a thread, in bytes.
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

/// Runs a future on one thread. Reader threads stuck in the kernel do not keep the process from
/// ending.
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

/// Kernel files stay open between reads, a thousand of them on a node with many ports. The default
/// soft limit is low only for programs that call select(2).
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const ENOUGH: u64 = 32 * 1024;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < ENOUGH.min(hard)
    {
        // Without the higher limit, files are opened for each read.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, ENOUGH.min(hard), hard);
    }
}
