//! State of jobs kept over a restart of the agent: how far logs were read, and the verdicts so far.
//! The lines that NCCL prints at its start may be rotated away by then.

use super::registry::{Registry, SavedVerdict};
use crate::check::job_verdicts::Outcomes;
use crate::source::pod_logs::LogMarks;
use crate::state::{Saver, StateDir};
use serde::{Deserialize, Serialize};

const FILE: &str = "jobs.json";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct SavedJobs {
    version: u32,
    read: LogMarks,
    verdicts: Vec<SavedVerdict>,
    outcomes: Outcomes,
}

/// Restores the registry; returns the follower's place.
pub(super) fn load(state: &StateDir, registry: &mut Registry) -> Option<LogMarks> {
    let saved: SavedJobs = state.read(FILE)?;
    if saved.version != VERSION {
        tracing::warn!(
            file = FILE,
            version = saved.version,
            "state file of another version ignored"
        );
        return None;
    }
    registry.restore(saved.verdicts, saved.outcomes);
    Some(saved.read)
}

/// Hands both over to be written. A failure costs memory over a restart, nothing else.
pub(super) fn save(saver: &Saver, registry: &Registry, read: LogMarks) {
    let saved = SavedJobs {
        version: VERSION,
        read,
        verdicts: registry.save(),
        outcomes: registry.outcomes.clone(),
    };
    saver.put(FILE, &saved);
}
