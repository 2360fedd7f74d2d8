//! The part `platform`: which machine it is believed to be, and what the Node promises.

use crate::check::profile::{Certainty, Fabric};
use crate::observe::VfLink;
use crate::report::Report;
use serde::Serialize;
use std::collections::BTreeMap;

pub(super) fn platform(report: &Report) -> impl Serialize {
    let profile = &report.profile;
    let shape = profile.shape;
    let fabric = profile.fabric();
    let rate = shape.map(|shape| u64::from(shape.gbps.0) * 1_000_000_000);
    let resources = shape.map_or(&[][..], |shape| &shape.resources);
    object! {
        profile: profile.name(),
        source: profile.source,
        provider: profile.provider.map(|provider| provider.as_str()),
        instance_type: &profile.instance_type,
        fabric: fabric,
        // By the profile; null where no shape is known.
        rails_expected: shape.map(|shape| shape.rails.0),
        rails_expected_is: shape.map(|shape| match shape.rails.1 {
            Certainty::Yes | Certainty::OnBus => "at_least",
            // As many as were attached at launch.
            Certainty::AtMost => "at_most",
            Certainty::No => "unconfirmed",
        }),
        rate_expected_bits_per_second: rate.filter(|rate| *rate > 0),
        gpus_expected: shape.map(|shape| shape.gpus).filter(|gpus| *gpus > 0),
        // Resources that device plugins offer on such machines.
        resources_usual: resources.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        // What does not exist on such a machine.
        lacks: profile.lacks(),
        // What GPUDirect RDMA takes there, for people.
        gpudirect: fabric.and_then(|fabric| fabric.facts().gpudirect),
        // Modules that GPUDirect RDMA can take there, any of them.
        gpudirect_modules: fabric.map_or(&[][..], |fabric| &fabric.facts().modules),
        rails: profile.rails,
        // What the Node promises; empty without an API server.
        resources: &report.resources,
        // Running pods with GPUDirect-TCPX(O)'s daemon, where rails are gVNICs and pods are known.
        tcp_daemons: report.jobs.tcp_daemons.filter(|_| fabric == Some(Fabric::Gvnic)),
        sriov: functions(report),
    }
}

#[derive(Default, Serialize)]
struct SriovJson {
    total: Option<u32>,
    enabled: u32,
    /// Number of them by bound driver.
    drivers: BTreeMap<String, usize>,
    /// Number of them by administrative link state; null where that is unknown.
    link_states: Option<BTreeMap<VfLink, usize>>,
    /// Numbers (N of `virtfnN`) of those that are set to `disable`.
    link_disabled: Vec<u32>,
}

/// Network functions that can have virtual functions, by PCI address; by interface where the function
/// is not a PCI one.
fn functions(report: &Report) -> BTreeMap<String, SriovJson> {
    let snapshot = &report.snapshot;
    let mut all: BTreeMap<String, SriovJson> = BTreeMap::new();
    for (address, facts) in snapshot.pci.iter().flat_map(|pci| &pci.value.sriov) {
        let of = all.entry(address.clone()).or_default();
        of.total = Some(facts.total);
        of.enabled = facts.enabled;
        for driver in facts.functions.values() {
            let driver = driver.clone().unwrap_or_else(|| "none".into());
            *of.drivers.entry(driver).or_default() += 1;
        }
    }
    for (name, stamp) in &snapshot.vf_links {
        let Some(links) = stamp.value.value() else {
            continue;
        };
        let pci = (snapshot.netdevs.get(name)).and_then(|netdev| netdev.value.pci);
        let key = pci.map_or_else(|| name.clone(), |pci| pci.to_string());
        let of = all.entry(key).or_default();
        let count = u32::try_from(links.states.len()).unwrap_or(u32::MAX);
        of.enabled = of.enabled.max(count);
        let states = of.link_states.insert(BTreeMap::new());
        (links.states.values()).for_each(|state| *states.entry(*state).or_default() += 1);
        of.link_disabled = links.in_state(VfLink::Disable).collect();
    }
    all
}
