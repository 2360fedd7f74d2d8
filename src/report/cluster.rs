//! How the telling of the cluster goes, as metrics and the report show it.

use super::{Report, Tainting};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the writer last did and could not do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClusterStatus {
    /// `off`, `labels`, `condition` or `all`.
    pub mode: &'static str,
    /// Nothing is written, only decided.
    pub dry_run: bool,
    /// Whether the last request was answered; none before the first.
    pub api_up: Option<bool>,
    /// Why the last request that failed did; none once one went well.
    pub error: Option<String>,
    /// Whether the node carries our taint; none until it was seen.
    pub taint_applied: Option<bool>,
    /// Why a wanted taint is not put: `budget`, `not_in_group`, `muted`, `mode`, `dry_run`, `api`.
    pub withheld: Option<&'static str>,
    /// The budget as last seen, where the taint was wanted.
    pub budget: Option<BudgetStatus>,
    /// What differs from what should be, and is not written yet (or, dry, never): `labels`,
    /// `condition`, `taint`.
    pub pending: Vec<&'static str>,
    /// Writes since the agent started, by what was written.
    pub writes: BTreeMap<&'static str, u64>,
    /// Requests that write, by result: `ok`, `conflict`, `denied`, `throttled`, `error`, `timeout`,
    /// `dry_run`.
    pub results: BTreeMap<&'static str, u64>,
}

/// A group's budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetStatus {
    /// The Lease.
    pub lease: String,
    /// Nodes that carry the taint, or may.
    pub claimed: usize,
    /// How many may.
    pub limit: usize,
    /// Nodes of the group when they were last counted.
    pub nodes: usize,
}

/// The part of the JSON report.
#[derive(Debug, Serialize)]
pub struct ClusterView<'a> {
    /// What the verdict over time asks of the taint: keep, want, clear.
    tainting: Tainting,
    taint_muted: bool,
    #[serde(flatten)]
    status: &'a ClusterStatus,
}

impl<'a> ClusterView<'a> {
    /// Joins what was judged of the taint with what the writer did about it.
    pub fn new(report: &Report, status: &'a ClusterStatus) -> Self {
        ClusterView {
            tainting: report.tainting,
            taint_muted: report.taint_muted,
            status,
        }
    }
}
