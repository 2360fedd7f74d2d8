use super::super::testing::*;
use super::super::{ItemStatus, judge};
use super::*;
use crate::observe::{ContainerFacts, LinkLayer};

fn nodes(facts: &mut ContainerFacts, node: &Reading<()>, which: std::ops::Range<usize>) {
    for device in &mut devices(facts)[which] {
        device.node = node.clone();
    }
}

#[test]
fn a_good_container_has_nothing_to_say() {
    for item in judge(&good(), None) {
        assert!(item.status <= ItemStatus::Skipped, "{item:?}");
    }
}

#[test]
fn nodes_of_devices() {
    let denied = fault(FaultKind::Denied);
    let mut facts = good();
    assert_eq!(verdict(&facts, "uverbs"), "ok");
    nodes(&mut facts, &Reading::Absent, 1..8);
    assert_eq!(verdict(&facts, "uverbs"), "degraded UverbsFewer");
    nodes(&mut facts, &denied, 1..2);
    assert_eq!(verdict(&facts, "uverbs"), "degraded UverbsPartly");
    nodes(&mut facts, &denied, 0..8);
    assert_eq!(verdict(&facts, "uverbs"), "failing UverbsDenied");
    assert!(item(&facts, "uverbs").remedy.contains("resources.limits"));
    nodes(&mut facts, &fault(FaultKind::Gone), 0..8);
    assert_eq!(verdict(&facts, "uverbs"), "failing UverbsBroken");
    nodes(&mut facts, &Reading::Absent, 0..8);
    assert_eq!(verdict(&facts, "uverbs"), "failing NoUverbs");
    nodes(&mut facts, &Reading::NotObservable, 2..3);
    assert_eq!(verdict(&facts, "uverbs"), "unknown NoThread");
    nodes(&mut facts, &Reading::NotObservable, 0..8);
    assert_eq!(verdict(&facts, "uverbs"), "unknown NoThread");
    nodes(&mut facts, &fault(FaultKind::Stalled), 3..4);
    assert_eq!(verdict(&facts, "uverbs"), "failing UverbsStalled");
    facts.rdma = fault(FaultKind::Denied);
    assert_eq!(verdict(&facts, "uverbs"), "unknown RdmaUnreadable");
    facts.rdma = Reading::Absent;
    assert_eq!(verdict(&facts, "uverbs"), "unknown RdmaUnreadable");
}

#[test]
fn refused_nodes_do_not_matter_without_rdma() {
    for (variables, kind, want) in [
        (&[("WORLD_SIZE", "8")][..], FaultKind::Denied, "skipped"),
        (&[("NCCL_IB_DISABLE", "1")], FaultKind::Denied, "skipped"),
        (&[("NCCL_NET", "Socket")], FaultKind::Gone, "skipped"),
        (&[("NCCL_NET", "Socket")], FaultKind::Stalled, "skipped"),
        // NCCL opens what is there, on one node too.
        (
            &[("WORLD_SIZE", "8")],
            FaultKind::Stalled,
            "failing UverbsStalled",
        ),
    ] {
        for which in [0..8, 3..4] {
            let mut facts = with(variables);
            nodes(&mut facts, &fault(kind), which);
            assert_eq!(verdict(&facts, "uverbs"), want, "{variables:?} {kind:?}");
        }
    }
    let mut facts = with(&[("WORLD_SIZE", "8")]);
    devices(&mut facts)[0].ports[0].state = Reading::Value(PortState::Down);
    assert_eq!(verdict(&facts, "rdma_ports"), "skipped");
}

#[test]
fn a_share_of_the_rails() {
    for (given, gpus, local, want) in [
        (1, 8, "8", "degraded UverbsFewer"),
        (7, 8, "8", "degraded UverbsFewer"),
        (8, 8, "8", "ok"),
        // A pod that has a share of the GPUs too, and one that uses a share of those it sees.
        (2, 2, "2", "ok"),
        (2, 8, "2", "ok"),
        (1, 2, "2", "degraded UverbsFewer"),
    ] {
        let mut facts = with(&[("LOCAL_WORLD_SIZE", local)]);
        facts.gpus = Reading::Value(gpus);
        nodes(&mut facts, &Reading::Absent, given..8);
        assert_eq!(verdict(&facts, "uverbs"), want, "{given} {gpus}");
    }
    // A machine that has one for two GPUs; and a storage card that was not given.
    let mut facts = good();
    nodes(&mut facts, &Reading::Absent, 4..8);
    for device in &mut devices(&mut facts)[4..] {
        device.device.pci_id = Some("15b3:101d".into());
    }
    assert_eq!(verdict(&facts, "uverbs"), "ok");
    // Nor are rails missed that are down, or where the job stays on its node.
    let mut facts = good();
    nodes(&mut facts, &Reading::Absent, 4..8);
    for device in &mut devices(&mut facts)[4..] {
        device.ports[0].state = Reading::Value(PortState::Down);
    }
    assert_eq!(verdict(&facts, "uverbs"), "ok");
    let mut facts = with(&[("WORLD_SIZE", "8")]);
    nodes(&mut facts, &Reading::Absent, 1..8);
    assert_eq!(verdict(&facts, "uverbs"), "ok");
    // EFA: 32 devices, of which one was given.
    let mut facts = good();
    let efa = (0..32).map(|i| device(&format!("rdmap{i}s0"), LinkLayer::Unspecified));
    facts.rdma = Reading::Value(efa.collect());
    nodes(&mut facts, &Reading::Absent, 8..32);
    assert_eq!(verdict(&facts, "uverbs"), "ok");
    nodes(&mut facts, &Reading::Absent, 1..8);
    assert_eq!(verdict(&facts, "uverbs"), "degraded UverbsFewer");
    let remedy = item(&facts, "uverbs").remedy;
    assert!(remedy.contains("resources.limits"), "{remedy}");
    assert!(!remedy.contains("rdma/hca"), "{remedy}");
    // TCP does not need them.
    set(&mut facts, &[("NCCL_NET", "Socket")]);
    assert_eq!(verdict(&facts, "uverbs"), "ok");
}

