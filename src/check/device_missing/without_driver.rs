//! NICs in a rail's place that are on the bus and have no RDMA device: nothing else would miss them
//! after a reboot.

use crate::check::nic_kernel::{failure_at, start_failure_at};
use crate::check::profile::Profile;
use crate::check::roles::pcie_affinity::least;
use crate::check::{Action, Candidate, Context, Reason, ReasonDoc, Status, Weight};
use crate::observe::{BareNic, Distance, PciFacts, Reading, gives_away};
use crate::units::DeviceKey;
use std::collections::{BTreeMap, BTreeSet};

const REASON: Reason = "RailWithoutDriver";

/// What a NIC without an RDMA device is taken for: a rail, next to this GPU if that is known; or a spare, of
/// the rails' make in another place, which is worth a notice.
type Guess<'a> = (Weight, Option<&'a str>);

/// How many NICs are taken for rails without their RDMA device, or are given to virtual machines.
pub(in crate::check) fn guessed_rails(context: &Context<'_>) -> usize {
    let taken = taken_for_rails(context).filter(|nic| !nic.is_unidentified());
    let bare = context.pci().into_iter().flat_map(|pci| pci.bare.values());
    let given = bare.filter(|nic| gives_away(nic.driver.as_deref()));
    taken.count() + given.count()
}

/// The NICs that count for the verdict as rails without their RDMA device.
pub(in crate::check) fn taken_for_rails<'a>(
    context: &Context<'a>,
) -> impl Iterator<Item = &'a BareNic> + use<'a> {
    let found = rails_without_driver(context).into_iter();
    let counting = found.filter(|of| of.weight == Weight::Verdict);
    let pci = context.pci();
    counting.filter_map(move |of| pci?.bare.get(&of.subject))
}

pub(super) fn rails_without_driver(context: &Context<'_>) -> Vec<Candidate> {
    let Some(pci) = context.pci().filter(|_| context.snapshot.devices.is_some()) else {
        return Vec::new();
    };
    if pci.bare.is_empty() {
        return Vec::new();
    }
    let rails = context.rails().count();
    let expected = context.policy.expect.rails;
    if expected.is_some_and(|expected| rails >= expected as usize) {
        return Vec::new();
    }
    let models = (context.rails()).filter_map(|rail| rail.device.pci_id.as_deref());
    let models: BTreeSet<&str> = models.collect();
    let (served, best) = (served(context, pci), nearest(pci));
    let known = |address: &String| {
        let key = DeviceKey(address.clone());
        context.history.devices.contains_key(&key)
    };
    // A driver without an RDMA device to be seen: a pod holds it. One that was there earlier this boot
    // has vanished, and that is reported.
    let bare = pci.bare.iter().filter(|(address, nic)| {
        let held = nic.driver.is_some() && context.pods_hold_devices();
        !gives_away(nic.driver.as_deref()) && !held && !known(address)
    });
    bare.filter_map(|(address, nic)| {
        let guess = guess(pci, nic, &best, &served, &models)?;
        Some(without_driver(context, (address, nic), guess))
    })
    .collect()
}

