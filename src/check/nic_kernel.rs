//! What NICs' drivers say in the kernel log.

use super::{Candidate, Context, PortView, Reason, ReasonDoc, Status, Weight};
use crate::check::roles::rail_keys;
use crate::observe::kernel_log::{DeviceLog, Note, Note::*, Seen};
use crate::units::Millis;
use std::time::Duration;

check!(nic_kernel, run);

/// What ends trouble with a NIC: the driver says that it recovered, or starts the device again.
const OVER: &[Note] = &[Recovered, Loaded];
/// The firmware's word that it failed.
const FAILED: &[Note] = &[HeartbeatLost, CommandsStalled, DeviceError, RecoveryFailed];
/// What no recovery that goes on excuses.
const ENDS_RECOVERY: &[Note] = &[
    FatalSensor,
    HeartbeatLost,
    CommandsStalled,
    DeviceError,
    Driver,
];
/// What ends trouble with a cable.
const PLUGGED: &[Note] = &[CablePlugged];
const LINKED: &[Note] = &[CablePlugged, LinkUp];

/// One rule: the reason, the notes that raise it, the notes that take it back, and when it applies.
struct EventRule(Reason, &'static [Note], &'static [Note], AppliesTo);

/// When a rule applies to what was said.
enum AppliesTo {
    Always,
    /// Only to ports that were in use.
    Used,
    /// Only to ports that were in use, and what was said while the agent looked.
    UsedAndLive,
    /// Only to a NIC whose port is down after a reset should have ended.
    StillDown,
}

const RULES: &[EventRule] = {
    use AppliesTo::*;
    &[
        EventRule("NicHealthCompromised", FAILED, OVER, Always),
        // A recovery or reset that does not end: the port stays down.
        EventRule("NicHealthCompromised", &[RecoveryStarted], OVER, StillDown),
        EventRule("NicFatalError", &[FatalSensor], OVER, Always),
        EventRule("NicHealthIssue", &[Syndrome], OVER, Always),
        EventRule("NicCommandTimeout", &[CommandTimeout], OVER, Always),
        EventRule("NicQueueTimeout", &[QueueTimeout], OVER, Always),
        EventRule("NicTemperature", &[Temperature], &[Cooled], Always),
        EventRule("NicModuleFault", &[ModuleFault, ModulePower], PLUGGED, Used),
        EventRule("NicCableUnplugged", &[CableUnplugged], LINKED, UsedAndLive),
        EventRule("NicPower", &[Power], &[], Always),
    ]
};

/// The NIC that a log entry is about.
#[derive(Default)]
struct Nic {
    name: String,
    rail: bool,
    used: bool,
    active: bool,
    /// When a counter of an active port was last read and had risen: the device answers.
    alive_at: Option<Millis>,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (address, log) in &context.history.kernel.devices {
        let Some(nic) = nic_at(context, address) else {
            continue;
        };
        let judge = |rule| judge(context, (address, &nic), log, rule);
        found.extend(RULES.iter().filter_map(judge));
    }
    found
}

/// Whether a NIC is on its way through a reset or recovery that its driver announced: it has
/// `reset_takes` to come back, unless the driver says before that it failed. After a recovery that failed, a
/// further one excuses nothing.
pub(super) fn is_resetting(context: &Context<'_>, address: &str) -> bool {
    let Some(log) = context.history.kernel.devices.get(address) else {
        return false;
    };
    let failed = last_of(log, ENDS_RECOVERY);
    let gave_up = last_of(log, &[RecoveryFailed]);
    let takes = context.policy.nic_kernel.reset_takes.0;
    recovery_began(context, log).is_some_and(|began| {
        context.now.since(began) < takes && failed <= Some(began) && gave_up <= worked_at(log)
    })
}

/// When the recovery began that goes on: drivers speak of it several times on the way.
fn recovery_began(context: &Context<'_>, log: &DeviceLog) -> Option<Millis> {
    let over = last_of(log, OVER);
    let mut began: Option<Millis> = None;
    for at in log.notes.get(&RecoveryStarted)?.times.iter().rev() {
        let takes = context.policy.nic_kernel.reset_takes.0;
        let is_other = began.is_some_and(|later| later.since(*at) >= takes);
        if is_other || over.is_some_and(|over| *at <= over) {
            break;
        }
        began = Some(*at);
    }
    began
}

/// How long a start may take until it fails: mlx5 waits two minutes for its firmware alone.
const STARTS_WITHIN: Duration = Duration::from_secs(600);

/// The last of these that was said of a device. mlx5 and gve say first that they start one: that does not count
/// where they failed to.
fn latest<'a>(log: &'a DeviceLog, notes: &[Note]) -> Option<&'a Seen> {
    let failed = log.notes.get(&Driver);
    let in_vain = |begun: &Seen| {
        let first = ["firmware version: ", "GVE version "];
        let soon = |at: Millis| at >= begun.last && at.since(begun.last) < STARTS_WITHIN;
        first.into_iter().any(|words| begun.text.contains(words))
            && failed.is_some_and(|failed| soon(failed.last))
    };
    let said = notes.iter().filter_map(|note| {
        let seen = log.notes.get(note)?;
        Some(seen).filter(|seen| *note != Loaded || !in_vain(seen))
    });
    said.max_by_key(|seen| seen.last)
}

/// When that was.
fn last_of(log: &DeviceLog, notes: &[Note]) -> Option<Millis> {
    Some(latest(log, notes)?.last)
}

