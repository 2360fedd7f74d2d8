//! Bounds of what is remembered of devices that are gone.

use super::History;
use crate::observe::rdma::{Function, RdmaDevice};

/// Devices remembered, as long as that many are not there at once: virtual functions and software
/// devices come and go with pods.
const MAX_DEVICES: usize = 512;

impl History {
    /// Forgets devices that are gone beyond the bound, with their ports: the longest gone first,
    /// and those that may be rails last.
    pub(super) fn prune(&mut self) {
        let over = self.devices.len().saturating_sub(MAX_DEVICES);
        if over > 0 {
            let mut gone: Vec<_> = (self.devices.iter())
                .filter(|(_, seen)| seen.missed > 0)
                .map(|(key, seen)| (seen.main_function, seen.last_seen, key.clone()))
                .collect();
            gone.sort();
            for (_, _, key) in gone.into_iter().take(over) {
                self.devices.remove(&key);
            }
        }
        // A port may have been read a moment after its device was forgotten, or be of no device
        // that was ever listed.
        if over > 0 || self.ports.len().max(self.totals.link_edges.len()) > 2 * MAX_DEVICES {
            let devices = &self.devices;
            self.ports
                .retain(|key, _| devices.contains_key(&key.device));
            let edges = &mut self.totals.link_edges;
            edges.retain(|key, _| devices.contains_key(&key.device));
        }
    }
}

/// Whether a device may be a rail: neither a function of another one on this host nor software.
pub(super) fn is_main(device: &RdmaDevice) -> bool {
    matches!(
        device.function,
        Function::Physical | Function::VirtualInGuest
    )
}
