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
    ("state", &["check", "files", "observe", "source", "units"]),
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
        let file = module_of(relative);
        if is_test(&file) {
            return;
        }
        for used in paths(&file, &product_code(text)) {
            let room = used.split('/').next().unwrap_or_default();
            let is_room = ALLOWED.iter().any(|(name, _)| *name == room) || FREE.contains(&room);
            if is_room && room != module && !allowed.contains(&room) {
                wrong.push(format!("{}: {module} may not use {used}", path.display()));
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
/// its name: `check/link_state`. A room's `mod.rs` lists its files and is none.
fn subjects() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = BTreeMap::new();
    visit(Path::new("src"), &mut |path, text| {
        let module = module_of(path.strip_prefix("src").unwrap());
        if !is_test(&module) {
            files.insert(module, product_code(text));
        }
    });
    let imports: BTreeMap<&String, Vec<String>> = (files.iter())
        .map(|(module, code)| (module, paths(module, code)))
        .collect();
    // The file that defines what a path names: names that a file takes from another lead there.
    let defining = |path: &str| {
        let mut path = path.to_string();
        for _ in 0..8 {
            let mut file = path.as_str();
            while !files.contains_key(file) {
                file = file.rsplit_once('/')?.0;
            }
            let name = path[file.len()..].trim_start_matches('/').split('/').next();
            let leads_to = |other: &&String| {
                other.rsplit_once('/').map(|(_, last)| last) == name && **other != path
            };
            let imports = imports.get(&file.to_string());
            match imports.and_then(|all| all.iter().find(leads_to)) {
                Some(other) => path = other.clone(),
                None => return Some(file.to_string()),
            }
        }
        None
    };
    let subject = |module: &str| -> String {
        let parts: Vec<&str> = module.split('/').take(2).collect();
        parts.join("/")
    };
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, imported) in &imports {
        let this = subject(module);
        let used = uses.entry(this.clone()).or_default();
        let wiring = FREE.contains(&this.split('/').next().unwrap_or_default());
        if wiring || !this.contains('/') {
            continue;
        }
        let others = imported.iter().filter_map(|path| defining(path));
        let others = others.map(|file| subject(&file));
        used.extend(others.filter(|other| *other != this && other.contains('/')));
    }
    uses
}

#[test]
fn names_that_a_room_passes_on_lead_to_their_file() {
    let uses = subjects();
    let uses = |from: &str, to: &str| uses[from].contains(to);
    assert!(
        uses("check/link_state", "check/context"),
        "by `super::Context`"
    );
    assert!(uses("check/link_state", "check/expected"));
    assert!(
        uses("check/link_state", "check/finding"),
        "by `super::Candidate`"
    );
    assert!(!uses("check/finding", "check/context"));
}

/// `check/link_state` of `check/link_state.rs`, `check` of `check/mod.rs`.
fn module_of(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .to_string()
}

fn is_test(module: &str) -> bool {
    module
        .split('/')
        .any(|part| ["tests", "testing"].contains(&part))
}

/// Without comments and what is compiled for tests only.
fn product_code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            code = code + line + "\n";
            continue;
        }
        // An item of one line goes; a module of tests is the end of its file.
        let item = lines.find(|line| !line.starts_with("#["));
        if !item.is_some_and(|item| item.ends_with(';')) {
            break;
        }
    }
    code
}

/// Paths that a file names, as files are: `check/context/Context`.
fn paths(module: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        let item = ["pub ", "pub(crate) ", "pub(super) "]
            .iter()
            .find_map(|p| item.strip_prefix(p))
            .unwrap_or(item);
        if let Some(tree) = item.strip_prefix("use ") {
            let mut tree = tree.to_string();
            while !tree.ends_with(';') {
                tree += lines.next().unwrap_or(";").trim();
            }
            expand("", tree.trim_end_matches(';'), &mut found);
        } else {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)));
            let is_path = |word: &&str| word.starts_with("crate::") || word.starts_with("super::");
            found.extend(words.filter(is_path).map(str::to_string));
        }
    }
    found.iter().map(|path| absolute(module, path)).collect()
}

/// Takes `a::{b, c::{d, e}}` apart.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let mut depth = 0;
    let parts = tree.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once("::{") {
            Some((base, group)) if !base.contains(',') => {
                let group = group.strip_suffix('}').unwrap_or(group);
                expand(&format!("{prefix}{base}::"), group, found);
            }
            _ => {
                let name = part.split(" as ").next().unwrap_or_default();
                found.push(
                    format!("{prefix}{name}")
                        .trim_end_matches("::self")
                        .trim_end_matches("::*")
                        .to_string(),
                );
            }
        }
    }
}

/// A path of a module's, from the crate's root; what begins with a name may be a module below.
fn absolute(module: &str, path: &str) -> String {
    let mut base: Vec<&str> = module.split('/').collect();
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    if parts.first() == Some(&"crate") {
        (base, parts) = (Vec::new(), parts.split_off(1));
    }
    while parts.first() == Some(&"super") {
        base.pop();
        parts.remove(0);
    }
    base.extend(parts);
    base.join("/")
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
