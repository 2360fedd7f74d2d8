//! Classifies warnings, and the few INFO lines about failures, by their words.

use crate::observe::nccl::{Event, Failure};
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// Words of warnings, and the failure that they show: `FAILURE: WORDS & WORDS`.
const WORDS: &str = include_str!("failures.txt");

/// Words that must all be in a message, and the failure that they show. The first match counts.
static ROWS: LazyLock<Vec<(Vec<&str>, Failure)>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let (name, words) = line.split_once(": ")?;
        let failure = Failure::ALL
            .iter()
            .find(|failure| failure.as_str() == name)?;
        Some((words.split(" & ").collect(), *failure))
    };
    WORDS.lines().filter_map(row).collect()
});

/// Warnings that are harmless to the job.
const HARMLESS: &[&str] = &[
    "client reregistration",
    "GID table change",
    "port active",
    "LID change",
    "SM change",
    "NUMA auto balancing",
    "ras/",
    "dlvsym failed",
    "mlx5dv symbols",
];

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
    if HARMLESS.iter().any(|words| text.contains(words)) {
        return Event::Plain;
    }
    if SECONDARY.iter().any(|words| text.starts_with(words)) && !text.contains("refused") {
        return Event::Failure(Failure::Secondary);
    }
    Event::Failure(row(text).unwrap_or(Failure::Other))
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
    failure.then(|| row(text)).flatten().map(Event::Failure)
}

fn row(text: &str) -> Option<Failure> {
    let fits = |(words, _): &&(Vec<&str>, Failure)| words.iter().all(|word| text.contains(word));
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
