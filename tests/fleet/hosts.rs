//! Simulated nodes: two InfiniBand rails and two GPUs each.

use crate::support::scratch;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use selvage::simulate::{Change, Node, NodeFiles, preset};
use selvage::units::Bdf;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The trees of a fleet, with what else the agents need on disk.
pub struct Hosts {
    dir: tempfile::TempDir,
    nodes: Vec<Node>,
    /// Those whose rails are down.
    down: BTreeSet<usize>,
    /// Ends of the pipes that stand for the kernel's logs: a file would be read
    /// twenty times a second by each agent.
    _logs: Vec<File>,
}

impl Hosts {
    pub fn new(count: usize) -> Self {
        let dir = scratch();
        let spec = small();
        let mut nodes = Vec::new();
        let mut logs = Vec::new();
        for index in 0..count {
            let root = dir.path().join(format!("{index}"));
            nodes.push(Node::write(spec.clone(), &root).expect("a node is written"));
            let kmsg = root.join("dev/kmsg");
            std::fs::remove_file(&kmsg).expect("a log");
            mkfifo(&kmsg, Mode::S_IRWXU).expect("a pipe");
            let end = File::options().read(true).write(true).open(&kmsg);
            logs.push(end.expect("the pipe"));
        }
        Hosts {
            dir,
            nodes,
            down: BTreeSet::new(),
            _logs: logs,
        }
    }

    pub fn root(&self, index: usize) -> &Path {
        self.nodes[index].root()
    }

    /// What this node's agent remembers over a crash.
    pub fn state(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("state-{index}"))
    }

    /// Nodes whose rails are down.
    pub fn down(&self) -> Vec<usize> {
        self.down.iter().copied().collect()
    }

    /// All rails of these nodes fall or come back.
    pub fn links(&mut self, nodes: impl IntoIterator<Item = usize>, up: bool) {
        for index in nodes {
            match up {
                true => self.down.remove(&index),
                false => self.down.insert(index),
            };
            let node = &mut self.nodes[index];
            let devices = node.spec().rdma.iter().map(|device| device.name.clone());
            let events = devices.map(|device| Change::Link { device, up });
            node.apply(&Change::All(events.collect()))
                .expect("links change");
        }
    }
}

/// Counters that a rail of the fleet has: an agent keeps each open, and here all agents share one
/// process's descriptors.
const COUNTERS: [&str; 4] = [
    "link_downed",
    "port_rcv_data",
    "port_xmit_data",
    "symbol_error",
];

/// A machine with two rails and two GPUs.
fn small() -> NodeFiles {
    let mut spec = preset("h100_ib").expect("the preset");
    // No machine of a known shape: a DGX has eight GPUs.
    spec.dmi = ("Supermicro".into(), "SYS-420GP-TNR".into());
    let rails = ["mlx5_0", "mlx5_3"];
    spec.rdma
        .retain(|device| rails.contains(&device.name.as_str()));
    for port in spec.rdma.iter_mut().flat_map(|device| &mut device.ports) {
        let counters = port.pma.iter_mut();
        counters.for_each(|all| all.retain(|name, _| COUNTERS.contains(&name.as_str())));
        port.hw = None;
    }
    spec.gpus.truncate(2);
    let keep: BTreeSet<String> = spec
        .rdma
        .iter()
        .flat_map(|device| &device.ports)
        .filter_map(|port| port.netdev.clone())
        .chain(spec.default_route.clone())
        .collect();
    spec.netdevs.retain(|netdev| keep.contains(&netdev.name));
    let ends = spec.rdma.iter().map(|device| device.pci);
    let ends = ends.chain(spec.gpus.iter().map(|gpu| gpu.bdf));
    let ends = ends.chain(spec.netdevs.iter().filter_map(|netdev| netdev.pci));
    let mut keep: BTreeSet<String> = BTreeSet::new();
    for end in ends {
        let mut at: Option<Bdf> = Some(end);
        while let Some(bdf) = at {
            keep.insert(bdf.to_string());
            at = spec.pci.get(&bdf.to_string()).and_then(|pci| pci.parent);
        }
    }
    spec.pci.retain(|bdf, _| keep.contains(bdf));
    assert_eq!(spec.rdma.len(), 2);
    spec
}
