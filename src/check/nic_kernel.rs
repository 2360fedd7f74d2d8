//! What NICs' drivers say in the kernel log.

use super::{Candidate, Check, Context, PortView, ReasonDoc, Status, Weight};
use crate::check::roles::Role;
use crate::observe::kernel_log::{DeviceLog, Note, Seen};
use crate::units::{DeviceKey, PortKey};

const ID: &str = "nic_kernel";

const FIRMWARE: &str = "Drain the node; reset the device (`devlink dev reload`, or a cold reboot) and update its firmware. If it comes back, have the NIC replaced.";

const HEALTH: ReasonDoc = ReasonDoc {
    reason: "NicHealthCompromised",
    status: Status::Failing,
    weight: Weight::Verdict,
    meaning: "The driver of a rail's NIC lost its firmware, or handles the device as bad.",
    remedy: FIRMWARE,
};
const FATAL: ReasonDoc = ReasonDoc {
    reason: "NicFatalError",
    status: Status::Failing,
    weight: Weight::Verdict,
    meaning: "A NIC reported a fatal error of its firmware or hardware.",
    remedy: FIRMWARE,
};
const SYNDROME: ReasonDoc = ReasonDoc {
    reason: "NicHealthIssue",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A NIC's firmware reported an issue.",
    remedy: "Look at the lines around it in the kernel log, and update the NIC's firmware.",
};
const COMMAND_TIMEOUT: ReasonDoc = ReasonDoc {
    reason: "NicCommandTimeout",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A NIC's firmware did not answer a command of its driver.",
    remedy: FIRMWARE,
};
const QUEUE_TIMEOUT: ReasonDoc = ReasonDoc {
    reason: "NicQueueTimeout",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "Queues of a NIC stood still.",
    remedy: "Look at the load of the host and at PCIe errors; update driver and firmware if it comes back.",
};
const HOT: ReasonDoc = ReasonDoc {
    reason: "NicTemperature",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A NIC or its module is too hot; it slows down, then shuts the link.",
    remedy: "Look at fans, air flow and the room; clean or replace the module.",
};
const MODULE: ReasonDoc = ReasonDoc {
    reason: "NicModuleFault",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "The driver calls the cable or module of a used port faulty.",
    remedy: "Reseat the module, then replace it.",
};
const UNPLUGGED: ReasonDoc = ReasonDoc {
    reason: "NicCableUnplugged",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "Cable or module of a port that was in use was taken out.",
    remedy: "Put it back, and look at whether it clicked in.",
};
const POWER: ReasonDoc = ReasonDoc {
    reason: "NicPower",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A NIC or its module says that it gets too little power. Healthy hosts print this at boot, too.",
    remedy: "If links stay down or modules are off, look at the slot's power and at the NIC's extra power cable.",
};

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "NIC events in the kernel log",
    what: "What the drivers of RDMA NICs say: lost firmware, fatal errors, commands without answer, heat, power, modules, cables. A line that tells of recovery takes the earlier ones back; without one they stand for `stands_for`. Refused firmware commands (ACCESS_REG) are noise, and an empty cage at boot is no cable taken out.",
    reasons: &[
        HEALTH,
        FATAL,
        SYNDROME,
        COMMAND_TIMEOUT,
        QUEUE_TIMEOUT,
        HOT,
        MODULE,
        UNPLUGGED,
        POWER,
    ],
    run,
};

/// One rule: what is told, on which notes, and what takes them back.
struct Rule {
    doc: ReasonDoc,
    notes: &'static [Note],
    taken_back_by: &'static [Note],
    /// Only on ports that were in use.
    used_only: bool,
    /// Only what was said while the agent looked.
    live_only: bool,
}

const fn rule(doc: ReasonDoc, notes: &'static [Note], taken_back_by: &'static [Note]) -> Rule {
    Rule {
        doc,
        notes,
        taken_back_by,
        used_only: false,
        live_only: false,
    }
}

