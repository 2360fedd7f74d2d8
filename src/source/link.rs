//! State, physical state, rate, LIDs and partition of ports.
//!
//! On mlx5 every read of one of these files is a full ib_query_port(): five firmware commands on
//! InfiniBand, two on RoCE. A rate changes with the state, so rate, LIDs and partition are read when the
//! state has changed and every N-th time; what RDMA netlink has given is not read here.

use crate::host::Host;
use crate::observe::{LinkFacts, LinkLayer, RdmaDevice, RdmaPort, Reading};
use crate::source::netlink::rdma::NlPort;
use crate::source::{link_text, parse, rdma_port, tree};

/// Reads the ports of one device again and again.
#[derive(Debug)]
pub struct LinkReader {
    ports: Vec<LinkPortReader>,
    rate_every: u32,
}

#[derive(Debug)]
struct LinkPortReader {
    number: u32,
    layer: LinkLayer,
    dir: tree::Directory,
    last: Option<LinkFacts>,
    /// Whether RDMA netlink gave the state of the last read.
    by_netlink: bool,
    /// Reads since the rate was read.
    rate_age: u32,
}

impl LinkReader {
    /// A reader of all ports of `device`. The rate is read when the state changed, and every
    /// `rate_every`-th time (0 and 1: every time).
    pub fn new(device: &RdmaDevice, rate_every: u32) -> Self {
        let port = |port: &RdmaPort| LinkPortReader {
            number: port.number,
            layer: port.link_layer,
            dir: tree::Directory::new(rdma_port::port_dir(&device.name, port.number)),
            last: None,
            by_netlink: false,
            rate_age: 0,
        };
        LinkReader {
            ports: device.ports.iter().map(port).collect(),
            rate_every,
        }
    }

    /// Reads every port. `known`: states out of RDMA netlink; a port that is missing there is read
    /// from files.
    pub fn read(&mut self, host: &Host, known: &[NlPort]) -> Vec<(u32, LinkFacts)> {
        let rate_every = self.rate_every;
        let read = |port: &mut LinkPortReader| {
            let known = known.iter().find(|known| known.port == port.number);
            (port.number, port.read(host, known, rate_every))
        };
        self.ports.iter_mut().map(read).collect()
    }
}

impl LinkPortReader {
    fn read(&mut self, host: &Host, known: Option<&NlPort>, rate_every: u32) -> LinkFacts {
        self.dir.begin(host);
        let (state, phys_state) = match known {
            Some(known) => (
                Reading::Value(known.state),
                Reading::Value(known.phys_state),
            ),
            None => (
                self.parsed(host, "state", link_text::parse_state),
                self.parsed(host, "phys_state", link_text::parse_phys_state),
            ),
        };
        let same_way = self.by_netlink == known.is_some();
        self.by_netlink = known.is_some();
        self.rate_age = self.rate_age.saturating_add(1);
        let (lid, sm_lid) = known.map_or((None, None), |known| (known.lid, known.sm_lid));
        if let Some(last) = &mut self.last
            && (&last.state, &last.phys_state) == (&state, &phys_state)
            && same_way
            && last.rate.value().is_some()
            && self.rate_age < rate_every
        {
            (last.lid, last.sm_lid) = (lid.or(last.lid), sm_lid.or(last.sm_lid));
            return last.clone();
        }
        self.rate_age = 0;
        let rate = self.parsed(host, "rate", link_text::parse_rate);
        let hex = |file: &str| parse::hex(host, self.dir.path.join(file));
        let infiniband = self.layer == LinkLayer::Infiniband;
        let of_infiniband = |file: &str| infiniband.then(|| hex(file)).flatten();
        let facts = LinkFacts {
            state,
            phys_state,
            rate,
            lid: match self.layer {
                // Always 0x0 there, and each read costs what the state costs.
                LinkLayer::Ethernet => Some(0),
                _ => lid.or_else(|| hex("lid")?.try_into().ok()),
            },
            sm_lid: sm_lid.or_else(|| of_infiniband("sm_lid")?.try_into().ok()),
            pkey: of_infiniband("pkeys/0").and_then(|key| key.try_into().ok()),
        };
        self.last = Some(facts.clone());
        facts
    }

