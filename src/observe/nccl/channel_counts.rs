//! Counts connections by transport, and collects what they show about the hosts of ranks.

use super::event::{Connection, Net, Side, Transport};
use std::collections::{BTreeMap, BTreeSet};

/// Most ranks whose host is kept, and most hops: enough for the ranks of one node and their peers.
const MAX_PLACES: usize = 1024;

/// The same for connections whose communicator is not known yet, which are those of one rank.
const MAX_PENDING_PLACES: usize = 64;

/// Most NICs, and most hops of a ring inside a node.
const MAX_LOCAL: usize = 64;

/// Most channels whose hops inside the node are kept: a line of one of them may be torn.
const MAX_RINGS: usize = 4;

/// What an entry of a map of numbers takes, in bytes, with the room that its nodes leave free.
const PLACE_BYTES: usize = 32;

/// The process of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct HostPid {
    /// Index of the host.
    pub host: u32,
    /// Process id; `u32::MAX` if unknown.
    pub process: u32,
}

/// Connections of one communicator, or of a whole log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChannelCounts {
    /// Number of connections by transport.
    pub over: BTreeMap<Transport, u64>,
    /// Verbs NICs in use, by the net's number.
    pub nics: BTreeSet<u32>,
    /// Both ranks of a connection have the same device, so they are on different hosts.
    pub same_device: bool,
    /// Device of each rank.
    devices: BTreeMap<u32, u64>,
    /// A rank has two devices: the connections are of several communicators.
    moved: bool,
    /// Ranks with one device share a host, so devices are numbered per process.
    own_numbers: bool,
    /// Processes of ranks, by the lines that the ranks printed.
    pub places: BTreeMap<u32, HostPid>,
    /// Two processes printed as one rank: the connections are of several communicators.
    pub mixed: bool,
    /// Connections over a net, from rank to rank.
    pub hops: BTreeSet<(u32, u32)>,
    /// There were more ranks or hops than are kept.
    pub more: bool,
    /// Connections inside the node, by channel and rank: the process that printed it and the next rank.
    /// The first one counts, since trees follow after rings. `None` if processes disagree.
    rings: BTreeMap<u32, Ring>,
    /// Number of ranks that NVLink joins, also between nodes: the smallest and the largest that a rank printed.
    pub clique: Option<(u32, u32)>,
    /// The communicator is not known yet.
    pending: bool,
}

type Ring = BTreeMap<u32, Option<(Option<HostPid>, u32)>>;

impl ChannelCounts {
    /// Counts for connections whose communicator is not known yet.
    pub fn pending() -> Self {
        ChannelCounts {
            pending: true,
            ..ChannelCounts::default()
        }
    }

    fn most(&self) -> usize {
        match self.pending {
            true => MAX_PENDING_PLACES,
            false => MAX_PLACES,
        }
    }

    /// Adds a connection.
    pub fn connection(&mut self, connection: &Connection<'_>, printer: Option<HostPid>) {
        *self.over.entry(connection.over).or_default() += 1;
        let hop = (connection.from, connection.to);
        let devices = connection.devices;
        let ends = devices.map(|(a, b)| [(hop.0, a), (hop.1, b)]);
        for (rank, device) in ends.into_iter().flatten() {
            if let Ok(device) = u64::from_str_radix(device, 16) {
                self.device(rank, device);
            }
        }
        let same = devices.is_some_and(|(a, b)| a == b) && hop.0 != hop.1;
        match connection.over {
            Transport::Net(net) => {
                if let (Net::Ib, Some(nic)) = (net, connection.nic) {
                    self.nic(nic);
                }
                self.same_device |= same;
                self.hop(hop);
            }
            Transport::P2p | Transport::Shm => {
                self.own_numbers |= same;
                if connection.collective {
                    self.local(connection.channel, hop, printer);
                }
            }
            Transport::Mnnvl | Transport::CollNet => {}
        }
        if let (Some(side), Some(place)) = (connection.side, printer) {
            let own = match side {
                Side::Send => connection.from,
                Side::Receive => connection.to,
            };
            self.place(own, place);
        }
    }

    fn device(&mut self, rank: u32, device: u64) {
        match self.devices.get(&rank) {
            Some(known) => self.moved |= *known != device,
            None if self.devices.len() < self.most() => self.devices.extend([(rank, device)]),
            None => {}
        }
    }

