//! The node's other facts: driver and GPUDirect, kernel modules, GPUs, sources.

use super::{badge::Badge, context::PageContext, text::joined, topology_layout::Gpu};
use crate::observe::{GpuDirectFacts, MODULES_OF_INTEREST};
use crate::report::port_view::{self, FactSource};
use std::cmp::Reverse;

impl<'a> PageContext<'a> {
    /// Model of a GPU as the driver names it.
    pub(super) fn model(&self, gpu: &Gpu<'_>) -> Option<&'a str> {
        let mut gpus = port_view::gpudirect(self.report)?.gpus.iter();
        let known = gpus.find(|known| known.pci.parse() == Ok(gpu.bdf))?;
        known.model.as_deref()
    }

    /// The devices nearest to a GPU, and how near.
    pub(super) fn nearest(&self, gpu: &Gpu<'_>) -> Option<String> {
        let pci = &self.report.snapshot.pci.as_ref()?.value;
        if pci.virtual_machine && pci.distances.is_empty() {
            return None;
        }
        let gpu = gpu.bdf.to_string();
        let near = |nic: &String| pci.distances.get(nic)?.get(&gpu).copied();
        let best = pci.distances.keys().filter_map(near).min()?;
        let devices = self.report.snapshot.devices.as_ref()?;
        let is_nearest = |pci: crate::units::Bdf| near(&pci.to_string()) == Some(best);
        let names: Vec<&str> = (devices.value.iter())
            .filter(|device| device.pci.is_some_and(is_nearest))
            .map(|device| device.name.as_str())
            .collect();
        let how = best.as_str();
        Some(format!("{} ({how})", joined(&names, ", ", 4)))
    }

    /// Facts of the GPUDirect path, empty before they were read.
    pub(super) fn gpudirect(&self) -> GpuDirectFacts {
        port_view::gpudirect(self.report)
            .cloned()
            .unwrap_or_default()
    }

    /// Loaded modules with their versions, and those not loaded; `None` where the list is unreadable.
    pub(super) fn modules(&self) -> Option<(String, String)> {
        let loaded = port_view::modules(self.report)?;
        let (mut on, mut off) = (Vec::new(), Vec::new());
        for name in MODULES_OF_INTEREST.split(' ') {
            match loaded.get(name) {
                Some(module) => on.push(match &module.version {
                    Some(version) => format!("{name} {version}"),
                    None => name.to_string(),
                }),
                None => off.push(name),
            }
        }
        Some((on.join(", "), off.join(", ")))
    }

    /// Every source, worst first.
    pub(super) fn sources(&self) -> Vec<(&'a str, FactSource<'a>)> {
        let mut sources: Vec<_> = port_view::sources(self.report).into_iter().collect();
        sources.sort_by_key(|(_, source)| Reverse(source.state().0.attention()));
        sources
    }
}

impl FactSource<'_> {
    fn state(&self) -> (Badge, &'static str) {
        match (self.stalled, self.failing) {
            (1.., _) => (Badge::Failing, "stalled"),
            (0, 1..) if self.detail.is_none() => (Badge::Unknown, "not read yet"),
            (0, 1..) => (Badge::Degraded, "failing"),
            (0, 0) if self.is_absent() => (Badge::Off, "absent"),
            (0, 0) => (Badge::Ok, "up"),
        }
    }

    pub(super) fn severity(&self) -> Badge {
        self.state().0
    }

    /// The state, with a count where it is not that of all subjects.
    pub(super) fn word(&self) -> String {
        let word = self.state().1;
        let some = match self.stalled {
            0 => self.failing,
            stalled => stalled,
        };
        match some {
            1.. if some < self.subjects => format!("{some} {word}"),
            _ => word.to_string(),
        }
    }
}
