//! What a job's NCCL uses between nodes, and whether TCP is a silent fallback.
//!
//! The rule, in this order. Connections (`via NET/X`) are the proof of what carries data; the choice
//! (`Using network X`) counts only for a job that is proven to span nodes; a job of one node never
//! falls back. Sockets that a setting asked for are *configured*. Anything else is *unknown*: one
//! Socket line more or less is no proof, every single-node run has it.

mod causes;
pub mod job;
mod network;
mod span;
mod verdict;

pub use causes::{Cause, remedy};
pub use network::Network;
pub use verdict::{EvidenceLine, Fallback, NcclVerdict, TRANSPORTS};

use crate::observe::nccl::NcclLog;
use crate::observe::pod::{ContainerFacts, PodFacts};
use std::time::Duration;

/// What is known of a job beside its log.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobContext<'a> {
    /// Its pod.
    pub pod: Option<&'a PodFacts>,
    /// Its container.
    pub container: Option<&'a ContainerFacts>,
    /// GPUs of the node.
    pub node_gpus: Option<u32>,
    /// Now, and how long an init may take; none: a log that has ended.
    pub now: Option<(jiff::Timestamp, Duration)>,
}

/// Judges a log.
pub fn judge(log: &NcclLog, beside: &JobContext<'_>) -> NcclVerdict {
    let span = span::span(log, beside);
    let used = network::used(log, &span, beside);
    let hang = job::hang(log, beside);
    verdict::verdict(log, beside, &span, used, hang)
}

#[cfg(test)]
mod tests;