/// What a NIC's driver said last of its firmware that failed, and has not recovered since. A link that came up
/// shows that it did, but where only commands stall.
pub(super) fn failure(log: &DeviceLog) -> Option<&Seen> {
    let failed = log.notes.iter().filter(|(note, _)| note.is_grave());
    let failed = failed.max_by_key(|(_, seen)| seen.last);
    let worked = match failed? {
        (CommandsStalled, _) => last_of(log, OVER),
        _ => worked_at(log),
    };
    failed
        .map(|(_, seen)| seen)
        .filter(|seen| Some(seen.last) > worked)
}

/// What the kernel said of a NIC's driver that failed to start it, and has not started it since.
pub(super) fn start_failure_at<'a>(context: &Context<'a>, address: &str) -> Option<&'a Seen> {
    let log = context.history.kernel.devices.get(address)?;
    let failed = log.notes.get(&Driver)?;
    Some(failed).filter(|failed| Some(failed.last) > worked_at(log))
}

/// When a NIC had recovered, been started again, or brought a link up.
fn worked_at(log: &DeviceLog) -> Option<Millis> {
    last_of(log, OVER).max(last_of(log, &[LinkUp]))
}

/// The same of the NIC at an address.
pub(super) fn failure_at<'a>(context: &Context<'a>, address: &str) -> Option<&'a Seen> {
    failure(context.history.kernel.devices.get(address)?)
}

/// The RDMA device at an address, or (when the line names no function) in a slot, or of that name or
/// with that interface.
fn nic_at(context: &Context<'_>, address: &str) -> Option<Nic> {
    if address.is_empty() {
        return None;
    }
    let is_there = |own: &str| {
        (own.strip_prefix(address)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is = |port: &&PortView<'_>| {
        port.address().is_some_and(|own| is_there(&own))
            || port.device.name == address
            || port.port.netdev.as_deref() == Some(address)
    };
    let ports = context.ports().iter();
    let mut here: Vec<&PortView<'_>> = ports.clone().filter(is).collect();
    if here.is_empty() {
        // Of a bond, one function has the RDMA device.
        let has_leg = |port: &&PortView<'_>| {
            let mut legs = context.bond_legs(port.netdev).iter();
            legs.any(|leg| {
                let pci = context.netdev(leg).and_then(|leg| leg.pci);
                leg == address || pci.is_some_and(|own| is_there(&own.to_string()))
            })
        };
        here.extend(ports.filter(has_leg));
    }
    if let Some(first) = here.first() {
        let active = || here.iter().filter(|port| port.is_active());
        return Some(Nic {
            name: first.device.name.clone(),
            rail: here.iter().any(|port| port.rail),
            used: here.iter().any(|port| port.rail || port.was_up()),
            active: active().next().is_some(),
            alive_at: active().filter_map(|port| risen_at(port)).max(),
        });
    }
    // A rail whose RDMA device is gone: its last words matter most.
    let rail = rail_keys(context.roles).find(|rail| is_there(&rail.device.0))?;
    Some(Nic {
        name: context.device_name(&rail.device),
        rail: true,
        used: true,
        ..Nic::default()
    })
}

/// When a counter of the port was last seen to rise.
fn risen_at(port: &PortView<'_>) -> Option<Millis> {
    let counters = &port.history?.counters;
    let all = counters.pma.values().chain(counters.hw.values());
    let risen = all.filter(|track| track.last_step().is_some_and(|step| step.by > 0));
    risen.filter_map(|track| track.last_at()).max()
}

fn judge(
    context: &Context<'_>,
    (address, nic): (&str, &Nic),
    log: &DeviceLog,
    EventRule(reason, notes, taken_back_by, when): &EventRule,
) -> Option<Candidate> {
    let policy = &context.policy.nic_kernel;
    let said = latest(log, notes)?;
    if last_of(log, taken_back_by).is_some_and(|back| back >= said.last) {
        return None;
    }
    let ago = context.now.since(said.last);
    let applies = match when {
        AppliesTo::Always => true,
        AppliesTo::Used => nic.used,
        AppliesTo::UsedAndLive => nic.used && !said.historic,
        AppliesTo::StillDown => {
            let takes = recovery_began(context, log).map(|began| context.now.since(began));
            !nic.active && takes >= Some(policy.reset_takes.0)
        }
    };
    if !applies {
        return None;
    }
    // What makes a NIC unfit stands as long as its port is not up again.
    let unfit = ReasonDoc::of(reason).status == Status::Failing && !nic.active;
    let over = !unfit && ago > policy.stands_for.0;
    let stalled = log.notes.get(&CommandsStalled) == Some(said);
    if over && !stalled {
        return None;
    }
    let message = format!("{} ({address}): {}", nic.name, said.text);
    let mut candidate = (context.candidate(reason, (address, nic.name.as_str()), message))
        .with("address", address)
        .with("count", said.count);
    // The port is up and its counters rise: it works as far as can be seen.
    if nic.alive_at.is_some_and(|at| at > said.last) {
        candidate.status = candidate.status.min(Status::Degraded);
        candidate = candidate.with("port_active_and_counting", true);
    }
    if !nic.rail {
        candidate.weight = Weight::Notice;
    }
    // A link goes on while commands stall; but no line may say that they no longer do.
    if !nic.rail || over || is_resetting(context, address) {
        candidate.status = candidate.status.min(Status::Degraded);
    }
    Some(candidate)
}

#[cfg(test)]
mod tests;
