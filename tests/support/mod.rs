//! What tests that run real programs share.
#![allow(dead_code, missing_docs, reason = "each test file uses a part")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code"
)]

use nix::sys::signal::Signal;
use selvage::simulate::{Node, by_name, preset};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A temporary directory, in memory where there is such a place: larger nodes have thousands of
/// files.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory")
}

/// A preset node, written.
pub fn node(name: &str) -> (tempfile::TempDir, Node) {
    let dir = scratch();
    let spec = preset(name).or_else(|| by_name(name));
    let spec = spec.unwrap_or_else(|| panic!("no machine {name}"));
    let node = Node::write(spec, dir.path()).expect("the node is written");
    (dir, node)
}

/// Between two looks of a bounded wait. A look takes about ten milliseconds of two programs without
/// optimisation: more often, the waits of a few tests keep all cores busy.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(40));
}

/// One GET; status line's code and body.
pub fn get(address: &str, path: &str) -> (u16, String) {
    try_get(address, path).expect("an answer")
}

/// The same of a server that may be gone, or go meanwhile.
pub fn try_get(address: &str, path: &str) -> std::io::Result<(u16, String)> {
    try_get_with(address, path, "")
}

/// With more headers, each of which ends its line.
pub fn try_get_with(address: &str, path: &str, headers: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        unchunk(body)
    } else {
        body.to_string()
    };
    Ok((code.expect("a status code"), body))
}

fn unchunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("chunk size");
        if size == 0 {
            break;
        }
        text += &rest[..size];
        body = rest[size..].trim_start_matches("\r\n");
    }
    text
}

/// A program that serves HTTP; ended by its own process id when dropped.
pub struct Server {
    child: Child,
    log: Arc<Mutex<String>>,
    pub address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Asks it to end and waits until it has.
    pub fn terminate(&mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().expect("its end");
        assert_eq!(status.code(), Some(0), "{status}");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, signal).expect("a signal");
    }

    /// What it logged since it was ready.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    /// Waits until it ends by itself; its exit status.
    pub fn end(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }

    /// Starts a program at a free address and waits for the line of its log that holds `ready`.
    fn start(command: impl Fn(&str) -> Command, ready: &str) -> Server {
        let try_one = |_| {
            let address = free_address();
            Server::try_start(command(&address), address, ready)
        };
        (0..10).find_map(try_one).expect("an address of its own")
    }

    /// Nothing where somebody else took the address meanwhile.
    fn try_start(mut command: Command, address: String, ready: &str) -> Option<Server> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr"));
        let mut seen = String::new();
        loop {
            let before = seen.len();
            if stderr.read_line(&mut seen).expect("log") == 0 {
                let _ = child.wait();
                let taken = seen.to_ascii_lowercase().contains("address already in use");
                assert!(taken, "{command:?} ended:\n{seen}");
                return None;
            }
            if seen[before..].contains(ready) {
                break;
            }
        }
        // Read on, or the program would block on a full pipe.
        let log = Arc::new(Mutex::new(String::new()));
        let logged = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = logged.lock().expect("the log");
                log.push_str(&line);
                log.push('\n');
            }
        });
        Some(Server {
            child,
            log,
            address,
        })
    }

    /// The agent on a tree, remembering nothing unless `args` say where.
    pub fn agent(root: &Path, args: &[&str]) -> Server {
        Server::agent_with(root, args, &[])
    }

    /// The same with variables.
    pub fn agent_with(root: &Path, args: &[&str], env: &[(&str, &str)]) -> Server {
        let command = |address: &str| {
            let mut command = program();
            command
                .arg("agent")
                .arg(format!("--host-root={}", root.display()))
                .arg(format!("--listen={address}"))
                .arg("--node-name=node-1");
            if !args.iter().any(|arg| arg.contains("agent.state_dir=")) {
                command.arg("--set=agent.state_dir=");
            }
            command.args(args).envs(env.iter().copied());
            command
        };
        Server::start(command, "serving")
    }

    /// Debian's node_exporter with nothing but its infiniband collector.
    pub fn node_exporter(root: &Path) -> Server {
        Server::exporter(&[
            &format!("--path.sysfs={}", root.join("sys").display()),
            &format!("--path.procfs={}", root.join("proc").display()),
            "--collector.infiniband",
        ])
    }

    /// node_exporter with nothing but the files of a directory.
    pub fn textfile_exporter(dir: &Path) -> Server {
        Server::exporter(&[
            "--collector.textfile",
            &format!("--collector.textfile.directory={}", dir.display()),
        ])
    }

    fn exporter(args: &[&str]) -> Server {
        let program = std::env::var("NODE_EXPORTER")
            .unwrap_or_else(|_| "/usr/bin/prometheus-node-exporter".into());
        assert!(
            Path::new(&program).exists(),
            "{program} is missing: apt-get install prometheus-node-exporter, or set NODE_EXPORTER"
        );
        let command = |address: &str| {
            let mut command = Command::new(&program);
            command
                .args([
                    "--collector.disable-defaults",
                    "--web.disable-exporter-metrics",
                ])
                .args(args)
                .arg(format!("--web.listen-address={address}"));
            command
        };
        Server::start(command, "Listening on")
    }
}

/// The program as it was built, or by the words of `UNDER_TEST`: `make test-arm64` runs it in an emulator.
pub fn program() -> Command {
    let words = std::env::var("UNDER_TEST");
    let words = words.unwrap_or_else(|_| env!("CARGO_BIN_EXE_selvage").to_string());
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// A loopback address that was free a moment ago.
pub fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

/// Runs the real binary on a tree, without anything remembered; exit status and what it printed.
pub fn selvage(root: &Path, args: &[&str]) -> (i32, String) {
    let output = program()
        .args(args)
        .arg("--host-root")
        .arg(root)
        .args(["--set=agent.state_dir=", "--node-name", "node-1"])
        // A read that waits for a busy machine does not hang.
        .arg("--set=intervals.deadline=1m")
        .output()
        .expect("selvage runs");
    assert!(
        output.stderr.is_empty(),
        "selvage {args:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let code = output.status.code().expect("an exit status");
    (code, String::from_utf8(output.stdout).expect("text"))
}

/// One series: family, labels, value.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub family: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Parses the Prometheus text format, as far as exporters here use it.
pub fn parse(text: &str) -> Vec<Series> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let (family, labels) = match name.split_once('{') {
                Some((family, labels)) => (family, labels.trim_end_matches('}')),
                None => (name, ""),
            };
            let labels = labels
                .split("\",")
                .filter(|label| !label.is_empty())
                .map(|label| {
                    let (key, value) = label.split_once("=\"").expect("key=\"value\"");
                    (key.to_string(), value.trim_end_matches('"').to_string())
                })
                .collect();
            Series {
                family: family.into(),
                labels,
                value: value.parse().expect("a number"),
            }
        })
        .collect()
}
