//! The node's other facts: driver and GPUDirect, kernel modules, GPUs, sources.

use super::context::Context;
use super::severity_icon::Severity;
use super::text::joined;
use super::topology_layout::{Gpu, Port};
use crate::observe::gpudirect::MODULES_OF_INTEREST;
use crate::observe::pci::Distance;
use crate::observe::snapshot::SourceHealth;
use crate::report::port_view;
use crate::units::Millis;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Reasons for the GPUDirect path and memory peers shown.
const MAX_WORDS: usize = 12;

impl<'a> Context<'a> {
    /// All ports, worst first.
    pub(super) fn ports(&self) -> Vec<&'a Port<'a>> {
        let mut ports: Vec<&Port<'_>> = self.layout.ports.iter().collect();
        ports.sort_by_key(|port| (Reverse(port.severity.attention()), !port.view.is_rail()));
        ports
    }

    /// All GPUs, worst first.
    pub(super) fn gpu_rows(&self) -> Vec<&'a Gpu<'a>> {
        let mut gpus: Vec<&Gpu<'_>> = self.layout.gpus.iter().collect();
        gpus.sort_by_key(|gpu| Reverse(gpu.severity.attention()));
        gpus
    }

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
        let how = match best {
            Distance::Pix => "PIX",
            Distance::Pxb => "PXB",
            Distance::Phb => "PHB",
            Distance::Sys => "SYS",
        };
        Some(format!("{} ({how})", joined(&names, ", ", 4)))
    }

    pub(super) fn gpudirect_facts(&self) -> Vec<(&'static str, String)> {
        let report = self.report;
        let facts = port_view::gpudirect(report);
        let driver = facts.and_then(|facts| facts.driver.value());
        let driver = driver.map(|driver| match driver.open {
            Some(true) => format!("{}, open kernel module", driver.version),
            Some(false) => format!("{}, proprietary kernel module", driver.version),
            None => driver.version.clone(),
        });
        let peers = facts.and_then(|facts| facts.memory_peers.value());
        let iommu = facts.and_then(|facts| facts.iommu_active.value());
        let iommu = iommu.map(|active| match active {
            true => "active".into(),
            false => "not active".into(),
        });
        let storage = port_view::gds_name(port_view::gds_ready(report)).to_string();
        let path = port_view::path_name(report.gpudirect.path).to_string();
        let mut all = vec![
            ("NVIDIA driver", driver),
            (
                "Kernel",
                facts.and_then(|facts| facts.kernel_release.clone()),
            ),
            ("GPUDirect RDMA", Some(path)),
            (
                "… because",
                Some(joined(&report.gpudirect.why, "; ", MAX_WORDS)),
            ),
            ("GPUDirect Storage", Some(storage)),
            (
                "Memory peers",
                peers.map(|peers| joined(peers, "; ", MAX_WORDS)),
            ),
            ("IOMMU", iommu),
        ];
        if let Some(version) = facts.and_then(|facts| facts.ofed_version.clone()) {
            all.push(("DOCA-OFED", Some(version)));
        }
        let shown = |value: Option<String>| value.filter(|value| !value.is_empty());
        all.into_iter()
            .map(|(name, value)| (name, shown(value).unwrap_or_else(|| "–".into())))
            .collect()
    }

    /// Loaded modules with their versions, and those not loaded; `None` where the list is unreadable.
    pub(super) fn modules(&self) -> Option<(String, String)> {
        let loaded = port_view::modules(self.report)?;
        let (on, off): (Vec<&str>, Vec<&str>) = MODULES_OF_INTEREST
            .iter()
            .copied()
            .partition(|name| loaded.contains_key(*name));
        let version = |name: &&str| loaded.get(*name)?.version.as_deref();
        let on: Vec<String> = on
            .iter()
            .map(|name| match version(name) {
                Some(version) => format!("{name} {version}"),
                None => (*name).to_string(),
            })
            .collect();
        Some((on.join(", "), off.join(", ")))
    }

    /// Every source, worst first.
    pub(super) fn sources(&self) -> Vec<(&'a str, Source<'a>)> {
        let mut sources: BTreeMap<&str, Source<'_>> = BTreeMap::new();
        for health in self.report.snapshot.sources.values() {
            sources.entry(&health.source).or_default().add(health);
        }
        let mut sources: Vec<_> = sources.into_iter().collect();
        sources.sort_by_key(|(_, source)| Reverse(source.state().0.attention()));
        sources
    }
}

/// All subjects of one source.
#[derive(Default)]
pub(super) struct Source<'a> {
    pub(super) subjects: usize,
    absent: usize,
    stalled: usize,
    failing: usize,
    micros: u64,
    last_ok: Option<Millis>,
    never: bool,
    pub(super) detail: Option<&'a str>,
}

impl<'a> Source<'a> {
    fn add(&mut self, health: &'a SourceHealth) {
        self.subjects += 1;
        if health.absent {
            self.absent += 1;
            return;
        }
        self.stalled += usize::from(health.stalled_since.is_some());
        let fails = !port_view::source_up(health) && health.stalled_since.is_none();
        self.failing += usize::from(fails);
        self.micros = self.micros.max(health.micros);
        self.never |= health.last_ok.is_none();
        // The oldest of all subjects' values.
        self.last_ok = match (self.last_ok, health.last_ok) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let detail = health.fault.as_ref().map(|fault| fault.detail.as_str());
        self.detail = self.detail.or(detail);
    }

    fn state(&self) -> (Severity, &'static str) {
        match (self.stalled, self.failing) {
            (1.., _) => (Severity::Failing, "stalled"),
            (0, 1..) if self.detail.is_none() => (Severity::Unknown, "not read yet"),
            (0, 1..) => (Severity::Degraded, "failing"),
            (0, 0) if self.absent == self.subjects => (Severity::Off, "absent"),
            (0, 0) => (Severity::Ok, "up"),
        }
    }

    pub(super) fn severity(&self) -> Severity {
        self.state().0
    }

    /// The state, with a count where it is not that of all subjects.
    pub(super) fn word(&self) -> String {
        let word = self.state().1;
        match (self.stalled, self.failing) {
            (0, 0) => word.to_string(),
            (0, some) | (some, _) if some < self.subjects => format!("{some} {word}"),
            _ => word.to_string(),
        }
    }

    pub(super) fn slowest(&self) -> Option<String> {
        let read = self.subjects > self.absent;
        read.then(|| format!("{:.1} ms", self.micros as f64 / 1000.0))
    }

    pub(super) fn age(&self, page: &Context<'_>) -> Option<String> {
        match self.never && self.subjects > self.absent {
            true => Some("never read".into()),
            false => self.last_ok.map(|at| page.ago(&at)),
        }
    }
}
