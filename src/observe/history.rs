//! What has been seen so far: a bounded memory of changes. Counter reset, wrap, saturation and
//! reboot are handled here and nowhere else; the first sample of anything is a baseline.

mod counted;
mod edges;
mod memory;
mod statistics;

pub use counted::Tracks;
pub use memory::{KeptLink, Memory};

use super::fabric::{self, SeenFabric};
use super::kernel_log::{KernelLog, keep_last};
use super::remembered::Remembered;
pub use super::totals::Totals;
use super::{
    Dot1xFacts, GpuDirectFacts, KernelEvent, Neighbor, PciFacts, PortState, RdmaDevice, RdmaPort,
    Snapshot, Stamped, Track, gives_away,
};
use crate::units::{BitsPerSec, DeviceKey, Millis, PortKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Name in [`History::other`] of the records that the kernel log overwrote before they were read.
pub const KERNEL_LOG_LOST: &str = "kernel_log lost";

/// Devices remembered, as long as that many are not there at once: virtual functions and software
/// devices come and go with pods.
const MAX_DEVICES: usize = 512;

/// Appearances of a device that are kept.
const MAX_APPEARANCES: usize = 16;

/// How long a device that came back may take to have its name.
const SETTLES: Duration = Duration::from_secs(30);

/// How long a missing device or GPU may still come back: longer than resets and driver reloads take.
const AWAITED: Duration = Duration::from_secs(600);

/// Most interfaces of a port whose first neighbor is remembered: a bond's legs, which may be renamed.
const MAX_CABLES: usize = 64;

/// Everything remembered between samples.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Boot that this history belongs to.
    pub boot_id: Option<String>,
    /// First sample of this run.
    pub started: Option<Millis>,
    /// When the first run of this boot judged the node for the first time: what it found then may be old.
    pub watched_since: Option<Millis>,
    /// Ports ever seen this boot.
    pub ports: BTreeMap<PortKey, PortHistory>,
    /// Devices ever seen this boot.
    pub devices: BTreeMap<DeviceKey, DeviceHistory>,
    /// What those devices are, kept while they are gone.
    pub fabric: BTreeMap<DeviceKey, SeenFabric>,
    /// GPUs ever seen this boot, by PCI address.
    pub gpus: BTreeMap<String, SeenGpu>,
    /// NICs that were on the bus without an RDMA device this boot, by PCI address; bounded.
    pub bare: BTreeSet<String>,
    /// Statistics of network devices: `carrier_changes`, and of ethtool under the names that
    /// [`EthtoolFacts::counts`](super::netdev::EthtoolFacts::counts) has.
    pub netdevs: BTreeMap<String, BTreeMap<String, Track>>,
    /// AER totals by PCI address and severity, those that a function has.
    pub aer: BTreeMap<String, BTreeMap<String, Track>>,
    /// nvidia-fs errors by `nvidia_fs NAME`, and what the kernel log lost.
    pub other: BTreeMap<String, Track>,
    /// What the kernel log said this boot.
    pub kernel: KernelLog,
    /// The same without what was restored, until the first sample tells whether that is of this boot.
    kernel_of_this_run: KernelLog,
    /// Counts since the agent started, exported as counters.
    pub totals: Totals,
    /// The machine at its best, over reboots.
    pub remembered: Remembered,
    /// When NVIDIA's module was last seen not to be loaded, until it is again.
    driver_gone: Option<Millis>,
    enumerated_at: Option<Millis>,
    pci_at: Option<Millis>,
    /// When each interface's statistics were last read.
    pub(crate) ethtool_at: BTreeMap<String, Millis>,
}

/// What the history holds of one port.
#[derive(Debug, Clone, Default)]
pub struct PortHistory {
    /// Active at some moment of this boot (remembered over restarts of the agent).
    pub ever_active: bool,
    /// Its supplicant called it authorized (802.1X) at some moment of this boot.
    pub ever_authorized: bool,
    /// Its supplicant failed to authenticate while the link was up, and has not succeeded since.
    pub shut_out: bool,
    /// What was first seen at the other end of its cable since the agent started, by interface: a
    /// bond has a cable at each leg.
    pub first_neighbors: BTreeMap<String, Neighbor>,
    /// Best rate seen while active, this boot.
    pub best_rate: Option<BitsPerSec>,
    /// The longest stretch that it stayed up before it fell.
    pub longest_up: Duration,
    /// State at the last sample, and since when it has been so.
    pub state: Option<(PortState, Millis)>,
    /// LID while active, 0 left out.
    pub lid: LastChange,
    /// LID of its subnet manager while active, 0 left out.
    pub sm_lid: LastChange,
    /// Link edges (up or down, each counts one) with their moments.
    pub edges: VecDeque<(Millis, u64)>,
    /// Tracked counters of the port, by name.
    pub counters: Tracks,
    /// Its state changed while the agent looked, or before a restart of it.
    pub moved: bool,
    /// Falls that polls saw since `link_downed` last rose.
    polled_downs: u64,
    /// The last sample of `link_downed` did not count them.
    uncounted: bool,
    /// When `link_downed` reported falls that no poll had seen, until the next poll.
    counted_ahead: Option<Millis>,
    /// The rise that ends a fall counted ahead is counted, too.
    rise_counted: bool,
    counted_at: Option<Millis>,
}

