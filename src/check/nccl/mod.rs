//! Which network a job's NCCL uses between nodes, and whether TCP is a silent fallback.
//!
//! In this order: connections (`via NET/X`) prove what carries data. The choice (`Using network X`)
//! counts only if the job is proven to span nodes, and a job of one node never falls back. Sockets that
//! a setting asked for are *configured*. Everything else is *unknown*: a single Socket line proves
//! nothing, because every run on one node prints it.

mod causes;
mod context;
pub mod job;
mod network;
mod span;
mod verdict;

pub use crate::observe::nccl::EvidenceLine;
pub use causes::{Cause, remedy};
pub use context::JobContext;
pub use network::{Fallback, Network};
pub use verdict::{NcclVerdict, is_transport};

use crate::observe::nccl::NcclLog;

/// Judges a log by what it shows and by the job's pod and environment.
pub fn judge(log: &NcclLog, context: &JobContext<'_>) -> NcclVerdict {
    let hosts = span::distinct_hosts(log);
    let job = span::span(log, &hosts, context);
    let used = network::used(&job);
    let hang = job::hang(log, context);
    verdict::verdict(&job, used, hang)
}

#[cfg(test)]
mod tests;