    /// Reads and parses a file; a text that does not parse is malformed.
    fn parsed<T>(&mut self, host: &Host, file: &str, parse: fn(&str) -> Option<T>) -> Reading<T> {
        self.dir.read_text(host, file).and_then(|text| {
            let clean = || parse::clean(&text).unwrap_or_default();
            let odd = || format!("{file}: unexpected text {:?}", clean());
            Reading::parsed(parse(&text).ok_or_else(odd))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{PhysState, PortState};
    use crate::source::infiniband::enumerate;
    use crate::source::testtree::TestTree;
    use crate::units::BitsPerSec;

    fn one_port() -> TestTree {
        let tree = TestTree::new();
        tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        tree
    }

    #[test]
    fn files_alone() {
        let tree = one_port();
        let host = tree.host();
        let devices = enumerate(&host);
        let mut reader = LinkReader::new(&devices.value().unwrap()[0], 10);
        let facts = reader.read(&host, &[]);
        assert_eq!(facts.len(), 1);
        let (port, facts) = &facts[0];
        assert_eq!(*port, 1);
        assert_eq!(facts.state, Reading::Value(PortState::Active));
        assert_eq!(facts.phys_state, Reading::Value(PhysState::LinkUp));
        assert_eq!(facts.rate.value().unwrap().rate, BitsPerSec::from_gbps(400));
        assert_eq!(facts.lid, Some(0x2a));
        assert_eq!((facts.sm_lid, facts.pkey), (Some(1), Some(0x7fff)));
    }

    #[test]
    fn the_rate_is_read_again_with_the_state_or_after_a_while() {
        let tree = one_port();
        let (host, recording) = tree.recorded_host();
        let devices = enumerate(&host);
        let mut reader = LinkReader::new(&devices.value().unwrap()[0], 3);
        let mut reads = Vec::new();
        for state in [
            "4: ACTIVE",
            "4: ACTIVE",
            "4: ACTIVE",
            "4: ACTIVE",
            "1: DOWN",
            "1: DOWN",
        ] {
            tree.file("sys/class/infiniband/mlx5_0/ports/1/state", state);
            let before = recording.recorded().opened;
            assert!(reader.read(&host, &[])[0].1.rate.value().is_some());
            reads.push(recording.recorded().opened - before);
        }
        assert_eq!(reads, [6, 2, 2, 6, 6, 2]);
    }

    #[test]
    fn with_netlink_only_the_rate_is_read_and_seldom() {
        let tree = one_port();
        let (host, recording) = tree.recorded_host();
        let devices = enumerate(&host);
        let mut reader = LinkReader::new(&devices.value().unwrap()[0], 3);
        // A state file that must not be opened.
        tree.file("sys/class/infiniband/mlx5_0/ports/1/state", "junk");
        let known = |state, phys_state, lid| {
            [NlPort {
                port: 1,
                state,
                phys_state,
                lid: Some(lid),
                sm_lid: Some(7),
            }]
        };
        let up = known(PortState::Active, PhysState::LinkUp, 3);
        let moved = known(PortState::Active, PhysState::LinkUp, 4);
        let down = known(PortState::Down, PhysState::Polling, 4);
        let mut reads = Vec::new();
        for known in [&up, &up, &moved, &up, &down, &down] {
            let before = recording.recorded().opened;
            let facts = reader.read(&host, known);
            assert_eq!(facts[0].1.state, Reading::Value(known[0].state));
            assert_eq!(facts[0].1.lid, known[0].lid);
            assert!(facts[0].1.rate.value().is_some());
            reads.push(recording.recorded().opened - before);
        }
        assert_eq!(
            reads,
            [2, 0, 0, 2, 2, 0],
            "rate and partition, third time and at edges"
        );
        let facts = reader.read(&host, &[]);
        assert!(matches!(facts[0].1.state, Reading::Failed(_)));
    }

    #[test]
    fn odd_files_are_faults_and_not_values() {
        let tree = one_port();
        let port = "sys/class/infiniband/mlx5_0/ports/1";
        tree.bytes(&format!("{port}/state"), b"\xff\xfe\x00\x01");
        tree.file(&format!("{port}/phys_state"), "");
        tree.remove(&format!("{port}/rate"));
        tree.dir(&format!("{port}/rate"));
        tree.errno(19, &format!("{port}/lid"));
        let host = tree.host();
        let devices = enumerate(&host);
        let mut reader = LinkReader::new(&devices.value().unwrap()[0], 1);
        let facts = &reader.read(&host, &[])[0].1;
        assert!(matches!(facts.state, Reading::Failed(_)));
        assert!(matches!(facts.phys_state, Reading::Failed(_)));
        assert_eq!(facts.rate, Reading::NotObservable);
        assert_eq!(facts.lid, None);
    }
}
