//! Rails and GPUs that are gone.

use super::debounce::WHOLE_NODE;
use super::expected::{
    Attribute, BUT_PEERS, DRIVEN, GPUS, PAST_AND_PEERS, RAIL, Shortfall, Sources, UP, is_driven,
};
use super::nic_kernel::{failure_at, is_resetting};
use super::profile::{Certainty, Profile};
use super::{Action, Basis, Candidate, Context, PASSES_WITHIN, PortView, Reason, Status, Weight};
use crate::check::roles::rail_keys;
use crate::observe::{DeviceHistory, PciFacts, PciFunction, RdmaDevice, Reading, gives_away};
use crate::units::{Bdf, DeviceKey, Millis, PortKey};
use std::collections::{BTreeMap, BTreeSet};

mod dead_by_log;
pub(super) mod without_driver;

check!(device_missing, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let mut found = vanished_devices(context);
    found.extend(away(context));
    found.extend(remembered_rails(context));
    found.extend(missing_rails(context));
    if let Some(pci) = context.pci() {
        found.extend(gpus(context, pci));
        found.extend(dead_functions(context, pci));
        found.extend(bare_off_bus(context, pci));
    }
    // What the log says of a GPU is why it has no driver.
    let dead = dead_by_log::gpus(context);
    let named = |gpu: &Candidate| dead.iter().any(|dead| dead.subject == gpu.subject);
    found.retain(|one| one.reason != "GpuNotDriven" || !named(one));
    found.extend(dead);
    found.extend(without_driver::rails_without_driver(context));
    found.extend(dead_by_log::nics(context));
    found.extend(bus_unreadable(context));
    found
}

/// NICs without an RDMA device that then left the bus: what was said of them stands.
fn bare_off_bus(context: &Context<'_>, pci: &PciFacts) -> Vec<Candidate> {
    let is_off =
        |address: &&String| !pci.nics.contains(*address) && !pci.functions.contains_key(*address);
    let off = context.history.bare.iter().filter(is_off);
    off.flat_map(|address| ["bare", "all bare"].map(|key| format!("{address} {key}")))
        .map(|key| context.unseen("RailWithoutDriver", key))
        .collect()
}

/// Ready rests on which GPUs and NICs are on the bus. A machine without a bus is identified by its devices,
/// none of which has an address.
fn bus_unreadable(context: &Context<'_>) -> Option<Candidate> {
    let was_read = context.snapshot.pci.is_some();
    let has_address = |port: &PortView<'_>| port.rail && port.device.pci.is_some();
    let facts = context.gpudirect();
    let drives_gpus = || facts.is_some_and(|facts| !facts.gpus.is_empty());
    // Without devices, too, nothing is known at all, which is a reason of its own.
    let enumerated = context.snapshot.devices.is_some();
    let seen = || context.ports().iter().any(has_address) || drives_gpus();
    let has_bus = was_read || (enumerated && seen());
    if context.pci().is_some() || !has_bus || not_asked_yet(context) {
        return None;
    }
    let message = match was_read {
        true => "the last read of the PCI bus is too old",
        false => "the PCI bus shows no functions: missing GPUs and NICs would not be seen",
    };
    // An empty key stands for every key of the check.
    Some(context.candidate("BusUnreadable", (WHOLE_NODE, "pci"), message))
}

/// Before the first answer nothing is known of the bus, and the first full window waits for it. A
/// finding raised meanwhile would outlast the answer, as every finding is held.
fn not_asked_yet(context: &Context<'_>) -> bool {
    (context.snapshot.health("pci", ""))
        .is_some_and(|health| health.last_ok.is_none() && !health.fails())
}

/// Out of sight often and long enough that it is not a driver reload.
fn is_gone(context: &Context<'_>, missed: u32, since: Option<Millis>) -> bool {
    let policy = &context.policy.device_missing;
    missed >= policy.missed && since.is_some_and(|at| context.now.since(at) >= policy.gone_after.0)
}

