//! A switch, a node with one rail that authenticates at it, and the program that asks.

use crate::support::{node, scratch};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The rail that authenticates, of the node `h100_roce`, and its interface.
pub const RAIL: &str = "mlx5_3/1";
pub const IF: &str = "enp94s0np0";

/// Longest wait for what takes seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a supplicant says of a port that is let in.
pub const AUTHORIZED: &str = "key_mgmt=IEEE 802.1X (no WPA)\nwpa_state=COMPLETED\nSupplicant PAE state=AUTHENTICATED\nsuppPortStatus=Authorized\nEAP state=SUCCESS\n";

/// A program that ends with the test, by its own process id.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

/// A user, network and mount namespace with the pair in it.
pub struct Net(Running);

impl Net {
    pub fn new() -> Net {
        let script = format!(
            "ip link set lo up
             ip link add {IF} type veth peer name vswitch
             ip link set {IF} up; ip link set vswitch up
             echo ready; exec sleep 600"
        );
        let mut child = Command::new("unshare")
            .args(["-Urnm", "--kill-child", "sh", "-euc", &script])
            .env("PATH", PATH)
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut said = [0; 6];
        let answer = child.stdout.as_mut().unwrap().read_exact(&mut said);
        let net = Net(Running(child));
        answer.expect("a pair of veth in a namespace; needs root, or namespaces of users");
        net
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.0.0.id().to_string();
        command
            .args([
                "-t",
                &pid,
                "-U",
                "-n",
                "-m",
                "--preserve-credentials",
                program,
            ])
            .env("PATH", PATH)
            .stdin(Stdio::null());
        command
    }

    pub fn start(&self, program: &str, args: &[&str], log: &Path) -> Running {
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.command(program);
        command
            .args(args)
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Running(command.spawn().expect("it starts; tests/deps installs it"))
    }

    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().unwrap()
    }

    /// One look at the node below `root`.
    pub fn look(&self, root: &Path) -> Said {
        self.look_with(root, "--set=agent.state_dir=")
    }

    fn look_with(&self, root: &Path, state: &str) -> Said {
        let root = root.to_str().unwrap();
        // A read that waits for a busy machine does not hang.
        let patient = "--set=intervals.deadline=1m";
        let args = ["check", "-o", "json", "--host-root", root, state, patient];
        let output = self.run(env!("CARGO_BIN_EXE_selvage"), &args);
        let json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Said(json)
    }
}

pub const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

pub struct Said(pub Value);

impl Said {
    /// The rail's port; nothing before the first enumeration.
    pub fn port(&self) -> &Value {
        let mut ports = self.0["ports"].as_array().unwrap().iter();
        ports
            .find(|port| port["netdev"] == IF)
            .unwrap_or(&Value::Null)
    }

    /// Of the rail: `authorized`, PAE and EAP state.
    pub fn dot1x(&self) -> String {
        let told = &self.port()["dot1x"];
        match told["authorized"].as_bool() {
            Some(authorized) => format!(
                "{authorized} {} {}",
                told["pae_state"].as_str().unwrap_or("-"),
                told["eap_state"].as_str().unwrap_or("-")
            ),
            None => "nothing".into(),
        }
    }

    pub fn findings(&self) -> Vec<&Value> {
        self.0["findings"].as_array().unwrap().iter().collect()
    }

    /// `subject reason status weight` of each finding of the check `link_state`.
    pub fn told(&self) -> Vec<String> {
        let word = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_string();
        (self.findings().into_iter())
            .filter(|finding| finding["check"] == "link_state")
            .map(|f| {
                ["subject", "reason", "status", "weight"]
                    .map(|name| word(f, name))
                    .join(" ")
            })
            .collect()
    }

    /// What is said of the source.
    pub fn source(&self) -> &Value {
        let mut sources = self.0["sources"].as_array().unwrap().iter();
        sources.find(|source| source["source"] == "dot1x").unwrap()
    }
}

/// A node with one rail that authenticates at a switch.
pub struct Bench {
    pub supplicant: Running,
    _switch: Running,
    pub net: Net,
    pub dir: tempfile::TempDir,
    pub node: selvage::simulate::Node,
    pub files: tempfile::TempDir,
}

