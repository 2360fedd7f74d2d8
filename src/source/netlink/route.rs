//! Network devices by rtnetlink (include/uapi/linux/rtnetlink.h, if_link.h): link state, its
//! changes as they happen, and word that DCB settings changed.

use super::socket::Socket;
use super::{Attrs, Message, NetlinkError, Request, u32_at};
use nix::sys::socket::SockProtocol;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
pub(super) const RTM_GETDCB: u16 = 78;
const RTM_SETDCB: u16 = 79;

/// Size of `struct ifinfomsg`.
pub(super) const IFINFOMSG: usize = 16;
/// Size of `struct dcbmsg`.
pub(super) const DCBMSG: usize = 4;

const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_CARRIER_UP_COUNT: u16 = 47;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
pub(super) const DCB_ATTR_IFNAME: u16 = 1;

const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;

/// Bits of RTNLGRP_LINK (1) and RTNLGRP_DCB (23).
const GROUPS: u32 = 1 | 1 << 22;

/// Longest interface name (IFNAMSIZ - 1).
const MAX_NAME: usize = 15;

/// Whether an interface can be called so.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && !text.contains('\0')
}

/// Asks one thing; what `parse` makes of the last answer of this kind.
pub(super) fn ask<T>(
    request: Request,
    kind: u16,
    parse: impl Fn(&[u8]) -> Result<Option<T>, NetlinkError>,
) -> Result<Option<T>, NetlinkError> {
    Socket::open(SockProtocol::NetlinkRoute)?.ask(request, |answer: &mut Option<T>, message| {
        if message.kind == kind {
            *answer = parse(message.payload)?;
        }
        Ok(())
    })
}

/// One network device as rtnetlink tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub ifindex: u32,
    /// Name.
    pub name: Option<String>,
    /// IFF_UP: the administrator wants it up.
    pub admin_up: bool,
    /// IFF_LOWER_UP: the physical layer is up.
    pub lower_up: bool,
    /// IFLA_CARRIER.
    pub carrier: Option<bool>,
    /// IFLA_OPERSTATE in the words of `/sys/class/net/<if>/operstate`.
    pub operstate: Option<&'static str>,
    /// Edges of carrier since the device was registered: each flap adds 2.
    pub carrier_changes: Option<u32>,
    /// Times that carrier came.
    pub carrier_up_count: Option<u32>,
    /// Times that carrier went.
    pub carrier_down_count: Option<u32>,
    /// Index of the bond or bridge above it.
    pub master: Option<u32>,
    /// It left this network namespace: deleted, or moved to another.
    pub removed: bool,
}

/// What came on the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// A device is new, changed or gone. A burst is merged by the kernel; edges are counted by
    /// `carrier_changes`, not by messages.
    Link(Link),
    /// DCB settings (PFC, ETS, APP table) of an interface changed.
    DcbChanged(String),
    /// Events were lost: read everything again.
    Lost,
}

/// Listens to changes of network devices in this network namespace.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
}

impl LinkMonitor {
    /// Joins the groups.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(LinkMonitor {
            socket: Socket::with_groups(SockProtocol::NetlinkRoute, GROUPS)?,
        })
    }

    /// Waits for events, at most `timeout` (and at most 65 s); none on timeout.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<LinkEvent>, NetlinkError> {
        let mut events = Vec::new();
        let lost = self
            .socket
            .events(timeout, |message| match parse(&message) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => {}
                Err(_) => events.push(LinkEvent::Lost),
            })?;
        if lost {
            events.push(LinkEvent::Lost);
        }
        Ok(events)
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Parses one rtnetlink message; none where it is about something else.
pub fn parse(message: &Message<'_>) -> Result<Option<LinkEvent>, NetlinkError> {
    match message.kind {
        RTM_NEWLINK | RTM_DELLINK => {
            // A bridge tells of its ports in the same group under family AF_BRIDGE; its DELLINK
            // means that the port left the bridge, not that the device is gone.
            if message.payload.first() != Some(&0) {
                return Ok(None);
            }
            link(message.payload, message.kind == RTM_DELLINK)
                .map(|link| Some(LinkEvent::Link(link)))
        }
        RTM_GETDCB | RTM_SETDCB => {
            let name = Attrs::after(message.payload, DCBMSG)?.text(DCB_ATTR_IFNAME);
            Ok(name.map(LinkEvent::DcbChanged))
        }
        _ => Ok(None),
    }
}

