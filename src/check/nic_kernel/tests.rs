use super::super::testing::{Node, nic};
use super::*;
use crate::check::roles::Role;
use crate::observe::{KernelEvent, KernelEventKind, NetdevFacts, PhysState, PortState};

fn said(note: Note) -> KernelEvent {
    let text = match note {
        Note::Loaded => "mlx5_core: firmware version: 28.41.1000",
        _ => "mlx5_core said so",
    };
    let mut event = KernelEvent::new(KernelEventKind::Note(note), text);
    event.device = Some(format!("mlx5_core {}", nic(0)));
    event.pci = Some(nic(0).trim_end_matches(".0").into());
    event
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
    use Note::*;
    for (event, want) in [
        (
            said(HeartbeatLost),
            Some("NicHealthCompromised Failing Verdict"),
        ),
        (
            said(DeviceError),
            Some("NicHealthCompromised Failing Verdict"),
        ),
        (said(FatalSensor), Some("NicFatalError Failing Verdict")),
        (said(Syndrome), Some("NicHealthIssue Degraded Verdict")),
        (
            said(CommandTimeout),
            Some("NicCommandTimeout Degraded Verdict"),
        ),
        (said(QueueTimeout), Some("NicQueueTimeout Degraded Verdict")),
        (said(ModuleFault), Some("NicModuleFault Degraded Verdict")),
        // ACCESS_REG noise, often of someone's own polling.
        (said(CommandFailed), None),
        (said(RecoveryStarted), None),
        (
            said(Note::Temperature),
            Some("NicTemperature Degraded Verdict"),
        ),
        (said(Note::Power), Some("NicPower Degraded Notice")),
        (
            said(Note::CableUnplugged),
            Some("NicCableUnplugged Degraded Notice"),
        ),
        (said(Note::LinkDown), None),
    ] {
        let got = node(std::slice::from_ref(&event)).told(&CHECK);
        let want: Vec<_> = want
            .map(|want| format!("mlx5_0 {want}"))
            .into_iter()
            .collect();
        assert_eq!(got, want, "{event:?}");
    }
}

#[test]
fn taken_back_or_passed() {
    use Note::*;
    let mut node = node(&[said(HeartbeatLost), said(Recovered)]);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());

    node.tick(1);
    node.history.push_event(node.now, false, &said(FatalSensor));
    node.tick(601);
    // Its port is up again: it passed.
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    node.set_state(0, PortState::Down, PhysState::Disabled);
    assert_eq!(node.run(&CHECK).len(), 1);

    let mut node = Node::infiniband();
    node.history
        .push_event(node.now, false, &said(CommandsStalled));
    assert_eq!(node.run(&CHECK)[0].status, Status::Failing);
    node.tick(3600);
    let status = node.run(&CHECK)[0].status;
    assert_eq!(status, Status::Degraded, "whatever the port's state says");
}

#[test]
fn a_start_that_fails_ends_nothing() {
    use Note::*;
    for (notes, want) in [
        (&[FatalSensor, Loaded][..], 0),
        (&[FatalSensor, Loaded, Driver], 1),
        (&[FatalSensor, Driver, Loaded], 0),
        (&[FatalSensor, Loaded, Driver, Recovered], 0),
        (&[FatalSensor, Loaded, FirmwareFile], 0),
    ] {
        let mut node = Node::infiniband();
        for note in notes {
            node.tick(1);
            node.history.push_event(node.now, false, &said(*note));
        }
        assert_eq!(node.run(&CHECK).len(), want, "{notes:?}");
    }
}

