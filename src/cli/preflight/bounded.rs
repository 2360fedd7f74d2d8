//! Reads on separate threads, which are abandoned when they exceed a deadline.

use crate::blocking::spawn_with_stack;
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Stack of a reading thread: the system's resolver needs more than reading a file.
const STACK: usize = 512 * 1024;

/// Results that a thread will send, each more complete than the one before.
pub(super) struct Pending<T>(Receiver<T>);

/// Why a result is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The deadline passed before any result.
    Late,
    /// No thread could be started, or it ended without a result.
    NoThread,
}

/// Starts a thread that sends any number of results.
pub(super) fn stream<T: Send + 'static>(
    name: &str,
    read: impl FnOnce(&Sender<T>) + Send + 'static,
) -> Pending<T> {
    let (results, pending) = channel();
    spawn_with_stack(name, STACK, move || read(&results));
    Pending(pending)
}

/// Starts one read below the host's root.
pub(super) fn start<T: Send + 'static>(
    name: &str,
    host: &Host,
    read: impl FnOnce(&Host) -> T + Send + 'static,
) -> Pending<T> {
    let host = host.clone();
    stream(name, move |results| {
        let _ = results.send(read(&host));
    })
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

    /// The last result that arrives before the thread ends or the deadline passes.
    pub(super) fn wait<T>(self, pending: &Pending<T>) -> Result<T, Missing> {
        let mut last = None;
        loop {
            let left = self.0.saturating_duration_since(Self::now());
            let why = match pending.0.recv_timeout(left) {
                Ok(result) => {
                    last = Some(result);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => Missing::Late,
                Err(RecvTimeoutError::Disconnected) => Missing::NoThread,
            };
            return last.ok_or(why);
        }
    }

    /// The same for a reading, which becomes a fault if it is missing.
    pub(super) fn reading<T>(self, what: &str, pending: &Pending<Reading<T>>) -> Reading<T> {
        self.wait(pending).unwrap_or_else(|missing| match missing {
            Missing::Late => stalled(what),
            Missing::NoThread => Reading::Failed(Fault {
                kind: FaultKind::Other,
                detail: format!("{what}: no thread could be started (process limit reached)"),
            }),
        })
    }
}

/// The fault of a read that exceeded the deadline.
pub(super) fn stalled<T>(what: &str) -> Reading<T> {
    Reading::Failed(Fault {
        kind: FaultKind::Stalled,
        detail: format!("{what}: no answer in time"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_without_a_result_is_not_late() {
        let deadline = Deadline::after(Duration::from_secs(60));
        let pending: Pending<Reading<()>> = stream("test", |_| {});
        let got = deadline.reading("it", &pending);
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Other));
    }

    #[test]
    fn the_last_result_counts() {
        let deadline = Deadline::after(Duration::from_millis(50));
        let (tx, rx) = channel();
        let pending = Pending(rx);
        tx.send(1).unwrap();
        assert_eq!(deadline.wait(&pending), Ok(1), "without waiting for more");
        tx.send(2).unwrap();
        tx.send(3).unwrap();
        assert_eq!(deadline.wait(&pending), Ok(3));
        drop(tx);
        assert_eq!(deadline.wait(&pending), Err(Missing::NoThread));
    }

    #[test]
    fn a_hung_read_is_abandoned() {
        let deadline = Deadline::after(Duration::from_millis(50));
        let (tx, rx) = channel::<()>();
        let pending: Pending<Reading<()>> = stream("test", move |_| {
            let _ = rx.recv();
        });
        let got = deadline.reading("it", &pending);
        assert!(matches!(got, Reading::Failed(fault) if fault.kind == FaultKind::Stalled));
        drop(tx);
    }
}
