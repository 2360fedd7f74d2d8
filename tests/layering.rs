//! The arrows of ARCHITECTURE.md, held: which room may use which, and that no two files of different
//! subjects use each other.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Rooms with the rooms that each may use, which stand above it: so there are no circles.
const ALLOWED: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("file_pattern", &[]),
    ("glob", &[]),
    ("hash", &[]),
    ("blocking", &[]),
    ("supervise", &["blocking"]),
    ("settings_macro", &[]),
    ("data_files", &[]),
    ("files", &[]),
    ("host", &["files"]),
    ("observe", &["settings_macro", "units"]),
    (
        "source",
        &[
            "data_files",
            "hash",
            "host",
            "observe",
            "settings_macro",
            "units",
        ],
    ),
    (
        "check",
        &["data_files", "glob", "observe", "settings_macro", "units"],
    ),
    ("readiness", &["check", "settings_macro", "units"]),
    (
        "report",
        &[
            "check",
            "data_files",
            "files",
            "glob",
            "observe",
            "readiness",
            "settings_macro",
            "units",
        ],
    ),
    (
        "cluster",
        &[
            "check",
            "files",
            "hash",
            "observe",
            "readiness",
            "report",
            "settings_macro",
            "units",
        ],
    ),
    (
        "config",
        &[
            "check",
            "cluster",
            "file_pattern",
            "files",
            "glob",
            "settings_macro",
            "units",
        ],
    ),
    (
        "fleet",
        &["check", "cluster", "report", "settings_macro", "units"],
    ),
    ("slurm", &["cluster", "config", "report"]),
    ("clock", &["report", "units"]),
    (
        "sampler",
        &[
            "blocking", "clock", "config", "glob", "host", "observe", "source", "units",
        ],
    ),
    ("tcp_watch", &["glob", "host", "observe", "source", "units"]),
    (
        "evaluator",
        &["check", "observe", "readiness", "report", "units"],
    ),
    ("state", &["files", "observe", "source", "units"]),
    (
        "kernel_log",
        &[
            "clock",
            "config",
            "host",
            "observe",
            "source",
            "supervise",
            "units",
        ],
    ),
    (
        "jobs",
        &[
            "check",
            "clock",
            "cluster",
            "config",
            "file_pattern",
            "glob",
            "host",
            "observe",
            "sampler",
            "source",
            "state",
            "supervise",
            "tcp_watch",
            "units",
        ],
    ),
    (
        "sidecar",
        &[
            "blocking", "check", "clock", "host", "observe", "report", "source", "units",
        ],
    ),
    // The table of known shapes, of each of which it makes a machine.
    (
        "simulate",
        &["check", "data_files", "host", "observe", "source", "units"],
    ),
];

/// The entry points and the two that wire rooms together.
const FREE: &[&str] = &["main", "lib", "agent", "cli"];

#[test]
fn data_moves_down_only() {
    let mut wrong = Vec::new();
    let mut seen = BTreeMap::new();
    visit(Path::new("src"), &mut |path, text| {
        let relative = path.strip_prefix("src").unwrap();
        let module = relative
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_string_lossy()
            .trim_end_matches(".rs")
            .to_string();
        *seen.entry(module.clone()).or_insert(0) += 1;
        if FREE.contains(&module.as_str()) {
            return;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: module {module} has no row", path.display()));
            return;
        };
        // Tests may look up: they compare a layer with what stands on it.
        if relative.to_string_lossy().ends_with("tests.rs") {
            return;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for (at, _) in line.match_indices("crate::") {
                let rest = &line[at + "crate::".len()..];
                let used: String = rest
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                if used != module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!(
                        "{}:{}: {module} may not use {used}",
                        path.display(),
                        number + 1
                    ));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() > 8, "the scan saw only {seen:?}");
}

#[test]
fn rooms_stand_in_an_order() {
    for (at, (room, allowed)) in ALLOWED.iter().enumerate() {
        let above: Vec<&str> = ALLOWED[..at].iter().map(|(room, _)| *room).collect();
        for used in *allowed {
            assert!(above.contains(used), "{room} may use {used}, below it");
        }
    }
}

#[test]
fn subjects_do_not_use_each_other() {
    let uses = subjects();
    // Everything that a subject reaches, directly or not.
    let mut reach = uses.clone();
    loop {
        let before: usize = reach.values().map(BTreeSet::len).sum();
        for subject in uses.keys() {
            let further: BTreeSet<String> = (reach[subject].iter())
                .flat_map(|used| reach.get(used).into_iter().flatten().cloned())
                .collect();
            reach.get_mut(subject).unwrap().extend(further);
        }
        if before == reach.values().map(BTreeSet::len).sum() {
            break;
        }
    }
    let reaches = |from: &str, to: &str| reach.get(from).is_some_and(|all| all.contains(to));
    let mut circles = Vec::new();
    for a in uses.keys() {
        for b in uses.keys().filter(|b| a < b) {
            if reaches(a, b) && reaches(b, a) {
                circles.push(format!("{a} and {b} use each other"));
            }
        }
    }
    assert!(circles.is_empty(), "{}", circles.join("\n"));
    assert!(uses.len() > 100, "the scan saw only {}", uses.len());
}

/// Which subjects each subject uses. A subject is a file directly in a room, with the directory of
/// its name: `check/link_state`.
fn subjects() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = BTreeMap::new();
    visit(Path::new("src"), &mut |path, text| {
        let path = path.strip_prefix("src").unwrap().to_string_lossy();
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
        if !module.contains("test") {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            files.insert(module.to_string(), code.to_string());
        }
    });
    let subject = |module: &str| -> String {
        let parts: Vec<&str> = module.split('/').take(2).collect();
        parts.join("/")
    };
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, code) in &files {
        let this = subject(module);
        let used = uses.entry(this.clone()).or_default();
        for path in paths(module, code) {
            let mut path = path.as_str();
            while !files.contains_key(path) {
                let Some((shorter, _)) = path.rsplit_once('/') else {
                    break;
                };
                path = shorter;
            }
            let other = subject(path);
            let wiring = FREE.contains(&this.split('/').next().unwrap_or_default());
            if other != this && other.contains('/') && files.contains_key(path) && !wiring {
                used.insert(other);
            }
        }
    }
    uses
}

/// Paths below `crate` that a file names, `super` resolved and groups taken apart one level.
fn paths(module: &str, code: &str) -> Vec<String> {
    let code: Vec<&str> = (code.lines())
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with("super::") {
                continue;
            }
            let mut rest = &code[at..];
            let mut base: Vec<&str> = Vec::new();
            if root == "super::" {
                base = module.split('/').collect();
            } else {
                rest = &rest["crate::".len()..];
            }
            while let Some(shorter) = rest.strip_prefix("super::") {
                base.pop();
                rest = shorter;
            }
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
            let (path, after) = rest.split_at(end);
            let base = base.iter().copied().chain(path.split("::"));
            let prefix: Vec<&str> = base.filter(|part| !part.is_empty()).collect();
            let prefix = prefix.join("/");
            match after.strip_prefix('{') {
                Some(group) => {
                    let group = group.split(';').next().unwrap_or_default();
                    let names = group.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                    found.extend(names.map(|name| format!("{prefix}/{name}")));
                }
                None => found.push(prefix),
            }
        }
    }
    found
}

fn visit(dir: &Path, f: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, f);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            f(&path, &text);
        }
    }
}