#[test]
fn bnxt_is_well_once_its_link_is_up_again_after_a_reset() {
    use Note::*;
    let bnxt = |note| {
        let mut event = said(note);
        event.text = "bnxt_en 0000:18:00.0: said so".into();
        event
    };
    for (events, want) in [
        (vec![bnxt(FatalSensor)], 1),
        (vec![bnxt(LinkUp), bnxt(FatalSensor)], 1),
        (vec![bnxt(FatalSensor), bnxt(LinkUp)], 0),
        // The link goes on where RDMA's commands are not answered.
        (vec![bnxt(CommandsStalled), bnxt(LinkUp)], 1),
        (vec![bnxt(CommandsStalled), bnxt(Loaded)], 0),
        // Its last word of a start: what fails later is another one.
        (
            vec![bnxt(CommandsStalled), bnxt(Loaded), bnxt(Note::Driver)],
            0,
        ),
        // Unless the firmware was reset.
        (
            vec![bnxt(CommandsStalled), bnxt(RecoveryStarted), bnxt(LinkUp)],
            0,
        ),
        (
            vec![bnxt(CommandsStalled), bnxt(FatalSensor), bnxt(LinkUp)],
            0,
        ),
        (
            vec![
                bnxt(FatalSensor),
                bnxt(LinkUp),
                bnxt(CommandsStalled),
                bnxt(LinkUp),
            ],
            1,
        ),
        (
            vec![bnxt(RecoveryStarted), bnxt(CommandsStalled), bnxt(LinkUp)],
            1,
        ),
        // Another driver's link says nothing of its firmware.
        (vec![said(FatalSensor), said(LinkUp)], 1),
    ] {
        let mut node = Node::infiniband();
        for event in &events {
            node.tick(1);
            node.history.push_event(node.now, false, event);
        }
        assert_eq!(node.run(&CHECK).len(), want, "{events:?}");
        // A restart of the agent forgets neither, and no firmware failed where a port is switched off.
        node.history = crate::observe::History::restore(node.history.memory());
        node.set_state(0, PortState::Down, PhysState::Disabled);
        node.tick(1);
        assert_eq!(node.run(&CHECK).len(), want, "{events:?}, restarted");
    }
}

#[test]
fn a_port_that_still_counts_is_degraded() {
    for note in [Note::HeartbeatLost, Note::FatalSensor] {
        let mut node = node(&[]);
        node.set_counters(0, &[("port_rcv_data", 1)]);
        node.tick(5);
        node.set_counters(0, &[("port_rcv_data", 2)]);
        node.history.push_event(node.now, false, &said(note));
        node.tick(5);
        let status = |node: &Node| node.run(&CHECK)[0].status;
        assert_eq!(status(&node), Status::Failing, "it rose before, not since");
        node.set_counters(0, &[("port_rcv_data", 3)]);
        node.tick(5);
        assert_eq!(status(&node), Status::Degraded);
        node.set_counters(0, &[("port_rcv_data", 3)]);
        node.tick(5);
        assert_eq!(status(&node), Status::Failing, "it stands still");
        node.set_counters(0, &[("port_rcv_data", 4)]);
        node.set_state(0, PortState::Down, PhysState::Disabled);
        node.tick(5);
        assert_eq!(status(&node), Status::Failing);
    }
}

