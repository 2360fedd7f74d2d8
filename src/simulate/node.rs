//! A simulated node in a directory, and the events that change it.

use super::event::Event;
use super::pod::{PodSpec, ProcessSpec, framed};
use super::render;
use super::spec::*;
use super::tree::{Tree, TreeWriter};
use crate::observe::counters::{CounterKind, pma_kind};
use crate::units::Bdf;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where raw kernel-log records are: the same bytes that reads of the device would return.
const KMSG: &str = "dev/kmsg";

/// Bytes of a record that no reader accepts: a file's line is read up to 64 KiB.
const TOO_LARGE: usize = 200_000;

/// Counters that traffic raises: whether among `hw_counters`, name, bytes a count.
const TRAFFIC: [(bool, &str, u64); 10] = [
    (true, "rx_bytes", 1),
    (true, "tx_bytes", 1),
    (true, "rx_pkts", 4096),
    (true, "tx_pkts", 4096),
    (false, "port_rcv_data", 4),
    (false, "port_xmit_data", 4),
    (false, "port_rcv_packets", 4096),
    (false, "port_xmit_packets", 4096),
    (false, "unicast_rcv_packets", 4096),
    (false, "unicast_xmit_packets", 4096),
];

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
    pods: Vec<PodSpec>,
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
        let mut parts = vec![Part::Host];
        parts.extend(node.spec.pci.values().map(|pci| Part::Function(pci.bdf)));
        parts.extend(node.spec.rdma.iter().map(|d| Part::Device(d.name.clone())));
        parts.extend(
            node.spec
                .netdevs
                .iter()
                .map(|n| Part::Netdev(n.name.clone())),
        );
        for part in parts {
            node.sync(part)?;
        }
        node.append_kmsg(6, 0, "Linux version 6.8.0-52-generic", None)?;
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

    /// Applies one event.
    ///
    /// # Errors
    /// The event names something that the node does not have, or a file cannot be written.
    pub fn apply(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::All(events) => events.iter().try_for_each(|event| self.apply(event)),
            Event::Link { device, port, up } => self.link(device, *port, *up),
            Event::PortState {
                device,
                port,
                state,
                phys,
            } => self.port_state(device, *port, *state, *phys),
            Event::Rate {
                device,
                port,
                rate,
                speed,
            } => self.rate(device, *port, rate, *speed),
            Event::Counter {
                device,
                port,
                name,
                add,
            } => self.counter(device, *port, false, name, *add),
            Event::HwCounter {
                device,
                port,
                name,
                add,
            } => self.counter(device, *port, true, name, *add),
            Event::Ethtool { netdev, name, add } => self.netdev(netdev, |netdev| {
                add_statistics(netdev, &[(name.as_str(), *add)]);
            }),
            Event::Carrier { netdev, up, edges } => self.netdev(netdev, |netdev| {
                netdev.carrier = *up;
                netdev.carrier_changes += edges;
            }),
            Event::AdminUp { netdev, up } => self.netdev(netdev, |netdev| netdev.admin_up = *up),
            Event::Pfc { netdev, enabled } => self.netdev(netdev, |netdev| {
                if let Some(dcb) = &mut netdev.dcb {
                    dcb.pfc_enabled = Some(*enabled);
                }
            }),
            Event::Traffic { millis, percent } => self.traffic(*millis, *percent),
            Event::RemoveDevice(name) => self.remove_device(name).map(drop),
            Event::AddDevice(device) => self.add_device(device.as_ref().clone()),
            Event::RenameDevice(old, new) => {
                let mut device = self.remove_device(old)?;
                device.name.clone_from(new);
                self.add_device(device)
            }
            Event::ConfigDead { pci, dead } => self.function(*pci, |pci| pci.dead = *dead),
            Event::PcieLink { pci, speed, width } => {
                self.function(*pci, |pci| pci.link = (speed.clone(), *width))
            }
            Event::Aer { pci, add } => self.function(*pci, |pci| {
                let totals = pci.aer.get_or_insert([0; 3]);
                totals
                    .iter_mut()
                    .zip(add)
                    .for_each(|(total, add)| *total += add);
            }),
            Event::Refuse { path, errno } => self.writer.refuse(path, *errno),
            Event::Reboot { boot_id } => self.reboot(boot_id),
            Event::Kmsg {
                priority,
                micros,
                text,
                device,
            } => self.kmsg(*priority, *micros, text, *device),
            Event::KmsgTooLarge => self.kmsg(4, 0, &"x".repeat(TOO_LARGE), None),
            Event::PodStarts(_)
            | Event::PodPrints { .. }
            | Event::PodEnds(_)
            | Event::ProcessStarts(_)
            | Event::Tcp { .. } => self.pod_event(event),
            Event::LoadModule(_)
            | Event::UnloadModule(_)
            | Event::MemoryPeers(_)
            | Event::NvidiaFsErrors(_) => self.driver_event(event),
            Event::PluginStops(_) => Ok(()),
        }
    }

    fn driver_event(&mut self, event: &Event) -> io::Result<()> {
        let spec = &mut self.spec;
        match event {
            Event::LoadModule(module) => {
                spec.modules.retain(|known| known.name != module.name);
                spec.modules.push(module.clone());
            }
            Event::UnloadModule(name) => spec.modules.retain(|known| known.name != *name),
            Event::MemoryPeers(peers) => spec.memory_peers.clone_from(peers),
            Event::NvidiaFsErrors(add) => *spec.nvidia_fs.get_or_insert(0) += add,
            _ => {}
        }
        self.sync(Part::Host)
    }

    fn pod_event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::PodStarts(pod) => {
                self.pods.push(pod.as_ref().clone());
                return self.writer.append(pod.log_file(), "");
            }
            Event::PodPrints { uid, lines } => {
                let pod = self.pods.iter().find(|pod| pod.uid == *uid);
                let path = pod.ok_or_else(|| missing(uid))?.log_file();
                return self.writer.append(path, &framed(lines));
            }
            Event::PodEnds(uid) => {
                let at = self.pods.iter().position(|pod| pod.uid == *uid);
                let pod = self.pods.remove(at.ok_or_else(|| missing(uid))?);
                self.writer.remove_all(&pod.log_dir())?;
                self.processes.retain(|process| process.pod != *uid);
            }
            Event::ProcessStarts(process) => self.processes.push(process.clone()),
            Event::Tcp { pid, bytes } => {
                let process = self.processes.iter_mut().find(|known| known.pid == *pid);
                process.ok_or_else(|| missing(&pid.to_string()))?.tcp += bytes;
            }
            _ => {}
        }
        self.sync(Part::Processes)
    }

    fn port(&mut self, device: &str, number: u32) -> io::Result<&mut PortSpec> {
        let port = self.spec.port_mut(device, number);
        port.ok_or_else(|| missing(device))
    }

    fn port_state(&mut self, device: &str, number: u32, state: u32, phys: u32) -> io::Result<()> {
        let port = self.port(device, number)?;
        (port.state, port.phys) = (state, phys);
        self.sync(Part::Device(device.into()))
    }

    fn link(&mut self, device: &str, number: u32, up: bool) -> io::Result<()> {
        let port = self.port(device, number)?;
        let ethernet = port.link_layer == "Ethernet";
        let netdev = port.netdev.clone();
        // InfiniBand without a partner polls; RoCE without carrier says Disabled.
        (port.state, port.phys) = match (up, ethernet) {
            (true, _) => (4, 5),
            (false, true) => (1, 3),
            (false, false) => (1, 2),
        };
        self.sync(Part::Device(device.into()))?;
        if !up && !ethernet {
            self.counter(device, number, false, "link_downed", 1)?;
        }
        let Some(netdev) = netdev else {
            return Ok(());
        };
        self.netdev(&netdev, |netdev| {
            netdev.carrier_changes += u64::from(netdev.carrier != up);
            netdev.carrier = up;
            if !up && ethernet {
                add_statistics(netdev, &[("link_down_events_phy", 1)]);
            }
        })?;
        if !ethernet {
            return Ok(());
        }
        let bdf = self.spec.device(device).ok_or_else(|| missing(device))?.pci;
        let word = if up { "up" } else { "down" };
        let text = format!("mlx5_core {bdf} {netdev}: Link {word}");
        self.kmsg(6, 0, &text, Some(bdf))
    }

    fn rate(&mut self, device: &str, number: u32, rate: &str, speed: u64) -> io::Result<()> {
        let port = self.port(device, number)?;
        port.rate = rate.into();
        let netdev = port.netdev.clone();
        self.sync(Part::Device(device.into()))?;
        netdev.map_or(Ok(()), |netdev| {
            self.netdev(&netdev, |netdev| netdev.speed = speed)
        })
    }

    fn counter(
        &mut self,
        device: &str,
        number: u32,
        hw: bool,
        name: &str,
        add: u64,
    ) -> io::Result<()> {
        let port = self.port(device, number)?;
        let attrs = if hw { &mut port.hw } else { &mut port.pma };
        let attr = attrs.as_mut().and_then(|attrs| attrs.get_mut(name));
        count(attr.ok_or_else(|| missing(name))?, hw, name, add);
        self.sync(Part::Device(device.into()))
    }

    fn netdev(&mut self, name: &str, change: impl FnOnce(&mut NetdevSpec)) -> io::Result<()> {
        let netdev = self.spec.netdev_mut(name);
        change(netdev.ok_or_else(|| missing(name))?);
        self.sync(Part::Netdev(name.into()))
    }

    fn function(&mut self, bdf: Bdf, change: impl FnOnce(&mut PciSpec)) -> io::Result<()> {
        let key = bdf.to_string();
        change(self.spec.pci.get_mut(&key).ok_or_else(|| missing(&key))?);
        self.sync(Part::Function(bdf))
    }

    fn remove_device(&mut self, name: &str) -> io::Result<RdmaSpec> {
        let at = self.spec.rdma.iter().position(|device| device.name == name);
        let device = self.spec.rdma.remove(at.ok_or_else(|| missing(name))?);
        self.sync(Part::Device(name.into()))?;
        Ok(device)
    }

    fn add_device(&mut self, device: RdmaSpec) -> io::Result<()> {
        let part = Part::Device(device.name.clone());
        self.spec.rdma.push(device);
        self.sync(part)
    }

    /// Traffic on every active port, in those counters that its driver has.
    fn traffic(&mut self, millis: u64, percent: u64) -> io::Result<()> {
        let mut busy = Vec::new();
        for device in &mut self.spec.rdma {
            for port in device.ports.iter_mut().filter(|port| port.state == 4) {
                let gbps = port.rate.split(' ').next().and_then(|n| n.parse().ok());
                let bytes_a_second = (gbps.unwrap_or(0.0) * 1e9 / 8.0) as u64;
                let bytes = bytes_a_second / 1000 * millis / 100 * percent;
                for (hw, name, unit) in TRAFFIC {
                    let attrs = if hw { &mut port.hw } else { &mut port.pma };
                    if let Some(attr) = attrs.as_mut().and_then(|attrs| attrs.get_mut(name)) {
                        count(attr, hw, name, bytes / unit);
                    }
                }
                busy.push((device.name.clone(), port.netdev.clone(), bytes));
            }
        }
        for (device, netdev, bytes) in busy {
            self.sync(Part::Device(device))?;
            if let Some(name) = netdev {
                self.netdev(&name, |netdev| add_traffic(netdev, bytes))?;
            }
        }
        Ok(())
    }

    fn reboot(&mut self, boot_id: &str) -> io::Result<()> {
        self.spec.boot_id = boot_id.into();
        self.writer.replace(KMSG, b"")?;
        (self.next_sequence, self.last_micros) = (0, 0);
        let mut parts = vec![Part::Host];
        for device in &mut self.spec.rdma {
            for port in &mut device.ports {
                clear_counters(port);
            }
            parts.push(Part::Device(device.name.clone()));
        }
        parts.into_iter().try_for_each(|part| self.sync(part))
    }

    fn kmsg(
        &mut self,
        priority: u32,
        micros: u64,
        text: &str,
        device: Option<Bdf>,
    ) -> io::Result<()> {
        let micros = match (micros, self.now_micros) {
            (0, 0) => self.last_micros + 1_000_000,
            (0, now) => now.max(self.last_micros),
            (micros, _) => micros,
        };
        self.append_kmsg(priority, micros, text, device)
    }

    fn append_kmsg(
        &mut self,
        priority: u32,
        micros: u64,
        text: &str,
        device: Option<Bdf>,
    ) -> io::Result<()> {
        let sequence = self.next_sequence;
        (self.next_sequence, self.last_micros) = (sequence + 1, micros);
        let record = render::kernel_log_record(priority, sequence, micros, text, device);
        self.writer.append(KMSG, &record)
    }
}

