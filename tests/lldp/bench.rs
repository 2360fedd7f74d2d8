//! A node, two leaf switches and the cables between them.

use crate::support::{node, scratch};
use selvage::simulate::{Change, Node};
use serde_json::Value;
use std::cell::RefCell;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two rails of the node `h100_roce`, and their interfaces.
pub const RAILS: [(&str, &str); 2] = [("mlx5_0", "enp24s0np0"), ("mlx5_1", "enp64s0np0")];

/// Longest wait for what takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds for which a switch's word holds, so that one that is slow does not expire. Not lldpd's own
/// 120, so that it shows that both its factors were set.
pub const TTL: u64 = 100;

/// A port of the node's network of its own.
const PORT: u16 = 9949;

/// The simulated node's devices below a real kernel's sysfs: only such a root is live.
const MOUNTS: &str = "
    mkdir $L/sys $L/proc
    mount -t sysfs none $L/sys
    for d in class devices bus module; do mount --bind $R/sys/$d $L/sys/$d; done
    mount --bind $R/proc $L/proc
";

/// Frames that are no LLDPDU, or not this switch's: sent from the switch's end of the cable.
const JUNK: &str = r#"
import os, random, socket, struct, sys
random.seed(7)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
tlv = lambda kind, value: struct.pack("!H", kind << 9 | len(value)) + value
head = tlv(1, b"\x07evil") + tlv(2, b"\x05evil")
good = head + tlv(3, b"\x00\x78") + tlv(5, b"evil")
group, source = bytes.fromhex("0180c200000e"), bytes.fromhex("020000000001")
frames = [(group, payload) for payload in (
    b"", good[:-1], good + b"\x0a", good + good, head, head + tlv(3, b"\x00"), tlv(2, b"\x05x") + good,
    head + tlv(3, b"\x00\x00"), b"\xff" * 1500, b"\x00" * 1500, good + b"\x02", os.urandom(1500))]
# Longer than any LLDPDU.
frames += [(group, good + 3 * tlv(127, b"\x00" * 500))]
frames += [(to, good) for to in (b"\xff" * 6, bytes.fromhex("02000000aaaa"))]
# One head byte off each, cut anywhere: the first TLV is not a chassis ID any more.
frames += [(group, b"\x7f" + good[1:random.randrange(1, len(good))] + os.urandom(random.randrange(60))) for _ in range(600)]
for to, payload in frames:
    wire.send(to + source + b"\x88\xcc" + payload)
print("sent", len(frames))
"#;

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A program that ends with the test, by its own process id.
struct Running(Child);

impl Running {
    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(pid, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // lldpd has a second process, which ends with the first one.
        self.signal(nix::sys::signal::Signal::SIGTERM);
        let begin = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(5) {
            crate::support::pause();
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network and mount namespace, held by a process that sleeps.
pub struct Net(Running);

impl Net {
    fn new(script: &str, variables: &[(&str, &Path)]) -> Net {
        let script = format!("{script}\nip link set lo up; echo ready; exec sleep 600");
        let mut child = Command::new("unshare")
            .args(["-nm", "sh", "-euc", &script])
            .env("PATH", PATH)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let answer = child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]);
        let net = Net(Running(child));
        answer.expect("a network namespace; needs root");
        net
    }

    fn pid(&self) -> String {
        self.0.0.id().to_string()
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.pid(), "-n", "-m", program])
            .args(args)
            .env("PATH", PATH)
            .stdin(Stdio::null());
        command
    }

    fn start(&self, words: &[&str], log: &Path) -> Running {
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.command(words[0], &words[1..]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap())
    }

    /// Runs it to its end; what it printed.
    pub fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program, args).output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{program} {args:?}: {}",
            said(&output.stderr)
        );
        said(&output.stdout)
    }
}

/// A switch: lldpd, which sends each second. It starts paused, and a child of its own, lldpcli, would
/// resume it: where that child failed, nothing was ever sent. Here it is `/bin/true`.
pub struct Leaf {
    lldpd: Running,
    net: Net,
    socket: String,
}

impl Leaf {
    fn new(name: &str, files: &Path) -> Leaf {
        let net = Net::new("", &[]);
        let socket = files.join(name).to_str().unwrap().to_string();
        std::fs::create_dir_all("/run/lldpd").unwrap();
        let words = [
            "lldpd",
            "-d",
            "-S",
            "Leaf SONiC",
            "-L",
            "/bin/true",
            "-O",
            "/dev/null",
            "-u",
            &socket,
        ];
        let lldpd = net.start(&words, &files.join(format!("{name}.log")));
        Leaf { lldpd, net, socket }
    }