fn without_driver(
    context: &Context<'_>,
    (address, nic): (&str, &BareNic),
    (weight, gpu): Guess<'_>,
) -> Candidate {
    let policy = &context.policy.device_missing;
    let place = |gpu| format!(", nearest to {},", context.gpu_name(gpu));
    let place = gpu.map_or(String::new(), place);
    let off_bus = nic.config_dead == Reading::Value(true);
    let failure = failure_at(context, address);
    let not_started = || start_failure_at(context, address).filter(|_| nic.driver.is_none());
    let said = failure.or_else(not_started);
    let why = match &nic.driver {
        _ if nic.is_of_slingshot() => "selvage does not read Slingshot".to_string(),
        _ if off_bus => "it fell off the bus".to_string(),
        _ if let Some(said) = said => said.text.clone(),
        _ if nic.unseen => "/sys/class/infiniband does not list it".to_string(),
        None => "no driver is bound to it".to_string(),
        Some(driver) => format!("its driver {driver} created none"),
    };
    // What the bus, the firmware or a failed start proved outlives its driver. With no rail up it is unknown what is lost.
    // Where the machine has rails for certain, none is there; but a driver container may be at work.
    let any_up = context.rails().any(|rail| rail.is_active());
    let certain = context.profile.is_some_and(Profile::says_rails);
    let proven = off_bus || failure.is_some() || any_up && said.is_some();
    let unclear = nic.is_unidentified() || nic.unseen;
    let unknown = nic.is_of_slingshot() || (unclear && !proven);
    let (status, raise_after) = match (unknown, any_up, certain) {
        (false, ..) if proven && weight == Weight::Verdict => {
            (Status::Failing, policy.expected_raise_after)
        }
        (false, true, _) => (ReasonDoc::of(REASON).status, policy.expected_raise_after),
        (false, false, true) => (Status::Failing, policy.driver_grace),
        _ => (Status::Unknown, policy.expected_raise_after),
    };
    // Two findings: what was waited for while no rail had a driver does not count once some
    // have, as they are probed one after the other.
    let waits = if any_up { "bare" } else { "all bare" };
    let about = (format!("{address} {waits}"), address);
    let id = match nic.id.as_str() {
        "" => "vendor and device unreadable",
        id => id,
    };
    let message = format!("NIC {address} ({id}){place} has no RDMA device: {why}");
    let mut found = (context.candidate(REASON, about, message))
        .weighing(weight)
        .raised_after(raise_after.0)
        .with("address", address)
        .with("id", id)
        .with("class", nic.class.as_str())
        .with("driver", nic.driver.as_deref());
    found.status = status;
    match failure {
        _ if nic.is_of_slingshot() => found.fix(Action::None, SLINGSHOT_NOT_READ),
        _ if off_bus => found.fix(Action::PowerCycle, super::BUS_WITHOUT_NIC),
        Some(_) => found.fix(Action::PowerCycle, super::FIRMWARE_FAILED),
        None => found,
    }
}

const SLINGSHOT_NOT_READ: &str = "selvage cannot judge Slingshot (`cxi_ss1`): its own tools can. If other NICs are the node's fabric, name them in `rails.include`, and their number in `policy.expect.rails`.";

/// `None` of what is neither a former rail nor a NIC next to a GPU.
fn guess<'a>(
    pci: &PciFacts,
    nic: &'a BareNic,
    best: &BTreeMap<&str, Distance>,
    served: &BTreeSet<&str>,
    models: &BTreeSet<&str>,
) -> Option<Guess<'a>> {
    let like_rails = models.contains(nic.id.as_str());
    if pci.virtual_machine || best.is_empty() {
        // EFA is made for nothing else.
        let efa = nic.id.starts_with("1d0f:efa");
        let is_made_for_it = efa || nic.is_infiniband() || nic.is_of_slingshot();
        return (is_made_for_it || like_rails).then_some((Weight::Verdict, None));
    }
    let mut nearby = (nic.distances.iter())
        .filter(|(gpu, distance)| best.get(gpu.as_str()) == Some(distance))
        .map(|(gpu, _)| gpu.as_str());
    let unserved = nearby.clone().find(|gpu| !served.contains(gpu));
    match unserved.or(nearby.next().filter(|_| like_rails || nic.id.is_empty())) {
        Some(gpu) => Some((Weight::Verdict, Some(gpu))),
        None => like_rails.then_some((Weight::Notice, None)),
    }
}

/// GPUs with a rail next to them.
fn served<'a>(context: &Context<'a>, pci: &'a PciFacts) -> BTreeSet<&'a str> {
    let distances = (context.rails()).filter_map(|rail| pci.distances.get(&rail.address()?));
    let near = (distances.flatten()).filter(|(_, distance)| distance.is_near());
    near.map(|(gpu, _)| gpu.as_str()).collect()
}

/// Distance of the nearest NIC of any sort to each GPU that has one below its root port.
fn nearest(pci: &PciFacts) -> BTreeMap<&str, Distance> {
    let all = (pci.distances.values()).chain(pci.bare.values().map(|nic| &nic.distances));
    let mut best = least(all.flatten());
    best.retain(|_, distance| distance.is_near());
    best
}