/// Parts that left, and not for long enough to say so: all that was said of them stands until then, as a
/// part that is faulty and then away has not recovered.
fn away<'a>(context: &'a Context<'_>) -> impl Iterator<Item = Candidate> + 'a {
    let devices = context.history.devices.iter();
    let devices = devices.map(|(key, seen)| (&key.0, seen.missed, seen.gone_since));
    let gpus = context.history.gpus.iter();
    let gpus = gpus.map(|(key, seen)| (key, seen.missed, seen.gone_since));
    let is_away = |missed, since| missed > 0 && !is_gone(context, missed, since);
    let away = (devices.chain(gpus)).filter(move |(_, missed, since)| is_away(*missed, *since));
    away.map(|(key, ..)| context.unread(key))
}

/// The ports that a device had when it was last seen.
fn ports_of<'a>(key: &'a DeviceKey, seen: &'a DeviceHistory) -> impl Iterator<Item = PortKey> + 'a {
    seen.ports.iter().map(|port| PortKey {
        device: key.clone(),
        port: *port,
    })
}

/// Whether the device, or its port, of this key is gone because its NIC was given to a virtual machine.
fn is_given_away(context: &Context<'_>, key: &str) -> bool {
    let pci = context.pci().zip(key.split('/').next());
    let nic = pci.and_then(|(pci, address)| pci.bare.get(address));
    nic.is_some_and(|nic| gives_away(nic.driver.as_deref()))
}

/// The key of a finding about a device. `RailMoved` has one of its own: under the same key, as it is unknown, it
/// would hold what was said of the loss.
fn part_of(reason: Reason, key: &str) -> String {
    match reason {
        "RailMoved" => format!("{key} moved"),
        _ => key.to_string(),
    }
}

fn vanished_devices(context: &Context<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (key, seen) in &context.history.devices {
        if !is_gone(context, seen.missed, seen.gone_since) {
            continue;
        }
        let rail = ports_of(key, seen).any(|port| context.is_rail(&port));
        let past = |port: PortKey| context.history.ports.get(&port);
        let mut past = ports_of(key, seen).filter_map(past);
        let was_up = past.any(|history| history.ever_active);
        let is_held = context.pods_hold_devices() || is_given_away(context, &key.0);
        let reason = match (rail, is_held) {
            (true, true) => "RailMoved",
            (true, false) => "RailVanished",
            (false, false) if was_up => "DeviceVanished",
            _ => continue,
        };
        let (name, missed) = (&seen.name, seen.missed);
        let message =
            format!("{name} ({key}) is gone: missing from {missed} enumerations in a row");
        let about = (part_of(reason, &key.0), name);
        let mut candidate = (context.candidate(reason, about, message))
            .with("address", key.to_string())
            .with("missed", missed);
        let has_its_name = |of: &RdmaDevice| of.pci.is_none() && of.name == seen.name;
        if context.devices().any(has_its_name) {
            candidate.status = Status::Unknown;
            candidate.message += "; a device of its name has no readable address";
        }
        if rail {
            candidate = fix_hardware(context, &key.0, candidate);
            candidate = candidate.expecting(true, Basis::Remembered);
        }
        let candidate = planned_absence(context, &[(key, seen)], candidate);
        // Until then nothing shows that what was said of it has healed.
        let waits = candidate.timing.raise_after + context.policy.device_missing.gone_after.0;
        let is_young = |at| context.now.since(at) < waits;
        if seen.gone_since.is_some_and(is_young) {
            found.push(context.unread(&key.0));
        }
        found.push(candidate);
    }
    found
}

/// What to do where a NIC is gone by more than its driver: its firmware said that it failed, or its
/// function left the bus.
fn fix_hardware(context: &Context<'_>, address: &str, found: Candidate) -> Candidate {
    let Some(pci) = context.pci().filter(|_| found.reason == "RailVanished") else {
        return found;
    };
    let failed = failure_at(context, address).is_some();
    let on_bus = pci.functions.contains_key(address) || pci.bare.contains_key(address);
    let (action, remedy) = match (failed, on_bus) {
        (false, true) => return found,
        (false, false) if pci.virtual_machine => (Action::CallProvider, GUEST_WITHOUT_NIC),
        (false, false) => (Action::PowerCycle, BUS_WITHOUT_NIC),
        (true, _) => (Action::PowerCycle, FIRMWARE_FAILED),
    };
    found.fix(action, remedy)
}

