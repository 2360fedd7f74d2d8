//! What is known of jobs, kept over a restart of the agent: how far logs were read, and what they
//! came to. The lines that NCCL prints at its start may be rotated away by then.

use super::book::{Book, SavedVerdict};
use crate::check::nccl_jobs::Outcomes;
use crate::source::pod_logs::ResumeState;
use crate::state::StateDir;
use serde::{Deserialize, Serialize};

const FILE: &str = "jobs.json";
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    read: ResumeState,
    verdicts: Vec<SavedVerdict>,
    outcomes: Outcomes,
}

/// Gives the book what an earlier run knew, and the follower's place.
pub(super) fn load(state: &StateDir, book: &mut Book) -> Option<ResumeState> {
    let kept: Kept = state.read(FILE)?;
    if kept.version != VERSION {
        tracing::warn!(file = FILE, version = kept.version, "state file left aside");
        return None;
    }
    book.restore(kept.verdicts, kept.outcomes);
    Some(kept.read)
}

/// Writes it. What cannot be written is logged and costs memory over a restart, nothing else.
pub(super) fn save(state: &StateDir, book: &Book, read: ResumeState) {
    let kept = Kept {
        version: VERSION,
        read,
        verdicts: book.save(),
        outcomes: book.outcomes.clone(),
    };
    if let Err(error) = state.write(FILE, &kept) {
        tracing::debug!(%error, file = FILE, "state not saved");
    }
}
