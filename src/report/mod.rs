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
use crate::observe::snapshot::Snapshot;
use crate::units::{Millis, PortKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one verdict on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Every rail works as it should.
    Ready,
    /// It works with less.
    Degraded,
    /// A rail or GPU is lost for sure.
    Unready,
    /// The sources cannot tell.
    Unknown,
}

impl State {
    /// All states, in the order in which metrics list them.
    pub const ALL: [State; 4] = [
        State::Ready,
        State::Degraded,
        State::Unready,
        State::Unknown,
    ];

    /// As in JSON, labels and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Degraded => "degraded",
            State::Unready => "unready",
            State::Unknown => "unknown",
        }
    }
}

/// What a port is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Compute fabric: gangs run over it.
    Rail,
    /// Another NIC with RDMA: storage, management, an uncabled second port.
    Other,
}

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

/// Role of one port and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleFacts {
    /// The role.
    pub role: Role,
    /// One line: which rule decided.
    pub why: String,
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
