//! The demo as a program: what its fleet comes to, and how it ends.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use selvage::simulate::{Scenario, fleet};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{get, parse, scratch, try_get};

/// Everything here takes a minute at most; a machine that is busy may need longer.
const BOUND: Duration = Duration::from_secs(300);

/// A demo that runs, in a directory of its own.
struct Demo {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvage"));
    command.arg("demo").args(args).env("TMPDIR", dir);
    command
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        let dir = scratch();
        let temp = dir.path().join("tmp");
        std::fs::create_dir(&temp).unwrap();
        let targets = format!("--targets={}", dir.path().join("targets.json").display());
        let mut command = command(&temp, args);
        command.arg(targets).stdout(Stdio::null());
        let child = command.spawn().expect("the demo");
        Demo { child, dir }
    }

    /// Addresses by node, once they are told.
    fn targets(&mut self) -> Vec<(String, String)> {
        let file = self.dir.path().join("targets.json");
        until("addresses", || {
            assert!(self.child.try_wait().unwrap().is_none(), "the demo ended");
            file.exists()
        });
        let text = std::fs::read_to_string(&file).unwrap();
        let groups: Vec<Value> = serde_json::from_str(&text).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_string();
        let of = |group: &Value| {
            assert_eq!(group["labels"]["cluster"], "demo");
            (
                text(&group["labels"]["instance"]),
                text(&group["targets"][0]),
            )
        };
        groups.iter().map(of).collect()
    }

    /// Asks it to end, and it leaves nothing behind.
    fn end(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert_eq!(left(&self.dir.path().join("tmp")), 0);
    }
}

fn left(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is() {
        assert!(Instant::now() < end, "no {what} within {BOUND:?}");
        support::pause();
    }
}

