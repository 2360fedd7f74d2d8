//! One communicator, as the ranks in view tell of it.

use super::tally::{Place, Tally};
use std::collections::{BTreeMap, BTreeSet};

/// What tells communicators apart: the id that all ranks share (2.16+), else the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// commId; 0: not told.
    pub id: u64,
    /// Ranks in all.
    pub nranks: u32,
}

/// One rank's way through init.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seat {
    /// Where it sits.
    pub place: Place,
    /// PCI bus id of its GPU.
    pub bus: Option<u64>,
    /// Init began, wall time.
    pub started: Option<jiff::Timestamp>,
    /// `Init START` is in view.
    pub start: bool,
    /// `Init COMPLETE` is in view.
    pub complete: bool,
    /// It was aborted or destroyed.
    pub ended: bool,
    /// It was aborted.
    pub aborted: bool,
    /// How long init took, in seconds.
    pub seconds: Option<f64>,
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Nodes in all, where told (2.20+).
    pub nodes: Option<u32>,
    /// Ranks in view.
    pub seats: BTreeMap<u32, Seat>,
    /// A rank was told by two processes: without an id these may be two communicators.
    pub mixed: bool,
    /// Hosts of ranks whose place another took.
    pub left: BTreeSet<u32>,
    /// Its connections.
    pub tally: Tally,
    /// When a line last told of it.
    pub last_line: u64,
    /// Another one took the place of its ranks.
    pub superseded: bool,
}

impl Group {
    /// Whether two processes sit on GPUs of one bus id: NCCL refuses that within a host, so that
    /// there is another host, whatever its name.
    pub fn same_bus(&self) -> bool {
        let mut seen = BTreeMap::new();
        self.seats.values().any(|seat| {
            let Some(bus) = seat.bus else { return false };
            *seen.entry(bus).or_insert(seat.place) != seat.place
        })
    }

    /// Hosts of the ranks that were ever in view.
    pub fn hosts(&self) -> impl Iterator<Item = u32> + '_ {
        let seated = self.seats.values().map(|seat| seat.place.host);
        seated.chain(self.left.iter().copied())
    }
}
