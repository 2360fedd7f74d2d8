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
    Jobs(crate::jobs::Update),
    /// A network device changed, by name.
    Netdev(String),
    /// DCB settings of an interface changed.
    Dcb,
    /// RDMA devices came or went.
    Devices,
    /// Events were lost: everything is to be read again.
    Lost,
}

impl From<kernel_log::Update> for Wake {
    fn from(update: kernel_log::Update) -> Self {
        Wake::KernelLog(update)
    }
}

impl From<crate::jobs::Update> for Wake {
    fn from(update: crate::jobs::Update) -> Self {
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

/// Forwards what a subscription reports. At first, and after a failure, changes may have been missed:
/// then everything is read again (`lost`).
fn forward(
    tx: &mpsc::Sender<Wake>,
    subscription: &str,
    lost: fn() -> Wake,
    beat: impl Fn(),
    mut wait: impl FnMut() -> Result<Vec<Wake>, NetlinkError>,
) {
    let mut wakes = vec![lost()];
    while !tx.is_closed() {
        beat();
        for wake in wakes {
            if tx.blocking_send(wake).is_err() {
                return;
            }
        }
        wakes = wait().unwrap_or_else(|error| {
            tracing::warn!(%error, subscription, "netlink subscription failed; reading everything again");
            std::thread::sleep(Duration::from_secs(1));
            vec![lost()]
        });
    }
}

fn watch_links(tx: &mpsc::Sender<Wake>, beat: impl Fn()) {
    let mut monitor = match route::LinkMonitor::open() {
        Ok(monitor) => monitor,
        Err(error) => {
            tracing::warn!(%error, "cannot subscribe to rtnetlink; link changes are found by polling");
            return;
        }
    };
    let wake = |event| match event {
        route::LinkEvent::Link(name) => Wake::Netdev(name),
        route::LinkEvent::DcbChanged(_) => Wake::Dcb,
        route::LinkEvent::Lost => Wake::Lost,
    };
    forward(
        tx,
        "rtnetlink",
        || Wake::Lost,
        beat,
        || Ok(monitor.wait(WAIT)?.into_iter().map(wake).collect()),
    );
}

/// Whether to subscribe to RDMA events.
#[derive(Debug, PartialEq, Eq)]
enum Outlook {
    /// Subscribe: this kernel sends the events.
    Listen,
    /// This kernel has none, and will not get one.
    Never,
    /// Unknown yet: ib_core may be loaded later.
    Later,
}

fn outlook(supported: Result<bool, &NetlinkError>) -> Outlook {
    match supported {
        Ok(true) => Outlook::Listen,
        // Kernels before 6.12 take the subscription and send nothing.
        Ok(false) => Outlook::Never,
        Err(_) => Outlook::Later,
    }
}

fn watch_devices(tx: &mpsc::Sender<Wake>, beat: impl Fn()) {
    while !tx.is_closed() {
        beat();
        let opened = monitor::Monitor::open();
        match outlook(opened.as_ref().map(monitor::Monitor::supported)) {
            Outlook::Listen => {
                if let Ok(mut monitor) = opened {
                    forward(
                        tx,
                        "rdma",
                        || Wake::Devices,
                        beat,
                        || {
                            let changed = monitor.wait(WAIT)?;
                            Ok(Vec::from_iter(changed.then_some(Wake::Devices)))
                        },
                    );
                }
                return;
            }
            Outlook::Never => {
                tracing::info!(
                    "this kernel has no RDMA event monitor (Linux 6.12); devices are found by polling"
                );
                return;
            }
            Outlook::Later => std::thread::sleep(LATER),
        }
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
        assert!(matches!(thread.join().unwrap(), Some(Wake::Lost)));
    }

    #[test]
    fn a_kernel_without_rdma_may_get_it_later() {
        let absent = NetlinkError::NotSupported;
        assert_eq!(outlook(Err(&absent)), Outlook::Later);
        assert_eq!(outlook(Ok(false)), Outlook::Never);
        assert_eq!(outlook(Ok(true)), Outlook::Listen);
    }
}
