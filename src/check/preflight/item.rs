//! One item of the preflight report, and how it is built.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Result of one item, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Checked, and as it should be.
    Ok,
    /// Does not apply here; the message says why.
    Skipped,
    /// Could not be checked, or it is unknown what the job needs.
    Unknown,
    /// The job will run with less than is available.
    Degraded,
    /// The job will fail, hang, or fall back to TCP.
    Failing,
}

impl ItemStatus {
    /// The status as it appears in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ItemStatus::Ok => "ok",
            ItemStatus::Skipped => "skipped",
            ItemStatus::Unknown => "unknown",
            ItemStatus::Degraded => "degraded",
            ItemStatus::Failing => "failing",
        }
    }
}

/// One item of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// Name of the item, from the table; empty until the table sets it.
    pub item: &'static str,
    /// Result of the check.
    pub status: ItemStatus,
    /// Reason code; `None` if there is nothing to explain.
    pub reason: Option<&'static str>,
    /// One sentence with names and numbers.
    pub message: String,
    /// The variable or manifest line to change; empty if there is nothing to change.
    pub remedy: String,
    /// Facts that the status is based on.
    pub evidence: BTreeMap<&'static str, Value>,
}

impl Item {
    pub(super) fn new(
        status: ItemStatus,
        reason: Option<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Item {
            item: "",
            status,
            reason,
            message: message.into(),
            remedy: String::new(),
            evidence: BTreeMap::new(),
        }
    }

    pub(super) fn ok(message: impl Into<String>) -> Self {
        Item::new(ItemStatus::Ok, None, message)
    }

    pub(super) fn skipped(message: impl Into<String>) -> Self {
        Item::new(ItemStatus::Skipped, None, message)
    }

    pub(super) fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Item::new(ItemStatus::Unknown, Some(reason), message)
    }

    pub(super) fn degraded(reason: &'static str, message: impl Into<String>) -> Self {
        Item::new(ItemStatus::Degraded, Some(reason), message)
    }

    pub(super) fn failing(reason: &'static str, message: impl Into<String>) -> Self {
        Item::new(ItemStatus::Failing, Some(reason), message)
    }

    /// Adds what to change.
    pub(super) fn fix(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Adds a fact that the status is based on.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name, value.into());
        self
    }
}
