//! LLDP frames (IEEE 802.1AB, EtherType 0x88cc) of network interfaces, by a packet socket. It needs
//! CAP_NET_RAW, and a NIC that leaves the frames to the host: mlx5's firmware may keep them (DCBX in
//! firmware, `LLDP_NB_DCBX`). Absent in a directory tree.

use super::parse::clean;
use crate::host::Host;
use crate::observe::{Advertisement, FaultKind, Neighbor, Reading};
use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{LinkAddr, SetSockOpt, recvfrom};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::{os::fd::AsRawFd, time::Duration};

/// `ETH_P_LLDP`.
const ETHERTYPE: u16 = 0x88cc;

/// Nearest bridge: bridges do not forward what is sent there.
const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// Longest LLDPDU: an Ethernet frame's payload.
const MAX_LLDPDU: usize = 1500;

/// Most frames received in one read. The socket's buffer holds some hundred more.
const MAX_FRAMES: usize = 512;

/// TLV types.
const END: u8 = 0;
const CHASSIS_ID: u8 = 1;
const PORT_ID: u8 = 2;
const TTL: u8 = 3;
const PORT_DESCRIPTION: u8 = 4;
const SYSTEM_NAME: u8 = 5;

/// Joins an interface to a multicast group, for as long as the socket is open.
#[derive(Clone)]
struct AddMembership;

nix::setsockopt_impl!(
    AddMembership,
    libc::SOL_PACKET,
    libc::PACKET_ADD_MEMBERSHIP,
    libc::packet_mreq,
    nix::sys::socket::sockopt::SetStruct<'_, libc::packet_mreq>
);

/// Frames carry the interface that received them. Without it those of a bond's active legs carry
/// the bond.
#[derive(Clone)]
struct OriginalDevice;

nix::setsockopt_impl!(
    OriginalDevice,
    libc::SOL_PACKET,
    libc::PACKET_ORIGDEV,
    bool,
    nix::sys::socket::sockopt::SetBool
);

/// A socket that receives the frames of all interfaces of this network namespace.
pub struct Listener {
    socket: Socket,
    joined: BTreeSet<u32>,
}

impl Listener {
    /// Opens the socket, where the host is a running kernel's.
    pub fn open(host: &Host) -> Reading<Listener> {
        if !host.is_live() {
            return Reading::Absent;
        }
        let protocol = Protocol::from(i32::from(ETHERTYPE.to_be()));
        match Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), Some(protocol)) {
            Ok(socket) => {
                if let Err(errno) = OriginalDevice.set(&socket, &true) {
                    tracing::debug!(%errno, "the legs of a bond cannot be told apart");
                }
                Reading::Value(Listener {
                    socket,
                    joined: BTreeSet::new(),
                })
            }
            Err(error) => {
                let kind = match error.kind() {
                    std::io::ErrorKind::PermissionDenied => FaultKind::Denied,
                    _ => FaultKind::Other,
                };
                let detail = format!("packet socket: {error}; LLDP needs CAP_NET_RAW");
                Reading::failed(kind, detail)
            }
        }
    }

    /// What came since the last call, oldest first, of these interfaces. Frames of other interfaces,
    /// and what is not a whole LLDPDU, are dropped.
    pub fn read(&mut self, names: &BTreeSet<String>) -> nix::Result<Vec<(String, Advertisement)>> {
        let mut interfaces = HashMap::new();
        for name in names {
            // One that is gone for a moment has no index.
            if let Ok(index) = if_nametoindex(name.as_str()) {
                self.join(name, index);
                interfaces.insert(index as usize, name);
            }
        }
        let mut heard = Vec::new();
        let mut buffer = [0; MAX_LLDPDU + 1];
        for _ in 0..MAX_FRAMES {
            let (length, from) = match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut buffer) {
                Ok((length, Some(from))) => (length, from),
                // An interface that was joined went down; the next receive goes on.
                Ok(_) | Err(Errno::EINTR | Errno::ENETDOWN) => continue,
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(errno),
            };
            if let Some(name) = interfaces.get(&from.ifindex())
                && from.pkttype() == libc::PACKET_MULTICAST
                && length <= MAX_LLDPDU
                && let Some(advertisement) = buffer.get(..length).and_then(parse)
            {
                heard.push(((*name).clone(), advertisement));
            }
        }
        Ok(heard)
    }

    /// The NIC's filter lets the group pass for as long as the socket is open.
    fn join(&mut self, name: &str, index: u32) {
        if !self.joined.insert(index) {
            return;
        }
        let [a, b, c, d, e, f] = GROUP;
        let request = libc::packet_mreq {
            mr_ifindex: i32::try_from(index).unwrap_or(0),
            mr_type: libc::PACKET_MR_MULTICAST as u16,
            mr_alen: 6,
            mr_address: [a, b, c, d, e, f, 0, 0],
        };
        // IPoIB refuses (EINVAL): its addresses are longer, and InfiniBand has no LLDP.
        if let Err(errno) = AddMembership.set(&self.socket, &request) {
            tracing::debug!(interface = name, %errno, "the LLDP group cannot be joined");
        }
    }
}