impl PortHistory {
    fn push_dot1x(&mut self, facts: &Dot1xFacts) {
        // One that is set up to do nothing calls itself authorized, too.
        self.ever_authorized |= facts.tries() && facts.authorized == Some(true);
        match facts.authorized {
            Some(true) => self.shut_out = false,
            Some(false) if facts.failed() => {
                self.shut_out |= self.state.is_some_and(|(state, _)| state.is_up());
            }
            _ => {}
        }
    }
}

/// A number that seldom changes, and its last change.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastChange {
    now: Option<u32>,
    /// When it was last seen to be another than before, and what it was.
    pub changed: Option<(Millis, u32)>,
}

impl LastChange {
    fn push(&mut self, value: Option<u32>, at: Millis) {
        let Some(value) = value.filter(|value| *value != 0) else {
            return;
        };
        if let Some(before) = self.now.replace(value).filter(|before| *before != value) {
            self.changed = Some((at, before));
        }
    }
}

/// A device seen this boot.
#[derive(Debug, Clone, Default)]
pub struct DeviceHistory {
    /// When it appeared, and came back, after the first enumeration: the last of these times.
    pub appeared: Vec<Millis>,
    /// When it was registered again: it left and came back. The last of these times.
    pub returned: Vec<Millis>,
    /// The kernel's index of it, which changes then, and neither with a rename nor a move to another
    /// network namespace.
    pub index: Option<u32>,
    /// Device name when it was last seen; renames keep the key.
    pub name: String,
    /// Port numbers that the device had when last seen.
    pub ports: Vec<u32>,
    /// Enumerations in a row that did not show it.
    pub missed: u32,
    /// The first enumeration of those; none while it is there.
    pub gone_since: Option<Millis>,
    /// No function of another device that is there: forgotten last.
    pub main_function: bool,
}

/// A GPU seen this boot.
#[derive(Debug, Clone, Default)]
pub struct SeenGpu {
    /// PCI scans in a row that did not show it.
    pub missed: u32,
    /// The first scan of those; none while it is there.
    pub gone_since: Option<Millis>,
}

impl History {
    /// Adds a snapshot. Parts whose stamp has not moved since the last call change nothing, so
    /// that a snapshot may be pushed as often as one likes.
    pub fn push(&mut self, snapshot: &Snapshot) {
        self.begin_boot(snapshot.boot_id.as_deref());
        if self.started.is_none() {
            self.started = Some(snapshot.at);
            self.kernel_of_this_run = KernelLog::default();
        }
        self.push_devices(snapshot);
        fabric::remember(&mut self.fabric, snapshot);
        self.push_netdevs(snapshot);
        self.push_links(snapshot);
        self.push_heard(snapshot);
        self.push_counters(snapshot);
        self.push_pci(snapshot);
        let at = snapshot.at;
        let track = self.other.entry(KERNEL_LOG_LOST.into()).or_default();
        if track.value().is_none() {
            // What was lost before the first snapshot was lost in this run, too.
            track.push(at.minus(Duration::from_millis(1)), 0);
        }
        track.push(at, self.totals.kmsg_records_lost);
    }

    /// Drops what belongs to another boot: a reboot resets every counter and every memory. Called
    /// by [`History::push`]; call it before the first event of a boot, too.
    pub fn begin_boot(&mut self, boot_id: Option<&str>) {
        if boot_id.is_none() || self.boot_id.as_deref() == boot_id {
            return;
        }
        // What the kernel log said before the first snapshot is of this boot; what was restored is
        // not.
        let before = std::mem::take(self);
        let totals = (before.started.is_none()).then_some(before.totals);
        *self = History {
            boot_id: boot_id.map(Into::into),
            kernel: before.kernel_of_this_run,
            totals: totals.unwrap_or_default(),
            remembered: before.remembered,
            ..History::default()
        };
    }

