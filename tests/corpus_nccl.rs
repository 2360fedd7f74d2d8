//! NCCL excerpts with their expected verdicts, each through `selvage nccl`'s code: the project's own
//! lines in `nccl_lines/`, written and recorded, always, and the labelled corpus in
//! `$SELVAGE_CORPUS/nccl.jsonl`. Without that variable the corpus is skipped, and the test says so.
#![allow(clippy::disallowed_methods)] // reads the corpus
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs
)]

use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

fn verdict(lines: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let (inputs, _) = selvage::cli::nccl::run(&[path]);
    serde_json::to_value(&inputs[0]).unwrap()
}

/// `tcp_fallback` is as labelled; anything else is as labelled or not claimed.
#[test]
fn every_labelled_excerpt() {
    let Some(folder) = std::env::var_os("SELVAGE_CORPUS") else {
        // Written past the capture of libtest, which would hide it.
        let skipped = "skipped: corpus_nccl::every_labelled_excerpt: SELVAGE_CORPUS is not set";
        let _ = writeln!(std::io::stderr(), "{skipped}");
        return;
    };
    let path = PathBuf::from(folder).join("nccl.jsonl");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("SELVAGE_CORPUS is set, but {}: {e}", path.display()));
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for row in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: Value = serde_json::from_str(row).unwrap();
        let lines = row["lines"].as_array().unwrap().iter();
        let got = verdict(&lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>());
        let labels = &row["labels"];
        compared += 1;
        let scored = |field: &str| {
            let context = labels["context_only"].as_array().unwrap();
            !context.iter().any(|name| name == field)
        };
        let count = |name: &str| got["channels"][name].as_u64().unwrap_or(0);
        let net: u64 = got["channels"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| name.starts_with("net_"))
            .map(|(_, count)| count.as_u64().unwrap())
            .sum();
        let mut check = |field: &str, have: Value, may_be_silent: bool| {
            let silent = have.is_null() || have == "unknown";
            if scored(field) && have != labels[field] && !(may_be_silent && silent) {
                let (id, want) = (&row["id"], &labels[field]);
                wrong.push(format!("{id}: {field} is {have}, labelled {want}"));
            }
        };
        check("tcp_fallback", got["tcp_fallback"].clone(), false);
        for field in ["network", "gdrdma", "multi_node", "init_complete"] {
            check(field, got[field].clone(), true);
        }
        if net > 0 {
            check("channels_over_net", true.into(), false);
            check("socket_channels", (count("net_socket") > 0).into(), false);
        } else if labels["channels_over_net"] == true {
            wrong.push(format!("{}: connections over a net missed", row["id"]));
        }
    }
    assert!(compared > 0, "{} is empty", path.display());
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A field as `verdicts.txt` writes it.
fn field(verdict: &Value, name: &str) -> String {
    match &verdict[name] {
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let names: Vec<&str> = all.iter().map(|one| one.as_str().unwrap()).collect();
            names.join(",")
        }
        other => other.to_string(),
    }
}

#[test]
fn every_written_case() {
    let written = include_str!("nccl_lines/verdicts.txt").split("\n== ");
    let recorded = include_str!("nccl_lines/recorded.txt").split("\n== ");
    let cases = written.skip(1).chain(recorded.skip(1));
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for case in cases {
        let lines: Vec<&str> = case.trim_end().lines().collect();
        let got = verdict(&lines[2..]);
        for (name, want) in lines[1]
            .split(' ')
            .map(|pair| pair.split_once('=').unwrap())
        {
            let have = field(&got, name);
            compared += 1;
            if have != want {
                wrong.push(format!("{}: {name} is {have}, expected {want}", lines[0]));
            }
        }
    }
    assert!(compared > 100, "only {compared} fields");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
