//! What moves on the whole node at once: traffic on every active port, and a reboot.

use super::node::Node;
use super::rdma;
use super::spec::{Attr, Attrs};
use std::io;

impl Node {
    pub(super) fn traffic(&mut self, millis: u64, percent: u64) -> io::Result<()> {
        let bytes_of =
            |hw: &Option<Attrs>| hw.as_ref().is_some_and(|hw| hw.contains_key("rx_bytes"));
        let active: Vec<_> = self
            .spec
            .rdma
            .iter()
            .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
            .filter(|(_, port)| port.state == 4)
            .map(|(device, port)| {
                let number = port.rate.split(' ').next().unwrap_or_default();
                let gbps: f64 = number.parse().unwrap_or(0.0);
                let bytes = (gbps * 1e9 / 8.0) as u64 / 1000 * millis / 100 * percent;
                let name = device.name.clone();
                (
                    name,
                    port.number,
                    bytes,
                    port.netdev.clone(),
                    [port.pma.is_some(), bytes_of(&port.hw)],
                )
            })
            .collect();
        for (device, port, bytes, netdev, [has_pma, has_bytes]) in active {
            if has_bytes {
                for (name, add) in [
                    ("rx_bytes", bytes),
                    ("tx_bytes", bytes),
                    ("rx_pkts", bytes / 4096),
                    ("tx_pkts", bytes / 4096),
                ] {
                    self.counter(&device, port, "hw_counters", name, add)?;
                }
            }
            if has_pma {
                for (name, add) in [
                    ("port_rcv_data", bytes / 4),
                    ("port_xmit_data", bytes / 4),
                    ("port_rcv_packets", bytes / 4096),
                    ("port_xmit_packets", bytes / 4096),
                    ("unicast_rcv_packets", bytes / 4096),
                    ("unicast_xmit_packets", bytes / 4096),
                ] {
                    self.counter(&device, port, "counters", name, add)?;
                }
            }
            if let Some(netdev) = netdev {
                let packets = bytes / 4096;
                self.ethtool(
                    &netdev,
                    &[
                        ("rx_vport_rdma_unicast_bytes", bytes),
                        ("tx_vport_rdma_unicast_bytes", bytes),
                        ("rx_vport_rdma_unicast_packets", packets),
                        ("tx_vport_rdma_unicast_packets", packets),
                        ("rx_prio3_bytes", bytes),
                        ("tx_prio3_bytes", bytes),
                        ("rx_prio3_packets", packets),
                        ("tx_prio3_packets", packets),
                    ],
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn reboot(&mut self, boot_id: &str) -> io::Result<()> {
        self.spec.boot_id = boot_id.into();
        self.files
            .replace("proc/sys/kernel/random/boot_id", format!("{boot_id}\n"))?;
        self.files.replace("dev/kmsg", "")?;
        self.next_sequence = 0;
        self.last_micros = 0;
        for device in &mut self.spec.rdma {
            for port in &mut device.ports {
                for attrs in [&mut port.pma, &mut port.hw].into_iter().flatten() {
                    for (_, attr) in attrs.iter_mut().filter(|(name, _)| *name != "lifespan") {
                        if let Attr::Number(value) = attr {
                            *value = 0;
                        }
                    }
                }
            }
        }
        for device in &self.spec.rdma {
            for port in &device.ports {
                for (dir, attrs) in [("counters", &port.pma), ("hw_counters", &port.hw)] {
                    for (name, attr) in attrs.iter().flatten() {
                        let below = format!("ports/{}/{dir}/{name}", port.number);
                        rdma::write_attr(&mut self.files, &self.spec, device, &below, attr)?;
                    }
                }
            }
        }
        Ok(())
    }
}
