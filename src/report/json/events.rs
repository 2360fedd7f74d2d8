//! What changed of late, as JSON.

use super::{Report, time};
use crate::readiness::diary::Change;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Event<'a> {
    time: Option<String>,
    #[serde(flatten)]
    change: &'a Change,
}

pub(super) fn of(report: &Report) -> Vec<Event<'_>> {
    let entries = report.diary.iter();
    entries
        .map(|entry| Event {
            time: time(report, entry.at),
            change: &entry.change,
        })
        .collect()
}
