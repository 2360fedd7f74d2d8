//! `selvage preflight` as a program, in containers that are good, and wrong one thing at a time:
//! directory trees, and real namespaces, limits and mounts.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../../src/source/container/testing.rs"]
mod elf_file;
mod namespaces;
mod page;
mod rows;
mod trees;
mod verdicts;

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The program without anything of this process' environment.
fn preflight(variables: &[(&str, &str)], args: &[&str]) -> Command {
    let mut command = support::program();
    command
        .arg("preflight")
        .args(args)
        .env_clear()
        // Of `make mutants`.
        .envs(std::env::var_os("MUTANT").map(|number| ("MUTANT", number)))
        // A busy machine, or an emulated one, takes its time; flags and variables of a test win.
        .env("SELVAGE_PREFLIGHT_TIMEOUT", "1m")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    command
}

/// What it said, and its exit status.
struct Said {
    json: Value,
    code: i32,
}

impl Said {
    fn of(output: &Output) -> Self {
        let code = output.status.code().unwrap_or_else(|| {
            panic!(
                "ended by a signal: {}",
                String::from_utf8_lossy(&output.stderr)
            )
        });
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "status {code}, no JSON ({error}): {}\n{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        });
        Said { json, code }
    }

    fn item(&self, name: &str) -> &Value {
        let mut items = self.json["items"].as_array().unwrap().iter();
        items.find(|item| item["item"] == name).unwrap()
    }

    /// Status and reason of one item.
    fn told(&self, name: &str) -> String {
        let item = self.item(name);
        let status = item["status"].as_str().unwrap();
        match item["reason"].as_str() {
            Some(reason) => format!("{status} {reason}"),
            None => status.to_string(),
        }
    }

    /// Every item that is neither ok nor skipped.
    fn wrong(&self) -> Vec<String> {
        let items = self.json["items"].as_array().unwrap().iter();
        items
            .filter(|item| !["ok", "skipped"].contains(&item["status"].as_str().unwrap()))
            .map(|item| {
                format!(
                    "{} {} {}",
                    item["item"].as_str().unwrap(),
                    item["status"].as_str().unwrap(),
                    item["reason"].as_str().unwrap_or_default()
                )
            })
            .collect()
    }
}
