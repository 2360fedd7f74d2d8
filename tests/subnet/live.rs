//! The node's files below a real kernel's sysfs, where alone devices are opened, in the subnet's
//! network namespace; the umad device of one of its rails is the simulator's.

use crate::fabric::{Fabric, PRELOAD, RAILS, Running, enter};
use crate::support::scratch;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for what takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port of the network namespace.
const PORT: u16 = 9949;

/// In a mount namespace of its own: a device that nobody may open, and descriptors below those that
/// the simulator's library makes up.
const RUN: &str = r#"
    mkdir -p $L/sys $L/proc $L/dev/infiniband; : >$UMAD
    mount --rbind /sys $L/sys
    for d in class devices bus module; do mount --bind $R/sys/$d $L/sys/$d; done
    mount --bind $R/proc $L/proc
    mount --bind /dev/null $UMAD
    mount -o remount,bind,nodev $UMAD
    ulimit -n 1000
    exec env LD_PRELOAD=$LIBRARIES "$@" --host-root $L
"#;

/// Settings of all runs.
const SETTINGS: [&str; 4] = [
    "--set=agent.state_dir=",
    "--set=agent.kmsg_source=device",
    "--set=agent.umad=true",
    "--set=intervals.umad=1s",
];

pub struct Live<'a> {
    fabric: &'a Fabric,
    root: &'a Path,
    /// The rail whose umad device is the simulator's; of none, its device may not be opened.
    rail: usize,
    simulated: bool,
    umad: String,
    files: tempfile::TempDir,
}

impl Live<'_> {
    /// A node whose files are in `root`.
    pub fn new<'a>(fabric: &'a Fabric, root: &'a Path, rail: usize, simulated: bool) -> Live<'a> {
        let class = std::fs::read_dir(root.join("sys/class/infiniband_mad")).unwrap();
        let is_its = |umad: &Path| {
            let device = std::fs::read_to_string(umad.join("ibdev"));
            device.is_ok_and(|device| device.trim() == RAILS[rail])
        };
        let mut umads = class.map(|entry| entry.unwrap());
        let umad = umads.find(|entry| is_its(&entry.path())).unwrap();
        let umad = umad.file_name().into_string().unwrap();
        assert!(umad.starts_with("umad"), "{umad}");
        let files = scratch();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subnet/umad.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O", "-Wall", "-Werror", source, "-o"])
            .arg(files.path().join("umad.so"))
            .status();
        assert!(built.expect("a C compiler").success());
        Live {
            fabric,
            root,
            rail,
            simulated,
            umad,
            files,
        }
    }

    fn selvage(&self, args: &[&str]) -> Command {
        let mut command = enter(&self.fabric.namespace, "unshare");
        let libraries = format!("{}:{PRELOAD}", self.files.path().join("umad.so").display());
        let root = self.files.path().join("root");
        command
            .args(["-m", "sh", "-euc", RUN, "sh"])
            .arg(env!("CARGO_BIN_EXE_selvage"))
            .args([&args[..1], &SETTINGS, &args[1..]].concat())
            .env("R", self.root)
            .env("L", &root)
            .env("UMAD", root.join("dev/infiniband").join(&self.umad))
            .env("SIM_HOST", format!("Rail{}", self.rail))
            .env("LIBRARIES", if self.simulated { &libraries } else { "" })
            .current_dir(self.files.path());
        command
    }

    /// One look at the node, and what the program logged.
    pub fn check(&self, args: &[&str]) -> (Report, String) {
        // A read that waits for a busy machine does not hang.
        let patient = "--set=intervals.deadline=1m";
        let args = [&["check", "-o", "json", patient], args].concat();
        let output = self.selvage(&args).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout);
        (Report(report.unwrap_or_else(|e| panic!("{e}: {log}"))), log)
    }

    /// The agent on the node.
    pub fn agent(&self) -> Agent<'_> {
        let log = std::fs::File::create(self.files.path().join("agent.log")).unwrap();
        let listen = format!("--listen=127.0.0.1:{PORT}");
        let mut command = self.selvage(&["agent", "--node-name=node-1", &listen]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        command.stdin(Stdio::null());
        Agent {
            live: self,
            _running: Running(command.spawn().unwrap()),
        }
    }
}

/// The agent, running.
pub struct Agent<'a> {
    live: &'a Live<'a>,
    _running: Running,
}

impl Agent<'_> {
    /// What it serves; empty before it does.
    pub fn get(&self, path: &str) -> String {
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{PORT}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        );
        let mut bash = enter(&self.live.fabric.namespace, "bash");
        let output = bash.args(["-euc", &ask]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let body = text.split_once("\r\n\r\n");
        body.map_or_else(String::new, |(_, body)| body.to_string())
    }

    /// Its report, once it is as wanted.
    pub fn until(&self, wanted: impl Fn(&Report) -> bool) -> Report {
        let begin = Instant::now();
        loop {
            let text = self.get("/report");
            match serde_json::from_str(&text).map(Report) {
                Ok(report) if wanted(&report) => return report,
                _ => {
                    let log = std::fs::read_to_string(self.live.files.path().join("agent.log"));
                    assert!(begin.elapsed() < PATIENCE, "{text} {log:?}");
                }
            }
        }
    }
}

pub struct Report(pub Value);

impl Report {
    /// Switch and port at the other end of a rail, if known.
    pub fn neighbor(&self, rail: usize) -> Option<(&str, &str)> {
        let mut ports = self.0["ports"].as_array().unwrap().iter();
        let port = ports.find(|port| port["device"] == RAILS[rail])?;
        let neighbor = port.get("neighbor")?;
        Some((
            neighbor["switch"].as_str().unwrap(),
            neighbor["switch_port"].as_str().unwrap(),
        ))
    }

    /// Rails with a neighbor.
    pub fn known(&self) -> Vec<usize> {
        let rails = 0..RAILS.len();
        rails
            .filter(|rail| self.neighbor(*rail).is_some())
            .collect()
    }

    /// Devices of which the source umad is said to be there, and not to be.
    pub fn sources(&self) -> (usize, usize) {
        let sources = self.0["sources"].as_array().unwrap().iter();
        let umads = sources.filter(|of| of["source"] == "umad");
        let (absent, there): (Vec<_>, Vec<_>) = umads.partition(|of| of["absent"] == true);
        (there.len(), absent.len())
    }
}
