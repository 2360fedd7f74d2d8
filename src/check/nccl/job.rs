//! A job's way through init.

use super::JobContext;
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::process::Stage;

/// An init that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hang {
    /// Ranks that wait, of those in view.
    pub waiting: usize,
    /// Ranks in all.
    pub nranks: u32,
    /// Since when the first of them waits.
    pub since: jiff::Timestamp,
    /// How far the slowest is.
    pub stage: Stage,
}

/// Whether the init of a communicator of this log takes longer than it may.
pub(super) fn hang(log: &NcclLog, beside: &JobContext<'_>) -> Option<Hang> {
    let (now, patience) = beside.now?;
    // What failed does not hang.
    if log.init_trails > 0 {
        return None;
    }
    let mut found: Option<Hang> = None;
    for (key, group) in log
        .groups
        .iter()
        .filter(|(key, group)| key.nranks > 1 && !group.superseded)
    {
        let waiting: Vec<_> = group
            .seats
            .values()
            .filter(|seat| seat.start && !seat.complete && !seat.ended)
            .filter_map(|seat| {
                let since = seat.started?;
                let waited = now.duration_since(since).unsigned_abs();
                (since <= now && waited >= patience).then_some((seat, since))
            })
            .collect();
        let Some(since) = waiting.iter().map(|(_, since)| *since).min() else {
            continue;
        };
        let stage = waiting
            .iter()
            .filter_map(|(seat, _)| log.processes.get(&(seat.place.host, seat.place.process)))
            .map(|process| process.stage)
            .min()
            .unwrap_or_default();
        let hang = Hang {
            waiting: waiting.len(),
            nranks: key.nranks,
            since,
            stage,
        };
        if found.is_none_or(|other| hang.nranks > other.nranks) {
            found = Some(hang);
        }
    }
    found
}

/// Whether init came to its end: by the widest communicator that tells.
pub(super) fn complete(log: &NcclLog) -> Option<bool> {
    let seats = || {
        log.groups
            .values()
            .filter(|group| !group.superseded)
            .flat_map(|group| group.seats.values())
    };
    if seats().any(|seat| seat.complete) {
        return Some(true);
    }
    (seats().any(|seat| seat.aborted) || log.init_trails > 0).then_some(false)
}
