//! The page's sample is what its commands print.

use crate::support::scratch;
use std::path::Path;
use std::process::Command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/preflight.md");

#[test]
fn the_sample_is_what_its_commands_print() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut blocks = page.split("```").skip(1).step_by(2);
    let commands = blocks
        .find_map(|block| {
            block
                .strip_prefix("sh\n")
                .filter(|b| b.contains("simulate"))
        })
        .expect("the sample's commands");
    let sample = blocks.next().expect("the sample").trim_start();
    let dir = scratch();
    let program = Path::new(env!("CARGO_BIN_EXE_selvage"));
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let done = Command::new("sh")
        .args(["-uc", commands])
        .env_clear()
        .env("PATH", path)
        .env("SELVAGE_PREFLIGHT_TIMEOUT", "1m")
        .current_dir(dir.path())
        .output()
        .unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    assert_eq!(printed, sample, "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(2));
}
