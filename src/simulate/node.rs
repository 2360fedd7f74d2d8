//! A written node and its changes at run time. Each file changes in one step.

use super::event::Event;
use super::files::Files;
use super::spec::*;
use super::{net, pci, pod, proc, rdma};
use crate::observe::counters::{CounterKind, pma_kind};
use std::io;
use std::path::Path;

/// Bytes of a record that no reader takes in: a file's line is read up to 64 KiB.
const TOO_LARGE: usize = 200_000;

/// A simulated node that stands in a directory.
#[derive(Debug)]
pub struct Node {
    pub(super) files: Files,
    pub(super) spec: NodeSpec,
    pub(super) next_sequence: u64,
    pub(super) last_micros: u64,
    now_micros: u64,
}

impl Node {
    /// Writes the whole node below `root`.
    pub fn write(spec: NodeSpec, root: impl Into<std::path::PathBuf>) -> io::Result<Self> {
        let mut files = Files::new(root)?;
        pci::write(&mut files, &spec)?;
        rdma::write(&mut files, &spec)?;
        net::write(&mut files, &spec)?;
        proc::write(&mut files, &spec)?;
        pod::write(&mut files, &spec.pods)?;
        files.write_errnos()?;
        let last = spec.kmsg.last();
        Ok(Node {
            next_sequence: last.map_or(0, |record| record.sequence + 1),
            last_micros: last.map_or(0, |record| record.micros),
            now_micros: 0,
            files,
            spec,
        })
    }

    /// Tells the node what time it is since boot, for the stamps of kernel-log records that name
    /// none.
    pub fn set_now(&mut self, micros: u64) {
        self.now_micros = micros;
    }

