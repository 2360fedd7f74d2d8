//! Judges. Each check is a pure function of (snapshot, history, roles, policy, now) to candidates;
//! `debounce.rs` turns candidates into findings that are believed.

pub mod debounce;
pub mod gpudirect;
pub mod policy;
pub mod roles;

use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The sources cannot tell.
    Unknown,
    /// It works with less.
    Degraded,
    /// Lost for sure.
    Failing,
}

/// Whether a finding moves the node's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Shown, exported, but the verdict does not move: a storage port is down, a counter is blind.
    Notice,
    /// Counts: failing makes the node unready, degraded makes it degraded, unknown makes it unknown.
    Verdict,
}

/// How long to look before believing, as the debounce machine takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Must stand this long before it is raised.
    pub raise_after: Duration,
    /// Must be gone this long before it is cleared.
    pub clear_after: Duration,
}

/// What a check says of this moment, before any waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The check's id, such as `link_state`.
    pub check: &'static str,
    /// Identity of what it is about, stable over renames: a port key, a PCI slot, a module.
    pub key: String,
    /// The same for people and labels: `mlx5_3/1`, `0000:17:00`.
    pub subject: String,
    /// Reason in CamelCase out of the check's closed list: `LinkDown`.
    pub reason: &'static str,
    /// How bad.
    pub status: Status,
    /// Whether it moves the verdict.
    pub weight: Weight,
    /// One sentence: what is so.
    pub message: String,
    /// One or two sentences: what to do.
    pub remedy: String,
    /// What was seen: name to value, few and bounded.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// How long to look.
    pub timing: Timing,
}

/// A candidate that has been believed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The check's id.
    pub check: String,
    /// Identity, stable over renames.
    pub key: String,
    /// For people and labels.
    pub subject: String,
    /// How bad.
    pub status: Status,
    /// Whether it moves the verdict.
    pub weight: Weight,
    /// Reason in CamelCase.
    pub reason: String,
    /// First moment at which it was seen in this stretch.
    pub since: Millis,
    /// One sentence: what is so.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// What was seen.
    pub evidence: BTreeMap<String, serde_json::Value>,
}