const GUEST_WITHOUT_NIC: &str = "The function left this machine's PCI bus: have the cloud's provider look at the host, or start the machine elsewhere.";
const BUS_WITHOUT_NIC: &str = "The NIC left the PCI bus: power-cycle the node; if it stays away, have it reseated or replaced.";
const FIRMWARE_FAILED: &str = "The NIC's firmware failed (`dmesg | grep ADDRESS`): power-cycle the node; if it comes again, update the firmware or have the NIC replaced.";

/// What is said of devices that are gone, where that may be planned, as their functions still answer on
/// the bus. Every rail at once is a driver that is reloaded: nothing is known before it should be back.
/// A reset that was announced is degraded while it takes; one that was not is failing, and does not taint
/// at once.
fn planned_absence(
    context: &Context<'_>,
    gone: &[(&DeviceKey, &DeviceHistory)],
    mut candidate: Candidate,
) -> Candidate {
    let policy = &context.policy.device_missing;
    let all = |is: &dyn Fn(&DeviceKey, &DeviceHistory) -> bool| {
        !gone.is_empty() && gone.iter().all(|(key, seen)| is(key, seen))
    };
    if all(&|key, _| is_resetting(context, &key.0)) {
        candidate.status = candidate.status.min(Status::Degraded);
        return candidate;
    }
    let alive = |function: &PciFunction| function.config_dead != Reading::Value(true);
    let answers = |key: &DeviceKey, _: &DeviceHistory| {
        context.pci().is_some_and(|pci| {
            pci.bare.contains_key(&key.0) || pci.functions.get(&key.0).is_some_and(alive)
        })
    };
    if !all(&answers) {
        return candidate;
    }
    let has_no_driver = |key: &DeviceKey| {
        let nic = context.pci().and_then(|pci| pci.bare.get(&key.0));
        nic.is_some_and(|nic| nic.driver.is_none())
    };
    if all(&|key, seen| all_rails_left(context, seen, has_no_driver(key))) {
        return candidate.raised_after(policy.reload_takes.0);
    }
    candidate.with(PASSES_WITHIN, policy.reset_takes.0.as_secs())
}

/// Whether every rail went with a device, whether or not some are back. A rail alone that lost its device and
/// still has its driver has failed.
fn all_rails_left(context: &Context<'_>, seen: &DeviceHistory, has_no_driver: bool) -> bool {
    let devices = context.history.devices.iter();
    let rails = devices.filter(|(key, of)| ports_of(key, of).any(|port| context.is_rail(&port)));
    let went = |of: &DeviceHistory| of.missed > 0 || of.appeared.last() >= seen.gone_since.as_ref();
    let rails: Vec<bool> = rails.map(|(_, of)| went(of)).collect();
    (rails.len() >= 2 || has_no_driver) && !rails.contains(&false)
}