    fn nic(&mut self, nic: u32) {
        if self.nics.len() < MAX_LOCAL {
            self.nics.insert(nic);
        }
    }

    fn hop(&mut self, hop: (u32, u32)) {
        if self.hops.len() < self.most() {
            self.hops.insert(hop);
        } else if !self.hops.contains(&hop) {
            self.more = true;
        }
    }

    /// Adds a connection inside the node to its channel's ring.
    fn local(&mut self, channel: u32, (from, to): (u32, u32), printer: Option<HostPid>) {
        if self.rings.len() >= MAX_RINGS && !self.rings.contains_key(&channel) {
            return;
        }
        let next = self.rings.entry(channel).or_default();
        if let Some(known) = next.get_mut(&from) {
            *known = known.filter(|(by, place)| *by == printer || *place == to);
        } else if next.len() < MAX_LOCAL {
            next.insert(from, Some((printer, to)));
        }
    }

    /// Records the process that printed as a rank.
    pub fn place(&mut self, rank: u32, place: HostPid) {
        match self.places.get(&rank) {
            Some(known) => self.mixed |= *known != place,
            None if self.places.len() < self.most() => self.places.extend([(rank, place)]),
            None => self.more = true,
        }
    }

    /// Records how many ranks one rank reaches by NVLink, itself included.
    pub fn joined_by_nvlink(&mut self, ranks: u32) {
        let (least, most) = self.clique.unwrap_or((ranks, ranks));
        self.clique = Some((least.min(ranks), most.max(ranks)));
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &ChannelCounts) {
        (other.over.iter()).for_each(|(over, count)| *self.over.entry(*over).or_default() += count);
        other.nics.iter().for_each(|nic| self.nic(*nic));
        self.same_device |= other.same_device;
        self.moved |= other.moved;
        self.own_numbers |= other.own_numbers;
        (other.devices.iter()).for_each(|(rank, device)| self.device(*rank, *device));
        self.mixed |= other.mixed;
        (other.places.iter()).for_each(|(rank, place)| self.place(*rank, *place));
        other.hops.iter().for_each(|hop| self.hop(*hop));
        self.more |= other.more;
        for ranks in other.clique.into_iter().flat_map(<[u32; 2]>::from) {
            self.joined_by_nvlink(ranks);
        }
        for (channel, ring) in &other.rings {
            for (from, (printer, to)) in ring.iter().filter_map(|(from, to)| Some((from, (*to)?))) {
                self.local(*channel, (*from, to), printer);
            }
        }
    }

    /// Bytes of memory that it holds, roughly.
    pub(super) fn held(&self) -> usize {
        let rings: usize = self.rings.values().map(BTreeMap::len).sum();
        let places = self.devices.len() + self.places.len() + self.hops.len() + self.nics.len();
        (places + 2 * rings + self.over.len()) * PLACE_BYTES
    }

    /// Whether two ranks have the same device, so that they are on different hosts, even of the same name.
    /// Without a connection over a net these may be several communicators of one host.
    pub fn shares_devices(&self) -> bool {
        if self.same_device || self.own_numbers {
            return !self.own_numbers;
        }
        let devices: BTreeSet<u64> = self.devices.values().copied().collect();
        !self.moved && self.nets().next().is_some() && devices.len() < self.devices.len()
    }

    /// Whether all ranks have numbers above those of their GPUs (NVML's, since 2.18.3; older releases print bus
    /// ids), by a multiple of so many GPUs.
    pub fn offset_by(&self, gpus: u32) -> bool {
        let offset = |(rank, gpu): (&u32, &u64)| *rank >= gpus && u64::from(*rank % gpus) == *gpu;
        let usable = !self.moved && !self.own_numbers && !self.devices.is_empty();
        usable && self.devices.iter().all(offset)
    }

    /// The highest rank number.
    pub fn highest(&self) -> Option<u32> {
        let placed = self.places.keys().max().copied();
        let joined = self.hops.iter().map(|(from, to)| *from.max(to)).max();
        placed.max(joined)
    }

    /// Number of connections over a net.
    pub fn net(&self, net: Net) -> u64 {
        let count = self.over.get(&Transport::Net(net));
        count.copied().unwrap_or_default()
    }

