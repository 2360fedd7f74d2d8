//! What the Node promises to pods, against what the kernel has; and what such a machine should have.
//!
//! What is said of resources needs the API server; without it there is nothing to say. A number
//! counts only where it is sure what it is a number of: slots of shared devices are no NICs, and
//! time slicing makes more GPUs out of few.

mod resources;
mod vfs;

use super::profile::{Fabric, Profile, Source, Sure};
use super::{Candidate, Check, Context, ReasonDoc, Status, Weight};
use crate::observe::offer::{NodeOffer, Offered, is_whole_gpus};
use crate::observe::pod::{is_gpu_resource, is_rdma_resource};
use crate::observe::snapshot::NetnsMode;
pub use resources::{MOST_NICS, Present, is_for_rdma, present};

const ID: &str = "promised";

const FEWER_THAN_PROMISED: ReasonDoc = ReasonDoc {
    reason: "FewerDevicesThanPromised",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "Machines of this shape have more rails. Counts for the verdict where the shape is told by settings, label or DMI, its number is proven and fixed, and the GPUs are all there; where the owner chooses the number at launch (EFA) it is a notice. Unknown where no rail is there at all.",
    remedy: "Compare `lspci` with a node of the same shape. Attached fewer on purpose (EFA interfaces of the launch template), or the table is old: set `policy.expect.rails`, or `platform.profile = \"none\"`.",
};
const MISSING: ReasonDoc = ReasonDoc {
    reason: "ResourceMissing",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "Rails and GPUs are there, the Node offers GPUs, and no RDMA resource at all: pods run here without RDMA, and nothing tells them. Counts for the verdict where `platform.resource` names the resource, or on EFA, where pods have no other way. A notice elsewhere: on the host's network, or with resource claims, pods need none.",
    remedy: "Look for the device plugin's pod on this node (EFA, RDMA shared, SR-IOV network device plugin; network operator): `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`. If pods are meant to go without, mute the check.",
};
const FEWER: ReasonDoc = ReasonDoc {
    reason: "ResourceFewerThanDevices",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "The device plugin offers fewer devices than the kernel has, or none any more: gangs that need all of them do not fit here. A notice where the plugin may have been told to offer fewer.",
    remedy: "Restart the device plugin's pod on this node, and read its log: it lists devices when it starts, and drops what it takes for unhealthy.",
};
const MORE: ReasonDoc = ReasonDoc {
    reason: "ResourceMoreThanDevices",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "The Node promises more devices than the kernel has: pods are placed here and fail to start, or run without RDMA. A notice for `rdma/…`, whose numbers may be slots.",
    remedy: "Find out why devices are gone (driver, `sriov_numvfs`, `lspci`), then restart the device plugin's pod so that it counts anew.",
};
const RATIO: ReasonDoc = ReasonDoc {
    reason: "ResourceRatio",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "Devices offered per GPU are another number than rails per GPU: a job that asks by the hardware's ratio (`efaDevicesPerGPU`, `rdmaDevicesPerGPU`) gets several of one NIC and none of another.",
    remedy: "Make as many virtual functions as there are rails (`numVfs: 1` in the policy), or have jobs ask for what the message says.",
};
const GPU_MISMATCH: ReasonDoc = ReasonDoc {
    reason: "GpuResourceMismatch",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "The Node offers another number of GPUs than are on the PCI bus. Not judged with MIG, with time slicing, and for GPUs that are handed to virtual machines.",
    remedy: "Look at the log of the GPU device plugin on this node, and at `nvidia-smi -L`: it takes GPUs with certain Xid errors out.",
};
/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "Promised and present",
    what: "Resources for RDMA and GPUs in the Node's allocatable and capacity against the devices that the kernel has, the number per GPU, whether virtual functions can be used, and the rails against what machines of this shape have (`platform.profile`). Waits longer than a device plugin's restart takes. Slots of shared devices (`rdma/hca_shared_devices_a`, any number above 32) are not counted. Without the API server nothing is said of resources; a table alone never makes a node failing.",
    reasons: &[
        FEWER_THAN_PROMISED,
        MISSING,
        FEWER,
        MORE,
        RATIO,
        GPU_MISMATCH,
        vfs::WITHOUT_VERBS,
        vfs::LINK_DISABLED,
    ],
    run,
};

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
            // That none is there at all is told once.
            if missing.is_none() || offered.allocatable != Some(0) {
                found.extend(of_resource(context, offer, name, *offered));
            }
        }
        found.extend(missing);
        found.extend(vfs::without_verbs(context, offer));
        found.extend(vfs::link_disabled(context, offer));
    }
    found
}

fn say(context: &Context<'_>, doc: &ReasonDoc, name: &str, message: String) -> Candidate {
    let timing = context.policy.promised.timing();
    doc.candidate(ID, (name, name), timing, message)
}

