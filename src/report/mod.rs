//! Tells. Reads the [`Report`], decides nothing.

pub mod catalogue;
pub mod http;
pub mod json;
pub mod metrics;
pub mod page;
pub mod select;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod view;

use crate::check::Finding;
pub use crate::check::roles::{Role, RoleFacts};
use crate::observe::snapshot::Snapshot;
pub use crate::readiness::State;
use crate::units::{Millis, PortKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything the outputs tell: one immutable value per evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Counts evaluations; outputs cache by it.
    pub generation: u64,
    /// Node name.
    pub node: String,
    /// The facts it was judged from.
    pub snapshot: Snapshot,
    /// Roles of the ports.
    pub roles: BTreeMap<PortKey, RoleFacts>,
    /// The verdict.
    pub state: State,
    /// Since when.
    pub since: Millis,
    /// Reasons of the findings that made the verdict, sorted, without repeats.
    pub reasons: Vec<String>,
    /// Findings that stand, worst first.
    pub findings: Vec<Finding>,
    /// Xids seen this boot, newest last; bounded.
    pub xids: Vec<XidSeen>,
    /// GPUDirect verdict.
    pub gpudirect: crate::check::gpudirect::GpuDirectVerdict,
    /// Totals that outlive snapshots (transitions, Xids, kernel events).
    pub totals: Arc<crate::observe::history::Totals>,
    /// Whether the first full window has been seen.
    pub full_window: bool,
}

/// One Xid of one GPU, repeats folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XidSeen {
    /// GPU slot, `0000:17:00`; none where the line told none.
    pub pci: Option<String>,
    /// Code.
    pub xid: u32,
    /// Class out of the table in `check/xid_codes.rs`: `app`, `memory`, `nvlink` …
    pub class: String,
    /// How often.
    pub count: u64,
    /// First time.
    pub first: Millis,
    /// Last time.
    pub last: Millis,
    /// The last line's own words, cut to a bound.
    pub message: String,
    /// Process named by the last line.
    pub process: Option<String>,
}