    /// Forgets what was better than it is now: rates, links that were up, devices and GPUs that are gone.
    pub fn forget_best(&mut self) {
        self.remembered.forget();
        for port in self.ports.values_mut() {
            port.best_rate = None;
            port.first_neighbors.clear();
            port.ever_active = port.state.is_some_and(|(state, _)| state.is_up());
        }
        self.devices.retain(|_, device| device.missed == 0);
        self.fabric.retain(|key, _| self.devices.contains_key(key));
        self.gpus.retain(|_, gpu| gpu.missed == 0);
    }

    /// Adds an event of the kernel log `at` a moment. `historic`: it was in the log already when
    /// the agent began to read.
    pub fn push_event(&mut self, at: Millis, historic: bool, event: &KernelEvent) {
        self.kernel.push(at, historic, event, &mut self.totals);
        if self.started.is_none() {
            let uncounted = &mut Totals::default();
            (self.kernel_of_this_run).push(at, historic, event, uncounted);
        }
    }

    /// Whether more samples are awaited: to compare a fall that `link_downed` reported with the next
    /// poll, or because a device or GPU is missing and may yet come back.
    pub fn awaits_sample(&self, now: Millis) -> bool {
        let awaited = |missed: u32, since: Option<Millis>| {
            missed > 0 && since.is_none_or(|since| now.since(since) < AWAITED)
        };
        let mut devices = self.devices.values();
        let mut gpus = self.gpus.values();
        self.ports.values().any(|port| port.counted_ahead.is_some())
            || devices.any(|device| awaited(device.missed, device.gone_since))
            || gpus.any(|gpu| awaited(gpu.missed, gpu.gone_since))
    }

    /// What each port's supplicant says (802.1X), and what is at the other ends of its cables.
    fn push_heard(&mut self, snapshot: &Snapshot) {
        if snapshot.dot1x.is_empty() && snapshot.lldp.is_empty() && snapshot.umad.is_empty() {
            return;
        }
        for (device, port) in ports_of(snapshot) {
            let (key, netdev) = (device.port_key(port.number), port.netdev.as_deref());
            let Some(history) = self.ports.get_mut(&key) else {
                continue;
            };
            let first = &mut history.first_neighbors;
            for (interface, neighbor) in snapshot.neighbors(&key, netdev) {
                if first.len() < MAX_CABLES && !first.contains_key(interface) {
                    first.insert(interface.to_string(), neighbor.clone());
                }
            }
            let told = netdev.and_then(|name| snapshot.dot1x.get(name));
            if let Some(facts) = told.and_then(|told| told.value.value()) {
                history.push_dot1x(facts);
            }
        }
    }

    fn push_devices(&mut self, snapshot: &Snapshot) {
        let Some(devices) = &snapshot.devices else {
            return;
        };
        if self.enumerated_at == Some(devices.at) {
            return;
        }
        let first = self.enumerated_at.replace(devices.at).is_none();
        for seen in self.devices.values_mut() {
            seen.missed = seen.missed.saturating_add(1);
            seen.gone_since.get_or_insert(devices.at);
        }
        for device in devices.value.iter() {
            let is_new = !self.devices.contains_key(&device.key);
            let seen = self.devices.entry(device.key.clone()).or_default();
            if is_new || seen.missed > 1 {
                if !first {
                    keep_last(&mut seen.appeared, devices.at, MAX_APPEARANCES);
                }
                // Its links begin again, too.
                for port in &device.ports {
                    if let Some(port) = self.ports.get_mut(&device.port_key(port.number)) {
                        (port.state, port.longest_up) = (None, Duration::ZERO);
                        port.counters.rebase();
                        (port.polled_downs, port.counted_ahead) = (0, None);
                        port.rise_counted = false;
                    }
                }
            }
            let is_again = match (seen.index, device.index) {
                (Some(before), Some(now)) => before != now,
                _ => seen.missed > 1,
            };
            // Names may change while a device settles: one that is missed then has not left again.
            let last = seen.returned.last().copied().unwrap_or_default();
            let pci = snapshot.pci.as_ref().map(|pci| &pci.value);
            let nic = pci.and_then(|pci| pci.bare.get(&device.key.0));
            let was_given = nic.is_some_and(|nic| gives_away(nic.driver.as_deref()));
            if is_again && devices.at.since(last) >= SETTLES && !was_given {
                keep_last(&mut seen.returned, devices.at, MAX_APPEARANCES);
            }
            (seen.missed, seen.gone_since) = (0, None);
            seen.index = device.index.or(seen.index);
            seen.name.clone_from(&device.name);
            seen.ports = device.ports.iter().map(|port| port.number).collect();
            seen.main_function = device.function.is_whole();
        }
        self.prune();
    }