/// Rails of this boot against the shape's. Whatever else speaks for fewer silences it: the
/// operator's numbers and patterns, rails in pods' namespaces, NICs without an RDMA device
/// (device_missing names those without a driver; the others are virtual machines'), GPUs that are not
/// all here either (a machine that was split).
fn fewer_than_promised(context: &Context<'_>) -> Option<Candidate> {
    let profile = context.profile?;
    let shape = profile.shape?;
    let (promised, sure) = shape.rails;
    let expect = &context.policy.expect;
    context.snapshot.devices.as_ref()?;
    if sure == Sure::No
        || profile.rails >= promised as usize
        || expect.rails.is_some()
        || context.snapshot.netns_mode == Some(NetnsMode::Exclusive)
        || profile.roles_set
    {
        return None;
    }
    let pci = context.pci()?;
    let split = resources::gpus(pci) < u64::from(shape.gpus);
    if split || profile.rails + pci.bare.len() >= promised as usize {
        return None;
    }
    let fixed = sure == Sure::Yes && profile.source != Source::Pci;
    let message = format!(
        "{} rails, where {} has {promised}: {}",
        profile.rails,
        shape.name,
        match sure {
            Sure::AtMost => "fewer were attached at launch, or some did not come up",
            _ => "some did not come up",
        }
    );
    let mut found = say(context, &FEWER_THAN_PROMISED, "rails", message)
        .weighing(if fixed {
            Weight::Verdict
        } else {
            Weight::Notice
        })
        .with("rails", profile.rails)
        .with("promised", promised)
        .with("profile", shape.name);
    if profile.rails == 0 {
        // With no rail to go by, nobody knows what is lost; and no fabric is not a part of one.
        found.status = Status::Unknown;
    }
    Some(found)
}

/// No RDMA resource at all.
fn missing(context: &Context<'_>, offer: &NodeOffer) -> Option<Candidate> {
    let profile = context.profile?;
    let is_offered = |name: &str| {
        let offered = offer.resources.get(name);
        offered.is_some_and(|of| of.allocatable.max(of.capacity).unwrap_or(0) > 0)
    };
    let any = |kind: fn(&str) -> bool| {
        let mut names = offer.resources.keys();
        names.any(|name| kind(name) && is_offered(name))
    };
    let rails = context.rails().count();
    if rails == 0 || !any(is_gpu_resource) {
        return None;
    }
    if let Some(named) = &profile.resource {
        // Another one is no replacement for the one that jobs are written for.
        return (!is_offered(named)).then(|| {
            let message = format!(
                "{rails} rails are there, and the Node offers no {named}: pods run here without RDMA"
            );
            let found = say(context, &MISSING, named, message);
            found.weighing(Weight::Verdict).with("rails", rails)
        });
    }
    let fabric = profile.fabric();
    // On GKE networks come by annotation or as claims; what its resources are called is not told.
    let by_other_means =
        fabric == Some(Fabric::Gvnic) || profile.provider == Some(super::profile::Provider::Gcp);
    if any(is_rdma_resource) || by_other_means {
        return None;
    }
    let message = format!(
        "{rails} rails are there and GPUs are offered, but no RDMA resource: pods run here without RDMA"
    );
    let efa = fabric == Some(Fabric::Efa);
    let usual = profile.shape.and_then(|shape| shape.resources.first());
    let mut found = say(context, &MISSING, "rdma", message)
        .weighing(if efa { Weight::Verdict } else { Weight::Notice })
        .with("rails", rails);
    if let Some((usual, _)) = usual {
        found = found.with("usual", *usual);
    }
    Some(found)
}

