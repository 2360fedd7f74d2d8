//! What reads give, and how they went.

use super::schedule::Ended;
use crate::observe::counters::PortCounters;
use crate::observe::dot1x::Dot1xFacts;
use crate::observe::gpudirect::GpuDirectFacts;
use crate::observe::netdev::{DcbFacts, EthtoolFacts, NetdevFacts};
use crate::observe::pci::PciFacts;
use crate::observe::rdma::{GidTable, LinkFacts, RdmaDevice};
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::observe::snapshot::NetnsMode;
use crate::observe::vf::VfLinks;
use std::collections::{BTreeMap, BTreeSet};

/// What a read gave.
pub enum Output {
    /// RDMA devices, and what the kernel says of the RDMA subsystem.
    Devices {
        /// The devices.
        devices: Reading<Vec<RdmaDevice>>,
        /// What was left out of them.
        left_out: Option<Fault>,
        /// Network-namespace mode, where told.
        netns_mode: Option<NetnsMode>,
        /// Network devices of their ports, and those below them (legs of a bond).
        netdevs: BTreeSet<String>,
    },
    /// State of a device's ports.
    Link(Vec<(u32, LinkFacts)>),
    /// Counters of a device's ports.
    Counters {
        /// By port.
        ports: Vec<(u32, PortCounters)>,
        /// Ports whose PMA counters answered EINVAL and must not be opened again.
        restricted: Vec<u32>,
    },
    /// GID tables by port.
    Gids(Vec<(u32, Reading<GidTable>)>),
    /// A network device.
    Netdev(NetdevFacts),
    /// ethtool statistics.
    Ethtool(Reading<EthtoolFacts>),
    /// DCB settings.
    Dcb(Reading<DcbFacts>),
    /// 802.1X, of the network devices that have a supplicant.
    Dot1x(Reading<BTreeMap<String, Reading<Dot1xFacts>>>),
    /// Link states of virtual functions.
    VfLinks(Reading<VfLinks>),
    /// PCI.
    Pci(Reading<PciFacts>),
    /// GPUDirect.
    GpuDirect(GpuDirectFacts),
}

impl Output {
    /// How the read went, for the source's own health.
    pub fn ended(&self) -> Ended {
        match self {
            Output::Devices {
                devices, left_out, ..
            } => match devices {
                Reading::Value(devices) => (left_out.iter())
                    .chain(devices.iter().filter_map(|device| device.unread.as_ref()))
                    .next()
                    .cloned()
                    .map_or(Ended::Ok, Ended::Failed),
                other => ended(other),
            },
            Output::Link(ports) => first_fault(ports.iter().map(|(_, facts)| &facts.state)),
            Output::Counters { ports, .. } => first_fault(
                ports
                    .iter()
                    .flat_map(|(_, counters)| counters.pma.values().chain(counters.hw.values())),
            ),
            Output::Gids(ports) => first_fault(ports.iter().map(|(_, table)| table)),
            Output::Netdev(facts) => ended(&facts.carrier),
            Output::Ethtool(facts) => ended(facts),
            Output::Dcb(facts) => ended(facts),
            Output::Dot1x(Reading::Value(found)) => first_fault(found.values()),
            Output::Dot1x(facts) => ended(facts),
            Output::VfLinks(facts) => ended(facts),
            Output::Pci(facts) => ended(facts),
            Output::GpuDirect(facts) => ended(&facts.modules),
        }
    }
}

fn ended<T>(reading: &Reading<T>) -> Ended {
    match reading {
        Reading::Value(_) | Reading::NotObservable => Ended::Ok,
        Reading::Absent => Ended::Absent,
        Reading::Failed(fault) => Ended::Failed(fault.clone()),
    }
}

/// Failed if any part failed: a neighbour's good answer does not hide it.
fn first_fault<'a, T: 'a>(readings: impl Iterator<Item = &'a Reading<T>>) -> Ended {
    for reading in readings {
        if let Reading::Failed(fault) = reading {
            return Ended::Failed(fault.clone());
        }
    }
    Ended::Ok
}

/// What is told of a read that panicked: a bug of ours must not look like a healthy source.
pub fn panicked() -> Fault {
    Fault {
        kind: FaultKind::Other,
        detail: "the reader panicked; this is a bug in selvage".into(),
    }
}
