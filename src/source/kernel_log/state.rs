//! How far the kernel log was read.

use serde::{Deserialize, Serialize};

/// The resume point. Sequence numbers start anew at each boot, so they hold for one boot id only
/// (`/proc/sys/kernel/random/boot_id`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeState {
    /// Boot that the number belongs to.
    pub boot_id: String,
    /// Last record number that was handled.
    pub last_seq: u64,
}