/// An LLDPDU: chassis ID, port ID and TTL come first and in this order, each once. One that is not
/// whole is none.
pub fn parse(lldpdu: &[u8]) -> Option<Advertisement> {
    let mut rest = lldpdu;
    let mut mandatory = |kind: u8| {
        let (found, value, after) = split_tlv(rest)?;
        rest = after;
        (found == kind).then_some(value)
    };
    let chassis = mandatory(CHASSIS_ID)?;
    let port = mandatory(PORT_ID)?;
    let ttl = mandatory(TTL)?.first_chunk::<2>()?;
    let (mut name, mut description) = (None, None);
    while !rest.is_empty() {
        let (kind, value, after) = split_tlv(rest)?;
        rest = after;
        match kind {
            END => break,
            CHASSIS_ID | PORT_ID | TTL => return None,
            PORT_DESCRIPTION => description = printable(value),
            SYSTEM_NAME => name = printable(value),
            _ => {}
        }
    }
    let chassis = id(chassis, (4, 5))?;
    let port_id = id(port, (3, 4))?;
    let is_mac = port.first() == Some(&3);
    let described = description.clone().filter(|_| is_mac);
    Some(Advertisement {
        neighbor: Neighbor {
            switch: name.unwrap_or_else(|| chassis.clone()),
            switch_port: described.unwrap_or_else(|| port_id.clone()),
            description,
            ids: (chassis, port_id),
        },
        ttl: Duration::from_secs(u16::from_be_bytes(*ttl).into()),
    })
}

/// Type and value of the first TLV, and what follows; `None` if it is cut off. One of type 0 ends the frame,
/// whatever length it has.
fn split_tlv(tlvs: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = tlvs.split_first_chunk::<2>()?;
    // Seven bits of type, nine of length.
    let head = u16::from_be_bytes(*head);
    let (kind, length) = ((head >> 9) as u8, usize::from(head & 0x1ff));
    let (value, rest) = rest.split_at_checked(if kind == END { 0 } else { length })?;
    Some((kind, value, rest))
}

/// An ID as text: its first byte says what it is, and which values mean a MAC and a network address
/// differs between chassis and port. At most 255 bytes follow.
fn id(value: &[u8], (mac, network): (u8, u8)) -> Option<String> {
    let (kind, value) = value.split_first()?;
    if value.is_empty() || value.len() > 255 {
        return None;
    }
    let hex = || {
        let bytes = value.iter().take(32).map(|byte| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(":")
    };
    Some(match value {
        _ if *kind == mac => hex(),
        // IANA's address family numbers.
        [1, a, b, c, d] if *kind == network => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        [2, address @ ..] if *kind == network => {
            let address = <[u8; 16]>::try_from(address).map(Ipv6Addr::from);
            address.map_or_else(|_| hex(), |address| address.to_string())
        }
        text => printable(text).unwrap_or_else(hex),
    })
}

/// Short and without control characters; none where nothing is left.
fn printable(text: &[u8]) -> Option<String> {
    clean(&String::from_utf8_lossy(text))
}

#[cfg(test)]
mod tests;
