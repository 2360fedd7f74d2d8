//! What is wrong with the settings, where it was written, and what was meant perhaps.

use std::fmt;

/// Where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nowhere: the default.
    Default,
    /// In the settings file; the line counts from 1, where it is known.
    File {
        /// The file's name as given.
        name: String,
        /// The line.
        line: Option<usize>,
    },
    /// In an environment variable of this name.
    Environment(String),
    /// In a flag of this name.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File {
                name,
                line: Some(line),
            } => write!(f, "{name}:{line}"),
            Origin::File { name, line: None } => f.write_str(name),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// Where it was written.
    pub origin: Origin,
    /// The setting, where one is known.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// The known name nearest to what was written, if near enough to be meant.
pub fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let written_last = written.rsplit('.').next().unwrap_or(written);
    known
        .map(|name| {
            // The right name in the wrong section is nearer than any misspelling.
            let distance = if last(name) == written_last {
                1
            } else {
                distance(written, name)
            };
            (distance, distance_of_sections(written, name), name)
        })
        .filter(|(distance, _, name)| *distance <= 1 + name.len() / 6)
        .min()
        .map(|(_, _, name)| name)
}

fn distance_of_sections(a: &str, b: &str) -> usize {
    let section = |key: &str| {
        key.rsplit_once('.')
            .map_or(String::new(), |(s, _)| s.into())
    };
    distance(&section(a), &section(b))
}

/// Levenshtein distance with `-`, `_` and case told as alike.
fn distance(a: &str, b: &str) -> usize {
    let alike = |c: char| {
        if c == '-' {
            '_'
        } else {
            c.to_ascii_lowercase()
        }
    };
    let a: Vec<char> = a.chars().take(128).map(alike).collect();
    let b: Vec<char> = b.chars().take(128).map(alike).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for ((to, above_left), above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or(0);
            let swap = above_left + usize::from(from != to);
            next.push(swap.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
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
            assert_eq!(nearest(written, known.into_iter()), want, "{written}");
        }
    }
}
