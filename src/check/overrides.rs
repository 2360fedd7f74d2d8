//! The words that the policy is written with.

use crate::units::Span;
use serde::{Deserialize, Serialize};

/// Whether something is wanted, refused, or to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum GpuDirectExpectation {
    /// Wanted where GPUs, their driver and rails are all there.
    #[default]
    Auto,
    /// Its absence is always judged.
    Required,
    /// The operator does not want GPUDirect judged on this node.
    Off,
}

/// Whether the Ethernet fabric is lossless (PFC) by design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum LosslessExpectation {
    /// Judged by what the port's DCB settings say.
    #[default]
    Auto,
    /// PFC must be on, and the RoCE priority among its priorities.
    Lossless,
    /// Drops are by design (Spectrum-X adaptive routing, OCI, Falcon): not judged.
    Lossy,
}

/// What to do about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The fault is over: clears what the same GPU raised.
    Clear,
    /// Counted; no effect on the node.
    Ignore,
    /// The code is unknown: shown, without effect on the verdict.
    #[default]
    Report,
    /// A program's fault: shown, the node is fine.
    App,
    /// The node works with less.
    Degraded,
    /// The GPU is unusable until an operator acts.
    Fatal,
}

/// The operator's word on one Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XidOverride {
    /// How findings for this Xid weigh: ignore, app, degraded or fatal.
    pub action: Disposition,
    /// Only from this many on (default 1) …
    #[serde(default = "one")]
    pub count: u32,
    /// … within this long; none: since boot.
    #[serde(default)]
    pub within: Option<Span>,
}

fn one() -> u32 {
    1
}
