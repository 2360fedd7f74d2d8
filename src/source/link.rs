//! State, physical state, rate and LID of ports.
//!
//! On mlx5 every read of one of these files is a full ib_query_port(): five firmware commands on
//! InfiniBand, two on RoCE. Where RDMA netlink has told the states, only the rate is left to read
//! here, and it is read when the state has changed and every N-th time.

use crate::host::Host;
use crate::observe::rdma::{LinkFacts, LinkLayer, LinkRate, PhysState, PortState, RdmaDevice, Via};
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::source::attribute::Attribute;
use crate::source::directory::{Directory, Epoch};
use crate::source::link_text::{parse_phys_state, parse_rate, parse_state};
use crate::source::parse;
use crate::source::rdma_port::port_dir;

/// Reads the ports of one device again and again.
#[derive(Debug)]
pub struct LinkReader {
    ports: Vec<PortReader>,
    rate_every: u32,
    buffer: Vec<u8>,
    reads: u64,
}

#[derive(Debug)]
struct PortReader {
    number: u32,
    layer: LinkLayer,
    directory: Directory,
    state: Attribute,
    phys_state: Attribute,
    rate: Attribute,
    lid: Attribute,
    last_state: Option<(PortState, PhysState)>,
    last_rate: Option<Reading<LinkRate>>,
    last_lid: Option<u32>,
    rate_age: u32,
}

impl LinkReader {
    /// A reader of all ports of `device`. With states from netlink, the rate is read every
    /// `rate_every`-th time (0 and 1: every time). Nothing is opened yet.
    pub fn new(host: &Host, device: &RdmaDevice, rate_every: u32) -> Self {
        let ports = device
            .ports
            .iter()
            .map(|port| {
                let dir = port_dir(&device.name, port.number);
                let attribute = |file: &str| Attribute::new(host, dir.join(file));
                PortReader {
                    number: port.number,
                    layer: port.link_layer,
                    directory: Directory::new(host, &dir),
                    state: attribute("state"),
                    phys_state: attribute("phys_state"),
                    rate: attribute("rate"),
                    lid: attribute("lid"),
                    last_state: None,
                    last_rate: None,
                    last_lid: None,
                    rate_age: 0,
                }
            })
            .collect();
        LinkReader {
            ports,
            rate_every: rate_every.max(1),
            buffer: Vec::with_capacity(4096),
            reads: 0,
        }
    }

    /// Reads every port. `known`: states out of RDMA netlink; a port that is missing there (a dump
    /// stops short at the first port that cannot be queried) is read from files.
    pub fn read(
        &mut self,
        host: &Host,
        known: Option<&[(u32, PortState, PhysState)]>,
    ) -> Vec<(u32, LinkFacts)> {
        let mut facts = Vec::with_capacity(self.ports.len());
        for port in &mut self.ports {
            let known = known
                .unwrap_or_default()
                .iter()
                .find(|(number, _, _)| *number == port.number)
                .map(|(_, state, phys)| (*state, *phys));
            let mut files = Files {
                host,
                epoch: port.directory.epoch(host),
                buffer: &mut self.buffer,
                reads: &mut self.reads,
            };
            facts.push((port.number, port.read(&mut files, known, self.rate_every)));
        }
        facts
    }

    /// Files read so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }
}

struct Files<'a> {
    host: &'a Host,
    epoch: Epoch,
    buffer: &'a mut Vec<u8>,
    reads: &'a mut u64,
}

impl Files<'_> {
    fn text(&mut self, attribute: &mut Attribute) -> Reading<&str> {
        *self.reads += 1;
        attribute.read(self.host, self.epoch, self.buffer)
    }
}