#[test]
fn no_device_is_wrong_only_where_rdma_is_wanted() {
    for (variables, gpus, want) in [
        // GPUs on several nodes.
        (&[][..], Some(8), "failing NoRdmaDevice"),
        (&[], Some(0), "unknown NoRdmaDevice"),
        (&[], None, "unknown NoRdmaDevice"),
        (&[("NCCL_IB_HCA", "mlx5")], None, "failing NoRdmaDevice"),
        (&[("NCCL_IB_HCA", "")], None, "unknown NoRdmaDevice"),
        (&[("NCCL_NET", "IB")], None, "failing NoRdmaDevice"),
        (&[("FI_PROVIDER", "efa")], None, "failing NoRdmaDevice"),
        (&[("NCCL_NET", "Socket")], Some(8), "skipped"),
        (&[("NCCL_IB_DISABLE", "1")], Some(8), "skipped"),
        (&[("NCCL_IB_DISABLE", "0")], Some(8), "failing NoRdmaDevice"),
        // One node.
        (&[("WORLD_SIZE", "8")], Some(8), "skipped"),
    ] {
        let mut facts = with(variables);
        facts.rdma = Reading::Value(Vec::new());
        facts.gpus = gpus.map_or(Reading::Absent, Reading::Value);
        assert_eq!(verdict(&facts, "uverbs"), want, "{variables:?} {gpus:?}");
    }
}

#[test]
fn states_of_ports() {
    let state = |facts: &mut ContainerFacts, at: usize, state: Reading<PortState>| {
        devices(facts)[at].ports[0].state = state;
    };
    let mut facts = good();
    assert_eq!(verdict(&facts, "rdma_ports"), "ok");
    // Fewer active ports than GPUs.
    state(&mut facts, 0, Reading::Value(PortState::Down));
    assert_eq!(verdict(&facts, "rdma_ports"), "degraded PortDown");
    // With fewer GPUs some ports may be unused.
    facts.gpus = Reading::Value(4);
    assert_eq!(verdict(&facts, "rdma_ports"), "ok");
    // Not so where each was given to this container.
    nodes(&mut facts, &Reading::Absent, 7..8);
    assert_eq!(verdict(&facts, "rdma_ports"), "degraded PortDown");
    // Nor where a list of what to leave out leaves it; what it does leave out may be down.
    let mut facts = with(&[("NCCL_IB_HCA", "^mlx5_1")]);
    state(&mut facts, 1, Reading::Value(PortState::Down));
    facts.gpus = Reading::Value(7);
    assert_eq!(verdict(&facts, "rdma_ports"), "ok");
    for at in 2..8 {
        state(&mut facts, at, Reading::Value(PortState::Down));
    }
    assert_eq!(verdict(&facts, "rdma_ports"), "degraded PortDown");
    let message = item(&facts, "rdma_ports").message;
    assert!(
        message.contains("mlx5_2:1") && !message.contains("mlx5_1:1"),
        "{message}"
    );
    // What cannot be read is not taken for active.
    let mut unread = with(&[]);
    state(&mut unread, 3, fault(FaultKind::Gone));
    assert_eq!(
        verdict(&unread, "rdma_ports"),
        "unknown PortStateUnreadable"
    );
    // Nor where it is asked for.
    let mut facts = with(&[("NCCL_IB_HCA", "=mlx5_0,mlx5_1")]);
    facts.gpus = Reading::Value(1);
    state(&mut facts, 0, Reading::Value(PortState::Init));
    assert_eq!(verdict(&facts, "rdma_ports"), "degraded PortDown");
    assert!(item(&facts, "rdma_ports").remedy.contains("subnet manager"));
    for at in 0..8 {
        state(&mut facts, at, Reading::Value(PortState::Down));
    }
    assert_eq!(verdict(&facts, "rdma_ports"), "failing NoActivePort");
    set(&mut facts, &[("WORLD_SIZE", "8")]);
    assert_eq!(verdict(&facts, "rdma_ports"), "skipped");
    for at in 0..8 {
        state(&mut facts, at, fault(FaultKind::Gone));
    }
    assert_eq!(verdict(&facts, "rdma_ports"), "skipped");
    set(&mut facts, &[("WORLD_SIZE", "16")]);
    assert_eq!(verdict(&facts, "rdma_ports"), "unknown PortStateUnreadable");
    nodes(&mut facts, &Reading::Absent, 0..8);
    assert_eq!(verdict(&facts, "rdma_ports"), "skipped");
}