fn link(payload: &[u8], removed: bool) -> Result<Link, NetlinkError> {
    let short = NetlinkError::Malformed("link message shorter than its header");
    let (Some(ifindex), Some(flags)) = (u32_at(payload, 4), u32_at(payload, 8)) else {
        return Err(short);
    };
    let attrs = Attrs::after(payload, IFINFOMSG)?;
    Ok(Link {
        ifindex,
        name: attrs.text(IFLA_IFNAME),
        admin_up: flags & IFF_UP != 0,
        lower_up: flags & IFF_LOWER_UP != 0,
        carrier: attrs.u8(IFLA_CARRIER)?.map(|carrier| carrier != 0),
        operstate: attrs.u8(IFLA_OPERSTATE)?.map(operstate),
        carrier_changes: attrs.u32(IFLA_CARRIER_CHANGES)?,
        carrier_up_count: attrs.u32(IFLA_CARRIER_UP_COUNT)?,
        carrier_down_count: attrs.u32(IFLA_CARRIER_DOWN_COUNT)?,
        master: attrs.u32(IFLA_MASTER)?,
        removed,
    })
}

/// The words of net/core/net-sysfs.c for RFC 2863 states.
fn operstate(state: u8) -> &'static str {
    match state {
        1 => "notpresent",
        2 => "down",
        3 => "lowerlayerdown",
        4 => "testing",
        5 => "dormant",
        6 => "up",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::Request;

    fn ifinfo(family: u8, index: u32, flags: u32) -> Vec<u8> {
        let mut bytes = vec![family, 0, 1, 0];
        bytes.extend(index.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    fn parsed(kind: u16, request: Request) -> Option<LinkEvent> {
        let mut request = request;
        let bytes = request.finish(0).get(16..).unwrap().to_vec();
        let message = Message {
            kind,
            flags: 0,
            seq: 0,
            payload: &bytes,
        };
        parse(&message).unwrap()
    }

    #[test]
    fn a_link_that_lost_its_lower_layer() {
        let request = Request::new(RTM_NEWLINK, 0)
            .header(&ifinfo(0, 7, 0x1003))
            .text(3, "va")
            .attr(16, &[3])
            .attr(33, &[0])
            .u32(35, 9)
            .u32(47, 4)
            .u32(48, 5)
            .u32(10, 12);
        assert_eq!(
            parsed(RTM_NEWLINK, request),
            Some(LinkEvent::Link(Link {
                ifindex: 7,
                name: Some("va".into()),
                admin_up: true,
                lower_up: false,
                carrier: Some(false),
                operstate: Some("lowerlayerdown"),
                carrier_changes: Some(9),
                carrier_up_count: Some(4),
                carrier_down_count: Some(5),
                master: Some(12),
                removed: false,
            }))
        );
    }

    #[test]
    fn leaving_a_bridge_is_not_removal() {
        let gone = |family| {
            let request = Request::new(RTM_DELLINK, 0)
                .header(&ifinfo(family, 7, 0x1_1043))
                .text(3, "va");
            parsed(RTM_DELLINK, request)
        };
        assert!(matches!(gone(0), Some(LinkEvent::Link(link)) if link.removed && link.lower_up));
        assert_eq!(gone(7), None);
    }

    #[test]
    fn dcb_notifications_name_the_interface() {
        let request = Request::new(RTM_SETDCB, 0)
            .header(&[0, 20, 0, 0])
            .text(1, "ens3");
        assert_eq!(
            parsed(RTM_SETDCB, request),
            Some(LinkEvent::DcbChanged("ens3".into()))
        );
        assert_eq!(parsed(24, Request::new(24, 0)), None);
    }

    #[test]
    fn short_messages_are_errors() {
        for len in 0..IFINFOMSG {
            let payload = vec![0; len];
            let message = Message {
                kind: RTM_NEWLINK,
                flags: 0,
                seq: 0,
                payload: &payload,
            };
            // With no family byte at all it is nobody's.
            assert_eq!(parse(&message).is_err(), len > 0, "{len}");
        }
    }

    #[test]
    fn this_kernel_takes_the_subscription() {
        let mut monitor = LinkMonitor::open().unwrap();
        assert!(monitor.wait(Duration::ZERO).is_ok());
    }
}
