//! RDMA netlink events (RDMA_NLDEV_CMD_MONITOR, Linux 6.12). They tell of devices and of their
//! network devices; no kernel sends one for a port's state.

use super::rdma::{Client, DEV_INDEX, DEV_NAME, NDEV_INDEX, NDEV_NAME, NLDEV, PORT_INDEX};
use super::socket::Socket;
use super::{Attrs, NetlinkError};
use nix::sys::socket::SockProtocol;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

const CMD_MONITOR: u16 = NLDEV | 28;
const EVENT_TYPE: u16 = 102;
/// Bit of RDMA_NL_GROUP_NOTIFY (4).
const NOTIFY: u32 = 1 << 3;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdmaEventKind {
    /// A device was registered; its port may read DOWN for some milliseconds yet.
    Register,
    /// A device was unregistered.
    Unregister,
    /// A port got a network device.
    NetdevAttach,
    /// A port lost its network device.
    NetdevDetach,
    /// A device was renamed (later kernels; 6.12 says nothing).
    Rename,
    /// A port's network device was renamed (later kernels).
    NetdevRename,
    /// An event that this program does not know.
    Unknown(u8),
    /// Events were lost, or could not be read: enumerate everything again.
    Lost,
}

/// One event. All but the kind is hint: what counts is what is read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaEvent {
    /// What happened.
    pub kind: RdmaEventKind,
    /// Device index.
    pub index: Option<u32>,
    /// Device name.
    pub name: Option<String>,
    /// Port number.
    pub port: Option<u32>,
    /// Index of the network device.
    pub ifindex: Option<u32>,
    /// Name of the network device.
    pub ifname: Option<String>,
}

impl RdmaEvent {
    /// Events were lost.
    fn lost() -> Self {
        RdmaEvent {
            kind: RdmaEventKind::Lost,
            index: None,
            name: None,
            port: None,
            ifindex: None,
            ifname: None,
        }
    }
}

/// Listens to RDMA events of this network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    supported: bool,
}

impl Monitor {
    /// Joins the group. Kernels without events accept that and stay silent, see
    /// [`Monitor::supported`].
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::with_groups(SockProtocol::NetlinkRDMA, NOTIFY)?;
        let supported = Client::open()?.system()?.monitor;
        Ok(Monitor { socket, supported })
    }

    /// Whether the kernel sends events at all.
    pub fn supported(&self) -> bool {
        self.supported
    }

    /// Waits for events, at most `timeout` (and at most 65 s); none on timeout.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<RdmaEvent>, NetlinkError> {
        let mut events = Vec::new();
        let lost = self.socket.events(timeout, |message| {
            if message.kind == CMD_MONITOR {
                events.push(event(message.payload).unwrap_or_else(|_| RdmaEvent::lost()));
            }
        })?;
        if lost {
            events.push(RdmaEvent::lost());
        }
        Ok(events)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Parses one event.
pub fn event(payload: &[u8]) -> Result<RdmaEvent, NetlinkError> {
    let attrs = Attrs::parse(payload)?;
    let kind = match attrs.u8(EVENT_TYPE)? {
        Some(0) => RdmaEventKind::Register,
        Some(1) => RdmaEventKind::Unregister,
        Some(2) => RdmaEventKind::NetdevAttach,
        Some(3) => RdmaEventKind::NetdevDetach,
        Some(4) => RdmaEventKind::Rename,
        Some(5) => RdmaEventKind::NetdevRename,
        Some(other) => RdmaEventKind::Unknown(other),
        None => return Err(NetlinkError::Malformed("event without a type")),
    };
    Ok(RdmaEvent {
        kind,
        index: attrs.u32(DEV_INDEX)?,
        name: attrs.text(DEV_NAME),
        port: attrs.u32(PORT_INDEX)?,
        ifindex: attrs.u32(NDEV_INDEX)?,
        ifname: attrs.text(NDEV_NAME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::Request;

    #[test]
    fn events() {
        let payload = |mut request: Request| request.finish(0).get(16..).unwrap().to_vec();
        let attach = Request::new(CMD_MONITOR, 0)
            .u32(1, 2)
            .text(2, "rxeA")
            .u32(3, 1)
            .u32(50, 8)
            .text(51, "va")
            .attr(102, &[2]);
        assert_eq!(
            event(&payload(attach)),
            Ok(RdmaEvent {
                kind: RdmaEventKind::NetdevAttach,
                index: Some(2),
                name: Some("rxeA".into()),
                port: Some(1),
                ifindex: Some(8),
                ifname: Some("va".into()),
            })
        );
        for (kind, want) in [
            (0, RdmaEventKind::Register),
            (1, RdmaEventKind::Unregister),
            (3, RdmaEventKind::NetdevDetach),
            (4, RdmaEventKind::Rename),
            (9, RdmaEventKind::Unknown(9)),
        ] {
            let request = Request::new(CMD_MONITOR, 0).u32(1, 2).attr(102, &[kind]);
            assert_eq!(event(&payload(request)).unwrap().kind, want);
        }
        // REGISTER is 0: an event without a type is not one.
        assert!(event(&payload(Request::new(CMD_MONITOR, 0).u32(1, 2))).is_err());
    }
}
