//! The arrows of ARCHITECTURE.md, held: which top-level module may name which.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;

/// Module to the modules of this crate that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("host", &["source"]),
    ("observe", &["units"]),
    ("source", &["hash", "host", "observe", "units"]),
    ("glob", &[]),
    ("hash", &[]),
    ("blocking", &[]),
    ("settings_macro", &[]),
    ("check", &["glob", "observe", "settings_macro", "units"]),
    ("readiness", &["check", "units"]),
    (
        "cluster",
        &[
            "check",
            "hash",
            "observe",
            "readiness",
            "report",
            "settings_macro",
            "units",
        ],
    ),
    ("report", &["check", "observe", "readiness", "units"]),
    (
        "config",
        &["check", "cluster", "glob", "settings_macro", "units"],
    ),
    (
        "sampler",
        &["config", "glob", "host", "observe", "source", "units"],
    ),
    (
        "evaluator",
        &["check", "config", "observe", "readiness", "report", "units"],
    ),
    // The table of known shapes, of each of which it makes a machine.
    ("simulate", &["check", "host", "observe", "source", "units"]),
];

/// Modules that wire layers together.
const FREE: &[&str] = &[
    "agent",
    "cli",
    "clock",
    "jobs",
    "sidecar",
    "kernel_log",
    "main",
    "lib",
    "state",
];

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
