//! Puts what was read into the snapshot.

use super::output::Output;
use super::schedule::{Schedule, Subject};
use crate::host::Host;
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::{Reading, Stamped};
use crate::observe::snapshot::{Snapshot, SourceHealth};
use crate::source::tree;
use crate::units::{DeviceKey, Millis, PortKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `/proc/sys/kernel/random/boot_id`.
pub fn boot_id(host: &Host) -> Option<String> {
    match tree::read_text(host, "proc/sys/kernel/random/boot_id") {
        Reading::Value(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Puts one output in. What could not be read at all leaves the last facts where they are: their
/// age and the source's health tell that they are old.
pub fn put(snapshot: &mut Snapshot, subject: &Subject, output: Output, at: Millis) {
    fn arc<T>(at: Millis, value: T) -> Arc<Stamped<T>> {
        Arc::new(Stamped { at, value })
    }
    let port_key = |port: u32| PortKey {
        device: DeviceKey(subject.name().to_string()),
        port,
    };
    let name = subject.name().to_string();
    match output {
        Output::Devices {
            devices,
            netns_mode,
            ..
        } => {
            snapshot.netns_mode = netns_mode.or(snapshot.netns_mode);
            if let Reading::Value(devices) = devices {
                // An unchanged list keeps its allocation, so that others can compare cheaply.
                let value = match &snapshot.devices {
                    Some(old) if *old.value == devices => Arc::clone(&old.value),
                    _ => Arc::new(devices),
                };
                snapshot.devices = Some(Stamped { at, value });
            }
        }
        Output::Link(ports) => {
            for (port, facts) in ports {
                snapshot.links.insert(port_key(port), arc(at, facts));
            }
        }
        Output::Counters { ports, .. } => {
            for (port, counters) in ports {
                snapshot.counters.insert(port_key(port), arc(at, counters));
            }
        }
        Output::Gids(ports) => {
            for (port, table) in ports {
                if let Reading::Value(table) = table {
                    snapshot.gids.insert(port_key(port), arc(at, table));
                }
            }
        }
        Output::Netdev(facts) => {
            snapshot.netdevs.insert(name, arc(at, facts));
        }
        Output::Ethtool(facts) => {
            snapshot.ethtool.insert(name, arc(at, facts));
        }
        Output::Dcb(facts) => {
            snapshot.dcb.insert(name, arc(at, facts));
        }
        Output::Pci(facts) => {
            if let Reading::Value(facts) = facts {
                snapshot.pci = Some(arc(at, facts));
            }
        }
        Output::GpuDirect(facts) => snapshot.gpudirect = Some(arc(at, facts)),
    }
}

/// Whether an enumeration lacks a device or a GPU that the one before showed.
pub fn lost(before: &Snapshot, output: &Output) -> bool {
    match output {
        Output::Devices { devices, .. } => {
            let (Some(before), Some(now)) = (&before.devices, devices.value()) else {
                return false;
            };
            let still = |key: &DeviceKey| now.iter().any(|device| device.key == *key);
            before.value.iter().any(|device| !still(&device.key))
        }
        Output::Pci(Reading::Value(now)) => (before.pci.as_ref())
            .is_some_and(|before| (before.value.gpus.iter()).any(|gpu| !now.gpus.contains(gpu))),
        _ => false,
    }
}

/// Drops facts of devices and interfaces that are gone, so that nothing stale is told.
pub fn forget(snapshot: &mut Snapshot, devices: &[RdmaDevice], netdevs: &BTreeSet<String>) {
    let ports: BTreeSet<PortKey> = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(|port| device.port_key(port.number)))
        .collect();
    snapshot.links.retain(|key, _| ports.contains(key));
    snapshot.counters.retain(|key, _| ports.contains(key));
    snapshot.gids.retain(|key, _| ports.contains(key));
    snapshot.netdevs.retain(|name, _| netdevs.contains(name));
    snapshot.ethtool.retain(|name, _| netdevs.contains(name));
    snapshot.dcb.retain(|name, _| netdevs.contains(name));
}

/// Rewrites the health of every scheduled source; other sources' entries (the kernel log) stay.
pub fn sources(snapshot: &mut Snapshot, schedule: &Schedule) {
    let mut sources: BTreeMap<String, SourceHealth> = std::mem::take(&mut snapshot.sources)
        .into_iter()
        .filter(|(_, health)| health.source == "kernel_log")
        .collect();
    for (subject, slot) in schedule.slots() {
        let key = if subject.name().is_empty() {
            subject.source().to_string()
        } else {
            format!("{}/{}", subject.source(), subject.name())
        };
        sources.insert(
            key,
            SourceHealth {
                source: subject.source().to_string(),
                subject: subject.name().to_string(),
                last_ok: slot.last_ok,
                micros: u64::try_from(slot.took.as_micros()).unwrap_or(u64::MAX),
                stalled_since: slot.stalled_since,
                fault: slot.fault.clone(),
                absent: slot.absent,
            },
        );
    }
    snapshot.sources = sources;
}
