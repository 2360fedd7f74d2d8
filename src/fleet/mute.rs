//! The text of the mute annotation, as `selvage fleet mute` and `unmute` change it.

use crate::check::CHECKS;
use crate::cluster::silence::{Mutes, TAINT};
use crate::units::Span;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// The checks, or the taint, that words name: a check, a reason that it gives, or `taint`; nothing named
/// is the taint.
///
/// # Errors
/// Every word that names none.
pub fn targets<'a>(
    words: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, Vec<String>> {
    let (mut targets, mut complaints) = (BTreeSet::new(), Vec::new());
    for word in words {
        let gives = |check: &&crate::check::Check| {
            check.id == word || check.reasons().iter().any(|doc| doc.reason == word)
        };
        let checks: Vec<&str> = CHECKS.iter().filter(gives).map(|check| check.id).collect();
        match (word, checks.is_empty()) {
            (TAINT, _) => drop(targets.insert(TAINT.into())),
            (_, true) => complaints.push(format!(
                "{word:?} is neither a check nor a reason nor \"taint\": docs/checks.md lists them"
            )),
            (_, false) => targets.extend(checks.into_iter().map(str::to_string)),
        }
    }
    if targets.is_empty() {
        targets.insert(TAINT.into());
    }
    (complaints.is_empty().then_some(targets)).ok_or(complaints)
}

/// When a mute that begins now ends, to the second.
///
/// # Errors
/// Why the text is not taken: not a duration, zero, or too long.
pub fn end(length: &str, now: Timestamp) -> Result<Timestamp, String> {
    let span = length.parse::<Span>()?.duration();
    if span.as_secs() == 0 {
        return Err(format!("{length:?} is shorter than a second"));
    }
    let ends = SignedDuration::try_from(span).ok();
    let ends = ends.and_then(|span| now.checked_add(span).ok());
    let ends = ends.and_then(|ends| Timestamp::from_second(ends.as_second()).ok());
    ends.ok_or_else(|| format!("{length:?} is too long"))
}

/// The annotation with these entries set to end at a moment, or without them (`None`). What has ended, and
/// what the agent cannot parse, goes; an annotation with nothing in it is `None`.
///
/// # Errors
/// What the agent would refuse of the result.
pub fn edit(
    had: Option<&str>,
    targets: &BTreeSet<String>,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<String>, String> {
    // A later agent may have more checks than this program.
    let mut entries = Mutes::parse(had.unwrap_or_default(), |_| true).until;
    entries.retain(|what, until| now < *until && !targets.contains(what));
    if let Some(until) = until {
        entries.extend(targets.iter().map(|what| (what.clone(), until)));
    }
    let entries = entries.iter();
    let entries = entries.map(|(what, until)| format!("{what}={until}"));
    let text = entries.collect::<Vec<_>>().join(",");
    match Mutes::parse(&text, |_| true).complaints.first() {
        Some(complaint) => Err(complaint.clone()),
        None => Ok(Some(text).filter(|text| !text.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn words_name_checks_by_id_and_reason() {
        let all = |words: &[&str]| targets(words.iter().copied());
        for (words, want) in [
            (&[][..], &["taint"][..]),
            (&["taint", "link_flap"], &["link_flap", "taint"]),
            (&["LinkDown"], &["link_state"]),
        ] {
            let got = all(words).unwrap();
            assert!(got.iter().eq(want), "{words:?}: {got:?}");
        }
        assert_eq!(all(&["link_flap", "Link", "x"]).unwrap_err().len(), 2);
    }

    #[test]
    fn ends() {
        let now = at("2026-11-22T00:00:00.7Z");
        assert_eq!(end("4h", now), Ok(at("2026-11-22T04:00:00Z")));
        for wrong in ["4", "0s", "500ms", "", "-1h", "four", "9999999999d"] {
            assert!(end(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_named_entries_change() {
        let now = at("2026-11-22T00:00:00Z");
        let targets = BTreeSet::from(["taint".to_string()]);
        let had = "gds=2026-11-23T00:00:00Z,taint=2026-11-24T00:00:00Z,link_flap=2026-11-21T00:00:00Z,broken";
        let shorter = edit(Some(had), &targets, Some(at("2026-11-22T01:00:00Z")), now);
        assert_eq!(
            shorter.unwrap().unwrap(),
            "gds=2026-11-23T00:00:00Z,taint=2026-11-22T01:00:00Z",
            "a mute may be shortened; what has ended goes"
        );
        let less = edit(Some(had), &targets, None, now);
        assert_eq!(less.unwrap().unwrap(), "gds=2026-11-23T00:00:00Z");
        let none = edit(Some("taint=2026-11-24T00:00:00Z"), &targets, None, now);
        assert_eq!(none, Ok(None));
        let many = (0..200).map(|n| format!("check_{n}=2026-11-23T00:00:00Z"));
        let long = many.collect::<Vec<_>>().join(",");
        assert!(long.len() > 4096);
        // The agent does not read that: nothing of it is in force.
        assert_eq!(edit(Some(&long), &targets, None, now), Ok(None));
    }
}
