//! What the machine is taken for, and what the Node promises.

use crate::check::profile::{Fabric, Sure};
use crate::observe::pci::SriovFacts;
use crate::observe::vf::{VfLink, VfLinks};
use crate::report::{Report, Resource};
use serde::Serialize;
use std::collections::BTreeMap;

/// The part `platform`.
#[derive(Debug, Serialize)]
pub(super) struct Platform<'a> {
    profile: &'static str,
    source: &'static str,
    provider: Option<&'static str>,
    instance_type: Option<&'a str>,
    fabric: Option<Fabric>,
    /// By the profile; none where no shape is known.
    rails_expected: Option<u32>,
    /// `at_least`, `at_most` (as many as were attached at launch), `unconfirmed`.
    rails_expected_is: Option<&'static str>,
    rate_expected_bits_per_second: Option<u64>,
    gpus_expected: Option<u32>,
    /// Resources that device plugins offer on such machines.
    resources_usual: Vec<&'static str>,
    /// What does not exist on such a machine.
    lacks: &'static [&'static str],
    /// What GPUDirect RDMA takes there, for people.
    gpudirect: Option<&'static str>,
    /// Modules that GPUDirect RDMA can take there, any of them.
    gpudirect_modules: &'static [&'static str],
    rails: usize,
    /// What the Node promises; empty without an API server.
    resources: &'a [Resource],
    /// Running pods with GPUDirect-TCPX(O)'s daemon, where rails are gVNICs and pods are known.
    tcp_daemons: Option<usize>,
    /// Network functions that can have virtual functions, by address; by interface where the function
    /// is none of PCI's.
    sriov: BTreeMap<String, Sriov>,
}

#[derive(Debug, Default, Serialize)]
struct Sriov {
    total: Option<u32>,
    enabled: u32,
    /// Number of them by bound driver.
    drivers: BTreeMap<String, usize>,
    /// Number of them by administrative link state; null where that is not told.
    link_states: Option<BTreeMap<VfLink, usize>>,
    /// Numbers (N of `virtfnN`) of those that are set to `disable`.
    link_disabled: Vec<u32>,
}

impl<'a> Platform<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let profile = &report.profile;
        let shape = profile.shape;
        let fabric = profile.fabric();
        Platform {
            profile: profile.name(),
            source: profile.source.as_str(),
            provider: profile.provider.map(|provider| provider.as_str()),
            instance_type: profile.instance_type.as_deref(),
            fabric,
            rails_expected: shape.map(|shape| shape.rails.0),
            rails_expected_is: shape.map(|shape| match shape.rails.1 {
                Sure::Yes => "at_least",
                Sure::AtMost => "at_most",
                Sure::No => "unconfirmed",
            }),
            rate_expected_bits_per_second: shape
                .map(|shape| u64::from(shape.gbps.0) * 1_000_000_000)
                .filter(|rate| *rate > 0),
            gpus_expected: shape.map(|shape| shape.gpus).filter(|gpus| *gpus > 0),
            resources_usual: shape.map_or(Vec::new(), |shape| {
                shape.resources.iter().map(|(name, _)| *name).collect()
            }),
            lacks: profile.lacks(),
            gpudirect: fabric.and_then(Fabric::gpudirect),
            gpudirect_modules: fabric.map_or(&[], Fabric::gpudirect_modules),
            rails: profile.rails,
            resources: &report.resources,
            tcp_daemons: report
                .jobs
                .tcp_daemons
                .filter(|_| fabric == Some(Fabric::Gvnic)),
            sriov: functions(report),
        }
    }
}

fn functions(report: &Report) -> BTreeMap<String, Sriov> {
    let snapshot = &report.snapshot;
    let by_pci = snapshot.pci.iter().flat_map(|pci| &pci.value.sriov);
    let mut all: BTreeMap<String, Sriov> = by_pci
        .map(|(address, facts)| (address.clone(), sriov(facts)))
        .collect();
    for (name, stamp) in &snapshot.vf_links {
        let Some(links) = stamp.value.value() else {
            continue;
        };
        let pci = (snapshot.netdevs.get(name)).and_then(|netdev| netdev.value.pci);
        let key = pci.map_or_else(|| name.clone(), |pci| pci.to_string());
        let of = all.entry(key).or_default();
        link_states(of, links);
    }
    all
}

fn link_states(of: &mut Sriov, links: &VfLinks) {
    let count = links.states.len();
    of.enabled = of.enabled.max(u32::try_from(count).unwrap_or(u32::MAX));
    let mut states = BTreeMap::new();
    for state in links.states.values() {
        *states.entry(*state).or_default() += 1;
    }
    of.link_states = Some(states);
    of.link_disabled = links.in_state(VfLink::Disable).collect();
}

fn sriov(facts: &SriovFacts) -> Sriov {
    let mut drivers = BTreeMap::new();
    for driver in facts.functions.values() {
        let driver = driver.clone().unwrap_or_else(|| "none".into());
        *drivers.entry(driver).or_default() += 1;
    }
    Sriov {
        total: Some(facts.total),
        enabled: facts.enabled,
        drivers,
        ..Sriov::default()
    }
}
