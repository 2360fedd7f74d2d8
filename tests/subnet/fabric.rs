//! A subnet of one leaf switch, eight rails and a subnet manager, simulated by ibsim and run by
//! opensm, in a network namespace of its own.

use crate::support::scratch;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The rails of the node `h100_ib`, in the order of their ports on the leaf.
pub const RAILS: [&str; 8] = [
    "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
];

/// What makes a program see a simulated node's ports below /sys/class/infiniband.
pub const PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/// What is copied of a port; its rate is not, as ibsim computes one of its own.
const FILES: [&str; 9] = [
    "state",
    "phys_state",
    "lid",
    "sm_lid",
    "lid_mask_count",
    "cap_mask",
    "pkeys/0",
    "pkeys/1",
    "pkeys/2",
];

/// Longest wait for a program to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port's files by name.
pub type Port = BTreeMap<&'static str, String>;

/// A program that ends with the test, by its own process id.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The subnet. Fields are dropped in order: the manager goes before the simulator, as it would
/// wait for its answers.
pub struct Fabric {
    manager: Option<Running>,
    simulator: Running,
    pub namespace: Running,
    files: tempfile::TempDir,
}

impl Fabric {
    pub fn new() -> Fabric {
        let mut namespace = Command::new("unshare")
            .args(["-Urn", "--kill-child", "sh", "-euc"])
            .arg("ip link set lo up; echo ready; exec sleep 600")
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut said = [0; 6];
        let answer = namespace.stdout.as_mut().unwrap().read_exact(&mut said);
        let namespace = Running(namespace);
        answer.expect("a network namespace; needs root, or namespaces of users");
        let files = scratch();
        for directory in ["cache", "clients"] {
            std::fs::create_dir(files.path().join(directory)).unwrap();
        }
        std::fs::write(files.path().join("net"), network()).unwrap();
        let mut ibsim = enter(&namespace, "ibsim");
        let log = std::fs::File::create(files.path().join("ibsim.log")).unwrap();
        ibsim.arg("-s").arg(files.path().join("net"));
        ibsim.stdin(Stdio::piped()).stdout(log.try_clone().unwrap());
        let simulator = Running(
            ibsim
                .stderr(log)
                .spawn()
                .expect("tests/deps installs ibsim"),
        );
        let fabric = Fabric {
            manager: None,
            simulator,
            namespace,
            files,
        };
        fabric.until("ibsim answers", || fabric.read(0).is_some());
        fabric
    }

    /// Starts opensm with these partitions and waits until it has set up the subnet.
    pub fn start_manager(&mut self, partitions: &str) {
        let at = |name: &str| self.files.path().join(name);
        std::fs::write(at("partitions"), partitions).unwrap();
        let log = at("opensm.log");
        let _ = std::fs::remove_file(&log);
        let mut opensm = self.client("Manager", "opensm");
        opensm.args(["-s", "1", "-P"]).arg(at("partitions"));
        opensm.arg("-f").arg(&log);
        let output = std::fs::File::create(at("opensm.out")).unwrap();
        opensm.stdout(output.try_clone().unwrap()).stderr(output);
        let started = opensm.spawn();
        self.manager = Some(Running(started.expect("tests/deps installs opensm")));
        for rail in 0..RAILS.len() {
            self.until_port(rail, "state", "4: ACTIVE");
        }
    }

    /// The same, with LIDs counted from `first`: takes effect on ports that were reset.
    pub fn start_manager_with_lids(&mut self, partitions: &str, first: u16) {
        let lines = (0_u16..=8).map(|i| {
            let (guid, lid) = (guid(i.into()), first + i);
            format!("{guid:#018x} {lid:#06x} {lid:#06x}\n\n")
        });
        let table: String = lines.collect();
        std::fs::write(self.files.path().join("cache/guid2lid"), table).unwrap();
        self.start_manager(partitions);
    }

    pub fn stop_manager(&mut self) {
        self.manager = None;
    }

    /// As a reset of each port does: INIT, with LID 0.
    pub fn reset_ports(&mut self) {
        for rail in 0..RAILS.len() {
            self.say(&format!("Clear \"Rail{rail}\"\nReLink \"Rail{rail}\"\n"));
        }
        self.say("Clear \"Manager\"\nReLink \"Manager\"\n");
        self.until_port(0, "state", "2: INIT");
    }

