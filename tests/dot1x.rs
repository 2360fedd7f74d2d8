//! 802.1X for real: hostapd as the switch and wpa_supplicant on the node, at the two ends of a pair
//! of virtual Ethernet devices in a network namespace of their own, and the program that asks.
//! What the machine does not allow fails the test; nothing is skipped.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

mod support;

use selvage::simulate::Act;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{node, scratch};

/// The rail that authenticates, of the node `h100_roce`, and its interface.
const RAIL: &str = "mlx5_3/1";
const IF: &str = "enp94s0np0";

/// Longest wait for what takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a supplicant says of a port that is let in.
const AUTHORIZED: &str = "key_mgmt=IEEE 802.1X (no WPA)\nwpa_state=COMPLETED\nSupplicant PAE state=AUTHENTICATED\nsuppPortStatus=Authorized\nEAP state=SUCCESS\n";

/// A program that ends with the test, by its own process id.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

/// A user, network and mount namespace with the pair in it.
struct Net(Running);

impl Net {
    fn new() -> Net {
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

    fn command(&self, program: &str) -> Command {
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

    fn start(&self, program: &str, args: &[&str], log: &Path) -> Running {
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.command(program);
        command
            .args(args)
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Running(command.spawn().expect("it starts; tests/deps installs it"))
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().unwrap()
    }

    /// One look at the node below `root`.
    fn look(&self, root: &Path) -> Said {
        let root = root.to_str().unwrap();
        let args = ["check", "-o", "json", "--host-root", root, "--state-dir="];
        let output = self.run(env!("CARGO_BIN_EXE_selvage"), &args);
        let json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Said(json)
    }
}

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

struct Said(Value);

impl Said {
    fn port(&self) -> &Value {
        let mut ports = self.0["ports"].as_array().unwrap().iter();
        ports
            .find(|port| port["netdev"] == IF)
            .expect("the node has the interface")
    }

    /// Of the rail: `authorized`, PAE and EAP state.
    fn dot1x(&self) -> String {
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

    fn findings(&self) -> Vec<&Value> {
        self.0["findings"].as_array().unwrap().iter().collect()
    }

    /// `subject reason status weight` of each finding of the check `link_state`.
    fn told(&self) -> Vec<String> {
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
    fn source(&self) -> &Value {
        let mut sources = self.0["sources"].as_array().unwrap().iter();
        sources.find(|source| source["source"] == "dot1x").unwrap()
    }
}

/// A node with one rail that authenticates at a switch.
struct Bench {
    supplicant: Running,
    _switch: Running,
    net: Net,
    dir: tempfile::TempDir,
    node: selvage::simulate::Node,
    files: tempfile::TempDir,
}

impl Bench {
    /// The switch asks anew each three seconds and knows one password.
    fn new(password: &str) -> Bench {
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

    fn root(&self) -> &Path {
        self.dir.path()
    }

    /// What the other seven rails' supplicants say: recorded.
    fn others_are_authorized(&self) {
        for name in ["24", "64", "79", "154", "192", "206", "220"] {
            let path = self
                .root()
                .join(format!("run/wpa_supplicant/enp{name}s0np0"));
            std::fs::write(path, AUTHORIZED).unwrap();
        }
    }

    fn look(&self) -> Said {
        self.net.look(self.root())
    }

    /// Looks until the rail's 802.1X state is that.
    fn until(&self, want: &str) -> Said {
        let begin = Instant::now();
        loop {
            let said = self.look();
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

    fn control(&self, args: &[&str]) {
        let sockets = self.root().join("run/wpa_supplicant");
        let args = [&["-p", sockets.to_str().unwrap(), "-i", IF], args].concat();
        let output = self.net.run("wpa_cli", &args);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.trim(), "OK", "{args:?}");
    }
}

fn link(up: bool) -> Act {
    Act::Link {
        device: "mlx5_3".into(),
        port: 1,
        up,
    }
}

const FAILING: &str = "mlx5_3/1 PortNotAuthenticated failing verdict";
const NOTICE: &str = "mlx5_3/1 PortNotAuthenticated degraded notice";

#[test]
fn let_in_and_shut_out_later() {
    let mut bench = Bench::new("right");
    bench.others_are_authorized();
    let said = bench.until("true AUTHENTICATED SUCCESS");
    assert_eq!(said.port()["dot1x"]["method"], "4 (EAP-MD5)");
    assert_eq!(said.told(), Vec::<String>::new());
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    let source = said.source();
    assert!(
        source["up"] == true && source["absent"] == false,
        "{source}"
    );

    // For people.
    let text = bench.net.run(
        env!("CARGO_BIN_EXE_selvage"),
        &[
            "check",
            "--host-root",
            bench.root().to_str().unwrap(),
            "--state-dir=",
        ],
    );
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("802.1X: 8 of 8 authorized"), "{text}");

    // The credential goes bad; the switch asks anew and refuses it. The link stays up.
    bench.control(&["set_network", "0", "password", "\"wrong\""]);
    let said = bench.until("false HELD FAILURE");
    assert_eq!(said.told(), [FAILING]);
    assert_eq!(said.0["state"], "unready");
    let finding = said.findings()[0];
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains(IF) && message.contains("EAP FAILURE"),
        "{message}"
    );
    assert_eq!(
        finding["evidence"]["evidence"],
        "rails like it are authorized"
    );
    assert_eq!(said.port()["state"], "active");

    // The supplicant hangs: nothing is known of the port, within the deadline, and all else is.
    bench.supplicant.signal(nix::sys::signal::Signal::SIGSTOP);
    let begin = Instant::now();
    let said = bench.look();
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(said.dot1x(), "nothing");
    assert_eq!(said.told(), Vec::<String>::new());
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    let detail = said.source()["detail"].as_str().unwrap();
    assert!(detail.contains("does not answer"), "{detail}");
    let of_others = said.0["ports"].as_array().unwrap().iter();
    let answered = of_others.filter(|port| port["dot1x"]["authorized"] == true);
    assert_eq!(answered.count(), 7);
    bench.supplicant.signal(nix::sys::signal::Signal::SIGCONT);
    bench.until("false HELD FAILURE");

    // The switch takes the link, too: that is the finding, and it names the cause.
    bench.node.act(&link(false)).unwrap();
    let said = bench.look();
    assert_eq!(said.told(), ["mlx5_3/1 LinkDown failing verdict"]);
    let finding = said.findings()[0];
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.contains("refused its 802.1X authentication"),
        "{message}"
    );
    assert_eq!(
        finding["evidence"]["dot1x"],
        "not authorized (PAE HELD, EAP FAILURE)"
    );

    // Mended.
    bench.node.act(&link(true)).unwrap();
    bench.control(&["set_network", "0", "password", "\"right\""]);
    bench.control(&["reassociate"]);
    let said = bench.until("true AUTHENTICATED SUCCESS");
    assert_eq!(said.told(), Vec::<String>::new());
}

#[test]
fn never_let_in() {
    let bench = Bench::new("wrong");
    // Alone it moves no verdict: the switch may ask nobody.
    let said = bench.until("false HELD FAILURE");
    assert_eq!(said.told(), [NOTICE]);
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    bench.others_are_authorized();
    let said = bench.look();
    assert_eq!(said.told(), [FAILING]);
    assert_eq!(said.findings()[0]["subject"], RAIL);

    // A capture holds the words and replays, without the addresses.
    let capture = bench.files.path().join("capture");
    let (root, to) = (bench.root().to_str().unwrap(), capture.to_str().unwrap());
    let output = bench.net.run(
        env!("CARGO_BIN_EXE_selvage"),
        &["capture", to, "--host-root", root],
    );
    assert!(output.status.success(), "{output:?}");
    let kept = std::fs::read_to_string(capture.join(format!("run/wpa_supplicant/{IF}"))).unwrap();
    assert!(kept.contains("suppPortStatus=Unauthorized"), "{kept}");
    assert!(
        !kept.contains("address") && !kept.contains("uuid"),
        "{kept}"
    );
    assert_eq!(bench.net.look(&capture).told(), [FAILING]);

    // The supplicant is killed: its socket stays, and tells nothing.
    let Bench {
        supplicant,
        net,
        dir,
        ..
    } = bench;
    drop(supplicant);
    let said = net.look(dir.path());
    assert_eq!(said.dot1x(), "nothing");
    assert_eq!(said.told(), Vec::<String>::new());
    let detail = said.source()["detail"].as_str().unwrap();
    assert!(detail.contains("no supplicant listens"), "{detail}");
}

#[test]
fn through_a_mount_as_in_a_pod() {
    let bench = Bench::new("right");
    bench.until("true AUTHENTICATED SUCCESS");
    let sockets = bench.root().join("run/wpa_supplicant");
    let (other, _node) = node("h100_roce");
    let mounted = other.path().join("run/wpa_supplicant");
    std::fs::create_dir_all(&mounted).unwrap();
    let (from, to) = (sockets.to_str().unwrap(), mounted.to_str().unwrap());
    let script = format!("mount --bind {from} {to}; mount -o remount,bind,ro {to}; ! touch {to}/x");
    let output = bench.net.run("sh", &["-euc", &script]);
    assert!(output.status.success(), "{output:?}");
    let said = bench.net.look(other.path());
    assert_eq!(said.dot1x(), "true AUTHENTICATED SUCCESS");

    // The last supplicant to end takes the directory with it: the mount is of nothing any more.
    bench.control(&["terminate"]);
    let begin = Instant::now();
    while sockets.exists() {
        assert!(
            begin.elapsed() < PATIENCE,
            "wpa_supplicant leaves its directory"
        );
        std::thread::yield_now();
    }
    let said = bench.net.look(other.path());
    assert_eq!(said.dot1x(), "nothing");
    let detail = said.source()["detail"].as_str().unwrap();
    assert!(detail.contains("removed since it was mounted"), "{detail}");
    assert_eq!(said.0["state"], "ready", "{}", said.0["findings"]);
    // Where it really is, it is merely not there.
    let said = bench.net.look(bench.root());
    assert_eq!(said.source()["absent"], true);
}
