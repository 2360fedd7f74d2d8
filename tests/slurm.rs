//! `selvage slurm health` against an agent and programs of Slurm that answer what each row says.
//! (`tests/slurm/run` is the same against the real Slurm.)
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The program's own limit is 900 ms; the rest is for a busy machine.
const BOUND: Duration = Duration::from_millis(2500);

/// An agent whose verdict has stood for so many seconds; its address. Without a verdict it never answers.
fn agent(verdict: Option<(&'static str, i64)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if let Some((state, stood)) = verdict {
                let _ = stream.read(&mut [0; 4096]);
                let now = jiff::Timestamp::now();
                let report = serde_json::json!({
                    "schema": "selvage.dev/report/v1",
                    "time": now,
                    "since": now - jiff::SignedDuration::from_secs(stood),
                    "state": state,
                    "findings": [{
                        "subject": "mlx5_4/1", "status": "failing", "weight": "verdict",
                        "reason": "LinkDown", "evidence": {}, "caused_by": null,
                    }],
                });
                let report = report.to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{report}",
                    report.len()
                );
            }
            open.push(stream);
        }
    });
    address
}

/// Writes a program that notes its arguments, and then does what is said.
fn program(dir: &Path, name: &str, does: &str) {
    let path = dir.join(name);
    let notes = dir.join("calls");
    let text = format!(
        "#!/bin/sh\necho \"{name}$(printf ' [%s]' \"$@\")\" >>{}\n{does}\n",
        notes.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a run did: exit status, output, complaints, calls of Slurm's programs.
struct Done {
    status: Option<i32>,
    out: String,
    err: String,
    calls: String,
    took: Duration,
}

fn health(dir: &Path, address: &str, node: Option<&str>) -> Done {
    let mut command = support::program();
    command.env_clear().env("PATH", dir).stdin(Stdio::null());
    command.env("RUNTIME_DIRECTORY", dir);
    // A node may have no authorities: plain HTTP needs none.
    command.env("SSL_CERT_FILE", "/dev/null");
    command.args(["slurm", "health", &format!("--agent={address}")]);
    command.args(["--set", "slurm.conf=/etc/other.conf"]);
    if let Some(node) = node {
        command.env("SLURMD_NODENAME", node);
    }
    let begun = Instant::now();
    let done = command.output().unwrap();
    let took = begun.elapsed();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done {
        status: done.status.code(),
        out: text(done.stdout),
        err: text(done.stderr),
        calls: std::fs::read_to_string(dir.join("calls")).unwrap_or_default(),
        took,
    }
}

/// What a row says that `run` sets up afresh, and again where a busy machine's programs did not answer
/// in time though the row does not expect it.
fn answered(says: &str, run: impl Fn() -> Done) -> Done {
    let mut done = run();
    for _ in 0..9 {
        let is_late = ["no answer within", "did not answer in time"];
        let is_late = is_late.iter().any(|late| done.err.contains(late));
        if !is_late || done.err.contains(says) {
            break;
        }
        done = run();
    }
    done
}

const IDLE: &str = r#"{"nodes": [{"name": "n1", "partitions": ["p"], "state": "idle",
    "state_flags": [], "reason": ""}]}"#;
const OURS: &str = r#"{"nodes": [{"name": "n1", "partitions": ["p"], "state": ["IDLE", "DRAIN"],
    "reason": "selvage: LinkDown mlx5_4/1"}]}"#;
/// IDLE with a second node, which selvage keeps drained, as a command.
fn spent() -> String {
    let other = r#"}, {"name": "n2", "partitions": ["p"], "state": "idle",
        "state_flags": ["DRAIN"], "reason": "selvage: x"}]"#;
    format!("echo '{}'", IDLE.replace("}]", other))
}

const LIST: &str = "sinfo [--json] [-a]\n";
const UNLOCK: &str = "scontrol [delete] [reservation=selvage-drain]\n";

/// scontrol as before Slurm 23.02, with answers to some of its calls.
fn scontrol(answers: &str) -> String {
    format!(
        "case \"$*\" in\n{answers}\n\
         --json*) echo \"scontrol: unrecognized option '--json'\" >&2; exit 1;;\nesac\nexit 0"
    )
}

fn lists(json: &str) -> String {
    format!("[ \"$SLURM_CONF\" = /etc/other.conf ] && echo '{json}'")
}

