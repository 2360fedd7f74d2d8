//! The number that the Node tells of a resource, against what there is of it.

use super::resources::{Present, is_for_rdma, present};
use super::{Candidate, Context, say};
use crate::check::{Reason, Weight, profile::Shape};
use crate::observe::{Offered, is_gpu_resource, is_whole_gpus};

const FEWER: Reason = "ResourceFewerThanDevices";
const MORE: Reason = "ResourceMoreThanDevices";

pub(super) fn judge(context: &Context<'_>, name: &str, offered: Offered) -> Option<Candidate> {
    let allocatable = offered.allocatable?;
    if is_whole_gpus(name) {
        return gpus(context, name, allocatable);
    }
    let (size, rails) = (offered.size(), context.rails().count() as u64);
    let told = |reason, message| {
        let found = say(context, reason, name, message).with("allocatable", allocatable);
        found.with("capacity", offered.capacity)
    };
    let present = present(context, name, size);
    let for_rdma = is_for_rdma(name);
    // Whatever the unit, the capacity dropped to zero.
    if allocatable == 0 && size > 0 && rails > 0 && (for_rdma || present == Some(Present::Slots)) {
        let message = format!(
            "none of {size} {name} is offered any more: the device plugin is down, or reports all as unhealthy"
        );
        let found = told(FEWER, message).with("had", size);
        let devices = present.and_then(Present::exactly).unwrap_or(rails);
        return Some(found.with("devices", devices));
    }
    if for_rdma
        && rails > 0
        && matches!(present, Some(Present::AtMost(most)) if (rails + 1..=most).contains(&allocatable))
    {
        let found = told("ResourceRatio", String::new()).with("devices", rails);
        return ratio(context, name, (allocatable, rails), found);
    }
    if present.is_none() && rails > 0 && allocatable > 0 {
        // A virtual machine's functions have no physical ones next to them to count by.
        let guest = context.pci()?.virtual_machine && !context.pods_hold_devices();
        let (shape, usual) = usual(context, name).filter(|(_, of)| guest && *of != allocatable)?;
        // The plugin's owner may have split the functions into pools of other names.
        let (reason, is) = match allocatable < usual {
            true => (FEWER, "offered"),
            false => (MORE, "promised"),
        };
        let shape = shape.name;
        let message = format!("{allocatable} of {name} are {is}, where {shape} has {usual}");
        let found = told(reason, message).weighing(Weight::Notice);
        return Some(found.with("usual", usual).with("profile", shape));
    }
    let (reason, counts, devices, message) =
        another(context, name, (allocatable, rails), present?)?;
    let found = told(reason, message).weighing(Weight::counting_if(counts));
    Some(found.with("devices", devices))
}

/// Another number than that of the devices: its reason, whether it counts, how many there are, and a
/// sentence.
fn another(
    context: &Context<'_>,
    name: &str,
    (offered, rails): (u64, u64),
    present: Present,
) -> Option<(Reason, bool, u64, String)> {
    let promised = format!("{offered} of {name} are promised");
    let for_rdma = is_for_rdma(name);
    Some(match present {
        Present::Exactly(have) if offered > have => {
            let message = format!("{promised}, but only {have} exist");
            (MORE, true, have, message)
        }
        Present::Exactly(have) if offered < have => {
            let few = match offered {
                0 => format!("none of {name} is"),
                _ => format!("{offered} of {name} are"),
            };
            // Where what is offered is all that the machine is known to have for pods, the rest is
            // the platform's (EFA functions that no GPU is near). Of a name that never had any
            // it is unknown whether a plugin should be there (DRA).
            let short = usual(context, name).is_some_and(|(_, usual)| offered < usual);
            let message = format!("{few} offered, and {have} are there");
            (FEWER, offered > 0 && short, have, message)
        }
        Present::AtMost(most) if offered > most => {
            let message = format!("{promised}, but at most {most} functions match");
            // The shared device plugin's names are free, and so is its number of slots.
            (MORE, !name.starts_with("rdma/"), most, message)
        }
        // A pool may be meant to be smaller.
        Present::AtMost(_) if for_rdma && (1..rails).contains(&offered) => {
            let message = format!("{offered} of {name} are offered, and {rails} rails are there");
            (FEWER, false, rails, message)
        }
        Present::Slots if for_rdma && offered > 0 && none_there(context) => {
            let message =
                format!("{offered} slots of {name} are promised, and no RDMA device is there");
            (MORE, true, 0, message)
        }
        _ => return None,
    })
}

/// Whether the kernel was asked and has no RDMA device of any sort.
pub(super) fn none_there(context: &Context<'_>) -> bool {
    (context.snapshot.devices.as_ref()).is_some_and(|devices| devices.value.is_empty())
}

/// The shape, and what its resource numbers.
fn usual<'a>(context: &Context<'a>, name: &str) -> Option<(&'a Shape, u64)> {
    let shape = context.profile?.shape?;
    let row = shape.resources.iter().find(|(of, _)| *of == name)?;
    (row.1 > 0).then_some((shape, u64::from(row.1)))
}

/// More in the pool than there are rails, so that per GPU another number is offered than there is.
fn ratio(
    context: &Context<'_>,
    name: &str,
    (offered, rails): (u64, u64),
    mut found: Candidate,
) -> Option<Candidate> {
    let gpus = context.pci()?.gpus.len() as u64;
    if gpus == 0 {
        return None;
    }
    let per_gpu = |count: u64| match count % gpus {
        0 => (count / gpus).to_string(),
        _ => format!("{count}/{gpus}"),
    };
    found.message = format!(
        "{name} offers {} a GPU, and the hardware has {} (rails a GPU): {} of them share a NIC",
        per_gpu(offered),
        per_gpu(rails),
        offered.div_ceil(rails),
    );
    let found = found.with("offered_per_gpu", offered as f64 / gpus as f64);
    Some(found.with("rails_per_gpu", rails as f64 / gpus as f64))
}

fn gpus(context: &Context<'_>, name: &str, allocatable: u64) -> Option<Candidate> {
    let have = present(context, name, allocatable)?.exactly()?;
    // Parts of GPUs under names of their own: then these are those that are left.
    let mut others = (context.offer?.resources.iter()).filter(|(other, _)| *other != name);
    let parts = others.any(|(other, of)| is_gpu_resource(other) && of.allocatable > Some(0));
    // Time slicing keeps the name and multiplies the number.
    let sliced = have > 0 && allocatable > have && allocatable.is_multiple_of(have);
    if parts || sliced || have == 0 || allocatable == have {
        return None;
    }
    let message = format!("{allocatable} of {name} are offered, and {have} GPUs are on the bus");
    let found = say(context, "GpuResourceMismatch", name, message).with("allocatable", allocatable);
    Some(found.with("devices", have))
}
