//! Outputs: metrics, JSON, text, the status page and HTTP. They read the [`Report`] and decide nothing.

/// A JSON object that keeps the order of its fields, each named next to its value.
macro_rules! object {
    ($($(#[$meta:meta])* $name:ident: $value:expr,)*) => {{
        #[allow(non_camel_case_types, reason = "type parameters have their fields' names")]
        let object = {
            #[derive(serde::Serialize)]
            struct Object<$($name),*> {
                $($(#[$meta])* $name: $name,)*
            }
            Object { $($name: $value,)* }
        };
        object
    }};
}
pub(crate) use object;

pub mod agent_report;
pub mod bench;
pub mod catalogue;
pub mod cluster;
pub mod default_counters;
pub mod http;
pub mod json;
pub mod metrics;
pub mod nccl;
pub mod page;
pub mod port_view;
pub mod preflight;
pub mod runbooks;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
mod withheld;

use crate::check::Finding;
pub use crate::check::allocatable::Resource;
pub use crate::check::job_verdicts::Jobs;
pub use crate::check::profile::Profile;
pub use crate::check::roles::{Role, RoleFacts};
pub use crate::check::xid_seen::XidSeen;
use crate::observe::Snapshot;
pub use crate::readiness::State;
pub use crate::readiness::history::HistoryEntry;
pub use crate::readiness::taint_hysteresis::Tainting;
use crate::units::{Millis, PortKey};
pub use agent_report::AgentReport;
pub use catalogue::Detail;
pub use cluster::{BudgetStatus, ClusterStatus};
pub use metrics::AgentStats;
pub(crate) use metrics::{Exposition, series};
pub use port_view::PortView;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
pub use text::{Style, clean_lines};

/// Everything the outputs show, immutable.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Counts reports; outputs cache by it.
    pub generation: u64,
    /// Node name.
    pub node: String,
    /// The facts it was judged from.
    pub snapshot: Snapshot,
    /// A port's state older than this, whose source stalls or fails, is not shown.
    pub stale_after: Duration,
    /// Roles of the ports.
    pub roles: BTreeMap<PortKey, RoleFacts>,
    /// The verdict.
    pub state: State,
    /// Since when.
    pub since: Millis,
    /// Reasons of the findings that made the verdict, causes first, without repeats.
    pub reasons: Vec<String>,
    /// Findings that stand, worst first.
    pub findings: Vec<Finding>,
    /// Xids seen this boot, newest last; bounded.
    pub xids: Vec<XidSeen>,
    /// GPUDirect verdict.
    pub gpudirect: crate::check::gpudirect::GpuDirectVerdict,
    /// Totals that outlive snapshots (transitions, Xids, kernel events).
    pub totals: Arc<crate::observe::Totals>,
    /// Whether the first full window has been seen.
    pub full_window: bool,
    /// Checks disabled by policy, or by an operator for a time.
    pub muted: Vec<String>,
    /// What the taint should do, as far as the verdict over time says.
    pub tainting: Tainting,
    /// An operator has muted the taint for a time.
    pub taint_muted: bool,
    /// This node's jobs.
    pub jobs: Arc<Jobs>,
    /// The machine profile in use.
    pub profile: Profile,
    /// Resources that the Node offers to pods, with the devices behind them.
    pub resources: Vec<Resource>,
    /// Recent changes, newest last; bounded.
    pub history: Arc<[HistoryEntry]>,
}

/// Counts of a source that stalls or fails are shown this long: twice the longest default interval, so that one
/// slow read makes no gap.
const COUNTS_LAST: Duration = Duration::from_secs(120);

impl Report {
    /// The reasons of the verdict as they follow it in a line: `: LinkDown, GpuFellOff`; empty where there
    /// are none.
    pub fn because(&self) -> String {
        text::writer::after_colon(&self.reasons)
    }

    /// Whether what a source, and its subject, counted at a moment can still be shown.
    fn is_fresh(&self, at: Millis, source: (&str, &str)) -> bool {
        let stale_after = self.stale_after.max(COUNTS_LAST);
        (self.snapshot).is_fresh(at, source, self.snapshot.at, stale_after)
    }

    /// Findings that follow from this one.
    pub fn followers(&self, cause: &Finding) -> impl Iterator<Item = &Finding> {
        let id = cause.id();
        let follows = move |finding: &&Finding| finding.caused_by.as_ref() == Some(&id);
        self.findings.iter().filter(follows)
    }

    /// The finding that this one follows from.
    pub fn cause(&self, finding: &Finding) -> Option<&Finding> {
        let id = finding.caused_by.as_ref()?;
        self.findings.iter().find(|cause| cause.id() == *id)
    }
}