/// Rails of before the restart that were up, or that the machine's shape has, and have not been seen
/// since.
fn remembered_rails(context: &Context<'_>) -> Vec<Candidate> {
    let policy = &context.policy;
    if context.fewer_rails_are_excused() {
        return Vec::new();
    }
    let seen = (context.history.devices.iter()).flat_map(|(key, seen)| ports_of(key, seen));
    let seen: BTreeSet<String> = seen.map(|port| port.to_string()).collect();
    // A card that is added may give the others new addresses.
    let ports = context.ports().iter();
    let guids: BTreeSet<&str> = ports.map(|port| port.device.identity()).collect();
    let memory = &context.history.remembered;
    let mut parts: BTreeMap<_, _> = memory.parts_with(UP).collect();
    // Where the machine has more than are there, one that was never up is lost as well.
    let of_shape = context.profile.and_then(Profile::rails_on_bus);
    if of_shape.is_some_and(|rails| context.rails().count() < rails) {
        parts.extend(memory.parts_with(RAIL));
    }
    // The grace is the boot's, not the agent's.
    let started = context.history.started.unwrap_or(context.now);
    let training = policy.link_state.training_grace.0;
    let grace = training.saturating_sub(started.since(Millis(0)));
    let grace = grace.max(policy.device_missing.expected_raise_after.0);
    parts
        .into_iter()
        .filter(|(key, part)| {
            let elsewhere = !part.identity.is_empty() && guids.contains(&*part.identity);
            !seen.contains(key.as_str()) && !elsewhere
        })
        .map(|(key, part)| {
            let message = format!(
                "{} ({key}) was a rail before the node was restarted, and is now missing",
                part.name
            );
            let reason = match is_given_away(context, key) {
                true => "RailMoved",
                false => "RailVanished",
            };
            let about = (part_of(reason, key), part.name.clone());
            let found = (context.candidate(reason, about, message))
                .raised_after(grace)
                .with("address", key.as_str())
                .expecting(true, Basis::Remembered);
            let address = key.split('/').next().unwrap_or_default();
            fix_hardware(context, address, found)
        })
        .collect()
}

/// Whether rails may still appear: the machine booted of late, its shape can have more than are there,
/// and nothing says how many were attached to it (EFA comes late, and one by one).
pub(crate) fn rails_may_appear(context: &Context<'_>) -> bool {
    let shape = context.profile.and_then(Profile::certain_shape);
    let most = shape.filter(|shape| shape.rails.1 == Certainty::AtMost);
    let fewer = most.is_some_and(|shape| context.rails().count() < shape.rails.0 as usize);
    let known = context.policy.expect.rails.is_some()
        || (context.history.remembered.parts_with(RAIL).next()).is_some();
    let boots = context.now.since(Millis(0)) < context.policy.link_state.training_grace.0;
    fewer && boots && !known
}

/// How many rails are there. [`promised`](super::allocatable) holds them against the shape's number.
pub const RAILS: Attribute = Attribute::new(
    "rails",
    &[
        (&[Basis::Configured], "MissingRail"),
        (&[Basis::Remembered], "RailVanished"),
    ],
);

fn missing_rails(context: &Context<'_>) -> Option<Candidate> {
    // Not enumerated is not known; the source's health says so.
    context.snapshot.devices.as_ref()?;
    let sources = Sources {
        configured: context.policy.expect.rails.map(u64::from),
        ..Sources::default()
    };
    let mut short = RAILS.shortfall(context.rails().count() as u64, 1.0, &sources)?;
    if context.pods_hold_devices() {
        short.reason = "RailMoved";
    }
    let found = fewer(context, RAILS.name, short);
    // Where those that were here are on their way back, so is the number.
    let devices = context.history.devices.iter();
    let gone: Vec<_> = devices.filter(|(_, seen)| seen.missed > 0).collect();
    Some(planned_absence(context, &gone, found))
}

fn gpus(context: &Context<'_>, pci: &PciFacts) -> Vec<Candidate> {
    let gone = (context.history.gpus.iter())
        .filter(|(_, seen)| is_gone(context, seen.missed, seen.gone_since));
    let vanished = gone.map(|(address, seen)| {
        let message = format!("GPU {address} has left the PCI bus");
        (context.candidate("GpuVanished", (address, address), message))
            .with("address", address.as_str())
            .with("missed", seen.missed)
            .expecting(true, Basis::Remembered)
    });
    let mut found: Vec<Candidate> = vanished.collect();
    found.extend(missing_gpus(context, pci));
    for missed in found.iter_mut().filter(|_| pci.gpus_unread) {
        missed.message += "; some PCI functions could not be identified";
        missed.status = Status::Unknown;
    }
    found.extend(gpus_not_on_bus(context, pci));
    found.extend(gpus_not_driven(context, pci));
    found
}

