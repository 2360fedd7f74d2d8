//! Which subjects there are, as devices come and go.

use super::schedule::Subject;
use super::sources::{SOURCES, Scope, Source};
use super::{Sampler, snapshot_update};
use crate::glob::{self, Glob};
use crate::observe::rdma::RdmaDevice;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Sampler {
    /// Adds and drops subjects after an enumeration. `before`: the devices of the one before.
    pub(super) fn follow_devices(
        &mut self,
        before: Option<&Vec<RdmaDevice>>,
        netdevs: &BTreeSet<String>,
    ) {
        let Some(devices) = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value)) else {
            return;
        };
        let unchanged: BTreeSet<&str> = (devices.iter())
            .filter(|device| before.is_some_and(|before| before.contains(device)))
            .map(|device| device.key.0.as_str())
            .collect();
        let same_inventory = before == Some(&*devices) && *netdevs == self.netdevs;
        let keep = |subject: &Subject| match scope_of(subject) {
            Scope::Node => true,
            // Of other devices it is another read.
            Scope::Inventory => same_inventory,
            Scope::Device => unchanged.contains(subject.name.as_str()),
            Scope::Interface => netdevs.contains(&subject.name),
        };
        self.schedule.retain(keep);
        self.readers.retain(|subject, _| keep(subject));
        self.outdated.retain(keep);
        snapshot_update::forget(&mut self.snapshot, &devices, netdevs);
        self.netdevs.clone_from(netdevs);
        for source in SOURCES {
            match source.scope {
                Scope::Node => {}
                Scope::Inventory => self.add(source, ""),
                Scope::Device => {
                    for device in devices.iter() {
                        self.add(source, &device.key.0);
                    }
                }
                Scope::Interface => {
                    for name in netdevs {
                        self.add(source, name);
                    }
                }
            }
        }
    }
}

fn scope_of(subject: &Subject) -> Scope {
    super::sources::source(subject.source).map_or(Scope::Node, |source: &Source| source.scope)
}

/// Whether the operator excludes the device from counter reads, by name or PCI address.
pub fn excluded(exclude: &[Glob], device: &RdmaDevice) -> bool {
    glob::any_matches(exclude, &device.name)
        || device
            .pci
            .is_some_and(|pci| glob::any_matches(exclude, &pci.to_string()))
}
