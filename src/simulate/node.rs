//! A simulated node in a directory, and the events that change it.

use super::spec::*;
use super::tree::{Tree, TreeWriter};
use super::{Change, counters, render};
use crate::observe::{CounterKind, PodFacts, pma_kind};
use crate::units::Bdf;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where raw kernel-log records are: the same bytes that reads of the device would return.
const KMSG: &str = "dev/kmsg";

/// Bytes of a record that no reader accepts: a file's line is read up to 64 KiB.
const TOO_LARGE: usize = 200_000;

/// A simulated node that is written to a directory.
#[derive(Debug)]
pub struct Node {
    writer: TreeWriter,
    spec: NodeFiles,
    pods: Vec<PodFacts>,
    processes: Vec<ProcessSpec>,
    /// The specification as it is in the directory, and what its parts consist of there.
    shown: NodeFiles,
    written: BTreeMap<String, Tree>,
    next_sequence: u64,
    last_micros: u64,
    /// Time since boot, for kernel-log records whose event names none.
    pub now_micros: u64,
}

impl Node {
    /// Writes the whole node below `root`.
    pub fn write(spec: NodeFiles, root: impl Into<PathBuf>) -> io::Result<Self> {
        let mut node = Node {
            writer: TreeWriter::new(root)?,
            spec,
            pods: Vec::new(),
            processes: Vec::new(),
            shown: NodeFiles::default(),
            written: BTreeMap::new(),
            next_sequence: 0,
            last_micros: 0,
            now_micros: 0,
        };
        node.sync()?;
        node.kmsg(6, 0, "Linux version 6.8.0-52-generic", None)?;
        Ok(node)
    }

    /// The node as it is now.
    pub fn spec(&self) -> &NodeFiles {
        &self.spec
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        self.writer.root()
    }

    /// Makes it another node: only files that differ are written.
    pub fn become_another(&mut self, spec: NodeFiles) -> io::Result<()> {
        if spec == self.shown {
            return Ok(());
        }
        self.spec = spec;
        self.shown = NodeFiles::default();
        // As one tree: a file of a part that goes may be another's that comes.
        let old = std::mem::take(&mut self.written).into_values().collect();
        let parts = self.parts();
        let new = parts.iter().map(|(_, tree)| tree.clone()).collect();
        self.written.extend(parts);
        self.writer.update(&old, &new)
    }

    /// The parts that differ from what is shown.
    fn parts(&mut self) -> Vec<(String, Tree)> {
        let mut parts = render::changed(&self.shown, &self.spec);
        let processes = render::processes(&self.spec, &self.processes);
        parts.push(("processes".into(), processes));
        self.shown = self.spec.clone();
        parts
    }

    /// Brings the files up to date with the specification.
    fn sync(&mut self) -> io::Result<()> {
        for (part, new) in self.parts() {
            let old = self.written.remove(&part).unwrap_or_default();
            self.writer.update(&old, &new)?;
            self.written.insert(part, new);
        }
        Ok(())
    }

    /// Applies one event.
    ///
    /// # Errors
    /// The event names something that the node does not have, or a file cannot be written.
    pub fn apply(&mut self, event: &Change) -> io::Result<()> {
        let missing = || {
            let what = format!("the simulated node lacks what an event names: {event:?}");
            io::Error::new(io::ErrorKind::NotFound, what)
        };
        match event {
            Change::All(events) => events.iter().try_for_each(|event| self.apply(event)),
            Change::Link { device, up } => {
                let log = self.link(device, *up).ok_or_else(missing)?;
                self.sync()?;
                log.map_or(Ok(()), |(bdf, text)| self.kmsg(6, 0, &text, Some(bdf)))
            }
            Change::Kmsg {
                priority,
                micros,
                text,
                device,
            } => self.kmsg(*priority, *micros, text, *device),
            Change::KmsgTooLarge => self.kmsg(4, 0, &"x".repeat(TOO_LARGE), None),
            Change::PodStarts(pod) => {
                self.pods.push(pod.as_ref().clone());
                self.writer.append(log_file(pod), "")
            }
            Change::PodPrints { uid, lines } => {
                // A busy machine may come to a line before its pod starts, or after it has ended.
                let mut pods = self.pods.iter().filter(|pod| pod.uid == *uid);
                pods.try_for_each(|pod| self.writer.append(log_file(pod), &framed(lines)))
            }
            Change::PodEnds(uid) => {
                for pod in self.pods.extract_if(.., |pod| pod.uid == *uid) {
                    self.writer.remove_all(&log_dir(&pod))?;
                }
                self.processes.retain(|process| process.pod != *uid);
                self.sync()
            }
            Change::Refuse { path, errno } => self.writer.refuse(path, *errno),
            // The cluster's.
            Change::PluginStops(_) => Ok(()),
            _ => {
                self.change(event).ok_or_else(missing)?;
                self.sync()
            }
        }
    }