/// How many GPUs are on the bus.
pub const NUMBER_OF_GPUS: Attribute = Attribute::new(GPUS, &[(BUT_PEERS, "MissingGpu")]);

fn missing_gpus(context: &Context<'_>, pci: &PciFacts) -> Option<Candidate> {
    // A guest may be a share of the machine.
    let sure = match pci.virtual_machine {
        true => Certainty::AtMost,
        false => Certainty::Yes,
    };
    let shape = context.profile.and_then(Profile::certain_shape);
    let sources = Sources {
        configured: context.policy.expect.gpus.map(u64::from),
        shape: shape.map(|shape| (shape.gpus.into(), sure)),
        remembered: context.history.remembered.best(GPUS, "", GPUS),
        peers: None,
    };
    let short = NUMBER_OF_GPUS.shortfall(pci.gpus.len() as u64, 1.0, &sources)?;
    let mut found = fewer(context, GPUS, short);
    if pci.gpus.is_empty() && !short.proof {
        // No share of a machine has none.
        (found.status, found.weight) = (Status::Unknown, Weight::Verdict);
    }
    Some(found)
}

/// There are fewer of a part than there should be.
fn fewer(context: &Context<'_>, name: &str, short: Shortfall) -> Candidate {
    let (have, expected) = (short.observed, short.expected);
    let what = name.replace("gpus", "GPUs");
    let message = format!("{have} of {expected} expected {what}");
    let found = (context.candidate(short.reason, (name, name), message))
        .raised_after(context.policy.device_missing.expected_raise_after.0)
        .with(name, have)
        .with("expected", expected);
    short.found(found, expected.into())
}

/// Whether its driver has a GPU: 1, or 0.
pub const GPU_DRIVEN: Attribute = Attribute::new(DRIVEN, &[(PAST_AND_PEERS, "GpuNotDriven")]);

/// GPUs that their driver has not bound. With none bound at all the driver may be on its way (a driver
/// container takes up to 20 minutes), or be unwanted: only what was bound before is held against it.
fn gpus_not_driven(context: &Context<'_>, pci: &PciFacts) -> Vec<Candidate> {
    let policy = &context.policy.device_missing;
    let driven = |gpu: &Bdf| is_driven(pci, &gpu.to_string());
    let memory = &context.history.remembered;
    // Its directory in /proc is there only while it is driven.
    let facts = context.gpudirect();
    let listed = |gpu: &String| facts.is_some_and(|facts| facts.lists(gpu));
    let all = || pci.gpus.iter().map(ToString::to_string);
    // A container that was given some of the GPUs sees the directories of those alone.
    let most_listed = all().filter(listed).count() * 2 > pci.gpus.len();
    let some = most_listed || pci.gpus.iter().any(driven);
    let is_short = |gpu: &String| {
        let function = pci.functions.get(gpu)?;
        let (waits, others) = match function.driver.as_deref() {
            None => (true, some),
            Some("nvidia") => (most_listed, some),
            Some("amdgpu") => (false, some),
            driver => (!gives_away(driver), some && !is_for_display(pci, function)),
        };
        let sources = Sources {
            remembered: memory.best(gpu, "", DRIVEN).filter(|_| !some),
            peers: others.then_some((1, true)),
            ..Sources::default()
        };
        let waits = waits && !listed(gpu);
        GPU_DRIVEN.shortfall(u64::from(!waits), 1.0, &sources)
    };
    // Two findings: what was waited for while no GPU had a driver does not count once some have. What was
    // said stands.
    let (compared, raise_after) = match some {
        true => ("other GPUs have one", policy.undriven_raise_after),
        false => ("it had one", policy.driver_grace),
    };
    let with = |some: bool| if some { "driver" } else { "no driver" };
    // While none has a driver, nothing tells whether one is to have any.
    let bare = |gpu: &String| (pci.functions.get(gpu)).is_some_and(|of| of.driver.is_none());
    all()
        .flat_map(|gpu| {
            let short = is_short(&gpu);
            let stands = short.is_some() || !some && bare(&gpu);
            let earlier = format!("{gpu} {}", with(!some));
            let earlier = stands.then(|| context.unseen("GpuNotDriven", earlier));
            let found = short.map(|short| {
                let about = (format!("{gpu} {}", with(some)), gpu.as_str());
                let name = context.gpu_name(&gpu);
                let message = format!("{name} has no working driver, although {compared}");
                let found = (context.candidate(short.reason, about, message))
                    .raised_after(raise_after.0)
                    .with("address", gpu.as_str());
                short.found(found, "driven".into())
            });
            found.into_iter().chain(earlier)
        })
        .collect()
}

