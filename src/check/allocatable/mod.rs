//! What the Node promises to pods, against what the kernel has; and what such a machine should have.
//!
//! Findings about resources need the API server; without it there are none. A number is compared only
//! where it is known what it counts: slots of shared devices are not NICs, and time slicing makes more
//! GPUs out of few.

mod numbers;
mod resources;
mod vfs;

use super::device_missing::without_driver::guessed_rails;
use super::expected::{Attribute, Sources};
use super::profile::{Certainty, Fabric, Provider};
use super::{Basis, Candidate, Context, PortView, Reason, Status, Weight};
use crate::observe::{Distance, NodeResources, PciFacts, is_gpu_resource, is_rdma_resource};
pub use resources::{Present, is_for_rdma, present};
use std::collections::BTreeMap;

check!(promised, run);

/// A resource, promised and present.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Resource {
    /// `vpc.amazonaws.com/efa`.
    pub name: String,
    /// What pods can have.
    pub allocatable: Option<u64>,
    /// What the device plugin registered.
    pub capacity: Option<u64>,
    /// Devices that the kernel has of it; none where that cannot be counted.
    pub devices: Option<u64>,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = fewer_than_promised(context).into_iter().collect();
    if let Some(offer) = context.offer {
        let missing = missing(context, offer);
        for (name, offered) in &offer.resources {
            // That none is there at all is reported once.
            if missing.is_none() || offered.allocatable != Some(0) {
                found.extend(numbers::judge(context, name, *offered));
            }
        }
        found.extend(missing);
        found.extend(vfs::without_verbs(context, offer));
        found.extend(vfs::link_disabled(context, offer));
    }
    found
}

fn say(context: &Context<'_>, reason: Reason, name: &str, message: String) -> Candidate {
    context.candidate(reason, (name, name), message)
}

/// How many rails such a machine has. Fewer than are configured is device_missing's.
pub const SHAPE_RAILS: Attribute = Attribute::new(
    "rails of the machine",
    &[(&[Basis::Shape], "FewerDevicesThanPromised")],
);

/// Rails of this boot against the shape's. Fewer are also excused by NICs that `device_missing` counts as
/// rails without an RDMA device, and, in a virtual machine, by missing GPUs: it may be a share. On bare metal
/// a missing GPU excuses nothing.
fn fewer_than_promised(context: &Context<'_>) -> Option<Candidate> {
    let (profile, pci) = (context.profile?, context.pci()?);
    let shape = profile.shape?;
    let (promised, sure) = shape.rails;
    let split = pci.virtual_machine && resources::gpus(pci) < u64::from(shape.gpus);
    let all_there = || profile.rails + guessed_rails(context) >= promised as usize;
    if sure == Certainty::No || split || context.fewer_rails_are_excused() || all_there() {
        return None;
    }
    let fixed = profile.rails_on_bus().is_some();
    let sure_of = match fixed {
        true => Certainty::Yes,
        false => Certainty::AtMost,
    };
    let sources = Sources {
        shape: Some((promised.into(), sure_of)),
        ..Sources::default()
    };
    let short = SHAPE_RAILS.shortfall(profile.rails as u64, 1.0, &sources)?;
    let why = match sure {
        Certainty::AtMost => "fewer were attached at launch, or some did not come up",
        _ => "some did not come up",
    };
    let (rails, name) = (profile.rails, shape.name);
    let message = format!("{rails} rails, where {name} has {promised}: {why}");
    let found = say(context, short.reason, "rails", message)
        .with("rails", rails)
        .with("promised", promised)
        .with("profile", name);
    let mut found = short.found(found, promised.into());
    // Without any rail the loss is unknown, and a missing fabric is not a partial one. But a bus without
    // a single NIC, of a machine that always has them, leaves no doubt; nor do a few that are next to no GPU.
    let none_near_gpus = (rails > 0 || numbers::none_there(context))
        && (pci.bare.values()).all(|nic| nic.is_unidentified() || are_far(&nic.distances))
        && !pci.virtual_machine
        && 2 * rails <= promised as usize
        && context.rails().count() == rails
        && context.rails().all(|rail| is_far_from_gpus(pci, rail));
    if fixed && sure == Certainty::OnBus && none_near_gpus {
        found.status = Status::Failing;
    } else if rails == 0 {
        found.status = Status::Unknown;
    }
    Some(found)
}

/// Whether a port is next to no GPU, as those for storage are. In a segment without GPUs, as on Grace, no NIC is.
fn is_far_from_gpus(pci: &PciFacts, port: &PortView<'_>) -> bool {
    let place = port.device.pci;
    let shares = place.is_some_and(|at| pci.gpus.iter().any(|gpu| gpu.domain == at.domain));
    let distances = (port.address()).and_then(|address| pci.distances.get(&address));
    shares && distances.is_some_and(are_far)
}

fn are_far(gpus: &BTreeMap<String, Distance>) -> bool {
    !gpus.is_empty() && !gpus.values().any(|gpu| gpu.is_near())
}

/// No RDMA resource at all.
fn missing(context: &Context<'_>, offer: &NodeResources) -> Option<Candidate> {
    let profile = context.profile?;
    let offered = || offer.resources.iter().filter(|(_, of)| of.size() > 0);
    let any = |kind: fn(&str) -> bool| offered().any(|(name, _)| kind(name));
    let rails = context.rails().count();
    if rails == 0 || !any(is_gpu_resource) {
        return None;
    }
    if let Some(named) = &profile.resource {
        // A different resource does not replace the one that jobs request.
        return (!offered().any(|(name, _)| name == named)).then(|| {
            let message = format!(
                "the node has {rails} rails but offers no {named}: pods run here without RDMA"
            );
            let found = say(context, "ResourceMissing", named, message);
            found.weighing(Weight::Verdict).with("rails", rails)
        });
    }
    let fabric = profile.fabric();
    // On GKE networks come by annotation or as claims; the names of resources are not known here.
    let by_other_means = fabric == Some(Fabric::Gvnic) || profile.provider == Some(Provider::Gcp);
    if any(is_rdma_resource) || by_other_means {
        return None;
    }
    let message = format!(
        "the node has {rails} rails and offers GPUs but no RDMA resource: pods run here without RDMA, unless they use resource claims (DRA) or the host network"
    );
    let usual = profile.shape.and_then(|shape| shape.resources.first());
    let found = say(context, "ResourceMissing", "rdma", message).with("rails", rails);
    Some(found.with("usual", usual.map(|(usual, _)| *usual)))
}

/// Every resource for RDMA and GPUs that the Node tells, with what there is of it.
pub fn resources(context: &Context<'_>) -> Vec<Resource> {
    let resources = context.offer.into_iter().flat_map(|offer| &offer.resources);
    let counted = resources.map(|(name, offered)| Resource {
        name: name.clone(),
        allocatable: offered.allocatable,
        capacity: offered.capacity,
        devices: present(context, name, offered.size()).and_then(Present::exactly),
    });
    counted.collect()
}

#[cfg(test)]
mod tests;