fn of_resource(
    context: &Context<'_>,
    offer: &NodeOffer,
    name: &str,
    offered: Offered,
) -> Option<Candidate> {
    let allocatable = offered.allocatable?;
    if is_whole_gpus(name) {
        return gpus(context, offer, name, allocatable);
    }
    let most = allocatable.max(offered.capacity.unwrap_or(0));
    let rails = context.rails().count() as u64;
    let numbers = |found: Candidate, devices: u64| {
        let found = found
            .with("allocatable", allocatable)
            .with("devices", devices);
        match offered.capacity {
            Some(capacity) => found.with("capacity", capacity),
            None => found,
        }
    };
    match present(context, name, most) {
        Present::Exactly(have) if allocatable > have => {
            let message = format!("{allocatable} of {name} are promised, and {have} are there");
            Some(numbers(say(context, &MORE, name, message), have))
        }
        Present::Exactly(have) if allocatable < have => {
            let message = if allocatable == 0 {
                format!(
                    "none of {name} is offered, and {have} are there: its device plugin is not up"
                )
            } else {
                format!("{allocatable} of {name} are offered, and {have} are there")
            };
            // Where what is offered is all that the machine is known to have for pods, the rest is
            // the platform's (EFA functions that no GPU is near).
            let short = allocatable == 0
                || usual_number(context.profile, name)
                    .is_some_and(|usual| allocatable < u64::from(usual));
            let weight = if short {
                Weight::Verdict
            } else {
                Weight::Notice
            };
            Some(numbers(
                say(context, &FEWER, name, message).weighing(weight),
                have,
            ))
        }
        Present::AtMost(most) if allocatable > most => {
            let message = format!(
                "{allocatable} of {name} are promised, and {most} functions are there that could be meant"
            );
            // The shared device plugin's names are free, and so is its number of slots.
            let weight = match name.starts_with("rdma/") {
                true => Weight::Notice,
                false => Weight::Verdict,
            };
            let found = say(context, &MORE, name, message).weighing(weight);
            Some(numbers(found, most))
        }
        Present::AtMost(_) if is_for_rdma(name) && rails > 0 && most > 0 && allocatable < rails => {
            // A pool may be meant to be smaller, unless it was larger.
            let gone = offered
                .capacity
                .is_some_and(|capacity| capacity > allocatable);
            let message =
                format!("{allocatable} of {name} are offered, and {rails} rails are there");
            let weight = if gone && allocatable == 0 {
                Weight::Verdict
            } else {
                Weight::Notice
            };
            Some(numbers(
                say(context, &FEWER, name, message).weighing(weight),
                rails,
            ))
        }
        Present::AtMost(_) if is_for_rdma(name) && rails > 0 && allocatable > rails => {
            Some(numbers(ratio(context, name, allocatable, rails)?, rails))
        }
        Present::Slots if allocatable == 0 && most > 0 && rails > 0 => {
            let message =
                format!("none of {name} is offered any more: its device plugin is not up");
            Some(numbers(say(context, &FEWER, name, message), rails))
        }
        Present::Slots if is_for_rdma(name) && allocatable > 0 && none_there(context) => {
            let message =
                format!("{allocatable} slots of {name} are promised, and no RDMA device is there");
            Some(numbers(say(context, &MORE, name, message), 0))
        }
        _ => None,
    }
}

/// Every resource for RDMA and GPUs that the Node tells, with what there is of it.
pub fn resources(context: &Context<'_>) -> Vec<Resource> {
    let resources = context.offer.into_iter().flat_map(|offer| &offer.resources);
    resources
        .map(|(name, offered)| {
            let most = offered.allocatable.max(offered.capacity).unwrap_or(0);
            Resource {
                name: name.clone(),
                allocatable: offered.allocatable,
                capacity: offered.capacity,
                devices: present(context, name, most).exactly(),
            }
        })
        .collect()
}

/// Whether the kernel was asked and has no RDMA device of any sort.
fn none_there(context: &Context<'_>) -> bool {
    (context.snapshot.devices.as_ref()).is_some_and(|devices| devices.value.is_empty())
}

/// What the shape's resource numbers.
fn usual_number(profile: Option<&Profile>, name: &str) -> Option<u32> {
    let shape = profile?.shape?;
    let row = shape.resources.iter().find(|(of, _)| *of == name)?;
    row.1
}

/// More in the pool than there are rails, so that per GPU another number is offered than there is.
fn ratio(context: &Context<'_>, name: &str, offered: u64, rails: u64) -> Option<Candidate> {
    let gpus = context.pci()?.gpus.len() as u64;
    if gpus == 0 {
        return None;
    }
    let per_gpu = |count: u64| match count % gpus {
        0 => (count / gpus).to_string(),
        _ => format!("{count}/{gpus}"),
    };
    let message = format!(
        "{name} offers {} a GPU, and the hardware has {} (rails a GPU): {} of them share a NIC",
        per_gpu(offered),
        per_gpu(rails),
        offered.div_ceil(rails),
    );
    let found = say(context, &RATIO, name, message)
        .with("offered_per_gpu", offered as f64 / gpus as f64)
        .with("rails_per_gpu", rails as f64 / gpus as f64);
    Some(found)
}

fn gpus(
    context: &Context<'_>,
    offer: &NodeOffer,
    name: &str,
    allocatable: u64,
) -> Option<Candidate> {
    let have = present(context, name, allocatable).exactly()?;
    // Parts of GPUs under names of their own: then these are those that are left.
    let parts = offer.resources.iter().any(|(other, of)| {
        is_gpu_resource(other) && other != name && of.allocatable.unwrap_or(0) > 0
    });
    // Time slicing keeps the name and multiplies the number.
    let sliced = have > 0 && allocatable > have && allocatable.is_multiple_of(have);
    if parts || sliced || have == 0 || allocatable == have {
        return None;
    }
    let message = format!("{allocatable} of {name} are offered, and {have} GPUs are on the bus");
    let found = say(context, &GPU_MISMATCH, name, message)
        .with("allocatable", allocatable)
        .with("devices", have);
    Some(found)
}

#[cfg(test)]
mod tests;
