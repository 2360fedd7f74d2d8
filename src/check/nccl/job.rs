//! How far a job's init has come.

use super::JobContext;
use crate::observe::nccl::{Group, NcclLog, Stage};

/// An init that takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hang {
    /// Number of waiting ranks, of those in the log.
    pub waiting: usize,
    /// Number of ranks of the communicator.
    pub nranks: u32,
    /// When the first of them started to wait.
    pub since: jiff::Timestamp,
    /// Stage of the slowest one.
    pub stage: Stage,
}

/// The widest communicator whose init takes longer than the context allows.
pub(super) fn hang(log: &NcclLog, context: &JobContext<'_>) -> Option<Hang> {
    let (now, patience) = context.now?;
    // An init that failed does not hang.
    let failed = |group: &Group| group.seats.values().any(|seat| seat.aborted);
    let groups = (log.groups.iter())
        .filter(|(key, group)| key.nranks > 1 && !group.superseded && !failed(group));
    let hangs = groups.filter_map(|(key, group)| {
        let seats = group.seats.values();
        let started = seats.filter(|seat| seat.start && !seat.complete && !seat.ended);
        let waits = |since| since <= now && now.duration_since(since).unsigned_abs() >= patience;
        let waiting: Vec<_> = started
            .filter_map(|seat| Some((seat, seat.started.filter(|since| waits(*since))?)))
            .collect();
        let since = waiting.iter().map(|(_, since)| *since).min()?;
        let seats = waiting.iter();
        let stages = seats.filter_map(|(seat, _)| Some(log.processes.get(&seat.place)?.stage));
        Some(Hang {
            waiting: waiting.len(),
            nranks: key.nranks,
            since,
            stage: stages.min().unwrap_or_default(),
        })
    });
    // The first of the widest.
    hangs.rev().max_by_key(|hang| hang.nranks)
}

/// Whether any init completed. `None` if the log shows neither its end nor a failure.
pub(super) fn complete(log: &NcclLog) -> Option<bool> {
    let groups = || log.groups.values().filter(|group| !group.superseded);
    let seats = || groups().flat_map(|group| group.seats.values());
    if seats().any(|seat| seat.complete) {
        return Some(true);
    }
    let failed = || log.live().any(|process| process.init_failed);
    (seats().any(|seat| seat.aborted) || failed()).then_some(false)
}
