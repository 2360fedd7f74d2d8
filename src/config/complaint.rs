//! Configuration errors: location, message and a "did you mean" suggestion.

use std::fmt;
use strsim::damerau_levenshtein;

/// Where a setting was written. Ordered as complaints are listed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Not written anywhere: the default.
    Default,
    /// The settings file, with a line from 1 where one is known.
    File {
        /// The file's name as given.
        name: String,
        /// `None` where the complaint is about the file as a whole.
        line: Option<usize>,
    },
    /// The environment variable of this name.
    Environment(String),
    /// The flag of this name, without dashes.
    Flag(String),
    /// Read from the machine: the host name.
    Host,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { name, line } => {
                let line = line.map_or(String::new(), |line| format!(":{line}"));
                write!(f, "{name}{line}")
            }
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag(name) => write!(f, "flag --{name}"),
            Origin::Host => f.write_str("host name"),
        }
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{origin}: {}{message}", key.as_ref().map_or(String::new(), |key| format!("{key}: ")))]
pub struct Complaint {
    /// Where it was written.
    pub origin: Origin,
    /// The setting concerned, if one is.
    pub key: Option<String>,
    /// A sentence for the operator, without origin and key.
    pub message: String,
}

/// `; did you mean …?`, or nothing if no known name is near enough.
pub(crate) fn suggestion<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map_or(String::new(), |near| format!("; did you mean {near}?"))
}

/// The known name nearest to what was written. A known name in the wrong section is nearer than any
/// misspelling; `-`, `_` and case do not count.
fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> String {
        let start: String = text.chars().take(128).collect();
        start.replace('-', "_").to_lowercase()
    };
    let written = plain(written);
    let (section, name) = written.rsplit_once('.').unwrap_or(("", &written));
    known
        .into_iter()
        .filter(|known| !known.is_empty())
        .map(|known| {
            let candidate = plain(known);
            let (its_section, its_name) = candidate.rsplit_once('.').unwrap_or(("", &candidate));
            let distance = match its_name == name {
                true => 1,
                false => damerau_levenshtein(&written, &candidate),
            };
            (distance, damerau_levenshtein(section, its_section), known)
        })
        .filter(|(distance, _, known)| *distance <= 1 + known.len() / 6)
        .min()
        .map(|(_, _, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses() {
        let known = [
            "intervals.link",
            "intervals.deadline",
            "policy.link_state.raise_after",
            "policy.link_flap.raise_after",
            "agent.listen",
        ];
        for (written, want) in [
            ("intervals.lnik", Some("intervals.link")),
            ("interval.link", Some("intervals.link")),
            ("intervals.dead-line", Some("intervals.deadline")),
            ("listen", Some("agent.listen")),
            (
                "policy.link_stat.raise_after",
                Some("policy.link_state.raise_after"),
            ),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), want, "{written}");
        }
    }
}
