//! The labelled kernel-log lines in `$SELVAGE_CORPUS/kmsg.jsonl`, line by line through `selvage
//! kmsg`'s code. Without the variable there is nothing to compare and the test says so.

#![allow(clippy::disallowed_methods)] // reads the corpus
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs
)]

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

const FIELDS: [&str; 6] = ["event", "xid", "pci", "pid", "process", "device"];

/// What `selvage kmsg -o json` prints for one input; null fields and `none` where it prints nothing.
fn decoded(line: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, line).unwrap();
    let mut out = Vec::new();
    selvage::cli::kmsg::run(&[path], true, &mut out).unwrap();
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn every_labelled_line() {
    let Some(folder) = std::env::var_os("SELVAGE_CORPUS") else {
        eprintln!("SELVAGE_CORPUS is not set: nothing compared");
        return;
    };
    let path = PathBuf::from(folder).join("kmsg.jsonl");
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("SELVAGE_CORPUS is set, but {}: {e}", path.display()));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for row in text.lines().filter(|l| !l.trim().is_empty()) {
        let row: Value = serde_json::from_str(row).unwrap();
        let note = row["note"].as_str().unwrap_or_default();
        if note.contains("debatable") {
            continue;
        }
        compared += 1;
        let line = row["line"].as_str().unwrap();
        let got = decoded(line);
        let nothing = Value::Null;
        let first = got.first().unwrap_or(&nothing);
        for field in FIELDS {
            let have = match (field, got.is_empty()) {
                ("event", true) => Value::from("none"),
                _ => first[field].clone(),
            };
            if have != row[field] {
                wrong.push(format!(
                    "{} {field}: got {have}, label {} in {line}",
                    row["id"], row[field]
                ));
            }
        }
        if got.len() > 1 {
            wrong.push(format!("{}: {} events in {line}", row["id"], got.len()));
        }
        if let Some(e) = got.first()
            && e["line"] != row["line"]
        {
            wrong.push(format!("{}: line differs: {}", row["id"], e["line"]));
        }
    }
    assert!(compared > 0, "no lines in {}", path.display());
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