#[test]
fn an_empty_cage_at_boot_is_not_a_cable_taken_out() {
    let mut node = Node::infiniband();
    let unplugged = said(Note::CableUnplugged);
    node.history.push_event(node.now, true, &unplugged);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn whose_it_is() {
    let mut node = node(&[said(Note::HeartbeatLost)]);
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
    // A device that is not a fabric NIC.
    node.roles.remove(&super::super::testing::key(0));
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn a_reset_that_was_announced_has_ninety_seconds() {
    use Note::*;
    let mut node = node(&[said(RecoveryStarted)]);
    node.set_state(0, PortState::Down, PhysState::Disabled);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    node.history.push_event(node.now, false, &said(FatalSensor));
    assert_eq!(node.told(&CHECK), ["mlx5_0 NicFatalError Degraded Verdict"]);
    let link = |node: &Node| node.told(&super::super::link_state::CHECK);
    assert_eq!(link(&node), ["mlx5_0/1 PhysDisabled Degraded Verdict"]);
    node.tick(91);
    assert_eq!(link(&node), ["mlx5_0/1 PhysDisabled Failing Verdict"]);
    assert_eq!(
        node.told(&CHECK),
        [
            "mlx5_0 NicHealthCompromised Failing Verdict",
            "mlx5_0 NicFatalError Failing Verdict"
        ]
    );
    // The driver started the device again.
    node.history.push_event(node.now, false, &said(Loaded));
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    // After a recovery that failed nothing is awaited.
    node.tick(1);
    for note in [RecoveryStarted, DeviceError] {
        node.tick(1);
        node.history.push_event(node.now, false, &said(note));
    }
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_0 NicHealthCompromised Failing Verdict"]
    );
}

#[test]
fn what_a_recovery_excuses() {
    use Note::*;
    for (notes, excused) in [
        (&[HeartbeatLost, RecoveryStarted][..], true),
        (&[DeviceError, RecoveryStarted], true),
        (&[RecoveryStarted, HeartbeatLost], false),
        (&[RecoveryStarted, FatalSensor], false),
        (&[HeartbeatLost, RecoveryStarted, Driver], false),
        (&[RecoveryFailed, RecoveryStarted], false),
        (&[RecoveryStarted, RecoveryFailed, RecoveryStarted], false),
        (
            &[RecoveryFailed, Recovered, HeartbeatLost, RecoveryStarted],
            true,
        ),
        (
            &[RecoveryFailed, LinkUp, HeartbeatLost, RecoveryStarted],
            true,
        ),
    ] {
        let mut node = node(&[]);
        node.set_state(0, PortState::Down, PhysState::Disabled);
        for note in notes {
            node.tick(1);
            node.history.push_event(node.now, false, &said(*note));
        }
        let told = node.told(&CHECK).join(" ");
        assert_eq!(!told.contains("Failing"), excused, "{notes:?}: {told}");
        assert!(told.contains("Nic"), "{notes:?}");
    }
}

#[test]
fn the_number_of_rails_waits_for_one_that_is_reset() {
    let mut node = node(&[said(Note::RecoveryStarted)]);
    node.policy.expect.rails = Some(8);
    node.devices.remove(0);
    node.tick(5);
    assert_eq!(
        node.told(&super::super::device_missing::CHECK),
        ["rails MissingRail Degraded Verdict"]
    );
}

#[test]
fn a_recovery_that_goes_on_and_on_is_none() {
    use Note::*;
    let mut node = node(&[]);
    node.set_state(0, PortState::Down, PhysState::Disabled);
    for waited in (0..=100).step_by(20) {
        node.history
            .push_event(node.now, false, &said(RecoveryStarted));
        let is_late = !node.told(&CHECK).is_empty();
        assert_eq!(is_late, waited >= 90, "after {waited} s");
        node.tick(20);
    }
    // The next one has its time again; one that failed is not begun by another word of it.
    for note in [Recovered, RecoveryStarted] {
        node.tick(1);
        node.history.push_event(node.now, false, &said(note));
    }
    assert_eq!(node.told(&CHECK), [""; 0]);
    for note in [DeviceError, RecoveryStarted] {
        node.tick(1);
        node.history.push_event(node.now, false, &said(note));
    }
    let failing = ["mlx5_0 NicHealthCompromised Failing Verdict"];
    assert_eq!(node.told(&CHECK), failing);
}

#[test]
fn what_a_leg_of_a_bond_says_is_about_its_rail() {
    let mut node = Node::roce();
    let of = |lowers: &[&str], pci: Option<&str>| NetdevFacts {
        lowers: lowers.iter().map(ToString::to_string).collect(),
        pci: pci.and_then(|pci| pci.parse().ok()),
        ..NetdevFacts::default()
    };
    let second = nic(0).replace(".0", ".1");
    node.set_netdev(0, of(&["leg0", "leg1"], None));
    node.set_netdev_named("leg0", of(&[], Some(&nic(0))));
    node.set_netdev_named("leg1", of(&[], Some(&second)));
    let mut event = said(Note::HeartbeatLost);
    event.device = Some(format!("mlx5_core {second}"));
    node.history.push_event(node.now, false, &event);
    node.tick(1);
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_0 NicHealthCompromised Failing Verdict"]
    );
}

#[test]
fn a_line_that_names_the_interface_is_about_its_rail() {
    let mut event = KernelEvent::new(
        KernelEventKind::Note(Note::QueueTimeout),
        "NETDEV WATCHDOG: eth0",
    );
    let node = Node::roce();
    let netdev = node.context().ports()[0].port.netdev.clone().unwrap();
    for (name, want) in [
        (netdev, vec!["mlx5_0 NicQueueTimeout Degraded Verdict"]),
        (
            "mlx5_0".into(),
            vec!["mlx5_0 NicQueueTimeout Degraded Verdict"],
        ),
        ("eth99".into(), vec![]),
    ] {
        let mut node = Node::roce();
        event.name = Some(name);
        node.history.push_event(node.now, false, &event);
        assert_eq!(node.told(&CHECK), want);
    }
}
