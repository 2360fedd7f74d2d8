//! A simulated node in a directory, and the events that change it.

use super::counters::TABLES;
use super::event::Event;
use super::render;
use super::spec::*;
use super::tree::{Tree, TreeWriter};
use crate::observe::counters::{CounterKind, pma_kind};
use crate::observe::pod::PodFacts;
use crate::units::Bdf;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where raw kernel-log records are: the same bytes that reads of the device would return.
const KMSG: &str = "dev/kmsg";

/// Bytes of a record that no reader accepts: a file's line is read up to 64 KiB.
const TOO_LARGE: usize = 200_000;

/// The parts of a node that are written separately.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Host,
    Function(Bdf),
    Device(String),
    Netdev(String),
    Processes,
}

/// A simulated node that is written to a directory.
#[derive(Debug)]
pub struct Node {
    writer: TreeWriter,
    spec: NodeSpec,
    pods: Vec<PodFacts>,
    processes: Vec<ProcessSpec>,
    /// What each part consists of in the directory.
    written: BTreeMap<Part, Tree>,
    next_sequence: u64,
    last_micros: u64,
    now_micros: u64,
}

impl Node {
    /// Writes the whole node below `root`.
    pub fn write(spec: NodeSpec, root: impl Into<PathBuf>) -> io::Result<Self> {
        let mut parts = vec![Part::Host];
        parts.extend(spec.pci.values().map(|pci| Part::Function(pci.bdf)));
        parts.extend(spec.rdma.iter().map(|d| Part::Device(d.name.clone())));
        parts.extend(spec.netdevs.iter().map(|n| Part::Netdev(n.name.clone())));
        let mut node = Node {
            writer: TreeWriter::new(root)?,
            spec,
            pods: Vec::new(),
            processes: Vec::new(),
            written: BTreeMap::new(),
            next_sequence: 0,
            last_micros: 0,
            now_micros: 0,
        };
        parts.into_iter().try_for_each(|part| node.sync(part))?;
        node.kmsg(6, 0, "Linux version 6.8.0-52-generic", None)?;
        Ok(node)
    }

    /// Sets the time since boot, for kernel-log records whose event names none.
    pub fn set_now(&mut self, micros: u64) {
        self.now_micros = micros;
    }