    pub fn unlink(&self, rail: usize) {
        self.say(&format!("Unlink \"Rail{rail}\"[1]\n"));
        self.until_port(rail, "state", "1: DOWN");
    }

    pub fn relink(&self, rail: usize) {
        self.say(&format!("ReLink \"Rail{rail}\"[1]\n"));
    }

    /// Writes each simulated port's files over those of the node's rail.
    pub fn copy_to(&self, root: &Path) -> Vec<Port> {
        let ports: Vec<Port> = (0..RAILS.len())
            .map(|rail| self.read(rail).expect("ibsim answers"))
            .collect();
        for (device, port) in RAILS.iter().zip(&ports) {
            let directory = root.join(format!("sys/class/infiniband/{device}/ports/1"));
            for (name, text) in port {
                std::fs::write(directory.join(name), format!("{text}\n")).unwrap();
            }
        }
        ports
    }

    /// A rail's files as the simulator has them now. The library makes a tree when the program
    /// first opens one of them and removes it at its end, so each read is a program of its own.
    fn read(&self, rail: usize) -> Option<Port> {
        let at = |name| format!("/sys/class/infiniband/ibsim0/ports/1/{name}");
        let mut tail = self.client(&format!("Rail{rail}"), "timeout");
        tail.args(["10", "tail", "-n", "+1"]).args(FILES.map(at));
        let output = tail.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let port: Port = (FILES.into_iter())
            .filter_map(|name| {
                let (_, rest) = text.split_once(&format!("==> {} <==\n", at(name)))?;
                let value = rest.split("\n==> ").next()?;
                Some((name, value.trim().to_string()))
            })
            .collect();
        (port.len() == FILES.len()).then_some(port)
    }

    fn client(&self, node: &str, program: &str) -> Command {
        let mut command = enter(&self.namespace, program);
        let cache = self.files.path().join("cache");
        command
            .env("SIM_HOST", node)
            .env("LD_PRELOAD", PRELOAD)
            .env("OSM_CACHE_DIR", &cache)
            .env("OSM_TMP_DIR", &cache)
            .current_dir(self.files.path().join("clients"));
        command
    }

    /// A line for the simulator's console.
    fn say(&self, line: &str) {
        let mut console = self.simulator.0.stdin.as_ref().unwrap();
        console.write_all(line.as_bytes()).unwrap();
    }

    /// Waits until a rail's file says so.
    pub fn until_port(&self, rail: usize, file: &str, text: &str) {
        self.until(text, || {
            self.read(rail).is_some_and(|port| port[file] == text)
        });
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            let log = |name: &str| {
                let path = self.files.path().join(name);
                std::fs::read_to_string(path).unwrap_or_default()
            };
            assert!(
                begin.elapsed() < PATIENCE,
                "{what}: {}{}{}",
                log("ibsim.log"),
                log("opensm.out"),
                log("opensm.log")
            );
        }
    }
}

/// A program in the namespace, with no environment but its own.
pub fn enter(namespace: &Running, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    let pid = namespace.0.id().to_string();
    command
        .args(["-t", &pid, "-U", "-n", "--preserve-credentials", "--wd=."])
        .arg(program)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null());
    command
}

/// The simulator numbers ports' GUIDs in the order of the file: a port's is one above its node's.
pub fn guid(node: u64) -> u64 {
    0x0010_0001 + 2 * node
}

/// The network as ibsim reads it: each link stands at both of its ends.
fn network() -> String {
    let link = |from: usize, to: &str, port: usize, own: &str| {
        format!("[{from}] \"{to}\"[{port}] # {own}\"{to}\" lid 0 4xHDR\n")
    };
    let nodes: Vec<String> = (0..RAILS.len())
        .map(|rail| format!("Rail{rail}"))
        .chain(["Manager".to_string()])
        .collect();
    let mut text = String::from("Switch 12 \"Leaf\"\n");
    for (i, name) in nodes.iter().enumerate() {
        text += &link(i + 1, name, 1, "");
    }
    for (i, name) in nodes.iter().enumerate() {
        text += &format!("\nHca 1 \"{name}\"\n");
        text += &link(1, "Leaf", i + 1, "lid 0 lmc 0 ");
    }
    text
}
