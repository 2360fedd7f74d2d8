//! One item of the preflight report, how it is built, and how its message lists names.

use crate::data_files::embedded;
use crate::observe::Reading;
use crate::settings_macro::words;
pub(super) use crate::units::{count, joined};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::LazyLock};

/// Names that one message lists at most.
const MAX_NAMES: usize = 12;

words! {
    /// Result of one item, from best to worst.
    ItemStatus {
        /// Checked, and as it should be.
        Ok = "ok",
        /// Does not apply here; the message says why.
        Skipped = "skipped",
        /// Could not be checked, or it is unknown what the job needs.
        Unknown = "unknown",
        /// The job will run with less than is available.
        Degraded = "degraded",
        /// The job will fail, hang, or fall back to TCP.
        Failing = "failing",
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

/// An item either way: `?` ends a judgement with the first item that settles it.
pub(super) type Checked = Result<Item, Item>;

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
            remedy: reason.map_or("", remedy).into(),
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

    /// Settles the judgement if this is the case.
    pub(super) fn when(self, is_so: bool) -> Result<(), Self> {
        if is_so { Err(self) } else { Ok(()) }
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

/// Reasons by item, each with what to change where the reason alone says it.
static REASONS: LazyLock<BTreeMap<&str, BTreeMap<&str, &str>>> =
    LazyLock::new(|| embedded(include_str!("reasons.toml")));

/// Every item with each reason that it can have.
pub fn reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    (REASONS.iter()).flat_map(|(item, of)| of.keys().map(move |reason| (*item, *reason)))
}

/// Whether an item can have a reason.
pub(super) fn is_of(item: &str, reason: &str) -> bool {
    REASONS.get(item).is_some_and(|of| of.contains_key(reason))
}

fn remedy(reason: &str) -> &'static str {
    let found = REASONS.values().find_map(|of| of.get(reason));
    found.copied().unwrap_or_default()
}

/// What was read, or the item that says why nothing was; `otherwise` is said where nothing failed.
pub(super) fn known<'a, T>(
    reading: &'a Reading<T>,
    reason: &'static str,
    otherwise: &str,
) -> Result<&'a T, Item> {
    match reading {
        Reading::Value(value) => Ok(value),
        Reading::Failed(fault) => Err(Item::unknown(reason, &fault.detail)),
        _ => Err(Item::unknown(reason, otherwise)),
    }
}

/// Names separated by commas, shortened if there are many.
pub(super) fn list<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => "none".into(),
        names => joined(names, ", ", MAX_NAMES),
    }
}

/// A choice of at least one name.
pub(super) fn any_of(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        _ => format!("one or more of {}", list(names)),
    }
}