    fn lldpcli(&self, words: &[&str]) -> Option<String> {
        let args = [&["5", "lldpcli", "-u", &self.socket], words].concat();
        let output = self.net.command("timeout", &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(said)
    }

    /// Waits for lldpd, which starts.
    fn configure(&self, words: &[&str]) {
        let begin = Instant::now();
        while self.lldpcli(&[&["configure"], words].concat()).is_none() {
            let why = "lldpd does not answer; tests/deps installs it";
            assert!(begin.elapsed() < PATIENCE, "{words:?}: {why}");
        }
    }

    /// Names the port that a cable is in, and waits until it sends. lldpd forgets settings made while it
    /// starts, or before it has seen the port.
    fn name_port(&self, port: usize) {
        let (interface, name) = (&format!("Eth{port}"), &format!("Ethernet1/{port}"));
        let text = &format!("to gpu-01 rail{port}");
        let up = ["link", "set", interface, "mtu", "9000", "up"];
        self.net.run("ip", &up);
        let begin = Instant::now();
        let show = ["show", "interfaces", "ports", interface];
        let leaf = self.socket.rsplit('/').next().unwrap();
        let ttl = &format!("TTL:          {TTL}\n");
        let named = |shown: &String| {
            let mut words = [name, "to gpu-01", leaf, ttl].into_iter();
            words.all(|word| shown.contains(word))
        };
        while !(self.lldpcli(&show).as_ref().is_some_and(named) && self.sends(interface)) {
            assert!(begin.elapsed() < PATIENCE, "{}", self.state());
            self.configure(&["system", "hostname", leaf]);
            self.configure(&["lldp", "tx-interval", "1"]);
            self.hold(TTL);
            self.configure(&["ports", interface, "lldp", "portidsubtype", "local", name]);
            self.describe(interface, text);
            self.resume();
        }
    }

    fn sends(&self, interface: &str) -> bool {
        let shown = self.lldpcli(&["show", "statistics", "ports", interface]);
        shown.is_some_and(|text| {
            let mut words = text.split_whitespace();
            let count = words.by_ref().find(|word| *word == "Transmitted:");
            count.is_some() && words.next().is_some_and(|count| count != "0")
        })
    }

    /// What lldpd says of itself, where a test fails.
    fn state(&self) -> String {
        let shown = ["interfaces", "statistics", "configuration"];
        let shown = shown.map(|what| self.lldpcli(&["show", what]).unwrap_or_default());
        format!("{}: {}", self.socket, shown.join("\n"))
    }

    /// From now on its word holds for so many seconds.
    pub fn hold(&self, seconds: u64) {
        self.configure(&["lldp", "tx-hold", &seconds.to_string()]);
    }

    pub fn describe(&self, interface: &str, text: &str) {
        self.configure(&["ports", interface, "lldp", "portdescription", text]);
    }

    /// It neither sends nor receives until it is resumed.
    pub fn pause(&self) {
        self.lldpcli(&["pause"]).expect("lldpd pauses");
    }

    pub fn resume(&self) {
        self.lldpcli(&["resume"]).expect("lldpd resumes");
    }

    /// Ends it, so that it says goodbye.
    pub fn stop(&self) {
        self.lldpd.signal(nix::sys::signal::Signal::SIGTERM);
    }

    pub fn run(&self, program: &str, args: &[&str]) -> String {
        self.net.run(program, args)
    }

    /// Sends some hundred frames that are to change nothing.
    pub fn junk(&self, interface: &str) -> String {
        self.run("python3", &["-c", JUNK, interface])
    }
}

/// All of it. Rail i is in port i of leaf i.
pub struct Bench {
    pub leaves: [Leaf; 2],
    pub node: Net,
    simulated: RefCell<Node>,
    _dir: tempfile::TempDir,
    live: tempfile::TempDir,
    files: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        let (dir, simulated) = node("h100_roce");
        let (live, files) = (scratch(), scratch());
        let net = Net::new(MOUNTS, &[("R", dir.path()), ("L", live.path())]);
        // lldpd gives up root, and its socket is in here.
        std::process::Command::new("chmod")
            .arg("755")
            .arg(files.path())
            .status()
            .unwrap();
        let leaves = [0, 1].map(|leaf| Leaf::new(&format!("leaf-{leaf}"), files.path()));
        for (rail, (_, interface)) in RAILS.iter().enumerate() {
            let port = format!("Eth{rail}");
            net.run(
                "ip",
                &[
                    "link", "add", interface, "type", "veth", "peer", "name", &port,
                ],
            );
            net.run("ip", &["link", "set", interface, "mtu", "9000", "up"]);
            net.run(
                "ip",
                &["link", "set", &port, "netns", &leaves[rail].net.pid()],
            );
            leaves[rail].name_port(rail);
        }
        Bench {
            leaves,
            node: net,
            simulated: RefCell::new(simulated),
            _dir: dir,
            live,
            files,
        }
    }