    /// Forgets devices that are gone beyond the bound, with their ports: the longest gone first,
    /// and those that may be rails last.
    fn prune(&mut self) {
        let over = self.devices.len().saturating_sub(MAX_DEVICES);
        if over > 0 {
            let gone = self.devices.iter().filter(|(_, seen)| seen.missed > 0);
            let gone = gone.map(|(key, seen)| (seen.main_function, seen.gone_since, key.clone()));
            for (_, _, key) in BTreeSet::from_iter(gone).into_iter().take(over) {
                self.devices.remove(&key);
            }
        }
        // A port may have been read a moment after its device was forgotten, or be of no device
        // that was ever listed.
        if over > 0 || self.ports.len().max(self.totals.link_edges.len()) > 2 * MAX_DEVICES {
            let devices = &self.devices;
            let is_known = |key: &PortKey| devices.contains_key(&key.device);
            self.ports.retain(|key, _| is_known(key));
            self.totals.link_edges.retain(|key, _| is_known(key));
        }
    }

    /// Notes which GPUs of the log NVIDIA's driver has again since it was last loaded, and answer on the bus: that
    /// they are given away later changes nothing about what is over. A reboot that it asked for stands.
    fn push_reload(&mut self, pci: &Stamped<PciFacts>, facts: &Stamped<GpuDirectFacts>) {
        let loaded = self.kernel.driver_loaded.last;
        if self.kernel.driver_loaded.count == 0 || pci.at.min(facts.at) <= loaded {
            return;
        }
        for (slot, log) in &mut self.kernel.gpus {
            let gpu = pci.value.gpus.iter().find(|gpu| gpu.slot() == *slot);
            let answers = gpu.is_some_and(|gpu| pci.value.answers(gpu));
            if answers && facts.value.may_have(slot) && log.is_ended_by_reload(loaded) {
                log.take_back(loaded);
            }
        }
    }

    fn push_pci(&mut self, snapshot: &Snapshot) {
        if let Some(pci) = &snapshot.pci
            && self.pci_at != Some(pci.at)
        {
            self.pci_at = Some(pci.at);
            for seen in self.gpus.values_mut() {
                seen.missed = seen.missed.saturating_add(1);
                seen.gone_since.get_or_insert(pci.at);
            }
            let there = pci.value.gpus.iter().map(ToString::to_string);
            self.gpus.extend(there.map(|gpu| (gpu, SeenGpu::default())));
            let room = MAX_DEVICES.saturating_sub(self.bare.len());
            self.bare.extend(pci.value.bare.keys().take(room).cloned());
            for (address, function) in &pci.value.functions {
                for (severity, count) in &function.aer {
                    let tracks = self.aer.entry(address.clone()).or_default();
                    let track = tracks.entry((*severity).into()).or_default();
                    track.push(pci.at, *count);
                }
            }
        }
        let Some(facts) = &snapshot.gpudirect else {
            return;
        };
        if let Some(pci) = &snapshot.pci {
            self.push_reload(pci, facts);
        }
        if let Some(modules) = facts.value.modules.value() {
            let module = modules.get("nvidia");
            if module.is_none() {
                self.driver_gone = Some(facts.at);
            } else if module.is_some_and(|module| module.state.as_deref() == Some("live"))
                && let Some(gone) = self.driver_gone.take()
            {
                // What was said before it was gone is of the driver before.
                let before = gone.minus(Duration::from_millis(1));
                let text = "the module nvidia was gone and is loaded again";
                self.kernel.driver_loaded.push((before, false), text);
            }
        }
        if let Some(nvidia_fs) = facts.value.nvidia_fs.value() {
            for (name, value) in &nvidia_fs.errors {
                let track = self.other.entry(format!("nvidia_fs {name}")).or_default();
                track.push(facts.at, *value);
            }
        }
    }
}

/// A port of a snapshot with its device.
fn port_of<'a>(snapshot: &'a Snapshot, key: &PortKey) -> Option<(&'a RdmaDevice, &'a RdmaPort)> {
    ports_of(snapshot).find(|(device, port)| device.key == key.device && port.number == key.port)
}

/// All ports of a snapshot with their devices.
pub fn ports_of(snapshot: &Snapshot) -> impl Iterator<Item = (&RdmaDevice, &RdmaPort)> + '_ {
    let devices = (snapshot.devices.iter()).flat_map(|devices| devices.value.iter());
    devices.flat_map(|device| device.ports.iter().map(move |port| (device, port)))
}
