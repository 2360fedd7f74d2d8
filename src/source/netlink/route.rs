//! Changes of network devices and of DCB settings as they happen, by rtnetlink
//! (include/uapi/linux/rtnetlink.h, if_link.h).

use super::{Attrs, DUMP, Message, NetlinkError, Reply, Request, socket::Socket};
use crate::observe::Reading;
use nix::errno::Errno;
use nix::libc::{
    IFLA_IFNAME, RTM_DELLINK, RTM_GETDCB, RTM_GETRULE, RTM_NEWLINK, RTM_NEWRULE, RTM_SETDCB,
};
use nix::sys::socket::SockProtocol;
use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

/// Size of `struct ifinfomsg`.
pub(super) const IFINFOMSG: usize = 16;
/// Size of `struct dcbmsg`.
pub(super) const DCBMSG: usize = 4;

/// Rules of policy routing (include/uapi/linux/fib_rules.h): `struct fib_rule_hdr` is family, lengths of
/// destination and source, TOS, table, two reserved bytes, action, flags.
const FIB_RULE_HDR: usize = 12;
const FRA_SRC: u16 = 2;
const FR_ACT_TO_TBL: u8 = 1;
const AF_INET: u8 = 2;

pub(super) const DCB_ATTR_IFNAME: u16 = 1;

/// Bits of RTNLGRP_LINK (1) and RTNLGRP_DCB (23).
const GROUPS: u32 = 1 | 1 << 22;

/// Longest interface name (IFNAMSIZ - 1).
const MAX_NAME: usize = 15;

/// Asks one thing about an interface: what `parse` makes of the last answer of this kind. Not observable
/// where it makes nothing of it, and where there is more to tell than the kernel's answer can hold.
pub(super) fn ask<T>(
    (what, ifname): (&str, &str),
    request: Request,
    kind: u16,
    parse: impl Fn(&[u8]) -> Reply<Option<T>>,
) -> Reading<T> {
    if ifname.is_empty() || ifname.len() > MAX_NAME || ifname.contains('\0') {
        return Reading::Absent;
    }
    let socket = Socket::open(SockProtocol::NetlinkRoute);
    let answer = socket.and_then(|mut socket| {
        socket.ask(request, |answer: &mut Option<T>, message| {
            if message.kind == kind {
                *answer = parse(message.payload)?;
            }
            Ok(())
        })
    });
    match answer {
        Ok(Some(answer)) => Reading::Value(answer),
        Ok(None) | Err(NetlinkError::Io(Errno::EMSGSIZE)) => Reading::NotObservable,
        Err(error) => error.reading(&format!("{what} {ifname}")),
    }
}

/// IPv4 addresses with a rule of their own, such as `ip rule add from 10.9.0.3 lookup 103`.
pub fn ruled_addresses() -> Reply<BTreeSet<Ipv4Addr>> {
    let mut header = [0; FIB_RULE_HDR];
    header[0] = AF_INET;
    let request = Request::new(RTM_GETRULE, DUMP).header(&header);
    Socket::open(SockProtocol::NetlinkRoute)?.ask(request, |found: &mut BTreeSet<_>, message| {
        if message.kind == RTM_NEWRULE {
            found.extend(ruled_address(message.payload)?);
        }
        Ok(())
    })
}

fn ruled_address(payload: &[u8]) -> Reply<Option<Ipv4Addr>> {
    let source = Attrs::after(payload, FIB_RULE_HDR)?.get(FRA_SRC);
    let own = matches!(payload, [AF_INET, _, 32, _, _, _, _, FR_ACT_TO_TBL, ..]);
    let address = source.and_then(|attr| <[u8; 4]>::try_from(attr.bytes).ok());
    Ok(address.filter(|_| own).map(Ipv4Addr::from))
}

/// What came on the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// A device is new, changed or gone, by name. A burst is merged by the kernel; edges are counted
    /// by `carrier_changes`, not by messages.
    Link(String),
    /// DCB settings (PFC, ETS, APP table) of an interface changed.
    DcbChanged(String),
    /// Events were lost: read everything again.
    Lost,
}

/// Joins the groups of link and DCB events of this network namespace.
pub fn subscribe() -> Reply<Socket> {
    Socket::with_groups(SockProtocol::NetlinkRoute, GROUPS)
}

/// Waits for events, at most `timeout` (and at most 65 s); none on timeout.
pub fn events(socket: &mut Socket, timeout: Duration) -> Reply<Vec<LinkEvent>> {
    let mut events = Vec::new();
    let lost = socket.events(timeout, |message| {
        events.extend(parse(&message).unwrap_or(Some(LinkEvent::Lost)));
    })?;
    events.extend(lost.then_some(LinkEvent::Lost));
    Ok(events)
}

/// Parses one rtnetlink message; none where it is about something else.
pub fn parse(message: &Message<'_>) -> Reply<Option<LinkEvent>> {
    match message.kind {
        RTM_NEWLINK | RTM_DELLINK => {
            // A bridge reports its ports in the same group under family AF_BRIDGE; its DELLINK
            // means that the port left the bridge, not that the device is gone.
            if message.payload.first() != Some(&0) {
                return Ok(None);
            }
            let name = Attrs::after(message.payload, IFINFOMSG)?.text(IFLA_IFNAME);
            Ok(name.map(LinkEvent::Link))
        }
        RTM_GETDCB | RTM_SETDCB => {
            let name = Attrs::after(message.payload, DCBMSG)?.text(DCB_ATTR_IFNAME);
            Ok(name.map(LinkEvent::DcbChanged))
        }
        _ => Ok(None),
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
    fn rules_for_one_source_address_count() {
        for (length, action, want) in [
            (32, 1, Some(Ipv4Addr::new(10, 9, 0, 3))),
            (24, 1, None),
            (32, 6, None),
        ] {
            let header = [2, 0, length, 0, 103, 0, 0, action, 0, 0, 0, 0];
            let request = Request::new(RTM_NEWRULE, 0)
                .header(&header)
                .attr(FRA_SRC, &[10, 9, 0, 3]);
            let bytes = request.finish(0);
            let payload = bytes.get(16..).unwrap();
            assert_eq!(ruled_address(payload).unwrap(), want, "{header:?}");
        }
        // The kernel's own three name no source.
        ruled_addresses().unwrap();
    }

    #[test]
    fn links_are_named_and_leaving_a_bridge_is_not_removal() {
        for (kind, family, want) in [
            (RTM_NEWLINK, 0, Some(LinkEvent::Link("va".into()))),
            (RTM_DELLINK, 0, Some(LinkEvent::Link("va".into()))),
            (RTM_NEWLINK, 7, None),
            (RTM_DELLINK, 7, None),
        ] {
            let request = Request::new(kind, 0)
                .header(&ifinfo(family, 7, 0x1_1043))
                .text(3, "va")
                .u32(35, 9);
            assert_eq!(parsed(kind, request), want, "{kind} {family}");
        }
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
            // Without even a family byte it is ignored.
            assert_eq!(parse(&message).is_err(), len > 0, "{len}");
        }
    }

    #[test]
    fn this_kernel_takes_the_subscription() {
        let mut socket = subscribe().unwrap();
        assert!(events(&mut socket, Duration::ZERO).is_ok());
    }
}