const RULES: &[Rule] = &[
    rule(
        HEALTH,
        &[Note::HeartbeatLost, Note::DeviceError],
        &[Note::Recovered],
    ),
    rule(FATAL, &[Note::FatalSensor], &[Note::Recovered]),
    rule(SYNDROME, &[Note::Syndrome], &[Note::Recovered]),
    rule(COMMAND_TIMEOUT, &[Note::CommandTimeout], &[Note::Recovered]),
    rule(QUEUE_TIMEOUT, &[Note::QueueTimeout], &[Note::Recovered]),
    rule(HOT, &[Note::Temperature], &[]),
    Rule {
        used_only: true,
        ..rule(MODULE, &[Note::ModuleFault], &[Note::CablePlugged])
    },
    Rule {
        used_only: true,
        live_only: true,
        ..rule(
            UNPLUGGED,
            &[Note::CableUnplugged],
            &[Note::CablePlugged, Note::LinkUp],
        )
    },
    rule(POWER, &[Note::Power], &[]),
];

/// The NIC that a log entry is about.
struct Nic {
    name: String,
    rail: bool,
    used: bool,
    active: bool,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let ports = context.ports();
    let mut found = Vec::new();
    for (address, log) in &context.history.kernel.devices {
        let Some(nic) = nic_at(context, ports, address) else {
            continue;
        };
        found.extend(
            RULES
                .iter()
                .filter_map(|rule| judge(context, address, &nic, log, rule)),
        );
    }
    found
}

/// The RDMA device at an address, or (when the line told no function) in a slot.
fn nic_at(context: &Context<'_>, ports: &[PortView<'_>], address: &str) -> Option<Nic> {
    if address.is_empty() {
        return None;
    }
    let is_there = |own: String| {
        own == address
            || own
                .strip_prefix(address)
                .is_some_and(|rest| rest.starts_with('.'))
    };
    let here: Vec<&PortView<'_>> = ports
        .iter()
        .filter(|port| port.device.pci.is_some_and(|pci| is_there(pci.to_string())))
        .collect();
    if let Some(first) = here.first() {
        return Some(Nic {
            name: first.device.name.clone(),
            rail: here.iter().any(|port| port.rail),
            used: here
                .iter()
                .any(|port| port.rail || port.history.is_some_and(|past| past.ever_active)),
            active: here.iter().any(|port| port.is_active()),
        });
    }
    // A rail whose RDMA device is gone: its last words matter most.
    let (key, _): (&PortKey, _) = context
        .roles
        .iter()
        .find(|(key, facts)| facts.role == Role::Rail && is_there(key.device.0.clone()))?;
    Some(Nic {
        name: context.device_name(&DeviceKey(key.device.0.clone())),
        rail: true,
        used: true,
        active: false,
    })
}

