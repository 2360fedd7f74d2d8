//! Events that wake the agent, and the threads that wait for them.

use crate::blocking;
use crate::kernel_log;
use crate::source::netlink::{NetlinkError, monitor, route};
use std::time::Duration;
use tokio::sync::mpsc;

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
pub(super) fn spawn(tx: &mpsc::Sender<Wake>, rdma_netlink: bool) {
    let links = tx.clone();
    blocking::spawn("rtnetlink", move || watch_links(&links));
    if rdma_netlink {
        let devices = tx.clone();
        blocking::spawn("rdma-monitor", move || watch_devices(&devices));
    }
}

fn watch_links(tx: &mpsc::Sender<Wake>) {
    let mut monitor = match route::LinkMonitor::open() {
        Ok(monitor) => monitor,
        Err(error) => {
            tracing::warn!(%error, "cannot subscribe to rtnetlink; link changes are found by polling");
            return;
        }
    };
    // Changes between the first reads and the subscription were missed.
    let mut events = vec![route::LinkEvent::Lost];
    while !tx.is_closed() {
        for event in events {
            let wake = match event {
                route::LinkEvent::Link(name) => Wake::Netdev(name),
                route::LinkEvent::DcbChanged(_) => Wake::Dcb,
                route::LinkEvent::Lost => Wake::Lost,
            };
            if tx.blocking_send(wake).is_err() {
                return;
            }
        }
        events = monitor.wait(WAIT).unwrap_or_else(|error| {
            tracing::warn!(%error, "rtnetlink subscription failed; reading everything again");
            std::thread::sleep(Duration::from_secs(1));
            vec![route::LinkEvent::Lost]
        });
    }
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

fn watch_devices(tx: &mpsc::Sender<Wake>) {
    while !tx.is_closed() {
        let opened = monitor::Monitor::open();
        match outlook(opened.as_ref().map(monitor::Monitor::supported)) {
            Outlook::Listen => {
                if let Ok(monitor) = opened {
                    listen(monitor, tx);
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

fn listen(mut monitor: monitor::Monitor, tx: &mpsc::Sender<Wake>) {
    // Devices may have come before the subscription did.
    let mut changed = true;
    while !tx.is_closed() {
        if changed && tx.blocking_send(Wake::Devices).is_err() {
            return;
        }
        changed = match monitor.wait(WAIT) {
            Ok(changed) => changed,
            Err(error) => {
                tracing::warn!(%error, "RDMA netlink subscription failed; enumerating devices again");
                std::thread::sleep(Duration::from_secs(1));
                true
            }
        };
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
        blocking::spawn("links", move || watch_links(&tx));
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