    /// The node as it is now.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        self.writer.root()
    }

    /// Brings the files of one part up to date with the specification.
    fn sync(&mut self, part: Part) -> io::Result<()> {
        let spec = &self.spec;
        let tree = match &part {
            Part::Host => Some(render::host(spec)),
            Part::Function(bdf) => {
                let pci = spec.pci.get(&bdf.to_string());
                pci.map(|pci| render::function(spec, pci))
            }
            Part::Device(name) => spec.device(name).map(|device| render::device(spec, device)),
            Part::Netdev(name) => spec.netdev(name).map(|netdev| render::netdev(spec, netdev)),
            Part::Processes => Some(render::processes(spec, &self.processes)),
        };
        let new = tree.unwrap_or_default();
        let old = self.written.remove(&part).unwrap_or_default();
        self.writer.update(&old, &new)?;
        self.written.insert(part, new);
        Ok(())
    }

    /// Changes the specification and the files of one part. `None`: there is nothing of that name.
    fn change<T>(
        &mut self,
        part: Part,
        change: impl FnOnce(&mut NodeSpec) -> Option<T>,
    ) -> io::Result<T> {
        let missing = || format!("the simulated node lacks what an event names in {part:?}");
        let changed = change(&mut self.spec)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing()))?;
        self.sync(part)?;
        Ok(changed)
    }

    fn netdev(&mut self, name: &str, change: impl FnOnce(&mut NetdevSpec)) -> io::Result<()> {
        self.change(Part::Netdev(name.into()), |spec| {
            spec.netdev_mut(name).map(change)
        })
    }

    fn function(&mut self, bdf: Bdf, change: impl FnOnce(&mut PciSpec)) -> io::Result<()> {
        self.change(Part::Function(bdf), |spec| {
            spec.pci.get_mut(&bdf.to_string()).map(change)
        })
    }

    fn port<T>(
        &mut self,
        device: &str,
        change: impl FnOnce(&mut PortSpec) -> Option<T>,
    ) -> io::Result<T> {
        self.change(Part::Device(device.into()), |spec| {
            spec.port_mut(device).and_then(change)
        })
    }

    fn host(&mut self, change: impl FnOnce(&mut NodeSpec)) -> io::Result<()> {
        self.change(Part::Host, |spec| {
            change(spec);
            Some(())
        })
    }

    /// Applies one event.
    ///
    /// # Errors
    /// The event names something that the node does not have, or a file cannot be written.
    pub fn apply(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::All(events) => events.iter().try_for_each(|event| self.apply(event)),
            Event::Link { device, up } => self.link(device, *up),
            Event::Rate {
                device,
                rate,
                speed,
            } => {
                let netdev = self.port(device, |port| {
                    port.rate.clone_from(rate);
                    Some(port.netdev.clone())
                })?;
                netdev.map_or(Ok(()), |name| self.netdev(&name, |n| n.speed = *speed))
            }
            Event::Counter { device, name, add } => {
                self.port(device, |port| count(port, name, *add))
            }
            Event::Ethtool { netdev, name, add } => {
                self.netdev(netdev, |netdev| add_statistic(netdev, name, *add))
            }
            Event::Carrier { netdev, up, edges } => self.netdev(netdev, |netdev| {
                netdev.carrier = *up;
                netdev.carrier_changes += edges;
            }),
            Event::Traffic { millis, percent } => self.traffic(*millis, *percent),
            Event::RemoveDevice(name) => self.change(Part::Device(name.clone()), |spec| {
                let at = spec.rdma.iter().position(|device| device.name == *name)?;
                spec.rdma.remove(at);
                Some(())
            }),
            Event::ConfigDead { pci, dead } => self.function(*pci, |pci| pci.dead = *dead),
            Event::PcieLink { pci, speed, width } => {
                self.function(*pci, |pci| pci.link = (speed.clone(), *width))
            }
            Event::Aer { pci, add } => self.function(*pci, |pci| {
                let totals = pci.aer.get_or_insert([0; 3]).iter_mut();
                totals.zip(add).for_each(|(total, add)| *total += add);
            }),
            Event::Refuse { path, errno } => self.writer.refuse(path, *errno),
            _ => self.apply_to_host(event),
        }
    }

    /// Events of the kernel log, modules and drivers.
    fn apply_to_host(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Kmsg {
                priority,
                micros,
                text,
                device,
            } => self.kmsg(*priority, *micros, text, *device),
            Event::KmsgTooLarge => self.kmsg(4, 0, &"x".repeat(TOO_LARGE), None),
            Event::LoadModule(module) => self.host(|spec| {
                spec.modules.retain(|known| known.name != module.name);
                spec.modules.push(module.clone());
            }),
            Event::UnloadModule(name) => {
                self.host(|spec| spec.modules.retain(|known| known.name != *name))
            }
            Event::MemoryPeers(peers) => self.host(|spec| spec.memory_peers.clone_from(peers)),
            Event::NvidiaFsErrors(add) => self.host(|spec| *spec.nvidia_fs.get_or_insert(0) += add),
            _ => self.apply_to_pods(event),
        }
    }

    fn apply_to_pods(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::PodStarts(pod) => {
                self.pods.push(pod.as_ref().clone());
                self.writer.append(log_file(pod), "")
            }
            Event::PodPrints { uid, lines } => match self.pods.iter().find(|pod| pod.uid == *uid) {
                Some(pod) => self.writer.append(log_file(pod), &framed(lines)),
                None => Err(io::ErrorKind::NotFound.into()),
            },
            Event::PodEnds(uid) => {
                for pod in self.pods.extract_if(.., |pod| pod.uid == *uid) {
                    self.writer.remove_all(&log_dir(&pod))?;
                }
                self.processes.retain(|process| process.pod != *uid);
                self.sync(Part::Processes)
            }
            Event::ProcessStarts(process) => {
                self.processes.push(process.clone());
                self.sync(Part::Processes)
            }
            Event::Tcp { pid, bytes } => {
                let processes = self.processes.iter_mut();
                processes
                    .filter(|process| process.pid == *pid)
                    .for_each(|process| process.tcp += bytes);
                self.sync(Part::Processes)
            }
            // The cluster's.
            _ => Ok(()),
        }
    }

    fn link(&mut self, device: &str, up: bool) -> io::Result<()> {
        let (ethernet, netdev) = self.port(device, |port| {
            let ethernet = set_link(port, up);
            if !up && !ethernet {
                let _ = count(port, "link_downed", 1);
            }
            Some((ethernet, port.netdev.clone()))
        })?;
        let Some(netdev) = netdev else {
            return Ok(());
        };
        self.netdev(&netdev, |netdev| {
            netdev.carrier_changes += u64::from(netdev.carrier != up);
            netdev.carrier = up;
            if !up && ethernet {
                add_statistic(netdev, "link_down_events_phy", 1);
            }
        })?;
        match self.spec.device(device).map(|device| device.pci) {
            Some(bdf) if ethernet => {
                let word = if up { "up" } else { "down" };
                let text = format!("mlx5_core {bdf} {netdev}: Link {word}");
                self.kmsg(6, 0, &text, Some(bdf))
            }
            _ => Ok(()),
        }
    }

    /// Traffic on every active port, in those counters that its driver has.
    fn traffic(&mut self, millis: u64, percent: u64) -> io::Result<()> {
        let mut busy = Vec::new();
        for device in &mut self.spec.rdma {
            for port in device.ports.iter_mut().filter(|port| port.state == 4) {
                let gbps = port.rate.split(' ').next().and_then(|n| n.parse().ok());
                let bytes_a_second = (gbps.unwrap_or(0.0) * 1e9 / 8.0) as u64;
                let bytes = bytes_a_second / 1000 * millis / 100 * percent;
                for (name, unit) in &TABLES.traffic {
                    let _ = count(port, name, bytes / unit);
                }
                busy.push((device.name.clone(), port.netdev.clone(), bytes));
            }
        }
        for (device, netdev, bytes) in busy {
            self.sync(Part::Device(device))?;
            if let Some(name) = netdev {
                self.netdev(&name, |netdev| {
                    for row in &TABLES.traffic_statistics {
                        add_statistic(netdev, &format!("{row}_bytes"), bytes);
                        add_statistic(netdev, &format!("{row}_packets"), bytes / 4096);
                    }
                })?;
            }
        }
        Ok(())
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
    let own = |attrs: &'_ &mut Attrs| attrs.contains_key(name);
    let mut groups = [&mut port.pma, &mut port.hw].into_iter().flatten();
    if let Attr::Number(value) = groups.find(own)?.get_mut(name)? {
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