fn judge(
    context: &Context<'_>,
    address: &str,
    nic: &Nic,
    log: &DeviceLog,
    rule: &Rule,
) -> Option<Candidate> {
    let policy = &context.policy.nic_kernel;
    let latest = |notes: &[Note]| -> Option<&Seen> {
        notes
            .iter()
            .filter_map(|note| log.notes.get(note))
            .max_by_key(|seen| seen.last)
    };
    let said = latest(rule.notes)?;
    if latest(rule.taken_back_by).is_some_and(|back| back.last >= said.last) {
        return None;
    }
    if (rule.used_only && !nic.used) || (rule.live_only && said.historic) {
        return None;
    }
    // What makes a NIC unfit stands as long as its port is not up again.
    let unfit = rule.doc.status == Status::Failing && !nic.active;
    if !unfit && context.now.since(said.last) > policy.stands_for.0 {
        return None;
    }
    let mut candidate = rule
        .doc
        .candidate(
            ID,
            (address, nic.name.clone()),
            policy.timing(),
            format!("{} ({address}): {}", nic.name, said.text),
        )
        .with("address", address)
        .with("count", said.count);
    if !nic.rail {
        candidate.weight = Weight::Notice;
        candidate.status = candidate.status.min(Status::Degraded);
    }
    Some(candidate)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, nic};
    use super::*;
    use crate::observe::kernel::{Detail, EventKind, HealthKind, KernelEvent};
    use crate::observe::rdma::{PhysState, PortState};

    fn event(kind: EventKind, what: Option<HealthKind>, i: usize) -> KernelEvent {
        let mut event = KernelEvent::new(kind, "mlx5_core said so");
        event.device = Some(format!("mlx5_core {}", nic(i)));
        event.pci = Some(nic(i).trim_end_matches(".0").into());
        if let Some(what) = what {
            event.detail = Detail::Health {
                what,
                command: None,
                code: None,
            };
        }
        event
    }

    fn health(what: HealthKind) -> KernelEvent {
        event(EventKind::NicHealth, Some(what), 0)
    }

    fn node(events: &[KernelEvent]) -> Node {
        let mut node = Node::infiniband();
        for event in events {
            node.history.push_event(node.now, false, event);
        }
        node
    }

    #[test]
    fn what_drivers_say() {
        use HealthKind::*;
        for (said, want) in [
            (
                health(HeartbeatLost),
                Some("NicHealthCompromised Failing Verdict"),
            ),
            (
                health(DeviceError),
                Some("NicHealthCompromised Failing Verdict"),
            ),
            (health(FatalSensor), Some("NicFatalError Failing Verdict")),
            (health(Syndrome), Some("NicHealthIssue Degraded Verdict")),
            (
                health(CommandTimeout),
                Some("NicCommandTimeout Degraded Verdict"),
            ),
            (
                health(QueueTimeout),
                Some("NicQueueTimeout Degraded Verdict"),
            ),
            (health(ModuleFault), Some("NicModuleFault Degraded Verdict")),
            // ACCESS_REG noise, often of someone's own polling.
            (health(CommandFailed), None),
            (health(RecoveryStarted), None),
            (
                event(EventKind::NicTemperature, None, 0),
                Some("NicTemperature Degraded Verdict"),
            ),
            (
                event(EventKind::NicPower, None, 0),
                Some("NicPower Degraded Notice"),
            ),
            (
                event(EventKind::NicCableUnplugged, None, 0),
                Some("NicCableUnplugged Degraded Notice"),
            ),
            (event(EventKind::NicLinkDown, None, 0), None),
        ] {
            let got = node(std::slice::from_ref(&said)).told(&CHECK);
            let want: Vec<_> = want
                .map(|want| format!("mlx5_0 {want}"))
                .into_iter()
                .collect();
            assert_eq!(got, want, "{said:?}");
        }
    }

    #[test]
    fn taken_back_or_passed() {
        use HealthKind::*;
        let mut node = node(&[health(HeartbeatLost), health(Recovered)]);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());

        node.tick(1);
        node.history
            .push_event(node.now, false, &health(FatalSensor));
        node.tick(601);
        // Its port is up again: it passed.
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.set_state(0, PortState::Down, PhysState::Disabled);
        assert_eq!(node.run(&CHECK).len(), 1);
    }

    #[test]
    fn an_empty_cage_at_boot_is_not_a_cable_taken_out() {
        let mut node = Node::infiniband();
        let unplugged = event(EventKind::NicCableUnplugged, None, 0);
        node.history.push_event(node.now, true, &unplugged);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn whose_it_is() {
        let mut node = node(&[health(HealthKind::HeartbeatLost)]);
        node.set_role(0, Role::Other);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_0 NicHealthCompromised Degraded Notice"]
        );
        // A rail that is gone is still named.
        node.set_role(0, Role::Rail);
        node.devices.remove(0);
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_0 NicHealthCompromised Failing Verdict"]
        );
        // A device that is no NIC of ours.
        node.roles.remove(&super::super::testing::key(0));
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }
}
