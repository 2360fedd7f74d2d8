//! Patterns of log files in settings: `/var/log/nccl/%h.%p.log`, `/shared/logs/slurm-%j.out`.

use regex::Regex;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A directory, and a pattern over the names of its files, in the words of `NCCL_DEBUG_FILE` and of
/// Slurm's `--output`: `%h` and `%N` are this host's name, `%p` is a process ID, `%j` a job's number,
/// `%%` a percent sign; `*` and any other letter after `%` match any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePattern {
    text: String,
    /// The directory of the files.
    pub(crate) dir: PathBuf,
    name: String,
}

/// What a file's name says of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamedIds {
    /// `%p`.
    pub pid: Option<u32>,
    /// `%j`.
    pub job: Option<u32>,
}

impl TryFrom<String> for FilePattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fits = |(dir, name): &(&str, &str)| !dir.contains(['*', '%']) && !name.is_empty();
        let Some((dir, name)) = text.rsplit_once('/').filter(fits) else {
            return Err(format!(
                "not a pattern of log files: {text:?}; write a directory without wildcards and a \
                 pattern of file names, such as /var/log/nccl/%h.%p.log or /shared/logs/slurm-%j.out"
            ));
        };
        let dir = PathBuf::from(if dir.is_empty() { "/" } else { dir });
        let name = name.to_string();
        Ok(FilePattern { text, dir, name })
    }
}

impl From<FilePattern> for String {
    fn from(pattern: FilePattern) -> String {
        pattern.text
    }
}

impl FilePattern {
    /// The names that it matches on a host that goes by one of these; none where it is too long.
    pub fn names(&self, hosts: &[String]) -> Option<FileNames> {
        let hosts: Vec<String> = hosts.iter().map(|host| regex::escape(host)).collect();
        let host = match hosts.is_empty() {
            true => NOTHING.to_string(),
            false => format!("(?i:{})", hosts.join("|")),
        };
        let mut pattern = String::new();
        let (mut pid, mut job) = ("(?<pid>[0-9]+)", "(?<job>[0-9]+)");
        let mut letters = self.name.chars();
        while let Some(letter) = letters.next() {
            match (letter, letters.as_str().chars().next()) {
                ('%', Some('h' | 'N')) => pattern.push_str(&host),
                ('%', Some('p')) => pattern.push_str(std::mem::replace(&mut pid, DIGITS)),
                ('%', Some('j')) => pattern.push_str(std::mem::replace(&mut job, DIGITS)),
                ('%', Some('%') | None) => pattern.push('%'),
                ('%', Some(_)) | ('*', _) => pattern.push_str(".*?"),
                _ => pattern.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
            }
            if letter == '%' {
                letters.next();
            }
        }
        Regex::new(&format!("(?s)^{pattern}$")).ok().map(FileNames)
    }
}

/// Matches no text.
const NOTHING: &str = r"[^\s\S]";

/// A number that was read before.
const DIGITS: &str = "[0-9]+";

/// A pattern of names, for one host.
#[derive(Debug)]
pub struct FileNames(Regex);

impl FileNames {
    /// What a name says, if the pattern matches the whole of it.
    pub fn read(&self, name: &str) -> Option<NamedIds> {
        let found = self.0.captures(name)?;
        let number = |group| found.name(group).map(|digits| digits.as_str().parse());
        Some(NamedIds {
            pid: number("pid").transpose().ok()?,
            job: number("job").transpose().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> FilePattern {
        FilePattern::try_from(text.to_string()).unwrap()
    }

    fn read(text: &str, name: &str, hosts: &[String]) -> Option<NamedIds> {
        pattern(text).names(hosts).unwrap().read(name)
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
            ("/d/%p.%p", "1.2", Some((Some(1), None))),
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
            let got = read(text, name, &["gpu-1".into()]);
            let got = got.map(|ids| (ids.pid, ids.job));
            assert_eq!(got, want, "{text} {name}");
        }
        assert_eq!(pattern("logs/*").dir.as_os_str(), "logs");
        assert_eq!(pattern("/a").dir.as_os_str(), "/");
    }

    #[test]
    fn what_is_not_a_pattern() {
        for text in ["", "*.log", "/home/*/slurm-%j.out", "/d/%j/x", "/d/"] {
            assert!(FilePattern::try_from(text.to_string()).is_err(), "{text}");
        }
    }

    #[test]
    fn wildcards_do_not_explode() {
        let pattern = format!("/d/{}b", "*a".repeat(60));
        assert_eq!(read(&pattern, &"a".repeat(255), &[]), None);
        assert_eq!(read("/d/%h", "gpu-1", &[]), None, "a host without a name");
    }
}
