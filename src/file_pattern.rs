//! Patterns of log files in settings: `/var/log/nccl/%h.%p.log`, `/shared/logs/slurm-%j.out`.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A directory, and a pattern over the names of its files, in the words of `NCCL_DEBUG_FILE` and of
/// Slurm's `--output`: `%h` and `%N` are this host's name, `%p` is a process ID, `%j` a job's number,
/// `%%` a percent sign; `*` and any other letter after `%` match any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePattern {
    text: String,
    dir: PathBuf,
    /// What stands between wildcards that match any text; one more than there are of these.
    pieces: Vec<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Host,
    Pid,
    Job,
}

/// What a file's name says of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamedIds {
    /// `%p`.
    pub pid: Option<u32>,
    /// `%j`.
    pub job: Option<u32>,
}

/// Text that is not a pattern of log files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a pattern of log files: {0:?}; write a directory without wildcards and a pattern of file names, such as /var/log/nccl/%h.%p.log or /shared/logs/slurm-%j.out"
)]
pub struct BadFilePattern(String);

impl TryFrom<String> for FilePattern {
    type Error = BadFilePattern;

    fn try_from(text: String) -> Result<Self, BadFilePattern> {
        let split = text.rsplit_once('/');
        let Some((dir, name)) = split.filter(|(dir, _)| !dir.contains(['*', '%'])) else {
            return Err(BadFilePattern(text));
        };
        if name.is_empty() {
            return Err(BadFilePattern(text));
        }
        let pieces = pieces(name);
        let dir = PathBuf::from(if dir.is_empty() { "/" } else { dir });
        Ok(FilePattern { text, dir, pieces })
    }
}

impl From<FilePattern> for String {
    fn from(pattern: FilePattern) -> String {
        pattern.text
    }
}

impl FilePattern {
    /// The directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the name says, if the pattern matches the whole of it. `hosts`: names of this host.
    pub fn matches(&self, name: &str, hosts: &[String]) -> Option<NamedIds> {
        let mut ids = NamedIds::default();
        let (first, others) = self.pieces.split_first()?;
        let mut rest = name.get(fits(first, name, hosts, &mut ids)?..)?;
        let Some((last, middle)) = others.split_last() else {
            return rest.is_empty().then_some(ids);
        };
        // Each piece at the first place where it fits: what follows has the most room then.
        for piece in middle {
            let found = starts(rest).find_map(|tail| {
                let mut ids = ids;
                Some((tail.get(fits(piece, tail, hosts, &mut ids)?..)?, ids))
            });
            (rest, ids) = found?;
        }
        starts(rest).find_map(|tail| {
            let mut ids = ids;
            (fits(last, tail, hosts, &mut ids)? == tail.len()).then_some(ids)
        })
    }
}

/// The text from each of its letters on, and its end.
fn starts(text: &str) -> impl Iterator<Item = &str> {
    let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.filter_map(|at| text.get(at..))
}

fn pieces(name: &str) -> Vec<Vec<Part>> {
    let mut pieces = vec![Vec::new()];
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        let part = match letter {
            '*' => None,
            '%' => match letters.next() {
                Some('h' | 'N') => Some(Part::Host),
                Some('p') => Some(Part::Pid),
                Some('j') => Some(Part::Job),
                Some('%') | None => Some(Part::Text("%".into())),
                Some(_) => None,
            },
            other => Some(Part::Text(other.into())),
        };
        match (part, pieces.last_mut()) {
            (Some(part), Some(piece)) => piece.push(part),
            _ => pieces.push(Vec::new()),
        }
    }
    pieces
}

/// Number of bytes at the beginning of `name` that the parts take, if they fit there.
fn fits(parts: &[Part], name: &str, hosts: &[String], ids: &mut NamedIds) -> Option<usize> {
    let mut taken = 0;
    for part in parts {
        let rest = name.get(taken..)?;
        taken += match part {
            Part::Text(text) => rest.starts_with(&**text).then_some(text.len())?,
            Part::Host => {
                let here = |host: &&String| {
                    (rest.get(..host.len())).is_some_and(|head| head.eq_ignore_ascii_case(host))
                };
                hosts.iter().filter(here).map(String::len).max()?
            }
            Part::Pid | Part::Job => {
                let end = rest.find(|c: char| !c.is_ascii_digit());
                let digits = rest.get(..end.unwrap_or(rest.len()))?;
                let number = Some(digits.parse().ok()?);
                match part {
                    Part::Pid => ids.pid = number,
                    _ => ids.job = number,
                }
                digits.len()
            }
        };
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> FilePattern {
        FilePattern::try_from(text.to_string()).unwrap()
    }

    #[test]
    fn names_and_what_they_say() {
        for (text, name, want) in [
            ("/d/*.log", "a.log", Some((None, None))),
            ("/d/*.log", "a.log.1", None),
            ("/d/%h.%p.log", "gpu-1.4711.log", Some((Some(4711), None))),
            ("/d/%h.%p.log", "GPU-1.4711.log", Some((Some(4711), None))),
            ("/d/%h.%p.log", "gpu-2.4711.log", None),
            ("/d/%h.%p.log", "gpu-1.x.log", None),
            ("/d/slurm-%j.out", "slurm-42.out", Some((None, Some(42)))),
            ("/d/slurm-%j.out", "slurm-.out", None),
            ("/d/slurm-%j.out", "slurm-42_1.out", None),
            ("/d/slurm-%j.out", "slurm-99999999999.out", None),
            ("/d/slurm-%A_%a.out", "slurm-42_1.out", Some((None, None))),
            (
                "/d/%x-%j-%N.txt",
                "my-job-7-gpu-1.txt",
                Some((None, Some(7))),
            ),
            ("/d/%x-%j-%N.txt", "my-job-7-gpu-2.txt", None),
            ("/d/100%%", "100%", Some((None, None))),
            ("/d/nccl", "nccl", Some((None, None))),
            ("/d/nccl", "ncc", None),
            ("/d/*é*", "aéb", Some((None, None))),
        ] {
            let got = pattern(text).matches(name, &["gpu-1".into()]);
            let got = got.map(|ids| (ids.pid, ids.job));
            assert_eq!(got, want, "{text} {name}");
        }
        assert_eq!(pattern("logs/*").dir(), Path::new("logs"));
        assert_eq!(pattern("/a").dir(), Path::new("/"));
    }

    #[test]
    fn what_is_not_a_pattern() {
        for text in ["", "*.log", "/home/*/slurm-%j.out", "/d/%j/x", "/d/"] {
            assert!(FilePattern::try_from(text.to_string()).is_err(), "{text}");
        }
    }

    #[test]
    fn wildcards_do_not_explode() {
        let pattern = pattern(&format!("/d/{}b", "*a".repeat(60)));
        assert_eq!(pattern.matches(&"a".repeat(255), &[]), None);
    }
}
