//! Classifies warnings, and the few INFO lines about failures, by their words.

use crate::observe::nccl::{Event, Failure};
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// Words of warnings, and the failure that they show: `FAILURE: WORDS & WORDS`.
const WORDS: &str = include_str!("failures.txt");

/// Words that must all be in a message, and what they show; `None` if that is harmless to the job.
type Row = (Vec<&'static str>, Option<Failure>);

/// The first match counts.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let (name, words) = line.split_once(": ")?;
        let failure = Failure::ALL.iter().find(|failure| failure.as_str() == name);
        let words = words.split(" & ").collect();
        (failure.is_some() || name == "harmless").then_some((words, failure.copied()))
    };
    WORDS.lines().filter_map(row).collect()
});

/// Errors passed on from another rank or thread, whose root an earlier line shows.
const SECONDARY: &[&str] = &[
    "Proxy Call to rank",
    "[Proxy Service",
    "[Service thread]",
    "Socket recv failed",
    "Accept failed",
];

/// Classifies a WARN.
pub(super) fn warning(text: &str) -> Event<'_> {
    if SECONDARY.iter().any(|words| text.starts_with(words)) && !text.contains("refused") {
        return Event::Failure(Failure::Secondary);
    }
    row(text).map_or(Event::Failure(Failure::Other), |failure| {
        failure.map_or(Event::Plain, Event::Failure)
    })
}

/// Classifies an INFO that is not otherwise known: some versions report failures without a warning.
pub(super) fn info(text: &str) -> Option<Event<'_>> {
    const AS_INFO: [&str; 7] = [
        "Failed to open libibverbs",
        "Unable to open device",
        "ibv_open_device failed",
        "No IP interface found",
        "Error: network ",
        "ibv_reg_dmabuf_mr failed",
        "failed to extend /dev/shm",
    ];
    static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let kind = MatchKind::LeftmostFirst;
        AhoCorasick::builder().match_kind(kind).build(AS_INFO).ok()
    });
    let failure = FINDER.as_ref().is_some_and(|words| words.is_match(text));
    failure.then(|| row(text)).flatten()?.map(Event::Failure)
}

fn row(text: &str) -> Option<Option<Failure>> {
    let fits = |(words, _): &&Row| words.iter().all(|word| text.contains(word));
    ROWS.iter().find(fits).map(|(_, failure)| *failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_failure() {
        let rows = WORDS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(rows.count(), ROWS.len());
    }
}
