//! What the registry takes, keeps and reports.

use crate::check::nccl::{Fallback, NcclVerdict};
use crate::check::nccl_jobs::ContainerVerdict;
use crate::observe::pod::{ContainerKey, PodFacts};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What events and outcomes last said of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) fallback: Fallback,
    pub(super) hangs: bool,
}

impl Announced {
    pub(super) fn of(verdict: &NcclVerdict) -> Self {
        Announced {
            fallback: verdict.tcp_fallback,
            hangs: verdict.init_hangs_since.is_some(),
        }
    }
}

/// A change of a container's verdict that its pod gets an Event about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    /// The container and its verdict now.
    pub(super) now: Arc<ContainerVerdict>,
    /// TCP fallback began (true) or ended (false).
    pub(super) fallback: Option<bool>,
    /// Its init began to hang.
    pub(super) hangs: bool,
}

/// Result of looking a pod up.
#[derive(Debug, Clone, Copy)]
pub(super) enum PodLookup<'a> {
    /// As the API server describes it.
    Found(&'a PodFacts),
    /// The API server does not know it any more: only its logs are left.
    Gone,
    /// The API server has not answered yet.
    Pending,
    /// The API server is not asked.
    Unavailable,
}

/// A verdict as it is kept over a restart of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedVerdict {
    pub(super) key: ContainerKey,
    pub(super) restart: u32,
    pub(super) verdict: NcclVerdict,
}