    /// The node as it is now.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        self.files.root()
    }

    /// Lets one thing happen. What names something that the node does not have is an error.
    pub fn apply(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::All(events) => events.iter().try_for_each(|event| self.apply(event)),
            Event::Link { device, port, up } => self.link(device, *port, *up),
            Event::PortState {
                device,
                port,
                state,
                phys,
            } => self.port(device, *port, |port| {
                port.state = *state;
                port.phys = *phys;
            }),
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
            } => self.counter(device, *port, "counters", name, *add),
            Event::HwCounter {
                device,
                port,
                name,
                add,
            } => self.counter(device, *port, "hw_counters", name, *add),
            Event::Ethtool { netdev, name, add } => self.ethtool(netdev, &[(name, *add)]),
            Event::Carrier { netdev, up, edges } => self.netdev(netdev, |netdev| {
                netdev.carrier = *up;
                netdev.carrier_changes += edges;
            }),
            Event::AdminUp { netdev, up } => self.admin_up(netdev, *up),
            Event::Pfc { netdev, enabled } => self.pfc(netdev, *enabled),
            Event::Traffic { millis, percent } => self.traffic(*millis, *percent),
            Event::LoadModule(module) => self.load(module),
            Event::UnloadModule(name) => self.unload(name),
            Event::MemoryPeers(peers) => {
                self.spec.memory_peers.clone_from(peers);
                proc::write_memory_peers(&mut self.files, &self.spec)
            }
            Event::Kmsg {
                priority,
                micros,
                text,
                device,
            } => {
                let dictionary = device.map(|bdf| {
                    vec![
                        ("SUBSYSTEM".into(), "pci".into()),
                        ("DEVICE".into(), format!("+pci:{bdf}")),
                    ]
                });
                self.kmsg(*priority, *micros, text, dictionary.unwrap_or_default())
            }
            Event::KmsgTooLarge => self.kmsg(4, 0, &"x".repeat(TOO_LARGE), Vec::new()),
            Event::PodComes(pod) => self.pod_comes(pod),
            Event::PodSays {
                uid,
                restart,
                lines,
            } => self.pod_says(uid, *restart, lines),
            Event::ProcessComes(process) => self.process_comes(process),
            Event::Tcp { pid, bytes } => self.tcp(*pid, *bytes),
            Event::PodGoes(uid) => self.pod_goes(uid),
            Event::PluginGoes(_) => Ok(()),
            Event::RemoveDevice(name) => self.remove(name).map(drop),
            Event::AddDevice(device) => self.add(device.as_ref().clone()),
            Event::RenameDevice(old, new) => {
                let mut device = self.remove(old)?;
                device.name.clone_from(new);
                self.add(device)
            }
            Event::ConfigDead { pci: bdf, dead } => {
                self.function(*bdf, |pci| pci.dead = *dead, pci::write_config)
            }
            Event::PcieLink {
                pci: bdf,
                speed,
                width,
            } => self.function(
                *bdf,
                |pci| pci.link = (speed.clone(), *width),
                pci::write_link,
            ),
            Event::Aer { pci: bdf, add } => self.function(
                *bdf,
                |pci| {
                    let totals = pci.aer.get_or_insert([0; 3]);
                    for (total, add) in totals.iter_mut().zip(add) {
                        *total += add;
                    }
                },
                pci::write_aer,
            ),
            Event::Refuse { path, errno } => self.files.refuse(path, *errno),
            Event::NvidiaFsErrors(add) => {
                self.spec.nvidia_fs = Some(self.spec.nvidia_fs.unwrap_or(0) + add);
                proc::write_nvidia_fs(&mut self.files, &self.spec)
            }
            Event::Reboot { boot_id } => self.reboot(boot_id),
        }
    }

    fn link(&mut self, name: &str, number: u32, up: bool) -> io::Result<()> {
        let port = self.spec.port_mut(name, number).ok_or_else(|| none(name))?;
        let ethernet = port.link_layer == "Ethernet";
        let netdev = port.netdev.clone();
        // IB without a partner polls; RoCE without carrier says Disabled.
        let down = if ethernet { 3 } else { 2 };
        self.port(name, number, |port| {
            (port.state, port.phys) = if up { (4, 5) } else { (1, down) };
        })?;
        if !up && !ethernet {
            self.counter(name, number, "counters", "link_downed", 1)?;
        }
        let Some(netdev) = netdev else {
            return Ok(());
        };
        self.netdev(&netdev, |netdev| {
            netdev.carrier_changes += u64::from(netdev.carrier != up);
            netdev.carrier = up;
        })?;
        if !ethernet {
            return Ok(());
        }
        if !up {
            self.ethtool(&netdev, &[("link_down_events_phy", 1)])?;
        }
        let device = self.spec.device(name).ok_or_else(|| none(name))?;
        let bdf = device.pci;
        let word = if up { "up" } else { "down" };
        self.apply(&Event::Kmsg {
            priority: 6,
            micros: 0,
            text: format!("mlx5_core {bdf} {netdev}: Link {word}"),
            device: Some(bdf),
        })
    }

    fn port(
        &mut self,
        device: &str,
        number: u32,
        change: impl FnOnce(&mut PortSpec),
    ) -> io::Result<()> {
        let port = self
            .spec
            .port_mut(device, number)
            .ok_or_else(|| none(device))?;
        change(port);
        let port = port.clone();
        let spec = self.spec.device(device).ok_or_else(|| none(device))?;
        rdma::write_link(&mut self.files, &self.spec, spec, &port)
    }

    fn rate(&mut self, device: &str, number: u32, rate: &str, speed: u64) -> io::Result<()> {
        let port = self
            .spec
            .port_mut(device, number)
            .ok_or_else(|| none(device))?;
        let netdev = port.netdev.clone();
        self.port(device, number, |port| port.rate = rate.into())?;
        match netdev {
            Some(netdev) => self.netdev(&netdev, |netdev| netdev.speed = speed),
            None => Ok(()),
        }
    }

    pub(super) fn counter(
        &mut self,
        device: &str,
        number: u32,
        dir: &str,
        name: &str,
        add: u64,
    ) -> io::Result<()> {
        let port = self
            .spec
            .port_mut(device, number)
            .ok_or_else(|| none(device))?;
        let attrs = if dir == "counters" {
            port.pma.as_mut()
        } else {
            port.hw.as_mut()
        };
        let attr = attrs
            .and_then(|attrs| attrs.get_mut(name))
            .ok_or_else(|| none(name))?;
        if let Attr::Number(value) = attr {
            // As the hardware counts: error counters stick at their maximum.
            *value = match pma_kind(name) {
                CounterKind::Saturating { max } if dir == "counters" => {
                    value.saturating_add(add).min(max)
                }
                _ => value.wrapping_add(add),
            };
        }
        let attr = attr.clone();
        let spec = self.spec.device(device).ok_or_else(|| none(device))?;
        let below = format!("ports/{number}/{dir}/{name}");
        rdma::write_attr(&mut self.files, &self.spec, spec, &below, &attr)
    }

    fn netdev(&mut self, name: &str, change: impl FnOnce(&mut NetdevSpec)) -> io::Result<()> {
        let netdev = self.spec.netdev_mut(name).ok_or_else(|| none(name))?;
        change(netdev);
        let netdev = self.spec.netdev(name).ok_or_else(|| none(name))?;
        net::write_link(&mut self.files, &self.spec, netdev)
    }

    fn admin_up(&mut self, name: &str, up: bool) -> io::Result<()> {
        let netdev = self.spec.netdev(name).ok_or_else(|| none(name))?;
        let path = self.spec.netdev_path(netdev);
        for file in ["carrier", "speed"] {
            self.files.remove(format!("{path}/{file}"))?;
            self.files.remove(format!("sys/class/net/{name}/{file}"))?;
        }
        self.netdev(name, |netdev| netdev.admin_up = up)?;
        self.files.write_errnos()
    }

    pub(super) fn ethtool(&mut self, name: &str, adds: &[(&str, u64)]) -> io::Result<()> {
        let netdev = self.spec.netdev_mut(name).ok_or_else(|| none(name))?;
        let Some((_, rows)) = &mut netdev.ethtool else {
            return Ok(());
        };
        for (statistic, add) in adds {
            if let Some((_, value)) = rows.iter_mut().find(|(known, _)| known == statistic) {
                *value = value.wrapping_add(*add);
            }
        }
        net::write_ethtool(&mut self.files, netdev)
    }

    fn pfc(&mut self, name: &str, enabled: u8) -> io::Result<()> {
        let netdev = self.spec.netdev_mut(name).ok_or_else(|| none(name))?;
        if let Some(dcb) = &mut netdev.dcb {
            dcb.pfc_enabled = Some(enabled);
        }
        net::write_dcb(&mut self.files, netdev)
    }

    fn load(&mut self, module: &ModuleSpec) -> io::Result<()> {
        self.spec.modules.retain(|known| known.name != module.name);
        self.spec.modules.push(module.clone());
        proc::write_module(&mut self.files, module)?;
        proc::write_modules_list(&mut self.files, &self.spec)
    }

    fn unload(&mut self, name: &str) -> io::Result<()> {
        self.spec.modules.retain(|known| known.name != name);
        proc::write_modules_list(&mut self.files, &self.spec)?;
        proc::remove_module(&mut self.files, name)
    }

    fn kmsg(
        &mut self,
        priority: u32,
        micros: u64,
        text: &str,
        dictionary: Vec<(String, String)>,
    ) -> io::Result<()> {
        let micros = match (micros, self.now_micros) {
            (0, 0) => self.last_micros + 1_000_000,
            (0, now) => now.max(self.last_micros),
            (micros, _) => micros,
        };
        let record = KmsgRecord {
            priority,
            sequence: self.next_sequence,
            micros,
            text: text.into(),
            dictionary,
        };
        self.next_sequence += 1;
        self.last_micros = micros;
        proc::append_kmsg(&self.files, &record)
    }

    fn remove(&mut self, name: &str) -> io::Result<RdmaSpec> {
        let device = self.spec.device(name).ok_or_else(|| none(name))?.clone();
        rdma::remove_device(&mut self.files, &self.spec, &device)?;
        self.spec.rdma.retain(|known| known.name != name);
        self.files.write_errnos()?;
        Ok(device)
    }

    fn add(&mut self, device: RdmaSpec) -> io::Result<()> {
        self.spec.rdma.push(device.clone());
        rdma::write_device(&mut self.files, &self.spec, &device)?;
        self.files.write_errnos()
    }

    fn function(
        &mut self,
        bdf: crate::units::Bdf,
        change: impl FnOnce(&mut PciSpec),
        write: impl FnOnce(&mut Files, &NodeSpec, &PciSpec) -> io::Result<()>,
    ) -> io::Result<()> {
        let key = bdf.to_string();
        let pci = self.spec.pci.get_mut(&key).ok_or_else(|| none(&key))?;
        change(pci);
        let pci = pci.clone();
        write(&mut self.files, &self.spec, &pci)
    }
}

pub(super) fn none(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the simulated node has no {what}"),
    )
}
