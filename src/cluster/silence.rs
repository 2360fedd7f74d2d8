//! The annotation by which an operator mutes a check or the taint for a time.

use std::collections::BTreeMap;

/// Name that stands for the taint in place of a check's.
pub const TAINT: &str = "taint";

/// Longest annotation that is parsed, in bytes.
const MAX: usize = 4096;

/// What is muted until when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mutes {
    /// Check, or [`TAINT`], to the moment at which it ends.
    pub until: BTreeMap<String, jiff::Timestamp>,
    /// Entries that cannot be parsed; they mute nothing.
    pub complaints: Vec<String>,
}

impl Mutes {
    /// Reads `link_flap=2026-11-22T06:00:00Z,taint=2026-11-22T00:00:00Z`. `is_check` knows the
    /// checks.
    pub fn parse(text: &str, is_check: impl Fn(&str) -> bool) -> Self {
        let mut mutes = Mutes::default();
        if text.len() > MAX {
            mutes.complaints.push(format!("longer than {MAX} bytes"));
            return mutes;
        }
        for entry in text.split([',', ';', '\n']).map(str::trim) {
            if entry.is_empty() {
                continue;
            }
            match parse_entry(entry, &is_check) {
                Ok((what, until)) => {
                    let known = mutes.until.entry(what).or_insert(until);
                    *known = (*known).max(until);
                }
                Err(complaint) => mutes.complaints.push(complaint),
            }
        }
        mutes
    }

    /// What is muted at a moment, the taint left out.
    pub fn checks(&self, now: jiff::Timestamp) -> impl Iterator<Item = &str> {
        let stands = move |(what, until): &(&String, &_)| *what != TAINT && now < **until;
        let standing = self.until.iter().filter(stands);
        standing.map(|(what, _)| what.as_str())
    }

    /// Whether the taint is muted at a moment.
    pub fn taint(&self, now: jiff::Timestamp) -> bool {
        self.until.get(TAINT).is_some_and(|until| now < *until)
    }
}

fn parse_entry(
    entry: &str,
    is_check: &impl Fn(&str) -> bool,
) -> Result<(String, jiff::Timestamp), String> {
    let (what, until) = entry
        .split_once('=')
        .ok_or_else(|| format!("{entry:?} has no end: write CHECK=2026-11-22T06:00:00Z"))?;
    let (what, until) = (what.trim(), until.trim());
    if what != TAINT && !is_check(what) {
        return Err(format!("unknown check {what:?}"));
    }
    let until = until
        .parse()
        .map_err(|_| format!("{until:?} is not a time: write it as 2026-11-22T06:00:00Z"))?;
    Ok((what.to_string(), until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_end_and_bad_ones_mute_nothing() {
        let text = "link_flap=2026-11-22T06:00:00Z, taint = 2026-11-21T12:00:00+01:00 ,\
                    nonsense=2026-11-22T06:00:00Z,gds,link_rate=tomorrow,,";
        let is_check = |id: &str| ["link_flap", "link_rate", "gds"].contains(&id);
        let mutes = Mutes::parse(text, is_check);
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        assert_eq!(
            mutes.checks(at("2026-11-22T05:59:59Z")).collect::<Vec<_>>(),
            ["link_flap"]
        );
        assert_eq!(mutes.checks(at("2026-11-22T06:00:00Z")).count(), 0);
        assert!(mutes.taint(at("2026-11-21T10:59:59Z")));
        assert!(!mutes.taint(at("2026-11-21T11:00:00Z")));
        assert_eq!(mutes.complaints.len(), 3, "{:?}", mutes.complaints);
    }

    #[test]
    fn a_huge_annotation_is_not_read() {
        let mutes = Mutes::parse(&"gds=2026-11-22T06:00:00Z,".repeat(400), |_| true);
        assert!(mutes.until.is_empty());
        assert_eq!(mutes.complaints.len(), 1);
    }
}
