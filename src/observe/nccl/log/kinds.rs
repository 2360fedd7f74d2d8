//! Limits of what is kept of a log, and the kinds of its evidence.

use crate::observe::nccl::{Event, Failure, Net, Transport};
use serde::{Deserialize, Serialize};

/// How much is kept of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogLimits {
    /// Most processes that are kept; later ones are counted only.
    pub processes: usize,
    /// Most communicators that are kept; later ones are counted only.
    pub groups: usize,
    /// Most ranks of one communicator.
    pub seats: usize,
}

impl LogLimits {
    /// For a container's log, with the ranks of one node.
    pub const CONTAINER: LogLimits = LogLimits {
        processes: 64,
        groups: 32,
        seats: 256,
    };
    /// For a file, which may contain a whole job.
    pub const FILE: LogLimits = LogLimits {
        processes: 4096,
        groups: 512,
        seats: 16384,
    };
}

/// A line that a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceLine {
    /// Line number in the log, from 1.
    pub line: u64,
    /// Its text from NCCL's message on, cut to a bound.
    pub text: String,
}

/// Errors of RDMA operations on one device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceErrors {
    /// Number of lines.
    pub lines: u64,
    /// The first line, cut to a bound.
    pub first: String,
}

/// What a line of evidence shows; the first line of each kind is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// Which network was chosen.
    Choice(Net),
    /// A connection over this transport, with or without GPUDirect RDMA.
    Over(Transport, bool),
    /// The number of nodes or ranks.
    Span,
    /// The list of verbs devices.
    Devices,
    /// An environment variable that decides the network.
    Env(&'static str),
    /// A plugin reports itself.
    Plugin(Net),
    /// GPUDirect RDMA is on or off.
    Gdr(bool),
    /// Init completed.
    Complete,
    /// A failure of this kind.
    Failure(Failure),
}

impl EvidenceKind {
    /// What an event shows, for those that are evidence by themselves.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        Some(match *event {
            Event::Using(name) => EvidenceKind::Choice(Net::of(name)),
            Event::IbDevices(_) | Event::IbDevice(_) => EvidenceKind::Devices,
            Event::IbQueuePair(_) => EvidenceKind::Plugin(Net::Ib),
            Event::OfiProvider(_) | Event::OfiProtocol => EvidenceKind::Plugin(Net::Ofi),
            Event::FastSocket => EvidenceKind::Plugin(Net::FastSocket),
            Event::PluginSpeaks(net) => EvidenceKind::Plugin(net),
            Event::Connection(connection) => EvidenceKind::Over(connection.over, connection.gdr),
            Event::Rings(Some(gdr)) => EvidenceKind::Gdr(gdr),
            Event::Gdr { enabled, .. } => EvidenceKind::Gdr(enabled),
            _ => return None,
        })
    }
}
