//! The async runtime and the stop signals of commands that need them.

use std::future::Future;
use std::io;

/// Stack in bytes of a thread for blocking reads.
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

/// Runs a future on one thread, with blocking reads on others. Reads that are stuck in the kernel
/// are left behind: the process ends all the same.
pub(crate) fn on_runtime<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(BLOCKING_STACK)
        .thread_keep_alive(std::time::Duration::from_secs(20))
        .build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(result)
}
