//! What is kept of a log, in kinds.

use crate::observe::nccl::event::{Net, Transport};
use crate::observe::nccl::trouble::Trouble;

/// How much is kept of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processes.
    pub processes: usize,
    /// Communicators.
    pub groups: usize,
    /// Ranks of one communicator.
    pub seats: usize,
}

impl Limits {
    /// One container's log: the ranks of one node.
    pub const CONTAINER: Limits = Limits {
        processes: 64,
        groups: 32,
        seats: 256,
    };
    /// A file, which may hold a whole job.
    pub const FILE: Limits = Limits {
        processes: 4096,
        groups: 512,
        seats: 16384,
    };
}

/// When a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time<'a> {
    /// Nobody knows.
    #[default]
    Unknown,
    /// As its frame says, RFC 3339.
    Text(&'a str),
    /// When it was read.
    At(jiff::Timestamp),
}

impl Time<'_> {
    /// As a moment.
    pub fn stamp(self) -> Option<jiff::Timestamp> {
        match self {
            Time::Unknown => None,
            Time::Text(text) => text.parse().ok(),
            Time::At(at) => Some(at),
        }
    }
}

/// A line that shows something, with its number from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Number.
    pub number: u64,
    /// Text, cut.
    pub text: String,
}

/// What a line of evidence shows; of each the first is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shows {
    /// The choice of a network.
    Choice(Net),
    /// A connection.
    Over(Transport, bool),
    /// How many nodes or ranks there are.
    Span,
    /// Verbs devices.
    Devices,
    /// A variable that decides.
    Env(&'static str),
    /// A plugin's word.
    Plugin(Net),
    /// GPUDirect RDMA on or off.
    Gdr(bool),
    /// Init ended.
    Complete,
    /// Trouble.
    Trouble(Trouble),
}

/// Link layers of verbs devices that were listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// InfiniBand (Omni-Path prints the same).
    Ib,
    /// RoCE (iWARP prints the same).
    Roce,
}