#[test]
fn a_drain_takes_the_lock_and_gives_it_back() {
    let done = answered("drained", || {
        let dir = support::scratch();
        program(dir.path(), "scontrol", &scontrol(""));
        program(dir.path(), "sinfo", &lists(IDLE));
        health(dir.path(), &agent(Some(("unready", 60))), Some("n1"))
    });
    assert_eq!(done.out, "n1: drained: selvage: LinkDown mlx5_4/1\n");
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""));
    assert_eq!(
        done.calls,
        format!(
            "scontrol [--json] [-a] [show] [nodes]\n{LIST}\
             scontrol [create] [reservation] [ReservationName=selvage-drain] [StartTime=now] [Duration=1] \
             [Users=root] [Nodes=n1] [Flags=IGNORE_JOBS,OVERLAP]\n{LIST}\
             scontrol [update] [nodename=n1] [state=drain] [reason=selvage: LinkDown mlx5_4/1]\n\
             {UNLOCK}"
        )
    );
}

#[test]
fn a_node_is_resumed_only_where_its_reason_is_ours() {
    for (state, reason, listed, want, last) in [
        (
            "IDLE+DRAIN",
            "selvage: LinkDown mlx5_4/1",
            OURS,
            "resumed",
            "[state=undrain] [reason=resumed by selvage; a drain after that is not selvage's]",
        ),
        // Another hand was quicker than the second question.
        (
            "IDLE+DRAIN",
            "selvage: LinkDown mlx5_4/1",
            IDLE,
            "not resumed",
            "[nodes]",
        ),
        (
            "IDLE+DRAIN",
            "admin: memory",
            OURS,
            "nothing to do",
            "[show] [node] [n1]",
        ),
        // Slurm 24.11 keeps the reason of a drain that is over.
        (
            "IDLE",
            "selvage: LinkDown mlx5_4/1",
            OURS,
            "nothing to do",
            "[show] [node] [n1]",
        ),
    ] {
        let answers = format!(
            "*'-o show node n1') echo 'NodeName=n1 State={state} Reason={reason}';;\n--json*) echo '{listed}';;"
        );
        let done = answered(want, || {
            let dir = support::scratch();
            program(dir.path(), "scontrol", &scontrol(&answers));
            health(dir.path(), &agent(Some(("ready", 300))), Some("n1"))
        });
        assert!(done.out.contains(want), "{want}: {}{}", done.out, done.err);
        assert_eq!(done.status, Some(0), "{}", done.err);
        assert!(done.calls.trim_end().ends_with(last), "{}", done.calls);
    }
}