impl Bench {
    /// The switch asks anew each three seconds and knows one password.
    pub fn new(password: &str) -> Bench {
        let net = Net::new();
        let (dir, node) = node("h100_roce");
        let files = scratch();
        let at = |name: &str| files.path().join(name);
        let text = |path: &PathBuf| path.to_str().unwrap().to_string();
        std::fs::write(at("users"), "\"node\" MD5 \"right\"\n").unwrap();
        std::fs::write(
            at("switch.conf"),
            format!(
                "interface=vswitch\ndriver=wired\nieee8021x=1\neap_server=1\neap_user_file={}\neap_reauth_period=3\nuse_pae_group_addr=1\n",
                text(&at("users"))
            ),
        )
        .unwrap();
        let sockets = dir.path().join("run/wpa_supplicant");
        std::fs::create_dir_all(&sockets).unwrap();
        std::fs::write(
            at("node.conf"),
            format!(
                "ctrl_interface={}\nap_scan=0\nnetwork={{\n key_mgmt=IEEE8021X\n eap=MD5\n identity=\"node\"\n password=\"{password}\"\n eapol_flags=0\n}}\n",
                text(&sockets)
            ),
        )
        .unwrap();
        let switch = net.start("hostapd", &[&text(&at("switch.conf"))], &at("switch.log"));
        let args = ["-D", "wired", "-i", IF, "-c", &text(&at("node.conf"))];
        let supplicant = net.start("wpa_supplicant", &args, &at("node.log"));
        Bench {
            supplicant,
            _switch: switch,
            net,
            dir,
            node,
            files,
        }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// What the other seven rails' supplicants say: recorded.
    pub fn others_are_authorized(&self) {
        for name in ["24", "64", "79", "154", "192", "206", "220"] {
            let path = self
                .root()
                .join(format!("run/wpa_supplicant/enp{name}s0np0"));
            std::fs::write(path, AUTHORIZED).unwrap();
        }
    }

    pub fn look(&self) -> Said {
        self.net.look(self.root())
    }

    /// The same, remembering what the agent wrote down.
    pub fn look_with(&self, state: &str) -> Said {
        self.net.look_with(self.root(), state)
    }

    /// The agent on the node, within its network.
    pub fn agent(&self, args: &[&str]) -> Agent<'_> {
        let root = self.root().to_str().unwrap();
        let listen = format!("--listen=127.0.0.1:{PORT}");
        let own = ["agent", "--host-root", root, &listen, "--node-name=node-1"];
        let log = self.files.path().join("agent.log");
        let program = env!("CARGO_BIN_EXE_selvage");
        let running = self.net.start(program, &[&own, args].concat(), &log);
        Agent {
            running,
            bench: self,
        }
    }

    /// Looks until the rail's 802.1X state is that.
    pub fn until(&self, want: &str) -> Said {
        self.until_seen(want, || self.look())
    }

    /// The same by another look: a supplicant that has no processor does not answer in time.
    pub fn until_seen(&self, want: &str, look: impl Fn() -> Said) -> Said {
        let begin = Instant::now();
        loop {
            let said = look();
            if said.dot1x() == want {
                return said;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{want} does not come, but {}: {}{}",
                said.dot1x(),
                std::fs::read_to_string(self.files.path().join("switch.log")).unwrap(),
                std::fs::read_to_string(self.files.path().join("node.log")).unwrap()
            );
        }
    }

    pub fn control(&self, args: &[&str]) {
        let sockets = self.root().join("run/wpa_supplicant");
        let args = [&["-p", sockets.to_str().unwrap(), "-i", IF], args].concat();
        let output = self.net.run("wpa_cli", &args);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.trim(), "OK", "{args:?}");
    }
}

/// A port of the network of its own.
const PORT: u16 = 9949;

/// The agent, running.
pub struct Agent<'a> {
    running: Running,
    bench: &'a Bench,
}

impl Agent<'_> {
    /// Its report, until it is as wanted.
    pub fn until(&self, want: impl Fn(&Said) -> bool) -> Said {
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{PORT}; printf 'GET /report HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        );
        let begin = Instant::now();
        loop {
            let output = self.bench.net.run("bash", &["-euc", &ask]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
            let json = body.and_then(|body| serde_json::from_str(body).ok());
            match json.map(Said) {
                Some(said) if want(&said) => return said,
                said => assert!(
                    begin.elapsed() < PATIENCE,
                    "{} {}",
                    said.map(|said| said.0.to_string()).unwrap_or(text),
                    std::fs::read_to_string(self.bench.files.path().join("agent.log")).unwrap()
                ),
            }
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(&mut self) {
        self.running.signal(nix::sys::signal::Signal::SIGTERM);
        assert!(self.running.0.wait().unwrap().success());
    }
}
