//! Lines about channels, the only proof of what carries data (src/transport.cc, src/transport/{net,p2p,shm}.cc).

use super::scan::{Scan, find};
use crate::observe::nccl::event::{Connection, Side};
use crate::observe::nccl::{Event, Net, Transport};

/// `Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA`, `Ring 00 : 3 -> 4 via …` (2.3 to
/// 2.6), or a ring's order `Channel 00/02 :    0   1`.
pub(super) fn channel(text: &str) -> Option<Event<'_>> {
    let rest = text
        .strip_prefix("Channel ")
        .or_else(|| text.strip_prefix("Ring "))?;
    let mut scan = Scan(rest);
    let channel = scan.number()?;
    if scan.tag("/").is_some() {
        scan.number()?;
    }
    scan.spaces().tag(":")?;
    let from = scan.spaces().number()?;
    let from_device = device(&mut scan);
    if scan.spaces().tag("->").is_none() {
        return ring_order(from, scan.0);
    }
    let to = scan.spaces().number()?;
    let to_device = device(&mut scan);
    scan.spaces();
    let side = if scan.tag("[send]").is_some() {
        Some(Side::Send)
    } else if scan.tag("[receive]").is_some() {
        Some(Side::Receive)
    } else {
        None
    };
    scan.spaces().tag("via")?;
    let way = way(scan.spaces().0)?;
    Some(Event::Connection(Connection {
        channel,
        from,
        to,
        devices: from_device.zip(to_device),
        side,
        over: way.over,
        nic: way.nic,
        gdr: way.gdr,
        nranks: way.nranks,
    }))
}

/// `[1]`, `[1b000]`.
fn device<'a>(scan: &mut Scan<'a>) -> Option<&'a str> {
    let mut inner = *scan;
    inner.tag("[")?;
    let device = inner.take(|b| b.is_ascii_hexdigit())?;
    inner.tag("]")?;
    *scan = inner;
    Some(device)
}

/// The number of ranks in a ring's order, whose first rank has been read.
fn ring_order<'a>(first: u32, rest: &str) -> Option<Event<'a>> {
    let mut ranks = 1;
    for word in rest.split_ascii_whitespace() {
        let rank: u32 = word.parse().ok()?;
        // A ring starts with the printing rank 0 and names each rank once.
        if rank == first {
            return None;
        }
        ranks += 1;
    }
    (first == 0).then_some(Event::RingOrder(ranks))
}

struct Way {
    over: Transport,
    nic: Option<u32>,
    gdr: bool,
    nranks: Option<u32>,
}

fn way(text: &str) -> Option<Way> {
    // RCCL appends the communicator and its size.
    let end = find!(text, " comm ").unwrap_or(text.len());
    let (text, behind) = text.split_at_checked(end)?;
    let nranks = behind
        .split_once(" nRanks ")
        .and_then(|(_, rest)| Scan(rest).number());
    let over = if let Some(rest) = text.strip_prefix("NET/") {
        return net(rest, nranks);
    } else if text.starts_with("P2P/MNNVL") {
        Transport::Mnnvl
    } else if text.starts_with("P2P") {
        Transport::P2p
    } else if text.starts_with("SHM") || text.starts_with("direct shared memory") {
        Transport::Shm
    } else if text.starts_with("COLLNET/") {
        Transport::CollNet
    } else {
        return None;
    };
    Some(Way {
        over,
        nic: None,
        gdr: false,
        nranks,
    })
}

/// `IB/0/GDRDMA`, `IBext_v8/1(2)/GDRDMA(PCI)/Shared`, `AWS Libfabric/3/GDRDMA`.
fn net(text: &str, nranks: Option<u32>) -> Option<Way> {
    let (name, rest) = text.split_once('/').unwrap_or((text, ""));
    let name = name.trim();
    // A line cut or wrapped inside the name does not show the net.
    if rest.is_empty() && (name.is_empty() || "Socket".starts_with(name) && name != "Socket") {
        return None;
    }
    let mut scan = Scan(rest);
    let nic = scan.number();
    Some(Way {
        over: Transport::Net(Net::of(name)),
        nic,
        gdr: rest
            .split('/')
            .skip(1)
            .any(|part| part.starts_with("GDRDMA")),
        nranks,
    })
}

/// `rings` or `rings, use ring PXN 0 GDR 1` (2.24+); RCCL appends the communicator.
pub(super) fn connected(rest: &str) -> Event<'_> {
    let Some(rest) = rest.strip_prefix("rings") else {
        return Event::Plain;
    };
    let gdr = match rest.split_once(" GDR ") {
        Some((_, flag)) if flag.starts_with('1') => Some(true),
        Some((_, flag)) if flag.starts_with('0') => Some(false),
        _ => None,
    };
    Event::Rings(gdr)
}
