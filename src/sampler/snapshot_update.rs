//! Puts what was read into the snapshot.

use super::reading::Output;
use super::schedule::{Idle, Schedule, Subject};
use crate::host::Host;
use crate::observe::pci::PciFunction;
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::{Fault, FaultKind, Reading, Stamped};
use crate::observe::snapshot::{Snapshot, SourceHealth};
use crate::source::tree;
use crate::units::{DeviceKey, Millis, PortKey};
use std::collections::BTreeSet;
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
                match table {
                    Reading::Value(table) => {
                        snapshot.gids.insert(port_key(port), arc(at, table));
                    }
                    // The kernel answered that there is none (any more).
                    Reading::Absent | Reading::NotObservable => {
                        snapshot.gids.remove(&port_key(port));
                    }
                    Reading::Failed(_) => {}
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
        Output::Dot1x(found) => match found {
            Reading::Value(found) => {
                snapshot.dot1x = (found.into_iter())
                    .map(|(name, facts)| (name, arc(at, facts)))
                    .collect();
            }
            // Nobody tells (any more).
            Reading::Absent | Reading::NotObservable | Reading::Failed(_) => snapshot.dot1x.clear(),
        },
        Output::VfLinks(facts) => match facts {
            // Most interfaces have no virtual functions.
            Reading::Absent => {
                snapshot.vf_links.remove(&name);
            }
            facts => {
                snapshot.vf_links.insert(name, arc(at, facts));
            }
        },
        Output::Pci(facts) => {
            if let Reading::Value(facts) = facts {
                snapshot.pci = Some(arc(at, facts));
            }
        }
        Output::GpuDirect(facts) => snapshot.gpudirect = Some(arc(at, facts)),
    }
}

/// Whether an enumeration or scan shows less than the one before: a device or GPU is missing, a
/// function no longer answers, a PCIe link got slower or narrower. A reset shows the same for a
/// moment.
pub fn worse(before: &Snapshot, output: &Output) -> bool {
    match output {
        Output::Devices { devices, .. } => {
            let (Some(before), Some(now)) = (&before.devices, devices.value()) else {
                return false;
            };
            let still = |key: &DeviceKey| now.iter().any(|device| device.key == *key);
            before.value.iter().any(|device| !still(&device.key))
        }
        Output::Pci(Reading::Value(now)) => {
            let before = before.pci.as_ref().map(|pci| &pci.value);
            let gone =
                before.is_some_and(|before| before.gpus.iter().any(|gpu| !now.gpus.contains(gpu)));
            gone || now.functions.iter().any(|(address, function)| {
                let before = before.and_then(|before| before.functions.get(address));
                is_worse(before, function)
            })
        }
        _ => false,
    }
}

fn is_worse(before: Option<&PciFunction>, now: &PciFunction) -> bool {
    let dead = |function: &PciFunction| function.config_dead == Reading::Value(true);
    // GPUs (and the ports above them) slow down when idle; network controllers, class 02, do not.
    let keeps_speed = now.class.starts_with("02");
    let slower = before.is_some_and(|before| match (&before.current, &now.current) {
        (Reading::Value(was), Reading::Value(is)) => {
            is.width < was.width || (keeps_speed && is.megatransfers < was.megatransfers)
        }
        _ => false,
    });
    slower || (dead(now) && !before.is_some_and(dead))
}

/// Whether a port's state or an interface, which was read before, is there no longer: the device
/// was removed or renamed.
pub fn left(before: &Snapshot, subject: &Subject, output: &Output) -> bool {
    let ports = match output {
        Output::Link(ports) => ports,
        Output::Netdev(facts) => {
            let before = before.netdevs.get(subject.name());
            return facts.ifindex.is_none() && before.is_some_and(|b| b.value.ifindex.is_some());
        }
        _ => return false,
    };
    ports.iter().any(|(port, facts)| {
        let gone = match &facts.state {
            Reading::Absent => true,
            Reading::Failed(fault) => fault.kind == FaultKind::Gone,
            Reading::Value(_) | Reading::NotObservable => false,
        };
        let key = PortKey {
            device: DeviceKey(subject.name().to_string()),
            port: *port,
        };
        let was_read =
            (before.links.get(&key)).is_some_and(|link| link.value.state.value().is_some());
        gone && was_read
    })
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
    snapshot.dot1x.retain(|name, _| netdevs.contains(name));
    snapshot.vf_links.retain(|name, _| netdevs.contains(name));
}

/// Brings the health of every scheduled source up to date; other sources' entries (the kernel log)
/// stay.
pub fn sources(snapshot: &mut Snapshot, schedule: &Schedule) {
    let sources = &mut snapshot.sources;
    let mut key = String::new();
    let mut scheduled = 0;
    for (subject, slot) in schedule.slots() {
        scheduled += 1;
        name_source(&mut key, subject.source(), subject.name());
        let health = match sources.get_mut(key.as_str()) {
            Some(health) => health,
            None => (sources.entry(key.as_str().into())).or_insert(SourceHealth {
                source: subject.source().into(),
                subject: subject.name().into(),
                last_ok: None,
                micros: 0,
                stalled_since: None,
                fault: None,
                absent: false,
                via: None,
            }),
        };
        health.last_ok = slot.last_ok;
        health.micros = u64::try_from(slot.took.as_micros()).unwrap_or(u64::MAX);
        health.stalled_since = slot.stalled_since;
        match slot.idle {
            Some(idle) => health.fault = Some(unread(idle, schedule.hung())),
            None => health.fault.clone_from(&slot.fault),
        }
        health.absent = slot.absent;
    }
    if sources.len() > scheduled {
        let known: BTreeSet<(&str, &str)> = schedule
            .slots()
            .map(|(subject, _)| (subject.source(), subject.name()))
            .collect();
        sources.retain(|_, health| {
            ["kernel_log", super::POD_LOGS].contains(&&*health.source)
                || known.contains(&(&*health.source, &*health.subject))
        });
    }
}

/// What is told of a subject that is due and not being read.
fn unread(idle: Idle, hung: usize) -> Fault {
    let detail = match idle {
        Idle::NoReader(_) => format!("waits for a free reader: {hung} other reads hang"),
        Idle::DeviceHangs => "left alone while another read of the device hangs".to_string(),
    };
    Fault {
        kind: FaultKind::Other,
        detail,
    }
}

/// `link/0000:19:00.0`, or the source alone where there is only one subject.
fn name_source(key: &mut String, source: &str, subject: &str) {
    key.clear();
    key.push_str(source);
    if !subject.is_empty() {
        key.push('/');
        key.push_str(subject);
    }
}
