//! What a history keeps over a restart of the agent.

use super::{DeviceHistory, History, PortHistory, SeenGpu, Tracks, counted::tracks_to_keep};
use crate::observe::{PortState, SeenFabric, Track, kernel_log::KernelLog, remembered::Remembered};
use crate::units::{BitsPerSec, DeviceKey, Millis, PortKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Edges kept of a port: more than any limit of flaps asks for.
const MAX_KEPT_EDGES: usize = 32;

/// What is worth keeping over a restart of the agent, for the same boot only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Boot that it belongs to.
    pub boot_id: Option<String>,
    /// See [`History::watched_since`].
    pub watched_since: Option<Millis>,
    /// Ports that were active, with the best rate seen.
    pub ports: BTreeMap<PortKey, Option<BitsPerSec>>,
    /// Links' past: what flaps are judged by.
    pub links: BTreeMap<PortKey, KeptLink>,
    /// Devices by key, with name and ports.
    pub devices: BTreeMap<DeviceKey, (String, Vec<u32>)>,
    /// When devices appeared that were not there all the time: their links may train for a while.
    pub appearances: BTreeMap<DeviceKey, Vec<Millis>>,
    /// When devices came back.
    pub returned: BTreeMap<DeviceKey, Vec<Millis>>,
    /// What the devices are.
    pub fabric: BTreeMap<DeviceKey, SeenFabric>,
    /// PCI addresses of GPUs seen this boot.
    pub gpus: Vec<String>,
    /// The same of NICs that had no RDMA device.
    pub bare: BTreeSet<String>,
    /// What the kernel log said: the log itself is not read twice.
    pub kernel: KernelLog,
    /// AER totals by PCI address and severity.
    pub aer: BTreeMap<String, BTreeMap<String, Track>>,
    /// nvidia-fs errors, and what the kernel log lost.
    pub other: BTreeMap<String, Track>,
    /// The machine at its best, over reboots.
    pub remembered: Remembered,
}

/// What is kept of one port's link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLink {
    /// Its state and since when it is so.
    pub state: Option<(PortState, Millis)>,
    /// Its last edges with their moments, bounded.
    pub edges: Vec<(Millis, u64)>,
    /// Its counters as last read, and what they rose by of late.
    #[serde(default)]
    pub counters: Tracks,
    /// The same of its interface's statistics.
    #[serde(default)]
    pub statistics: (String, BTreeMap<String, Track>),
    /// It was authorized (802.1X) this boot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authorized: bool,
    /// It failed to authenticate while it was up, when last heard of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shut_out: bool,
}

impl Memory {
    /// Takes what counters count from another, to compare the rest: that changes with each sample of a busy
    /// node.
    pub fn take_counts_of(&mut self, other: &Memory) {
        self.aer.clone_from(&other.aer);
        self.other.clone_from(&other.other);
        for (key, link) in &mut self.links {
            let Some(other) = other.links.get(key) else {
                continue;
            };
            link.counters.clone_from(&other.counters);
            link.statistics.clone_from(&other.statistics);
        }
    }
}

/// Of the devices that have any.
fn times(
    devices: &BTreeMap<DeviceKey, DeviceHistory>,
    of: fn(&DeviceHistory) -> &Vec<Millis>,
) -> BTreeMap<DeviceKey, Vec<Millis>> {
    let times = (devices.iter()).map(|(key, seen)| (key.clone(), of(seen).clone()));
    times.filter(|(_, times)| !times.is_empty()).collect()
}

impl History {
    /// A history that starts from what an earlier run remembered. A memory of another boot is
    /// dropped at the first sample.
    pub fn restore(memory: Memory) -> Self {
        let mut history = History {
            boot_id: memory.boot_id,
            watched_since: memory.watched_since,
            fabric: memory.fabric,
            bare: memory.bare,
            kernel: memory.kernel,
            aer: memory.aer,
            other: memory.other,
            remembered: memory.remembered,
            ..History::default()
        };
        for (key, best_rate) in memory.ports {
            let port = history.ports.entry(key).or_default();
            port.ever_active = true;
            port.longest_up = Duration::MAX;
            port.best_rate = best_rate;
        }
        for (key, link) in memory.links {
            let (netdev, statistics) = link.statistics;
            if !netdev.is_empty() {
                history.netdevs.insert(netdev, statistics);
            }
            let port = history.ports.entry(key).or_default();
            port.state = link.state;
            port.moved = !link.edges.is_empty();
            port.ever_authorized = link.authorized;
            port.shut_out = link.shut_out;
            let edges = link.edges.len().saturating_sub(MAX_KEPT_EDGES);
            port.edges = link.edges.into_iter().skip(edges).collect();
            port.counters = link.counters;
        }
        for (key, (name, ports)) in memory.devices {
            let fabric = history.fabric.get(&key);
            let main_function = fabric.is_none_or(|seen| seen.device.function.is_whole());
            let device = DeviceHistory {
                appeared: (memory.appearances.get(&key).cloned()).unwrap_or_default(),
                returned: (memory.returned.get(&key).cloned()).unwrap_or_default(),
                name,
                ports,
                main_function,
                ..DeviceHistory::default()
            };
            history.devices.insert(key, device);
        }
        let gpus = memory.gpus.into_iter();
        history.gpus = gpus.map(|gpu| (gpu, SeenGpu::default())).collect();
        history
    }

    /// What to keep for the next run.
    pub fn memory(&self) -> Memory {
        let active = || self.ports.iter().filter(|(_, port)| port.ever_active);
        let device = |seen: &DeviceHistory| (seen.name.clone(), seen.ports.clone());
        let devices = self.devices.iter();
        Memory {
            boot_id: self.boot_id.clone(),
            watched_since: self.watched_since,
            ports: (active().map(|(key, port)| (key.clone(), port.best_rate))).collect(),
            links: (active().map(|(key, port)| (key.clone(), self.kept_link(key, port)))).collect(),
            appearances: times(&self.devices, |seen| &seen.appeared),
            returned: times(&self.devices, |seen| &seen.returned),
            devices: (devices.map(|(key, seen)| (key.clone(), device(seen)))).collect(),
            fabric: super::fabric::to_keep(&self.fabric),
            gpus: self.gpus.keys().cloned().collect(),
            bare: self.bare.clone(),
            kernel: self.kernel.to_keep(),
            aer: (self.aer.iter())
                .map(|(address, tracks)| (address.clone(), tracks_to_keep(tracks)))
                .filter(|(_, tracks)| !tracks.is_empty())
                .collect(),
            other: tracks_to_keep(&self.other),
            remembered: self.remembered.to_keep(),
        }
    }
    fn kept_link(&self, key: &PortKey, port: &PortHistory) -> KeptLink {
        let older = port.edges.len().saturating_sub(MAX_KEPT_EDGES);
        let statistics = || {
            let device = &self.fabric.get(&key.device)?.device;
            let known = device.ports.iter().find(|known| known.number == key.port)?;
            let name = known.netdev.clone()?;
            let tracks = tracks_to_keep(self.netdevs.get(&name)?);
            Some((name, tracks))
        };
        KeptLink {
            state: port.state,
            edges: port.edges.iter().skip(older).copied().collect(),
            counters: port.counters.to_keep(),
            statistics: statistics().unwrap_or_default(),
            authorized: port.ever_authorized,
            shut_out: port.shut_out,
        }
    }
}
