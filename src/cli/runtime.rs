//! The async runtime and the stop signals of commands that need them.

use std::{future::Future, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Stack in bytes of a thread for blocking reads.
const BLOCKING_STACK: usize = 256 * 1024;

/// The signals that a service obeys. They are kept from one runtime to the next: none is lost between
/// two.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To end, by SIGTERM or SIGINT.
    Stop,
    /// SIGHUP: settings are to be read again. Also sent when a terminal is closed.
    Reload,
}

impl Signals {
    /// Listens from now on. Must be called within a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, and says what it asks for.
    pub(crate) async fn next(&mut self) -> Wanted {
        tokio::select! {
            _ = self.terminate.recv() => Wanted::Stop,
            _ = self.interrupt.recv() => Wanted::Stop,
            _ = self.hangup.recv() => Wanted::Reload,
        }
    }
}

/// Resolves at the first of them, whichever it is.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::listen()?;
    Ok(async move {
        signals.next().await;
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
