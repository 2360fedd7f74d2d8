//! Lines about channels, the only proof of what carries data (src/transport.cc, src/transport/{net,p2p,shm}.cc).

use super::network::is_cut;
use super::scan::{Scan, find};
use crate::observe::nccl::{Event, Net, Transport, event};

/// `Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA`, `Ring 00 : 3 -> 4 via …` (2.3 to
/// 2.6), a ring's order `Channel 00/02 :    0   1`, or `CollNet 00/0 : 0 [send] via COLLNET/SHARP/0` (up to 2.8
/// `Coll 00 : …`).
pub(super) fn channel(text: &str) -> Option<Event<'_>> {
    let starts = ["Channel ", "Ring ", "CollNet ", "Coll "];
    let rest = starts.iter().find_map(|start| text.strip_prefix(start))?;
    let mut scan = Scan(rest);
    let channel = scan.number()?;
    // 1 is for send and receive (`connIndex`).
    let index = scan.tag("/").map_or(Some(0), |()| scan.number())?;
    scan.spaces().tag(":")?;
    let from = scan.spaces().number()?;
    let from_device = device(&mut scan);
    let (to, to_device) = match scan.spaces().tag("->") {
        Some(()) => (scan.spaces().number()?, device(&mut scan)),
        None if text.starts_with("Coll") => (from, None),
        None => return ring_order(from, scan.0),
    };
    scan.spaces();
    let sends = scan.tag("[send]").map(|()| event::Side::Send);
    let side = sends.or_else(|| scan.tag("[receive]").map(|()| event::Side::Receive));
    scan.spaces().tag("via")?;
    // RCCL appends the communicator and its size.
    let text = scan.spaces().0;
    let end = find!(text, " comm ").unwrap_or(text.len());
    let (way, behind) = text.split_at_checked(end)?;
    let nranks = find!(behind, " nRanks ").and_then(|at| behind.get(at + " nRanks ".len()..));
    let (over, nic, gdr) = carried(way)?;
    Some(Event::Connection(event::Connection {
        channel,
        collective: index == 0,
        from,
        to,
        devices: from_device.zip(to_device),
        side,
        over,
        nic,
        gdr,
        nranks: nranks.and_then(|rest| Scan(rest).number()),
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

/// What carries a connection, over which NIC, and whether with GPUDirect RDMA.
fn carried(way: &str) -> Option<(Transport, Option<u32>, bool)> {
    const LOCAL: [(&str, Transport); 5] = [
        ("P2P/MNNVL", Transport::Mnnvl),
        ("P2P", Transport::P2p),
        ("SHM", Transport::Shm),
        ("direct shared memory", Transport::Shm),
        ("COLLNET/", Transport::CollNet),
    ];
    let Some(net) = way.strip_prefix("NET/") else {
        let mut known = LOCAL.iter().filter(|(start, _)| way.starts_with(start));
        let gdr = way.contains("/GDRDMA");
        return known.next().map(|(_, over)| (*over, None, gdr));
    };
    // `IB/0/GDRDMA`, `IBext_v8/1(2)/GDRDMA(PCI)/Shared`, `AWS Libfabric/3/GDRDMA`.
    let (name, rest) = net.split_once('/').unwrap_or((net, ""));
    let name = name.trim();
    if rest.is_empty() && is_cut(name) {
        return None;
    }
    let mut parts = rest.split('/').skip(1);
    let gdr = parts.any(|part| part.starts_with("GDRDMA"));
    Some((Transport::Net(Net::of(name)), Scan(rest).number(), gdr))
}

/// `Connected all rings` or `Connected all rings, use ring PXN 0 GDR 1` (2.24+); RCCL appends the
/// communicator. Trees say nothing.
pub(super) fn connected(text: &str) -> Option<Event<'_>> {
    let rest = text.strip_prefix("Connected all ")?;
    let Some(rest) = rest.strip_prefix("rings") else {
        return Some(Event::Plain);
    };
    let flag = rest.split_once(" GDR ").map(|(_, flag)| flag);
    Some(Event::Rings(match flag {
        Some(flag) if flag.starts_with('1') => Some(true),
        Some(flag) if flag.starts_with('0') => Some(false),
        _ => None,
    }))
}
