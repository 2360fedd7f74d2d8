//! What the book tells, is told, and keeps.

use crate::check::nccl::{Fallback, NcclVerdict};
use crate::check::nccl_jobs::ContainerVerdict;
use crate::observe::pod::{ContainerKey, PodFacts};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What its pod and the node's outcomes were told of a container.
#[derive(Debug, Clone, Copy)]
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

/// A change of a container's verdict that its pod is told of.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The container.
    pub now: Arc<ContainerVerdict>,
    /// TCP fallback began (true) or ended (false).
    pub fallback: Option<bool>,
    /// Init hangs since this judgement.
    pub hangs: bool,
}

/// What is known of a pod.
#[derive(Debug, Clone, Copy)]
pub enum Pod<'a> {
    /// What the API server tells.
    Known(&'a PodFacts),
    /// The API server knows it no more: only its logs are left.
    Gone,
    /// Not heard of yet, by an API server that can be asked.
    Awaited,
    /// Nobody tells.
    Untold,
}

/// A verdict as it is kept over a restart of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedVerdict {
    pub(super) key: ContainerKey,
    pub(super) restart: u32,
    pub(super) verdict: NcclVerdict,
}
