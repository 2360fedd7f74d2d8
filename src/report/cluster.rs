//! What the writer of the Node does, as metrics and the report show it.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the writer has done, and what it could not do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClusterStatus {
    /// `off`, `labels`, `condition` or `all`.
    pub mode: &'static str,
    /// Nothing is written; pending writes are only logged.
    pub dry_run: bool,
    /// Whether the last request was answered; `None` before the first.
    pub api_up: Option<bool>,
    /// The error of the last request; `None` once one has succeeded.
    pub error: Option<String>,
    /// Whether the Node carries our taint; `None` until it was seen.
    pub taint_applied: Option<bool>,
    /// Why a wanted taint is withheld: `budget`, `not_in_group`, `muted`, `mode`, `dry_run`, `api`.
    pub withheld: Option<&'static str>,
    /// The budget as last seen, where the taint was wanted.
    pub budget: Option<BudgetStatus>,
    /// Where the Node hangs, by its labels: kind (leaf, block, zone) and value. For the metrics alone.
    #[serde(skip)]
    pub places: BTreeSet<(&'static str, String)>,
    /// What is still to be written (in a dry run: never): `labels`, `condition`, `taint`.
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
    /// Name of the Lease that holds the ledger.
    pub lease: String,
    /// Nodes that carry the taint, or may.
    pub claimed: usize,
    /// The most nodes that may carry it.
    pub limit: usize,
    /// Nodes of the group when they were last counted.
    pub nodes: usize,
}
