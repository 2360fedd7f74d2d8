//! One communicator, as far as the lines of its ranks show it.

use super::channel_counts::{ChannelCounts, HostPid};
use super::event::{Phase, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a communicator: by the id that all ranks share (2.16+), or else by the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// The `commId`; 0 if the line has none.
    pub id: u64,
    /// Number of ranks that the communicator was created with.
    pub nranks: u32,
}

/// How far one rank's init has come.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seat {
    /// Host and process of the rank.
    pub place: HostPid,
    /// PCI bus id of its GPU.
    pub bus: Option<u64>,
    /// Number of its GPU on its host.
    pub gpu: Option<u32>,
    /// When init started, if lines have times.
    pub started: Option<jiff::Timestamp>,
    /// `Init START` was printed.
    pub start: bool,
    /// `Init COMPLETE` was printed.
    pub complete: bool,
    /// The communicator was aborted or destroyed.
    pub ended: bool,
    /// The communicator was aborted.
    pub aborted: bool,
    /// Duration of init in seconds.
    pub seconds: Option<f64>,
}

impl Seat {
    /// A line shows the rank in this phase of its communicator.
    pub(super) fn enter(&mut self, phase: Phase, time: Time<'_>) {
        match phase {
            Phase::Start => {
                self.started = time.stamp();
                self.start = true;
                (self.complete, self.ended, self.aborted) = (false, false, false);
            }
            Phase::Alive => {}
            Phase::Complete => {
                self.complete = true;
                if let (None, Some(from), Some(to)) = (self.seconds, self.started, time.stamp()) {
                    let seconds = to.duration_since(from).as_secs_f64();
                    // Lines without a time of their own that were read together show none.
                    self.seconds = (seconds > 0.0).then_some(seconds);
                }
            }
            Phase::Aborted => (self.ended, self.aborted) = (true, true),
            Phase::Destroyed => self.ended = true,
        }
    }
}

/// A communicator and its ranks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Number of nodes (2.20+).
    pub nodes: Option<u32>,
    /// Ranks whose lines are in the log, by number.
    pub seats: BTreeMap<u32, Seat>,
    /// Two processes printed as one rank: without an id these may be two communicators.
    pub mixed: bool,
    /// Hosts of ranks that another process replaced.
    pub left: BTreeSet<u32>,
    /// The communicator's connections.
    pub channels: ChannelCounts,
    /// When the last line about it came, in lines of the log.
    pub last_line: u64,
    /// It was split from another one.
    pub split: bool,
    /// A later communicator replaced its ranks.
    pub superseded: bool,
}

impl Group {
    /// Processes of each two ranks whose GPUs have the same bus id. NCCL refuses that within a host.
    pub fn on_one_bus(&self) -> impl Iterator<Item = (HostPid, HostPid)> + '_ {
        let mut seen = BTreeMap::new();
        let seats = self.seats.values();
        seats.filter_map(move |seat| Some((seen.insert(seat.bus?, seat.place)?, seat.place)))
    }

    /// Whether all that is in view are ranks that begin: NCCL does not know yet where the others are, nor whether
    /// two have one GPU by mistake.
    pub fn only_starts(&self) -> bool {
        let begin = self.seats.values().all(|seat| seat.start && !seat.complete);
        begin && self.nodes.is_none() && self.channels.over.is_empty()
    }

    /// Processes of its ranks.
    pub fn places(&self) -> impl Iterator<Item = HostPid> + '_ {
        self.seats.values().map(|seat| seat.place)
    }

    /// Whether a process is one of its ranks.
    pub(super) fn holds(&self, place: HostPid) -> bool {
        self.places().any(|of| of == place)
    }

    /// Whether it did not end on a host, and none of its ranks there has the GPU with this bus id.
    pub(super) fn works_on_others(&self, host: u32, bus: Option<u64>) -> bool {
        let mut here = (self.seats.values()).filter(|seat| seat.place.host == host);
        let at_work = here.clone().any(|seat| !seat.ended);
        at_work && bus.is_some() && here.all(|seat| seat.bus != bus)
    }

    /// Bytes of memory that it holds, roughly.
    pub(super) fn held(&self) -> usize {
        let seats = 2 * self.seats.len() * size_of::<Seat>() + 16 * self.left.len();
        2 * size_of::<Self>() + seats + self.channels.held()
    }

    /// Hosts of all ranks, also of replaced ones.
    pub fn hosts(&self) -> impl Iterator<Item = u32> + '_ {
        let seated = self.places().map(|place| place.host);
        seated.chain(self.left.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_whose_lines_were_read_together_has_no_duration() {
        let at = |second| Time::At(jiff::Timestamp::from_second(second).unwrap());
        for (start, end, want) in [(7, 7, None), (7, 6, None), (7, 9, Some(2.0))] {
            let mut seat = Seat::default();
            seat.enter(Phase::Start, at(start));
            seat.enter(Phase::Complete, at(end));
            assert!(seat.complete);
            assert_eq!(seat.seconds, want);
        }
    }
}
