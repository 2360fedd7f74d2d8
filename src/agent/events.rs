//! Events that wake the agent, and the threads that wait for them.

use crate::kernel_log;
use crate::source::netlink::route::{self, LinkEvent};
use crate::source::netlink::{NetlinkError, monitor};
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
    Link(LinkEvent),
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

/// What happened next on a subscription, which is made where there is none, and again if it failed.
fn events<M>(
    mut monitor: Option<M>,
    open: fn() -> Result<M, NetlinkError>,
    wait: fn(&mut M) -> Result<Vec<Wake>, NetlinkError>,
) -> impl FnMut() -> Result<Vec<Wake>, NetlinkError> {
    move || {
        let mut subscribed = monitor.take().map_or_else(open, Ok)?;
        let wakes = wait(&mut subscribed)?;
        monitor = Some(subscribed);
        Ok(wakes)
    }
}

/// Forwards what a subscription reports. At first, and after a failure, changes may have been missed: then
/// everything is read again (`lost`).
fn forward(
    tx: &mpsc::Sender<Wake>,
    subscription: &'static str,
    lost: fn() -> Wake,
    mut events: impl FnMut() -> Result<Vec<Wake>, NetlinkError>,
    beat: impl Fn(),
    pause: impl Fn(Duration),
) {
    let mut wakes = vec![lost()];
    let mut again = AGAIN.0;
    while !tx.is_closed() {
        beat();
        for wake in wakes {
            if tx.blocking_send(wake).is_err() {
                return;
            }
        }
        wakes = match events() {
            Ok(wakes) => {
                again = AGAIN.0;
                wakes
            }
            Err(error) => {
                // Once for as long as it fails.
                if again == AGAIN.0 {
                    tracing::warn!(%error, subscription, "netlink subscription failed; falling back to polling");
                }
                pause(again);
                again = (again * 2).min(AGAIN.1);
                vec![lost()]
            }
        };
    }
}

fn watch_links(tx: &mpsc::Sender<Wake>, beat: impl Fn()) {
    let events = events(None, route::subscribe, |socket| {
        let events = route::events(socket, WAIT)?.into_iter();
        Ok(events.map(Wake::Link).collect())
    });
    let (lost, sleep) = (|| Wake::Link(LinkEvent::Lost), std::thread::sleep);
    forward(tx, "rtnetlink", lost, events, beat, sleep);
}

fn watch_devices(tx: &mpsc::Sender<Wake>, beat: impl Fn()) {
    while !tx.is_closed() {
        beat();
        // ib_core may be loaded later.
        let (Ok(monitor), Ok(supported)) = (monitor::subscribe(), monitor::is_supported()) else {
            std::thread::sleep(LATER);
            continue;
        };
        // Kernels before 6.12 take the subscription and send nothing.
        if !supported {
            tracing::info!("no RDMA event monitor before Linux 6.12; devices are polled");
            return;
        }
        let events = events(Some(monitor), monitor::subscribe, |socket| {
            let changed = monitor::changed(socket, WAIT)?;
            Ok(Vec::from_iter(changed.then_some(Wake::Devices)))
        });
        let sleep = std::thread::sleep;
        return forward(tx, "rdma", || Wake::Devices, events, beat, sleep);
    }
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
            Some(Wake::Link(LinkEvent::Lost))
        ));
    }

    #[test]
    fn a_subscription_that_fails_is_made_again_later_and_later() {
        let (tx, mut rx) = mpsc::channel(64);
        let pauses = std::cell::RefCell::new(Vec::new());
        // Fails as it is opened nine times out of ten.
        let open = || {
            use std::sync::atomic::{AtomicU32, Ordering};
            static OPENED: AtomicU32 = AtomicU32::new(2);
            match OPENED.fetch_add(1, Ordering::Relaxed) % 10 {
                0 => Ok(true),
                _ => Err(NetlinkError::NotSupported),
            }
        };
        let failing = events(Some(false), open, |opened| match opened {
            true => Ok(Vec::new()),
            false => Err(NetlinkError::NotSupported),
        });
        // Once opened it goes on and on: the receiver ends it.
        let beats = std::cell::Cell::new(0);
        let beat = || {
            beats.set(beats.get() + 1);
            if beats.get() == 11 {
                rx.close();
            }
        };
        let beat = std::cell::RefCell::new(beat);
        let beat = || (beat.borrow_mut())();
        let pause = |wait: Duration| pauses.borrow_mut().push(wait.as_secs());
        forward(&tx, "test", || Wake::Devices, failing, beat, pause);
        assert_eq!(*pauses.borrow(), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
