//! What reaches the agent without being asked for, and the threads that wait for it.

use crate::blocking;
use crate::observe::reading::Fault;
use crate::source::kernel_log::follow::{KmsgItem, Way};
use crate::source::kernel_log::state::ResumeState;
use crate::source::netlink::{NetlinkError, monitor, route};
use crate::units::Millis;
use std::time::Duration;
use tokio::sync::mpsc;

/// Time between looks whether anybody still listens.
const WAIT: Duration = Duration::from_secs(30);

/// Time between attempts to listen to RDMA events where there is no RDMA.
const LATER: Duration = Duration::from_secs(180);

/// Something that reached the agent without being asked for.
#[derive(Debug)]
pub enum Wake {
    /// A decoded kernel-log record.
    Kernel {
        /// Moment of the record, on the agent's clock.
        at: Millis,
        /// The event.
        item: Box<KmsgItem>,
        /// Its place: kept together with what it leads to.
        through: ResumeState,
    },
    /// The kernel log was read up to here, all events handed over; no event lies between the last
    /// one and this.
    KernelThrough(ResumeState),
    /// The kernel log's own health.
    KernelLog {
        /// More records were overwritten before they were read.
        lost: Option<u64>,
        /// Why it cannot be followed, if so.
        fault: Option<Fault>,
        /// There is no kernel log under this root.
        absent: bool,
        /// The way it is read, once it is.
        via: Option<Way>,
    },
    /// What is thought of the pods with GPUs.
    Suspects(std::collections::BTreeMap<String, crate::check::nccl_suspect::Suspect>),
    /// What pods' logs tell of NCCL changed.
    Jobs(Box<crate::jobs::Told>),
    /// A network device changed.
    Netdev(String),
    /// DCB settings changed.
    Dcb,
    /// RDMA devices came or went.
    Devices,
    /// Events were lost.
    Lost,
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
            tracing::warn!(%error, "no rtnetlink events; polling only");
            return;
        }
    };
    // What changed between the first reads and this was told to nobody.
    let mut events = vec![route::LinkEvent::Lost];
    while !tx.is_closed() {
        for event in events {
            let wake = match event {
                route::LinkEvent::Link(link) => match link.name {
                    Some(name) => Wake::Netdev(name),
                    None => continue,
                },
                route::LinkEvent::DcbChanged(_) => Wake::Dcb,
                route::LinkEvent::Lost => Wake::Lost,
            };
            if tx.blocking_send(wake).is_err() {
                return;
            }
        }
        events = monitor.wait(WAIT).unwrap_or_else(|error| {
            tracing::warn!(%error, "rtnetlink");
            std::thread::sleep(Duration::from_secs(1));
            vec![route::LinkEvent::Lost]
        });
    }
}

/// What to do about the RDMA event monitor.
#[derive(Debug, PartialEq, Eq)]
enum Outlook {
    /// It tells of devices.
    Listen,
    /// This kernel has none, and will not get one.
    Never,
    /// Nothing is known yet: ib_core may be loaded later.
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
                    "no RDMA event monitor in this kernel; devices are found by polling"
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
            Ok(events) => !events.is_empty(),
            Err(error) => {
                tracing::warn!(%error, "RDMA monitor");
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
