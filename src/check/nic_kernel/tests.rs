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
fn a_port_that_still_counts_is_degraded() {
    for said in [HealthKind::HeartbeatLost, HealthKind::FatalSensor] {
        let mut node = node(&[]);
        node.set_counters(0, &[("port_rcv_data", 1)]);
        node.tick(5);
        node.set_counters(0, &[("port_rcv_data", 2)]);
        node.history.push_event(node.now, false, &health(said));
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
    // A device that is not a fabric NIC.
    node.roles.remove(&super::super::testing::key(0));
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}
