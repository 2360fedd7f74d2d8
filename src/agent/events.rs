//! Events that wake the agent, and the threads that wait for them.

use crate::kernel_log;
use crate::source::netlink::{NetlinkError, monitor, route};
use crate::supervise::{self, Supervisor};
use std::time::Duration;
use tokio::sync::mpsc;

/// Stack of a thread, in bytes.
const STACK: usize = 128 * 1024;

/// Time between checks whether the agent still listens.
const WAIT: Duration = Duration::from_secs(30);

/// Time between attempts to subscribe to RDMA events while ib_core is not loaded.
const LATER: Duration = Duration::from_secs(180);

/// An event for the agent's loop.
#[derive(Debug)]
pub enum Wake {
    /// News of the kernel log.
    KernelLog(kernel_log::Update),
    /// News of this node's jobs.
    Jobs(crate::jobs::JobUpdate),
    /// A network device or its DCB settings changed.
    Link(route::LinkEvent),
    /// RDMA devices came or went.
    Devices,
}

impl From<kernel_log::Update> for Wake {
    fn from(update: kernel_log::Update) -> Self {
        Wake::KernelLog(update)
    }
}

impl From<crate::jobs::JobUpdate> for Wake {
    fn from(update: crate::jobs::JobUpdate) -> Self {
        Wake::Jobs(update)
    }
}

/// Threads that wait for the kernel's events. Each ends when the agent no longer listens.
pub(super) fn spawn(supervisor: &Supervisor, tx: &mpsc::Sender<Wake>, rdma_netlink: bool) {
    let links = tx.clone();
    supervisor.thread(supervise::RTNETLINK, STACK, move |task| {
        watch_links(&links, || task.beat());
        Ok(())
    });
    if rdma_netlink {
        let devices = tx.clone();
        supervisor.thread(supervise::RDMA_MONITOR, STACK, move |task| {
            watch_devices(&devices, || task.beat());
            Ok(())
        });
    }
}

/// First and longest wait before a subscription that failed is made again.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A subscription to events of the kernel.
struct Subscription<M> {
    name: &'static str,
    open: fn() -> Result<M, NetlinkError>,
    wait: fn(&mut M) -> Result<Vec<Wake>, NetlinkError>,
    /// What was missed before it was made: everything may have changed.
    lost: fn() -> Wake,
}

impl<M> Subscription<M> {
    /// Forwards what it reports. One that failed is made again.
    fn forward(&self, tx: &mpsc::Sender<Wake>, beat: impl Fn(), pause: impl Fn(Duration)) {
        let mut again = AGAIN.0;
        let mut subscribed = None;
        while !tx.is_closed() {
            beat();
            let wakes = match &mut subscribed {
                Some(monitor) => (self.wait)(monitor).inspect(|_| again = AGAIN.0),
                none => (self.open)().map(|monitor| {
                    *none = Some(monitor);
                    vec![(self.lost)()]
                }),
            };
            let wakes = wakes.unwrap_or_else(|error| {
                // Once for as long as it fails.
                if again == AGAIN.0 {
                    tracing::warn!(%error, subscription = self.name, "netlink subscription failed; falling back to polling");
                }
                pause(again);
                again = (again * 2).min(AGAIN.1);
                subscribed = None;
                Vec::new()
            });
            for wake in wakes {
                if tx.blocking_send(wake).is_err() {
                    return;
                }
            }
        }
    }
}

fn watch_links(tx: &mpsc::Sender<Wake>, beat: impl Fn()) {
    let subscription = Subscription {
        name: "rtnetlink",
        open: route::subscribe,
        wait: |socket| {
            let events = route::events(socket, WAIT)?.into_iter();
            Ok(events.map(Wake::Link).collect())
        },
        lost: || Wake::Link(route::LinkEvent::Lost),
    };
    subscription.forward(tx, beat, std::thread::sleep);
}

fn watch_devices(tx: &mpsc::Sender<Wake>, beat: impl Fn()) {
    // ib_core may be loaded later.
    let supported = loop {
        beat();
        match (monitor::subscribe(), monitor::is_supported()) {
            _ if tx.is_closed() => return,
            (Ok(_), Ok(supported)) => break supported,
            _ => std::thread::sleep(LATER),
        }
    };
    // Kernels before 6.12 take the subscription and send nothing.
    if !supported {
        tracing::info!("no RDMA event monitor before Linux 6.12; devices are polled");
        return;
    }
    let subscription = Subscription {
        name: "rdma",
        open: monitor::subscribe,
        wait: |socket| {
            let changed = monitor::changed(socket, WAIT)?;
            Ok(Vec::from_iter(changed.then_some(Wake::Devices)))
        },
        lost: || Wake::Devices,
    };
    subscription.forward(tx, beat, std::thread::sleep);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_subscribing_everything_is_read_again() {
        let (tx, mut rx) = mpsc::channel(4);
        let thread = std::thread::spawn(move || {
            let first = rx.blocking_recv();
            drop(rx);
            first
        });
        std::thread::spawn(move || watch_links(&tx, || ()));
        assert!(matches!(
            thread.join().unwrap(),
            Some(Wake::Link(route::LinkEvent::Lost))
        ));
    }

    #[test]
    fn a_subscription_that_fails_is_made_again_later_and_later() {
        let (tx, rx) = mpsc::channel(64);
        let rx = std::cell::RefCell::new(rx);
        let pauses = std::cell::RefCell::new(Vec::new());
        // The ninth attempt succeeds, and then it fails again.
        let open = || {
            use std::sync::atomic::{AtomicU32, Ordering};
            static OPENED: AtomicU32 = AtomicU32::new(1);
            match OPENED.fetch_add(1, Ordering::Relaxed) {
                9 => Ok(()),
                _ => Err(NetlinkError::NotSupported),
            }
        };
        let failing = Subscription {
            name: "test",
            open,
            wait: |()| Err(NetlinkError::NotSupported),
            lost: || Wake::Devices,
        };
        let beats = std::cell::RefCell::new(1..);
        let beat = || {
            if beats.borrow_mut().next() == Some(10) {
                rx.borrow_mut().close();
            }
        };
        let pause = |wait: Duration| pauses.borrow_mut().push(wait.as_secs());
        failing.forward(&tx, beat, pause);
        assert_eq!(*pauses.borrow(), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(matches!(rx.borrow_mut().try_recv(), Ok(Wake::Devices)));
        assert!(
            rx.borrow_mut().try_recv().is_err(),
            "changes were missed once"
        );
    }
}