/// A port from which on some are free.
fn free_port() -> u16 {
    let address = support::free_address();
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// What still lacks of what a part is to come to; none where its agent does not answer.
fn lacks(role: &Scenario, address: &str) -> Option<String> {
    let (code, body) = try_get(address, "/report").ok()?;
    assert_eq!(code, 200);
    let report: Value = serde_json::from_str(&body).ok()?;
    let state = report["state"].as_str().unwrap();
    let findings = report["findings"].as_array().unwrap();
    let verdict = report["reasons"].as_array().unwrap();
    let told: BTreeSet<&str> = findings
        .iter()
        .filter_map(|finding| finding["reason"].as_str())
        .chain(verdict.iter().filter_map(Value::as_str))
        .collect();
    let missing: Vec<&String> = role
        .reasons
        .iter()
        .filter(|reason| !told.contains(reason.as_str()))
        .collect();
    let right = match role.state.as_str() {
        "" => state == "degraded",
        wanted => state == wanted,
    };
    let lacks = format!("{} is {state}, lacks {missing:?}", role.name);
    Some(if right && missing.is_empty() {
        String::new()
    } else {
        lacks
    })
}

#[test]
fn every_part_of_the_fleet_comes_to_its_verdict() {
    let listen = format!("--listen=127.0.0.1:{}", free_port());
    // Twelve nodes at twice the speed take 0.9 of a core without optimisation: too much next to other suites.
    let mut demo = Demo::start(&["--nodes=12", &listen]);
    let targets = demo.targets();
    let roles = fleet(12);
    assert!(
        targets
            .iter()
            .map(|(name, _)| name)
            .eq(roles.iter().map(|role| &role.name))
    );
    let address = |name: &str| {
        let found = targets.iter().find(|(known, _)| known == name);
        found.map(|(_, address)| address.as_str()).unwrap()
    };
    let mut waited: Vec<&Scenario> = roles.iter().collect();
    let mut last = Vec::new();
    let end = Instant::now() + BOUND;
    while !waited.is_empty() {
        assert!(Instant::now() < end, "{last:#?}");
        last.clear();
        waited.retain(|role| match lacks(role, address(&role.name)) {
            Some(lacks) if lacks.is_empty() => false,
            lacks => {
                last.extend(lacks);
                true
            }
        });
        // A report is a hundred kilobytes, made and read without optimisation: twelve of them more often keep the
        // simulator from its pace.
        std::thread::sleep(Duration::from_secs(1));
    }
    // One of them is tainted, for more than a tenth of so few may not be.
    let value = |name: &str, family: &str, label: &str| {
        let (_, body) = get(address(name), "/metrics");
        let is = |series: &support::Series| {
            series.family == family
                && (label.is_empty() || series.labels.values().any(|value| value == label))
        };
        let found = parse(&body).into_iter().find(is);
        found.map(|series| series.value)
    };
    until("taint", || {
        value("gpu-02", "selvage_node_taint_applied", "") == Some(1.0)
    });
    for name in ["gpu-05", "gpu-08"] {
        until("word of the budget", || {
            value(name, "selvage_node_taint_withheld", "budget") == Some(1.0)
        });
        assert_eq!(value(name, "selvage_node_taint_applied", ""), Some(0.0));
    }
    assert_eq!(
        value(
            "gpu-03",
            "selvage_nccl_gpudirect_rdma",
            "embed-train-worker-0"
        ),
        Some(0.0)
    );
    until("departure", || {
        TcpStream::connect(address("gpu-12")).is_err()
    });
    demo.end();
    assert!(TcpStream::connect(address("gpu-01")).is_err());
}

#[test]
fn ports_that_are_taken_are_passed_by() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = taken.local_addr().unwrap().port();
    // Perhaps somebody has it, which is as good.
    let _also = TcpListener::bind(("127.0.0.1", first.wrapping_add(2)));
    let listen = format!("--listen=127.0.0.1:{first}");
    let mut demo = Demo::start(&["--nodes=3", &listen]);
    let targets = demo.targets();
    let ports: Vec<u16> = targets
        .iter()
        .map(|(_, address)| address.rsplit_once(':').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(ports.len(), 3);
    assert!(ports.is_sorted() && ports[0] > first, "{first} {ports:?}");
    assert!(!ports.contains(&first.wrapping_add(2)), "{ports:?}");
    for (name, address) in &targets {
        until(name, || TcpStream::connect(address).is_ok());
        let (_, body) = get(address, "/report");
        assert!(body.contains(name.as_str()));
    }
    demo.end();
}

#[test]
fn wrong_usage_is_said() {
    let dir = scratch();
    for args in [
        &["--nodes=0"][..],
        &["--nodes=65"],
        &["--nodes=x"],
        &["--nodes=-1"],
        &["--nodes=2", "--once"],
        &["--speed=9"],
        &["--listen=here"],
    ] {
        let output = command(dir.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{args:?}"
        );
    }
    let targets = dir.path().join("none").join("targets.json");
    let args = [
        format!("--targets={}", targets.display()),
        "--listen=127.0.0.1:0".into(),
    ];
    let args = args.each_ref().map(String::as_str);
    let output = command(dir.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(70));
    assert_eq!(left(dir.path()), 0);
}

#[test]
fn one_performance_tells_of_faults_and_of_a_job_and_ends() {
    let dir = scratch();
    let listen = format!("--listen=127.0.0.1:{}", free_port());
    let mut command = command(dir.path(), &["--once", "--nodes=1", "--speed=3", &listen]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let address = first
        .strip_prefix("Open http://")
        .and_then(|rest| rest.split('/').next());
    let address = address.expect("an address first").to_string();
    until("page", || TcpStream::connect(&address).is_ok());
    assert_eq!(get(&address, "/").0, 200);
    let mut told = String::new();
    out.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for what in [
        "node is unready",
        "NcclTcpFallback",
        "GpuDirectPathMissing",
        "is over after",
    ] {
        assert!(told.contains(what), "{what}:\n{told}");
    }
    assert_eq!(left(dir.path()), 0);
}
