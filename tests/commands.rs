//! Commands that look once, as programs: what they say and with which status they end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::process::{Command, Stdio};

fn command(args: &[&str]) -> Command {
    let mut command = support::program();
    command.args(args).stdin(Stdio::null());
    command
}

#[test]
fn a_broken_standard_error_changes_no_status() {
    let (dir, _) = support::node("h100_ib");
    let root = dir.path().to_str().unwrap();
    std::fs::remove_file(dir.path().join("proc/sys/kernel/random/boot_id")).unwrap();
    for (args, want) in [
        (&["check", "--host-root", "/nonexistent"][..], 64),
        (&["check", "--no-such-flag"], 64),
        (&["kmsg", "/nonexistent"], 70),
        (&["simulate", "nonesuch", "/nonexistent/dir"], 64),
        (
            &[
                "check",
                "--log-level=trace",
                // A read that waits for a busy machine does not hang.
                "--set=intervals.deadline=1m",
                "--host-root",
                root,
            ],
            0,
        ),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = command(args)
            .stdout(Stdio::null())
            .stderr(writer)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(want), "{args:?}");
    }
}

#[test]
fn a_log_that_cannot_be_read_stops_no_other_and_is_told_by_the_status() {
    let dir = support::scratch();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    };
    let a = file("a", b"NVRM: Xid (PCI:0000:3b:00): 79\n");
    let b = file("b", b"NVRM: Xid (PCI:0000:3c:00): 48\n");
    let packed = file("log.gz", b"\x1f\x8b\x08\0\0\0\0");
    let done = command(&["kmsg", "-o", "json", &a, "/nonexistent", &packed, &b])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(70));
    let (out, err) = (
        String::from_utf8(done.stdout).unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    );
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(err.contains("/nonexistent: "), "{err}");
    assert!(
        err.contains(&format!("zcat {packed} | selvage kmsg")),
        "{err}"
    );
}
