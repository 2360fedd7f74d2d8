use super::super::testing::{Node, gpu, listed, nic, tell};
use super::*;
use crate::check::Policy;
use crate::check::roles::Role;
use crate::observe::{BareNic, Distance, Fault, FaultKind};
use std::time::Duration;

#[test]
fn a_rail_that_goes_is_failing_once_a_reload_is_ruled_out_and_clears_on_return() {
    let mut node = Node::infiniband();
    let gone = node.devices.pop().unwrap();
    // Seen often enough to be missed three times, but not for long enough; then both.
    for (seconds, want) in [(1, 0), (1, 0), (1, 0), (12, 0), (1, 1), (5, 1)] {
        node.tick(seconds);
        assert_eq!(node.run(&CHECK).len(), want);
    }
    assert_eq!(node.told(&CHECK), ["mlx5_7 RailVanished Failing Verdict"]);
    // Renamed on its return: the same device.
    node.devices.push(crate::observe::RdmaDevice {
        name: "ibp31s0".into(),
        ..gone
    });
    node.tick(5);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    // Long, but looked for once only.
    node.devices.pop();
    node.tick(60);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn repeated_looks_at_one_enumeration_are_one_miss() {
    let mut node = Node::infiniband();
    node.devices.pop();
    for _ in 0..5 {
        node.tick(0);
    }
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn moved_and_other_devices() {
    let mut node = Node::infiniband();
    node.set_role(6, Role::Other);
    node.devices.truncate(6);
    for _ in 0..4 {
        node.tick(5);
    }
    assert_eq!(
        node.told(&CHECK),
        [
            "mlx5_6 DeviceVanished Degraded Notice",
            "mlx5_7 RailVanished Failing Verdict"
        ]
    );
    for port in node.history.ports.values_mut() {
        port.ever_active = false;
    }
    assert_eq!(node.told(&CHECK), ["mlx5_7 RailVanished Failing Verdict"]);
    node.snapshot.netns_exclusive = Some(true);
    assert_eq!(node.told(&CHECK), ["mlx5_7 RailMoved Unknown Notice"]);
}

#[test]
fn a_device_whose_address_cannot_be_read_is_not_gone() {
    let mut node = Node::infiniband();
    let last = node.devices.last_mut().unwrap();
    (last.pci, last.key) = (None, DeviceKey(last.name.clone()));
    for _ in 0..4 {
        node.tick(5);
    }
    assert_eq!(node.told(&CHECK), ["mlx5_7 RailVanished Unknown Verdict"]);
}

#[test]
fn a_restart_of_the_agent_does_not_forget_a_lost_rail() {
    let mut node = Node::infiniband();
    node.history = crate::observe::History::restore(node.history.memory());
    node.devices.pop();
    for _ in 0..4 {
        node.tick(5);
    }
    assert_eq!(node.told(&CHECK), ["mlx5_7 RailVanished Failing Verdict"]);
}

#[test]
fn a_nic_whose_firmware_failed_is_no_better_without_its_driver_or_off_the_bus() {
    use crate::observe::{KernelEvent, KernelEventKind, Note};
    // Nothing remembers the rail: the eighth is gone from the start.
    let forgotten = |on_bus: bool, notes: &[Note]| {
        let mut node = Node::infiniband();
        let gone = node.devices.pop().unwrap();
        let address = gone.pci.unwrap().to_string();
        let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
        let function = pci.functions.remove(&address).unwrap();
        let distances = pci.distances.remove(&address).unwrap_or_default();
        if on_bus {
            let bare = BareNic {
                id: function.id,
                class: "020700".into(),
                distances,
                ..BareNic::default()
            };
            pci.bare.insert(address.clone(), bare);
        }
        node.set_pci(pci);
        node.tick(1);
        node.history.devices.clear();
        node.history.fabric.clear();
        for note in notes {
            let text = match note {
                Note::Loaded => "mlx5_core: firmware version: 28.41.1000",
                _ => "mlx5_core: it failed",
            };
            let mut event = KernelEvent::new(KernelEventKind::Note(*note), text);
            event.device = Some(format!("mlx5_core {address}"));
            node.history.push_event(node.now, true, &event);
        }
        node.told(&CHECK)
    };
    for (on_bus, want) in [(true, "RailWithoutDriver"), (false, "NicFellOff")] {
        let fails = |notes: &[Note]| {
            let found = forgotten(on_bus, notes);
            let failing = found.iter().find(|one| one.contains("Failing"));
            failing.map(|one| one.contains(want))
        };
        assert_eq!(fails(&[Note::HeartbeatLost]), Some(true), "{want}");
        assert_eq!(fails(&[]), None, "{want}");
        assert_eq!(
            fails(&[Note::HeartbeatLost, Note::Recovered]),
            None,
            "{want}"
        );
        // A start that was not followed by another one shows no recovery.
        let again = [Note::HeartbeatLost, Note::Loaded];
        assert_eq!(fails(&again), None, "{want}");
        let in_vain = [&again[..], &[Note::Driver]].concat();
        assert_eq!(fails(&in_vain), Some(true), "{want}");
    }
    // By the kernel, the driver could not start it.
    let fails = |notes| {
        forgotten(true, notes)
            .iter()
            .any(|one| one.contains("Failing"))
    };
    assert!(fails(&[Note::Driver]));
    assert!(!fails(&[Note::Driver, Note::LinkUp]));
    assert!(!fails(&[Note::FirmwareFile]));
}

#[test]
fn a_nic_without_a_driver_is_no_better_off_the_bus() {
    let mut node = Node::infiniband();
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    let nic = BareNic {
        id: "15b3:1021".into(),
        class: "020700".into(),
        distances: [(gpu(0), Distance::Pix)].into(),
        ..BareNic::default()
    };
    let without = pci.clone();
    pci.bare.insert("0000:60:00.0".into(), nic);
    node.tick(1);
    node.set_pci(pci);
    node.tick(60);
    let found = node.run(&CHECK);
    let key = found[0].key.clone();
    assert_eq!(found[0].reason, "RailWithoutDriver");
    node.set_pci(without);
    node.tick(60);
    let held = |of: &Candidate| of.unseen && of.reason == "RailWithoutDriver" && of.key == key;
    assert!(run(&node.context()).iter().any(held));
    // Its driver is back, as a bond's leg, which needs no RDMA device.
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    pci.nics.insert("0000:60:00.0".into());
    node.set_pci(pci);
    assert!(!run(&node.context()).iter().any(held));
}

#[test]
fn expected_numbers() {
    let mut node = Node::infiniband();
    node.policy.expect.rails = Some(9);
    node.policy.expect.gpus = Some(9);
    assert_eq!(
        node.told(&CHECK),
        [
            "rails MissingRail Failing Verdict",
            "gpus MissingGpu Failing Verdict"
        ]
    );
    // One of which it cannot be read what it is may be the ninth.
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    pci.gpus_unread = true;
    node.set_pci(pci);
    assert_eq!(node.told(&CHECK)[1], "gpus MissingGpu Unknown Verdict");
    node.policy.expect.rails = Some(8);
    node.policy.expect.gpus = Some(4);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    // What could not be enumerated is not missing.
    node.policy.expect.rails = Some(9);
    node.snapshot.devices = None;
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn a_guest_with_some_of_the_gpus_is_a_share_and_with_none_unknown() {
    for (gpus, want) in [
        (8, vec![]),
        (1, vec!["gpus MissingGpu Failing Notice"]),
        (0, vec!["gpus MissingGpu Unknown Verdict"]),
    ] {
        let mut node = Node::infiniband();
        let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
        pci.virtual_machine = true;
        pci.gpus.truncate(gpus);
        node.set_pci(pci);
        node.history = Default::default();
        node.profile.shape = crate::check::profile::by_type("p5en.48xlarge");
        node.profile.source = crate::check::profile::ProfileSource::Dmi;
        assert_eq!(node.told(&CHECK), want, "{gpus}");
    }
}

#[test]
fn rails_may_appear_for_a_while_after_the_boot_of_a_machine_that_can_have_more() {
    let mut node = Node::infiniband();
    node.profile.source = crate::check::profile::ProfileSource::Dmi;
    node.history = Default::default();
    let grace = node.policy.link_state.training_grace.0.as_millis() as u64;
    let mut may = |machine, uptime| {
        node.profile.shape = crate::check::profile::by_type(machine);
        node.now = Millis(uptime);
        rails_may_appear(&node.context())
    };
    // Sixteen EFA devices at most, eight InfiniBand rails always.
    assert!(may("p5en.48xlarge", 1));
    assert!(may("p5en.48xlarge", grace - 1));
    assert!(!may("p5en.48xlarge", grace));
    assert!(!may("Standard_ND96isr_H100_v5", 1));
    node.profile.shape = crate::check::profile::by_type("p5en.48xlarge");
    node.now = Millis(1);
    node.policy.expect.rails = Some(8);
    assert!(!rails_may_appear(&node.context()));
}

#[test]
fn gpus_that_go() {
    let mut node = Node::infiniband();
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    pci.gpus.remove(3);
    pci.functions.remove(&gpu(3));
    node.set_pci(pci);
    for _ in 0..3 {
        node.tick(60);
    }
    assert_eq!(
        node.told(&CHECK),
        ["0000:83:00.0 GpuVanished Failing Verdict"]
    );
}

#[test]
fn a_bus_that_cannot_be_read_neither_fails_nor_clears() {
    let mut node = Node::infiniband();
    node.set_stalled("pci", "", node.now);
    node.now = node.now.plus(std::time::Duration::from_secs(600));
    let found = node.run(&CHECK);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].key, WHOLE_NODE);
    assert_eq!(found[0].status, Status::Unknown);
}

#[test]
fn dead_config_space_counts_when_a_second_look_confirms_it() {
    let mut node = Node::infiniband();
    node.set_role(1, Role::Other);
    for address in [gpu(0), nic(0), nic(1)] {
        node.bend_pci(&address, |f| f.config_dead = Reading::Value(true));
    }
    node.bend_pci(&nic(2), |f| f.config_dead = Reading::NotObservable);
    assert_eq!(
        node.told(&CHECK),
        [
            "mlx5_0 NicFellOff Failing Verdict",
            "mlx5_1 NicFellOff Degraded Notice",
            "0000:80:00.0 GpuFellOff Failing Verdict"
        ]
    );
    let unread = Reading::Failed(Fault::other("it cannot be read"));
    for unread in [unread, Reading::Absent, Reading::NotObservable] {
        node.bend_pci(&gpu(0), |f| f.config_dead = unread.clone());
        let stands = |found: &Candidate| found.unseen && found.reason == "GpuFellOff";
        assert!(run(&node.context()).iter().any(stands), "{unread:?}");
    }
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    pci.functions.remove(&nic(0));
    node.set_pci(pci);
    let is_listed = |found: &Candidate| found.unseen && found.reason == "NicFellOff";
    assert!(run(&node.context()).iter().any(is_listed));
    // A reset is over by the next look at the bus, 4 s later.
    let waits = |found: &Candidate| found.timing.raise_after.as_secs() > 4;
    assert!(node.run(&CHECK).iter().all(waits));
}

#[test]
fn a_rail_that_is_given_to_a_virtual_machine_has_not_vanished() {
    for (driver, want) in [
        (Some("vfio-pci"), "mlx5_7 RailMoved Unknown Notice"),
        (None, "mlx5_7 RailVanished Failing Verdict"),
    ] {
        let mut node = Node::infiniband();
        node.learn();
        node.tick(600);
        node.learn();
        node.devices.pop();
        let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
        let given = BareNic {
            driver: driver.map(String::from),
            ..BareNic::default()
        };
        pci.bare.insert(nic(7), given);
        node.set_pci(pci);
        for _ in 0..4 {
            node.tick(5);
        }
        assert_eq!(node.told(&CHECK), [want], "{driver:?}");
        node.history = crate::observe::History::restore(node.history.memory());
        node.history.devices.clear();
        node.tick(5);
        let want = want.replace("mlx5_7", "mlx5_7/1");
        assert_eq!(node.told(&CHECK), [want], "{driver:?}, the agent restarted");
    }
}

/// A driver that is reloaded on a machine with one rail; where the driver stays, the rail failed.
#[test]
fn the_only_rail_without_its_driver() {
    for (driver, want) in [
        (None, Policy::default().device_missing.reload_takes.0),
        (Some("mlx5_core"), Duration::ZERO),
    ] {
        let mut node = Node::infiniband();
        let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
        for i in 1..8 {
            node.devices.pop();
            pci.functions.remove(&nic(i));
        }
        node.history = Default::default();
        node.set_pci(pci.clone());
        node.tick(60);
        node.devices.pop();
        let nic_without = BareNic {
            driver: driver.map(String::from),
            ..BareNic::default()
        };
        pci.bare.insert(nic(0), nic_without);
        node.set_pci(pci);
        for _ in 0..4 {
            node.tick(5);
        }
        let found = node.run(&CHECK);
        assert_eq!(tell(&found[0]), "mlx5_0 RailVanished Failing Verdict");
        assert_eq!(found[0].timing.raise_after, want, "{driver:?}");
    }
}

/// Puts a NIC without an RDMA device next to GPU `at`, where rail `gone` was.
fn bare(node: &mut Node, gone: usize, bend: impl FnOnce(&mut BareNic)) {
    let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
    for i in (0..8).filter(|i| *i != gone) {
        let near = [(gpu(i), Distance::Pix)].into_iter().collect();
        pci.distances.insert(nic(i), near);
    }
    let mut nic_without = BareNic {
        id: "15b3:1021".into(),
        class: "020700".into(),
        distances: [(gpu(gone), Distance::Pix)].into_iter().collect(),
        ..BareNic::default()
    };
    bend(&mut nic_without);
    pci.bare.insert(nic(gone), nic_without);
    node.devices.remove(gone);
    node.history = Default::default();
    node.set_pci(pci);
    node.tick(1);
}

#[test]
fn nics_without_an_rdma_device_by_their_place() {
    type Bend = fn(&mut BareNic);
    let rows: [(&str, Bend, &str); 15] = [
        (
            "off the bus, though its directory is as it was",
            |nic| (nic.config_dead, nic.unseen) = (Reading::Value(true), true),
            "0000:1a:00.0 RailWithoutDriver Failing Verdict",
        ),
        (
            "of unknown make next to its GPU",
            |nic| (nic.id, nic.class) = (String::new(), "020000".into()),
            "0000:1a:00.0 RailWithoutDriver Unknown Verdict",
        ),
        (
            "of unknown make next to a GPU that has a rail",
            |nic| {
                (nic.id, nic.class) = (String::new(), "020000".into());
                nic.distances = [(gpu(3), Distance::Pix)].into_iter().collect();
            },
            "0000:1a:00.0 RailWithoutDriver Unknown Verdict",
        ),
        (
            "of unknown make, and InfiniBand",
            |nic| nic.id = String::new(),
            "0000:1a:00.0 RailWithoutDriver Unknown Verdict",
        ),
        (
            "next to its GPU, off the bus",
            |nic| nic.config_dead = Reading::Value(true),
            "0000:1a:00.0 RailWithoutDriver Failing Verdict",
        ),
        (
            "of the rails' make elsewhere, off the bus",
            |nic| {
                nic.distances = [(gpu(2), Distance::Phb)].into_iter().collect();
                nic.config_dead = Reading::Value(true);
            },
            "0000:1a:00.0 RailWithoutDriver Degraded Notice",
        ),
        (
            "with a device in its directory that the class does not show",
            |nic| nic.unseen = true,
            "0000:1a:00.0 RailWithoutDriver Unknown Verdict",
        ),
        (
            "next to its GPU",
            |_| (),
            "0000:1a:00.0 RailWithoutDriver Degraded Verdict",
        ),
        (
            "Ethernet of another make next to it",
            |nic| {
                (nic.id, nic.class, nic.driver) =
                    ("14e4:1760".into(), "020000".into(), Some("bnxt_en".into()))
            },
            "0000:1a:00.0 RailWithoutDriver Degraded Verdict",
        ),
        (
            "of the rails' make elsewhere",
            |nic| nic.distances = [(gpu(2), Distance::Phb)].into_iter().collect(),
            "0000:1a:00.0 RailWithoutDriver Degraded Notice",
        ),
        (
            "of the rails' make next to a GPU that has a rail, its driver made no device",
            |nic| {
                nic.driver = Some("mlx5_core".into());
                nic.distances = [(gpu(3), Distance::Pix)].into_iter().collect();
            },
            "0000:1a:00.0 RailWithoutDriver Degraded Verdict",
        ),
        (
            "of another make next to a GPU that has a rail",
            |nic| {
                nic.id = "15b3:1017".into();
                nic.distances = [(gpu(3), Distance::Pix)].into_iter().collect();
            },
            "",
        ),
        (
            "of Slingshot next to its GPU",
            |nic| (nic.id, nic.driver) = ("17db:0501".into(), Some("cxi_ss1".into())),
            "0000:1a:00.0 RailWithoutDriver Unknown Verdict",
        ),
        (
            "given to a guest",
            |nic| nic.driver = Some("vfio-pci".into()),
            "",
        ),
        (
            "of another make elsewhere",
            |nic| {
                nic.id = "15b3:1017".into();
                nic.distances.clear();
            },
            "",
        ),
    ];
    for (name, bend, want) in rows {
        let mut node = Node::infiniband();
        bare(&mut node, 2, bend);
        let want: Vec<&str> = (!want.is_empty()).then_some(want).into_iter().collect();
        assert_eq!(node.told(&CHECK), want, "{name}");
    }
}

#[test]
fn without_any_rail_up_a_nic_without_a_device_is_unknown_and_a_pod_may_hold_it() {
    let mut node = Node::infiniband();
    bare(&mut node, 2, |nic| nic.driver = Some("mlx5_core".into()));
    node.snapshot.links.clear();
    let told = node.told(&CHECK);
    assert_eq!(told, ["0000:1a:00.0 RailWithoutDriver Unknown Verdict"]);
    node.policy.expect.rails = Some(7);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    node.policy.expect.rails = None;
    node.snapshot.netns_exclusive = Some(true);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn a_gpu_that_only_the_driver_has() {
    let mut node = Node::infiniband();
    node.bend_gpudirect(|facts| facts.gpus = vec![listed(gpu(0)), listed("0000:90:00.0")]);
    assert_eq!(
        node.told(&CHECK),
        ["0000:90:00.0 GpuNotOnBus Failing Verdict"]
    );
}

#[test]
fn a_gpu_that_its_driver_does_not_list() {
    let listed = |i: usize| listed(gpu(i));
    let undriven = format!("{} GpuNotDriven Failing Verdict", gpu(7));
    for (name, seen, bound, want) in [
        ("most others are", 7, "nvidia", vec![undriven.clone()]),
        ("a container's view of three", 3, "nvidia", vec![]),
        ("given away", 7, "vfio-pci", vec![]),
        (
            "another driver has it",
            7,
            "nouveau",
            vec![undriven.clone()],
        ),
        ("all are", 8, "nvidia", vec![]),
    ] {
        let mut node = Node::infiniband();
        node.bend_gpudirect(|facts| facts.gpus = (0..seen).map(listed).collect());
        for i in 0..8 {
            let driver = if i == 7 { bound } else { "nvidia" };
            node.bend_pci(&gpu(i), |function| function.driver = Some(driver.into()));
        }
        assert_eq!(node.told(&CHECK), want, "{name}");
        let class = |class: &str| (class.to_string(), "10de:128b".to_string());
        for (one, told) in [("030200", want.len()), ("030000", 0)] {
            node.bend_pci(&gpu(7), |function| {
                (function.class, function.id) = class(one)
            });
            let display = bound == "nouveau";
            assert!(!display || node.told(&CHECK).len() == told, "{name} {one}");
        }
    }
}

/// Otherwise a busy machine, whose first read of the bus ends after the devices are known, is unknown
/// for as long as a finding is held.
#[test]
fn a_bus_that_was_not_read_yet_is_no_finding() {
    let mut node = Node::infiniband();
    node.snapshot.pci = None;
    let unreadable = ["pci BusUnreadable Unknown Verdict"];
    node.set_health("pci", "", |health| health.last_ok = None);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    let now = node.now;
    node.set_health("pci", "", |health| {
        health.last_ok = None;
        health.stalled_since = Some(now);
    });
    assert_eq!(node.told(&CHECK), unreadable);
    node.set_fault("pci", "", FaultKind::Denied);
    assert_eq!(node.told(&CHECK), unreadable);
    // Read, and nothing there.
    node.set_health("pci", "", |_| {});
    assert_eq!(node.told(&CHECK), unreadable);
}