/// A display card may be meant to have a driver of its own, unless others of its model have theirs.
fn is_for_display(pci: &PciFacts, card: &PciFunction) -> bool {
    let has_driver = |gpu: &Bdf| is_driven(pci, &gpu.to_string());
    let mut others = pci.gpu_functions();
    card.class.starts_with("0300") && !others.any(|(gpu, of)| of.id == card.id && has_driver(gpu))
}

/// GPUs that the driver has and the bus has not, unless they were seen to go.
fn gpus_not_on_bus(context: &Context<'_>, pci: &PciFacts) -> Vec<Candidate> {
    let driven = context.gpudirect().map_or(&[][..], |facts| &facts.gpus);
    let wait = context.policy.device_missing.expected_raise_after.0;
    let seen_to_go = |gpu: &Bdf| context.history.gpus.contains_key(&gpu.to_string());
    let driven = driven.iter().filter_map(|gpu| gpu.pci.parse::<Bdf>().ok());
    let gone = driven.filter(|gpu| !pci.gpus.contains(gpu) && !seen_to_go(gpu));
    gone.map(|gpu| {
        let about = (format!("{gpu} bus"), gpu.to_string());
        let message = format!("GPU {gpu} is not on the PCI bus, though the driver lists it");
        let found = context.candidate("GpuNotOnBus", about, message);
        found.raised_after(wait).with("address", gpu.to_string())
    })
    .collect()
}

fn dead_functions(context: &Context<'_>, pci: &PciFacts) -> Vec<Candidate> {
    // A device may be listed for a moment longer than its function.
    let off_bus = context.ports().iter().filter_map(PortView::address);
    let off_bus = off_bus.filter(|address| !pci.functions.contains_key(address));
    let unread = off_bus.map(|at| context.unseen("NicFellOff", format!("{at} config")));
    let mut found: Vec<Candidate> = unread.collect();
    for (address, function) in &pci.functions {
        let is_unread = function.config_dead.value().is_none();
        if function.config_dead == Reading::Value(false) {
            continue;
        }
        let gpu = pci.gpus.iter().any(|gpu| gpu.to_string() == *address);
        let is_at = |port: &&PortView<'_>| port.address().as_ref() == Some(address);
        let nic = (context.ports().iter().filter(is_at)).max_by_key(|port| port.rail);
        let (reason, subject, weight) = if gpu {
            ("GpuFellOff", address.clone(), Weight::Verdict)
        } else if let Some(port) = nic {
            ("NicFellOff", port.device.name.clone(), port.weight())
        } else if rail_keys(context.roles).any(|rail| rail.device.0 == *address) {
            let name = context.device_name(&DeviceKey(address.clone()));
            ("NicFellOff", name, Weight::Verdict)
        } else {
            continue;
        };
        let key = format!("{address} config");
        if is_unread {
            found.push(context.unseen(reason, key));
            continue;
        }
        let name = match gpu {
            true => context.gpu_name(address),
            false => subject.clone(),
        };
        let message = format!("{name} does not answer on the PCI bus");
        let about = (key, subject);
        let mut candidate = (context.candidate(reason, about, message))
            .weighing(weight)
            .raised_after(context.policy.device_missing.dead_raise_after.0)
            .with("address", address.as_str());
        if weight == Weight::Notice {
            candidate.status = Status::Degraded;
        }
        found.push(candidate);
    }
    found
}

#[cfg(test)]
mod tests;
