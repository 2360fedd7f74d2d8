//! Reads on separate threads, which are abandoned when they exceed a deadline.

use crate::blocking::spawn_with_stack;
use crate::host::Host;
use crate::observe::{FaultKind, Reading};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Stack of a reading thread: the system's resolver needs more than reading a file.
const STACK: usize = 512 * 1024;

/// A result that a thread will send.
pub(super) struct Pending<T>(Receiver<T>);

/// Why a result is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The deadline passed.
    Late,
    /// No thread could be started, or it ended without a result.
    NoThread,
}

impl Missing {
    /// What is said of a device or name that could not be asked.
    pub(super) fn reading<T>(self, what: &str) -> Reading<T> {
        match self {
            Missing::Late => {
                Reading::failed(FaultKind::Stalled, format!("{what}: no answer in time"))
            }
            Missing::NoThread => Reading::NotObservable,
        }
    }
}

/// Starts one read below the host's root.
pub(super) fn start<T: Send + 'static>(
    name: &str,
    host: &Host,
    read: impl FnOnce(&Host) -> T + Send + 'static,
) -> Pending<T> {
    let (result, pending) = channel();
    let host = host.clone();
    spawn_with_stack(name, STACK, move || {
        let _ = result.send(read(&host));
    });
    Pending(pending)
}

/// When all results must have arrived.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "bounds one run of the command")]
    fn now() -> Instant {
        Instant::now()
    }

    pub(super) fn after(time: Duration) -> Self {
        Deadline(Self::now() + time)
    }

    /// The result, if it arrives before the deadline.
    pub(super) fn wait<T>(self, pending: &Pending<T>) -> Result<T, Missing> {
        let left = self.0.saturating_duration_since(Self::now());
        pending.0.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Missing::Late,
            RecvTimeoutError::Disconnected => Missing::NoThread,
        })
    }

    /// The same for a reading, which becomes a fault if it is missing.
    pub(super) fn reading<T>(self, what: &str, pending: &Pending<Reading<T>>) -> Reading<T> {
        self.wait(pending).unwrap_or_else(|missing| match missing {
            Missing::Late => missing.reading(what),
            Missing::NoThread => {
                let why = "no thread could be started (process limit reached)";
                Reading::failed(FaultKind::Other, format!("{what}: {why}"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_without_a_result_is_not_late() {
        let deadline = Deadline::after(Duration::from_secs(60));
        let (result, pending) = channel::<Reading<()>>();
        drop(result);
        let got = deadline.reading("it", &Pending(pending));
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Other));
    }

    #[test]
    fn a_hung_read_is_abandoned() {
        let deadline = Deadline::after(Duration::from_millis(50));
        let (tx, rx) = channel::<()>();
        let pending: Pending<Reading<()>> = start("test", &Host::new("/"), move |_| {
            let _ = rx.recv();
            Reading::Absent
        });
        let got = deadline.reading("it", &pending);
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Stalled));
        drop(tx);
    }
}
