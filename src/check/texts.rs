//! What checks and reasons are called, for people: `texts.toml`.

use super::{Check, ReasonDoc};
use crate::data_files::embedded;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static TEXTS: LazyLock<Texts> = LazyLock::new(|| embedded(include_str!("texts.toml")));

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub check: BTreeMap<String, OfCheck>,
    pub reason: BTreeMap<String, OfReason>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfCheck {
    title: String,
    what: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OfReason {
    meaning: String,
    remedy: String,
    remedy_of: String,
}

impl Check {
    /// Heading in docs/checks.md.
    pub fn title(&self) -> &'static str {
        TEXTS.check.get(self.id).map_or("", |text| &text.title)
    }

    /// What it goes by, and what it leaves alone; one paragraph.
    pub fn what(&self) -> &'static str {
        TEXTS.check.get(self.id).map_or("", |text| &text.what)
    }
}

impl ReasonDoc {
    /// What is so when it stands.
    pub fn meaning(&self) -> &'static str {
        let text = TEXTS.reason.get(self.reason);
        text.map_or("", |text| &text.meaning)
    }

    /// The usual remedy, as docs/checks.md prints it.
    pub fn remedy(&self) -> &'static str {
        let own = TEXTS.reason.get(self.reason);
        let shared = own.and_then(|own| TEXTS.reason.get(&own.remedy_of));
        shared.or(own).map_or("", |text| &text.remedy)
    }
}
