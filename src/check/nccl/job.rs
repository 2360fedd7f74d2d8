//! How far a job's init has come.

use super::context::JobContext;
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::process::Stage;

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
    if log.init_error_traces > 0 {
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

/// Whether any init completed. `None` if the log shows neither its end nor a failure.
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
    (seats().any(|seat| seat.aborted) || log.init_error_traces > 0).then_some(false)
}