/// Counts as the hardware does: error counters of the PMA stick at their maximum.
fn count(attr: &mut Attr, hw: bool, name: &str, add: u64) {
    if let Attr::Number(value) = attr {
        *value = match pma_kind(name) {
            CounterKind::Saturating { max } if !hw => value.saturating_add(add).min(max),
            _ => value.wrapping_add(add),
        };
    }
}

/// Sets the counters of a port to zero, as a boot or a port that was never used has them.
pub(super) fn clear_counters(port: &mut PortSpec) {
    for attrs in [&mut port.pma, &mut port.hw].into_iter().flatten() {
        for (name, attr) in attrs.iter_mut() {
            if let Attr::Number(value) = attr
                && name != "lifespan"
            {
                *value = 0;
            }
        }
    }
}

/// Raises those statistics that the interface's driver has.
fn add_statistics(netdev: &mut NetdevSpec, adds: &[(&str, u64)]) {
    for (name, value) in netdev.ethtool.iter_mut().flat_map(|(_, rows)| rows) {
        if let Some((_, add)) = adds.iter().find(|(known, _)| known == name) {
            *value = value.wrapping_add(*add);
        }
    }
}

fn add_traffic(netdev: &mut NetdevSpec, bytes: u64) {
    let names = [
        "rx_vport_rdma_unicast",
        "tx_vport_rdma_unicast",
        "rx_prio3",
        "tx_prio3",
    ];
    for name in names {
        let (in_bytes, in_packets) = (format!("{name}_bytes"), format!("{name}_packets"));
        add_statistics(netdev, &[(&in_bytes, bytes), (&in_packets, bytes / 4096)]);
    }
}

fn missing(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the simulated node has no {what}"),
    )
}
