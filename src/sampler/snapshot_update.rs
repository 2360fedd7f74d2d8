//! Merges what was read into the snapshot.

use crate::host::Host;
use crate::observe::pci::{PciFacts, PciFunction};
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::{Fault, Reading, Stamped};
use crate::observe::snapshot::Snapshot;
use crate::source::tree;
use crate::units::{Millis, PortKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a finished read went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It gave facts, complete or in part.
    Ok,
    /// This kernel or tree does not have the source.
    Absent,
    /// It failed for this reason.
    Failed(Fault),
}

/// What merging a sample led to.
#[derive(Debug, Default)]
pub struct Changes {
    /// Facts changed: the node is to be judged again.
    pub changed: bool,
    /// The sample shows less than the one before, as a reset does for a moment: read again before
    /// that is believed.
    pub doubt: bool,
    /// A port or interface that was read before is gone: it was removed or renamed.
    pub left: bool,
    /// Ports whose PMA counters answered EINVAL and must not be opened again.
    pub restricted: Vec<PortKey>,
    /// Network devices, after an enumeration that succeeded.
    pub netdevs: Option<BTreeSet<String>>,
}

impl From<bool> for Changes {
    fn from(changed: bool) -> Self {
        Changes {
            changed,
            ..Changes::default()
        }
    }
}

/// `/proc/sys/kernel/random/boot_id`.
pub fn boot_id(host: &Host) -> Option<String> {
    match tree::read_text(host, "proc/sys/kernel/random/boot_id") {
        Reading::Value(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Puts a value in. True if it differs from the one before.
pub fn put<K: Ord, T: PartialEq>(
    map: &mut BTreeMap<K, Arc<Stamped<T>>>,
    key: K,
    value: T,
    at: Millis,
) -> bool {
    let changed = map.get(&key).is_none_or(|before| before.value != value);
    map.insert(key, Arc::new(Stamped { at, value }));
    changed
}

/// Whether a scan of the bus shows less than the one before: a GPU is missing, a function does not
/// answer any more, a PCIe link got slower or narrower.
pub fn worse_bus(before: Option<&PciFacts>, now: &PciFacts) -> bool {
    let gone = before.is_some_and(|before| before.gpus.iter().any(|gpu| !now.gpus.contains(gpu)));
    gone || now.functions.iter().any(|(address, function)| {
        let before = before.and_then(|before| before.functions.get(address));
        is_worse(before, function)
    })
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

/// Drops facts of devices and interfaces that are gone, so that nothing stale is reported.
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
