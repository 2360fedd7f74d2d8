//! Which subjects there are, as devices come and go.

use super::reads::{
    CountersRead, DcbRead, Dot1xRead, EthtoolRead, GidsRead, GvnicRead, LinkRead, NetdevRead,
    PciRead, VfLinksRead,
};
use super::schedule::Subject;
use super::{Sampler, snapshot_update};
use crate::glob::{self, Glob};
use crate::observe::counters::PmaSkip;
use crate::observe::rdma::RdmaDevice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Sampler {
    /// Adds and drops subjects as devices come and go.
    pub(super) fn follow_devices(
        &mut self,
        before: Option<&Vec<RdmaDevice>>,
        netdevs: &BTreeSet<String>,
    ) {
        let Some(devices) = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value)) else {
            return;
        };
        let unchanged: BTreeSet<&str> = devices
            .iter()
            .filter(|device| before.is_some_and(|before| before.contains(device)))
            .map(|device| device.key.0.as_str())
            .collect();
        let keep = |subject: &Subject| match subject {
            Subject::Devices | Subject::GpuDirect | Subject::Pci => true,
            // Of another set of network devices it is another read.
            Subject::Dot1x => *netdevs == self.netdevs,
            Subject::Link(key) | Subject::Counters(key) | Subject::Gids(key) => {
                unchanged.contains(key.as_str())
            }
            Subject::Netdev(name)
            | Subject::Ethtool(name)
            | Subject::Dcb(name)
            | Subject::VfLinks(name) => netdevs.contains(name),
        };
        self.schedule.retain(keep);
        self.readers.retain(|subject, _| keep(subject));
        self.outdated.retain(keep);
        snapshot_update::forget(&mut self.snapshot, &devices, netdevs);

        let plan = self.plan.clone();
        for device in devices.iter() {
            if unchanged.contains(device.key.0.as_str())
                && self.schedule.contains(&Subject::Link(device.key.0.clone()))
            {
                continue;
            }
            let key = device.key.0.clone();
            if device.is_gvnic() {
                // Its counters are the interface's, and it has no GIDs.
                self.add(
                    Subject::Link(key),
                    plan.link,
                    Box::new(GvnicRead::new(device)),
                );
                continue;
            }
            let skip = self.skips_of(device);
            let link = LinkRead::new(device, plan.netlink);
            let counters = CountersRead::new(device, plan.netlink, plan.essential_only, skip);
            self.add(Subject::Link(key.clone()), plan.link, Box::new(link));
            self.add(
                Subject::Counters(key.clone()),
                plan.counters,
                Box::new(counters),
            );
            let gids = GidsRead {
                device: device.clone(),
            };
            self.add(Subject::Gids(key), plan.gids, Box::new(gids));
        }
        for name in netdevs {
            if self.schedule.contains(&Subject::Netdev(name.clone())) {
                continue;
            }
            let netdev = NetdevRead::new(name);
            self.add(Subject::Netdev(name.clone()), plan.netdev, Box::new(netdev));
            self.add(
                Subject::Ethtool(name.clone()),
                plan.ethtool,
                Box::new(EthtoolRead::new(name)),
            );
            let dcb = DcbRead { name: name.clone() };
            self.add(Subject::Dcb(name.clone()), plan.dcb, Box::new(dcb));
            let functions = VfLinksRead { name: name.clone() };
            let subject = Subject::VfLinks(name.clone());
            self.add(subject, plan.pci, Box::new(functions));
        }
        if !netdevs.is_empty() && !self.schedule.contains(&Subject::Dot1x) {
            let names = netdevs.clone();
            self.add(Subject::Dot1x, plan.dot1x, Box::new(Dot1xRead { names }));
        }
        self.netdevs.clone_from(netdevs);
        let rdma: BTreeSet<_> = devices.iter().filter_map(|device| device.pci).collect();
        let same = before.is_some_and(|before| {
            before
                .iter()
                .filter_map(|device| device.pci)
                .collect::<BTreeSet<_>>()
                == rdma
        });
        if !same || !self.schedule.contains(&Subject::Pci) {
            self.schedule.retain(|subject| *subject != Subject::Pci);
            self.add(Subject::Pci, plan.pci, Box::new(PciRead { rdma }));
        }
    }

    fn skips_of(&self, device: &RdmaDevice) -> BTreeMap<u32, PmaSkip> {
        let excluded = excluded(&self.plan.exclude, device);
        device
            .ports
            .iter()
            .filter_map(|port| {
                let skip = if excluded {
                    Some(PmaSkip::Excluded)
                } else {
                    self.skips.get(&device.port_key(port.number)).copied()
                };
                skip.map(|skip| (port.number, skip))
            })
            .collect()
    }
}

/// Whether the operator excludes the device from counter reads, by name or PCI address.
pub fn excluded(exclude: &[Glob], device: &RdmaDevice) -> bool {
    glob::any_matches(exclude, &device.name)
        || device
            .pci
            .is_some_and(|pci| glob::any_matches(exclude, &pci.to_string()))
}