#[test]
fn what_fails_drains_nothing_and_takes_no_longer() {
    let hangs = "exec /bin/sleep 30";
    let busy =
        "create*) echo 'Error creating the reservation: Duplicate reservation name' >&2; exit 1;;";
    let refused = "update*) echo 'slurm_update error: Invalid user id' >&2; exit 1;;";
    let denied = "create*) echo 'Error creating the reservation: Access denied' >&2; exit 1;;";
    let list = lists(IDLE);
    let elsewhere = lists(&IDLE.replace("n1", "n2"));
    let drained = lists(&OURS.replace("selvage: ", "admin: "));
    for (says, does, sinfo, status) in [
        ("another node is being drained", busy, list.as_str(), 0),
        ("drained by someone else", "", &drained, 0),
        ("Invalid user id", refused, &list, 70),
        ("Access denied", denied, &list, 70),
        ("no node of this name", "", &elsewhere, 70),
        ("cannot be read", "", "echo '<html>'", 70),
        ("cannot be read", "", "exit 0", 70),
        (
            "exit status: 3: what it says",
            "",
            "echo what it says >&2; exit 3",
            70,
        ),
        (
            "longer than 64 MiB",
            "",
            "exec /usr/bin/head -c 70000000 /dev/zero",
            70,
        ),
        ("no answer within 750 ms", "", hangs, 70),
        (
            "no answer within 750 ms",
            "create*) exec /bin/sleep 30;;",
            &list,
            70,
        ),
    ] {
        let done = answered(says, || {
            let dir = support::scratch();
            program(dir.path(), "scontrol", &scontrol(does));
            program(dir.path(), "sinfo", sinfo);
            health(dir.path(), &agent(Some(("unready", 60))), Some("n1"))
        });
        let said = format!("{}{}", done.out, done.err);
        assert!(said.contains(says), "{says}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(done.status, Some(status), "{said}");
        assert!(done.took < BOUND, "{says}: {:?}", done.took);
        let refused = says == "Invalid user id";
        assert_eq!(
            done.calls.contains("[update]"),
            refused,
            "{says}: {}",
            done.calls
        );
        // A drain that failed may still be on its way: then the lock stays until it expires.
        assert!(!done.calls.contains("[delete]"), "{says}: {}", done.calls);
    }
}

#[test]
fn what_changes_or_hangs_under_the_lock_drains_nothing_and_gives_the_lock_back() {
    let spent = spent();
    for (then, says, status) in [
        (spent.as_str(), "the budget of partition p is spent", 0),
        ("exec /bin/sleep 30", "sinfo: no answer within 750 ms", 70),
        ("exit 1", "sinfo: exit status: 1", 70),
    ] {
        let first = format!(
            "if [ ! -e $0.asked ]; then : >$0.asked; {}; exit; fi",
            lists(IDLE)
        );
        let done = answered(says, || {
            let dir = support::scratch();
            program(dir.path(), "scontrol", &scontrol(""));
            program(dir.path(), "sinfo", &format!("{first}\n{then}"));
            health(dir.path(), &agent(Some(("unready", 60))), Some("n1"))
        });
        assert!(
            format!("{}{}", done.out, done.err).contains(says),
            "{}{}",
            done.out,
            done.err
        );
        assert_eq!(done.status, Some(status), "{}", done.err);
        assert!(
            done.calls.ends_with(&format!("{LIST}{UNLOCK}")),
            "{}",
            done.calls
        );
        assert!(done.took < BOUND, "{says}: {:?}", done.took);
    }
}

#[test]
fn a_lock_that_an_earlier_call_left_behind_is_good_for_this_node_alone() {
    let budget = spent();
    let list = lists(IDLE);
    for (holder, second, says, gives_back) in [
        ("n1", list.as_str(), "n1: drained", true),
        ("n1", &budget, "the budget of partition p is spent", false),
        ("n1", "exit 1", "sinfo: exit status: 1", false),
        ("n11", &list, "another node is being drained", false),
    ] {
        let answers = format!(
            "create*) echo 'Error creating the reservation: Duplicate reservation name' >&2; exit 1;;\n\
             *'show reservation selvage-drain') echo 'ReservationName=selvage-drain Nodes={holder} NodeCnt=1';;"
        );
        let first = format!("if [ ! -e $0.asked ]; then : >$0.asked; {list}; exit; fi");
        let done = answered(says, || {
            let dir = support::scratch();
            program(dir.path(), "scontrol", &scontrol(&answers));
            program(dir.path(), "sinfo", &format!("{first}\n{second}"));
            health(dir.path(), &agent(Some(("unready", 60))), Some("n1"))
        });
        assert!(
            format!("{}{}", done.out, done.err).contains(says),
            "{}{}",
            done.out,
            done.err
        );
        assert_eq!(done.calls.ends_with(UNLOCK), gives_back, "{}", done.calls);
        assert_eq!(
            done.calls.contains("[update]"),
            gives_back,
            "{}",
            done.calls
        );
    }
}

#[test]
fn without_a_verdict_slurm_is_not_even_asked() {
    let gone = "127.0.0.1:1".to_string();
    for (address, node, says, status) in [
        (gone, Some("n1"), "agent at 127.0.0.1:1", 70),
        (agent(None), Some("n1"), "the agent did not answer", 70),
        (
            agent(Some(("unready", 60))),
            None,
            "SLURMD_NODENAME is not set",
            64,
        ),
        (
            agent(Some(("unready", 60))),
            Some(""),
            "SLURMD_NODENAME is not set",
            64,
        ),
        (
            agent(Some(("unready", 10))),
            Some("n1"),
            "unready for 10 s, of 30 s",
            0,
        ),
        (
            agent(Some(("unknown", 600))),
            Some("n1"),
            "the node is unknown",
            0,
        ),
        (
            agent(Some(("degraded", 600))),
            Some("n1"),
            "the node is degraded",
            0,
        ),
        (
            agent(Some(("ready", 60))),
            Some("n1"),
            "ready for 60 s, of 300 s",
            0,
        ),
    ] {
        let done = answered(says, || {
            let dir = support::scratch();
            program(dir.path(), "scontrol", &scontrol(""));
            program(dir.path(), "sinfo", &lists(IDLE));
            health(dir.path(), &address, node)
        });
        let said = format!("{}{}", done.out, done.err);
        assert!(said.contains(says), "{says}: {said}");
        assert_eq!(
            (done.status, done.calls.as_str()),
            (Some(status), ""),
            "{said}"
        );
        assert!(done.took < BOUND, "{says}: {:?}", done.took);
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let says = "scontrol: No such file";
    let done = answered(says, || {
        let dir = support::scratch();
        health(dir.path(), &agent(Some(("unready", 60))), Some("n1"))
    });
    assert!(done.err.contains(says), "{}", done.err);
    assert_eq!(done.status, Some(70));
}