    /// Nets in use, with their numbers of connections.
    pub fn nets(&self) -> impl Iterator<Item = (Net, u64)> + '_ {
        self.over.iter().filter_map(|(over, count)| match over {
            Transport::Net(net) => Some((*net, *count)),
            _ => None,
        })
    }

    /// Whether connections over the net join hosts. `None` if the ranks' hosts are not known.
    pub fn crosses(&self) -> Option<bool> {
        if self.mixed {
            return None;
        }
        let ends = |(from, to): &(u32, u32)| {
            let hosts = (self.places.get(from)?.host, self.places.get(to)?.host);
            Some(hosts.0 != hosts.1)
        };
        if self.hops.iter().any(|hop| ends(hop) == Some(true)) {
            return Some(true);
        }
        let all = !self.more && !self.hops.is_empty();
        (all && self.hops.iter().all(|hop| ends(hop) == Some(false))).then_some(false)
    }

    /// Whether connections inside the node close a ring of three or more ranks, and none goes over a net: then
    /// all ranks are here. Two ranks also meet as parent and child of a tree, which says nothing.
    pub fn ring_closes(&self) -> bool {
        let closes_at = |next: &Ring, start: u32| {
            let mut at = start;
            for steps in 1..=next.len() {
                match next.get(&at) {
                    Some(Some((_, to))) if *to == start => return steps >= 3,
                    Some(Some((_, to))) => at = *to,
                    _ => return false,
                }
            }
            false
        };
        let closes = |next: &Ring| next.keys().any(|start| closes_at(next, *start));
        self.hops.is_empty() && self.rings.values().any(closes)
    }

    /// Whether connections inside the node join so many ranks, from 0, and none goes over a net: peer access and
    /// shared memory end with the host (`hostHash` in `src/transport/p2p.cc`, `shm.cc`).
    pub fn joins(&self, ranks: u32) -> bool {
        let hops = || {
            let hops = self.rings.values().flatten();
            hops.filter_map(|(from, next)| next.map(|(_, to)| (*from, to)))
        };
        let mut joined = BTreeSet::from([0]);
        let mut before = 0;
        while std::mem::replace(&mut before, joined.len()) != joined.len() {
            for (from, to) in hops() {
                if joined.contains(&from) || joined.contains(&to) {
                    joined.extend([from, to]);
                }
            }
        }
        ranks > 1 && self.hops.is_empty() && (0..ranks).all(|rank| joined.contains(&rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(from: u32, to: u32, over: Transport) -> Connection<'static> {
        Connection {
            channel: 0,
            collective: true,
            from,
            to,
            devices: None,
            side: Some(Side::Send),
            over,
            nic: None,
            gdr: false,
            nranks: None,
        }
    }

    fn at(host: u32, process: u32) -> Option<HostPid> {
        Some(HostPid { host, process })
    }

    #[test]
    fn rings_of_three_prove_and_trees_do_not() {
        for (hops, closes) in [
            (&[(2, 3), (1, 2), (3, 0), (0, 1)][..], true),
            (&[(0, 1), (1, 0)][..], false),
            (&[(0, 1), (1, 2), (2, 1)][..], false),
            (&[(0, 1), (1, 2)][..], false),
            (&[][..], false),
        ] {
            let mut counts = ChannelCounts::default();
            for (from, to) in hops {
                counts.connection(&hop(*from, *to, Transport::P2p), None);
            }
            assert_eq!(counts.ring_closes(), closes, "{hops:?}");
        }
    }

    #[test]
    fn hops_cross_hosts_or_stay_or_are_unknown() {
        let net = Transport::Net(Net::Socket);
        let mut counts = ChannelCounts::default();
        counts.connection(&hop(0, 1, net), at(1, 1));
        assert_eq!(counts.crosses(), None);
        counts.place(1, at(1, 2).unwrap());
        assert_eq!(counts.crosses(), Some(false));
        counts.connection(&hop(1, 2, net), at(1, 2));
        assert_eq!(counts.crosses(), None);
        counts.place(2, at(2, 1).unwrap());
        assert_eq!(counts.crosses(), Some(true));
        // Another communicator's rank 0 under another process.
        counts.place(0, at(1, 9).unwrap());
        assert_eq!(counts.crosses(), None);
    }
}