impl PortReader {
    fn read(
        &mut self,
        files: &mut Files<'_>,
        known: Option<(PortState, PhysState)>,
        rate_every: u32,
    ) -> LinkFacts {
        let (state, phys_state, via) = match known {
            Some((state, phys)) => (Reading::Value(state), Reading::Value(phys), Via::Netlink),
            None => (
                then("state", files.text(&mut self.state), parse_state),
                then(
                    "phys_state",
                    files.text(&mut self.phys_state),
                    parse_phys_state,
                ),
                Via::Sysfs,
            ),
        };
        let stale = known.is_none()
            || known != self.last_state
            || !matches!(self.last_rate, Some(Reading::Value(_)))
            || self.rate_age.saturating_add(1) >= rate_every;
        if stale {
            self.last_rate = Some(then("rate", files.text(&mut self.rate), parse_rate));
            self.last_lid = match self.layer {
                // Always 0x0 there, and each look costs what the state costs.
                LinkLayer::Ethernet => Some(0),
                _ => files
                    .text(&mut self.lid)
                    .value()
                    .and_then(|text| parse::parse_hex(text))
                    .and_then(|lid| u32::try_from(lid).ok()),
            };
            self.rate_age = 0;
        } else {
            self.rate_age += 1;
        }
        self.last_state = known;
        LinkFacts {
            state,
            phys_state,
            rate: self.last_rate.clone().unwrap_or_default(),
            lid: self.last_lid,
            via,
        }
    }
}

/// Parses a text that was read; what does not parse is malformed.
fn then<T>(file: &str, text: Reading<&str>, parse: impl Fn(&str) -> Option<T>) -> Reading<T> {
    text.and_then(|text| match parse(text) {
        Some(value) => Reading::Value(value),
        None => Reading::Failed(Fault {
            kind: FaultKind::Malformed,
            detail: format!(
                "{file}: unexpected text {:?}",
                parse::clean(text).unwrap_or_default()
            ),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut reader = LinkReader::new(&host, &devices.value().unwrap()[0], 10);
        let facts = reader.read(&host, None);
        assert_eq!(facts.len(), 1);
        let (port, facts) = &facts[0];
        assert_eq!(*port, 1);
        assert_eq!(facts.state, Reading::Value(PortState::Active));
        assert_eq!(facts.phys_state, Reading::Value(PhysState::LinkUp));
        assert_eq!(facts.rate.value().unwrap().rate, BitsPerSec::from_gbps(400));
        assert_eq!(facts.lid, Some(0x2a));
        assert_eq!(facts.via, Via::Sysfs);
        assert_eq!(reader.reads(), 4);
    }

    #[test]
    fn with_netlink_only_the_rate_is_read_and_seldom() {
        let tree = one_port();
        let host = tree.host();
        let devices = enumerate(&host);
        let mut reader = LinkReader::new(&host, &devices.value().unwrap()[0], 3);
        // A state file that must not be opened.
        tree.file("sys/class/infiniband/mlx5_0/ports/1/state", "junk");
        let up = [(1, PortState::Active, PhysState::LinkUp)];
        let down = [(1, PortState::Down, PhysState::Polling)];
        let mut reads = Vec::new();
        for known in [&up, &up, &up, &up, &down, &down] {
            let before = reader.reads();
            let facts = reader.read(&host, Some(known));
            assert_eq!(facts[0].1.via, Via::Netlink);
            assert_eq!(facts[0].1.state, Reading::Value(known[0].1));
            assert!(facts[0].1.rate.value().is_some());
            reads.push(reader.reads() - before);
        }
        assert_eq!(
            reads,
            [2, 0, 0, 2, 2, 0],
            "rate and LID, third time and at edges"
        );
        let facts = reader.read(&host, Some(&[]));
        assert_eq!(facts[0].1.via, Via::Sysfs);
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
        let mut reader = LinkReader::new(&host, &devices.value().unwrap()[0], 1);
        let facts = &reader.read(&host, None)[0].1;
        assert!(matches!(facts.state, Reading::Failed(_)));
        assert!(matches!(facts.phys_state, Reading::Failed(_)));
        assert_eq!(facts.rate, Reading::NotObservable);
        assert_eq!(facts.lid, None);
    }
}