    /// A link that falls, as the node's files show it.
    pub fn link_falls(&self, rail: usize) {
        let device = RAILS[rail].0.into();
        let event = Change::Link { device, up: false };
        self.simulated.borrow_mut().apply(&event).unwrap();
    }

    /// Moves both cables to the other leaf.
    pub fn swap(&self) {
        for port in [0, 1] {
            let (from, to) = (&self.leaves[port], &self.leaves[1 - port]);
            let interface = format!("Eth{port}");
            from.run("ip", &["link", "set", &interface, "netns", &to.net.pid()]);
            to.name_port(port);
        }
    }

    /// The agent on the node, started by these words.
    pub fn agent(&self, args: &[&str], by: &[&str]) -> Agent<'_> {
        let root = self.live.path().to_str().unwrap();
        let listen = format!("--listen=127.0.0.1:{PORT}");
        let own = [
            env!("CARGO_BIN_EXE_selvage"),
            "agent",
            "--host-root",
            root,
            &listen,
            "--node-name=node-1",
            "--set=agent.state_dir=",
            "--set=agent.kmsg_source=device",
            "--set=agent.lldp=true",
            "--set=intervals.lldp=1s",
            "--set=policy.source_health.failing_raise_after=1s",
        ];
        let log = self.files.path().join("agent.log");
        let running = self.node.start(&[by, &own, args].concat(), &log);
        Agent {
            _running: running,
            bench: self,
        }
    }
}

/// The agent, running.
pub struct Agent<'a> {
    _running: Running,
    bench: &'a Bench,
}

impl Agent<'_> {
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.bench.files.path().join("agent.log")).unwrap()
    }

    /// What it serves; empty before it does.
    pub fn get(&self, path: &str) -> String {
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{PORT}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        );
        let output = self
            .bench
            .node
            .command("bash", &["-euc", &ask])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let body = text
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_string());
        body.unwrap_or_default()
    }

    /// What both ends of the cables say, where a test fails.
    fn state(&self, report: &str) -> String {
        let known = match serde_json::from_str(report).map(Report) {
            Ok(report) => format!(
                "{} {:?}",
                report.source(),
                [0, 1].map(|i| report.neighbor(i))
            ),
            Err(_) => report.to_string(),
        };
        let leaves = self.bench.leaves.each_ref().map(Leaf::state);
        format!("{known}\n{}\n{}", leaves.join("\n"), self.log())
    }

    /// Its report, once it is as wanted.
    pub fn until(&self, want: impl Fn(&Report) -> bool) -> Report {
        let begin = Instant::now();
        loop {
            let text = self.get("/report");
            match serde_json::from_str(&text).map(Report) {
                Ok(report) if want(&report) => return report,
                _ => assert!(begin.elapsed() < PATIENCE, "{}", self.state(&text)),
            }
        }
    }
}

pub struct Report(pub Value);

impl Report {
    pub fn neighbor(&self, rail: usize) -> Value {
        let mut ports = self.0["ports"].as_array().unwrap().iter();
        let port = ports.find(|port| port["device"] == RAILS[rail].0);
        port.map_or(Value::Null, |port| port["neighbor"].clone())
    }

    /// Reasons of the findings about a rail that count, and of its neighbor.
    pub fn reasons_of(&self, rail: usize) -> Vec<&str> {
        let subject = format!("{}/1", RAILS[rail].0);
        (self.0["findings"].as_array().unwrap().iter())
            .filter(|finding| finding["subject"] == subject)
            .filter(|finding| finding["status"] == "failing" || finding["check"] == "neighbor")
            .map(|finding| finding["reason"].as_str().unwrap())
            .collect()
    }

    /// What is said of the source; null where there is none.
    pub fn source(&self) -> &Value {
        let mut sources = self.0["sources"].as_array().unwrap().iter();
        let source = sources.find(|source| source["source"] == "lldp");
        source.unwrap_or(&Value::Null)
    }

    /// Its time, in seconds.
    pub fn seconds(&self) -> i64 {
        let time: jiff::Timestamp = self.0["time"].as_str().unwrap().parse().unwrap();
        time.as_second()
    }
}
