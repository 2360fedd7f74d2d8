//! Checks and their reasons as a table: `checks.toml`.

use super::{Action, Check, Status, Weight};
use crate::data_files::embedded;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

static TABLE: LazyLock<ReasonTable> = LazyLock::new(|| embedded(include_str!("checks.toml")));

/// All rows by reason: each candidate looks its own up.
static BY_REASON: LazyLock<BTreeMap<&str, &ReasonDoc>> = LazyLock::new(|| {
    let of_checks = TABLE.check.values().flat_map(|of| &of.reason);
    let all = of_checks.chain(&TABLE.verdict);
    all.map(|doc| (doc.reason.as_str(), doc)).collect()
});

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReasonTable {
    pub check: BTreeMap<String, CheckRow>,
    verdict: Vec<ReasonDoc>,
    /// Of a reason without a row, which the tests exclude.
    #[serde(skip)]
    unknown: ReasonDoc,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckRow {
    title: String,
    what: String,
    reason: Vec<ReasonDoc>,
}

/// One reason that a check, or the verdict, can give.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReasonDoc {
    /// CamelCase name; part of the interface, as alerts go by it.
    pub reason: String,
    /// How bad it is as a rule.
    pub status: Status,
    /// Whether it moves the verdict as a rule (on rails and GPUs; never on other ports).
    pub weight: Weight,
    /// What a machine that repairs nodes is to do first.
    pub action: Action,
    /// What is so when it stands.
    pub meaning: String,
    remedy: String,
    remedy_of: String,
}

impl Check {
    /// Heading in docs/checks.md.
    pub fn title(&self) -> &'static str {
        TABLE.check.get(self.id).map_or("", |of| &of.title)
    }

    /// What it goes by, and what it leaves alone; one paragraph.
    pub fn what(&self) -> &'static str {
        TABLE.check.get(self.id).map_or("", |of| &of.what)
    }

    /// Every reason that it can give.
    pub fn reasons(&self) -> &'static [ReasonDoc] {
        TABLE.check.get(self.id).map_or(&[], |of| &of.reason)
    }
}

/// Every reason that comes from the fold of findings itself and not from a check.
pub fn verdict_docs() -> &'static [ReasonDoc] {
    &TABLE.verdict
}

impl ReasonDoc {
    /// The row of a reason.
    pub fn of(reason: &str) -> &'static ReasonDoc {
        let found = BY_REASON.get(reason);
        debug_assert!(found.is_some(), "{reason} is not in checks.toml");
        found.unwrap_or(&&TABLE.unknown)
    }

    /// The usual remedy, as docs/checks.md prints it.
    pub fn remedy(&'static self) -> &'static str {
        match self.remedy_of.as_str() {
            "" => &self.remedy,
            other => &ReasonDoc::of(other).remedy,
        }
    }
}