    /// Changes the specification. `None`: the node does not have what the event names.
    fn change(&mut self, event: &Change) -> Option<()> {
        let spec = &mut self.spec;
        match event {
            Change::Rate {
                device,
                rate,
                speed,
            } => {
                let port = spec.port_mut(device)?;
                port.rate.clone_from(rate);
                if let Some(netdev) = port.netdev.clone() {
                    spec.netdev_mut(&netdev)?.speed = *speed;
                }
            }
            Change::Counter { device, name, add } => count(spec.port_mut(device)?, name, *add)?,
            Change::Ethtool { netdev, name, add } => {
                add_statistic(spec.netdev_mut(netdev)?, name, *add);
            }
            Change::Carrier { netdev, up, edges } => {
                let netdev = spec.netdev_mut(netdev)?;
                netdev.carrier = *up;
                netdev.carrier_changes += edges;
            }
            Change::Traffic { millis, percent } => traffic(spec, *millis, *percent),
            Change::RemoveDevice(name) => {
                let at = spec.rdma.iter().position(|device| device.name == *name)?;
                spec.rdma.remove(at);
            }
            Change::ConfigDead { pci, dead } => spec.function_mut(*pci)?.dead = *dead,
            Change::PcieLink { pci, speed, width } => {
                spec.function_mut(*pci)?.link = (speed.clone(), *width);
            }
            Change::Aer { pci, add } => {
                let totals = spec.function_mut(*pci)?.aer.get_or_insert([0; 3]);
                (totals.iter_mut().zip(add)).for_each(|(total, add)| *total += add);
            }
            Change::LoadModule(module) => {
                spec.modules.retain(|known| known.name != module.name);
                spec.modules.push(module.clone());
            }
            Change::UnloadModule(name) => spec.modules.retain(|known| known.name != *name),
            Change::MemoryPeers(peers) => spec.memory_peers.clone_from(peers),
            Change::NvidiaFsErrors(add) => *spec.nvidia_fs.get_or_insert(0) += add,
            Change::ProcessStarts(process) => self.processes.push(process.clone()),
            Change::Tcp { pid, bytes } => {
                for process in self.processes.iter_mut().filter(|of| of.pid == *pid) {
                    process.tcp += bytes;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Changes a link; gives the driver's line in the kernel log, if it prints one. `None`: no such
    /// device.
    fn link(&mut self, device: &str, up: bool) -> Option<Option<(Bdf, String)>> {
        let bdf = self.spec.device(device)?.pci;
        let port = self.spec.port_mut(device)?;
        let ethernet = set_link(port, up);
        if !up && !ethernet {
            let _ = count(port, "link_downed", 1);
        }
        let Some(name) = port.netdev.clone() else {
            return Some(None);
        };
        let netdev = self.spec.netdev_mut(&name)?;
        netdev.carrier_changes += u64::from(netdev.carrier != up);
        netdev.carrier = up;
        if !up && ethernet {
            add_statistic(netdev, "link_down_events_phy", 1);
        }
        let word = if up { "up" } else { "down" };
        Some(ethernet.then(|| (bdf, format!("mlx5_core {bdf} {name}: Link {word}"))))
    }

    fn kmsg(
        &mut self,
        priority: u32,
        micros: u64,
        text: &str,
        device: Option<Bdf>,
    ) -> io::Result<()> {
        let micros = match (micros, self.now_micros) {
            // The first record is the kernel's greeting.
            (0, 0) if self.next_sequence == 0 => 0,
            (0, 0) => self.last_micros + 1_000_000,
            (0, now) => now.max(self.last_micros),
            (micros, _) => micros,
        };
        let sequence = self.next_sequence;
        (self.next_sequence, self.last_micros) = (sequence + 1, micros);
        let function = |bdf| format!(" SUBSYSTEM=pci\n DEVICE=+pci:{bdf}\n");
        let dictionary = device.map_or(String::new(), function);
        // As a read of the device returns it (Documentation/ABI/testing/dev-kmsg).
        let record = format!("{priority},{sequence},{micros},-;{text}\n{dictionary}");
        self.writer.append(KMSG, &record)
    }
}

/// Traffic on every active port, in those counters that its driver has.
fn traffic(spec: &mut NodeFiles, millis: u64, percent: u64) {
    for port in spec.rdma.iter_mut().flat_map(|device| &mut device.ports) {
        if port.state != 4 {
            continue;
        }
        let gbps = port.rate.split(' ').next().and_then(|n| n.parse().ok());
        let bytes_a_second = (gbps.unwrap_or(0.0) * 1e9 / 8.0) as u64;
        let bytes = bytes_a_second / 1000 * millis / 100 * percent;
        for (name, unit) in &counters::TABLES.traffic {
            let _ = count(port, name, bytes / unit);
        }
        let mut netdevs = spec.netdevs.iter_mut();
        if let Some(netdev) = netdevs.find(|netdev| Some(&netdev.name) == port.netdev.as_ref()) {
            for row in &counters::TABLES.traffic_statistics {
                add_statistic(netdev, &format!("{row}_bytes"), bytes);
                add_statistic(netdev, &format!("{row}_packets"), bytes / 4096);
            }
        }
    }
}

/// Port and physical state of a link that comes up or falls; whether it is Ethernet.
pub(super) fn set_link(port: &mut PortSpec, up: bool) -> bool {
    let ethernet = port.link_layer == "Ethernet";
    // InfiniBand without a partner polls; RoCE without carrier says Disabled.
    (port.state, port.phys) = match (up, ethernet) {
        (true, _) => (4, 5),
        (false, true) => (1, 3),
        (false, false) => (1, 2),
    };
    ethernet
}

/// Counts as the hardware does: error counters of the PMA stick at their maximum. `None` if there is
/// no such counter.
fn count(port: &mut PortSpec, name: &str, add: u64) -> Option<()> {
    let own = |attrs: &'_ &mut SysfsValues| attrs.contains_key(name);
    let mut groups = [&mut port.pma, &mut port.hw].into_iter().flatten();
    if let SysfsValue::Number(value) = groups.find(own)?.get_mut(name)? {
        *value = match pma_kind(name) {
            CounterKind::Saturating { max } => value.saturating_add(add).min(max),
            _ => value.wrapping_add(add),
        };
    }
    Some(())
}

/// Raises a statistic, if the interface's driver has it.
fn add_statistic(netdev: &mut NetdevSpec, name: &str, add: u64) {
    let mut rows = netdev.ethtool.iter_mut().flat_map(|(_, rows)| rows);
    if let Some((_, value)) = rows.find(|(known, _)| known == name) {
        *value = value.wrapping_add(add);
    }
}

/// Log directory below the root, as the kubelet names it (`pkg/kubelet/kuberuntime/helpers.go`).
fn log_dir(pod: &PodFacts) -> String {
    format!("var/log/pods/{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

/// Log file of the container's first run.
fn log_file(pod: &PodFacts) -> String {
    let container = pod.containers.keys().next().map_or("", String::as_str);
    format!("{}/{container}/0.log", log_dir(pod))
}

/// Lines as the container runtime writes them (`containerd/pkg/cri/io/logger.go`), all at one moment.
fn framed(lines: &[String]) -> String {
    let now = jiff::Timestamp::now();
    let framed = |line| format!("{now:.9} stdout F {line}\n");
    lines.iter().map(framed).collect()
}
