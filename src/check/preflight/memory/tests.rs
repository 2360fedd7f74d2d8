use super::super::testing::*;
use super::*;
use crate::observe::{FaultKind, SharedMemory};

const CAP: u64 = CAP_IPC_LOCK;

#[test]
fn pinned_memory() {
    for (limit, effective, bounding, uid, first, want) in [
        (Some(8 << 20), CAP, CAP, 0, true, "ok"),
        (None, 0, 0, 1000, true, "ok"),
        (None, 0, 0, 0, false, "ok"),
        (Some(64 << 10), 0, 0, 0, true, "failing MemlockTooLow"),
        (Some(8 << 20), 0, 0, 0, true, "failing MemlockTooLow"),
        (Some(64 << 20), 0, 0, 0, true, "failing MemlockTooLow"),
        (Some(16 << 30), 0, 0, 0, true, "degraded MemlockLimited"),
        // As much as the machine has.
        (
            Some((2 << 40) - 1),
            0,
            0,
            0,
            true,
            "degraded MemlockLimited",
        ),
        (Some(2 << 40), 0, 0, 0, true, "ok"),
        (Some(4 << 40), 0, 0, 1000, false, "ok"),
        // Another bit is not the one.
        (Some(8 << 20), CAP << 1, 0, 0, true, "failing MemlockTooLow"),
        // Added to the container, and not to a process that is not root.
        (Some(8 << 20), 0, CAP, 1000, true, "failing MemlockTooLow"),
        // The RDMA core asks for it in the first user namespace.
        (Some(8 << 20), CAP, CAP, 0, false, "failing MemlockTooLow"),
    ] {
        let mut facts = good();
        let privileges = &mut facts.privileges;
        privileges.memlock = Reading::Value(limit);
        privileges.effective = Reading::Value(effective);
        privileges.bounding = Reading::Value(bounding);
        privileges.uid = Reading::Value(uid);
        privileges.first_user_namespace = Reading::Value(first);
        assert_eq!(
            verdict(&facts, "memlock"),
            want,
            "{limit:?} {effective:x} {uid} {first}"
        );
    }
}

#[test]
fn memory_is_not_pinned_without_a_device() {
    for (variables, gpus, given, want) in [
        // Any pod; the launcher of an MPI job.
        (&[][..], 8, Reading::Absent, "unknown MemlockTooLow"),
        (
            &[("NNODES", "2")],
            0,
            Reading::Absent,
            "unknown MemlockTooLow",
        ),
        (
            &[("NNODES", "2")],
            8,
            Reading::Absent,
            "failing MemlockTooLow",
        ),
        (
            &[("NCCL_NET", "IB")],
            0,
            Reading::Absent,
            "failing MemlockTooLow",
        ),
        // Who was given one means to use it.
        (&[], 0, Reading::Value(()), "failing MemlockTooLow"),
    ] {
        let mut facts = good();
        facts.environment.variables.clear();
        set(&mut facts, variables);
        facts.gpus = Reading::Value(gpus);
        facts.privileges.effective = Reading::Value(0);
        for device in devices(&mut facts) {
            device.node = given.clone();
        }
        assert_eq!(verdict(&facts, "memlock"), want, "{variables:?} {gpus}");
    }
}

#[test]
fn each_cause_has_its_own_remedy() {
    let remedy = |effective: u64, bounding: u64, uid: u32, first: bool| {
        let mut facts = good();
        facts.privileges.effective = Reading::Value(effective);
        facts.privileges.bounding = Reading::Value(bounding);
        facts.privileges.uid = Reading::Value(uid);
        facts.privileges.first_user_namespace = Reading::Value(first);
        item(&facts, "memlock").remedy
    };
    assert!(remedy(0, 0, 0, true).contains("capabilities.add: [\"IPC_LOCK\"]"));
    assert!(remedy(0, CAP, 1000, true).contains("runAsUser: 0"));
    assert!(remedy(CAP, CAP, 0, false).contains("hostUsers"));
}

#[test]
fn pinned_memory_that_cannot_be_told() {
    let mut facts = good();
    facts.privileges.memlock = fault(FaultKind::Denied);
    assert_eq!(verdict(&facts, "memlock"), "ok", "the capability is enough");
    facts.privileges.effective = Reading::Absent;
    assert_eq!(verdict(&facts, "memlock"), "unknown LimitUnreadable");
    facts.privileges.memlock = Reading::Value(Some(1));
    assert_eq!(verdict(&facts, "memlock"), "unknown LimitUnreadable");
    facts.privileges.effective = Reading::Value(0);
    set(&mut facts, &[("NCCL_NET", "Socket")]);
    assert_eq!(verdict(&facts, "memlock"), "skipped");
    facts.rdma = Reading::Value(Vec::new());
    assert_eq!(verdict(&facts, "memlock"), "skipped");
}

#[test]
fn shared_memory() {
    const GIB: u64 = 1 << 30;
    for (size, free, gpus, want) in [
        (64 * GIB, 64 * GIB, Some(8), "ok"),
        // Less than guides advise, and no fault.
        (16 * GIB, 16 * GIB, Some(8), "ok"),
        (4 * GIB, 4 * GIB, Some(8), "degraded ShmSmall"),
        (64 * MIB, 64 * MIB, Some(8), "failing ShmTooSmall"),
        (64 * MIB, 64 * MIB, Some(2), "failing ShmTooSmall"),
        // Alone on its node: only data loaders share it.
        (64 * MIB, 64 * MIB, Some(1), "degraded ShmSmall"),
        // Large, and full.
        (64 * GIB, MIB, Some(8), "failing ShmTooSmall"),
        (64 * MIB, 64 * MIB, None, "degraded ShmSmall"),
        (64 * MIB, 64 * MIB, Some(0), "degraded ShmSmall"),
        (GIB, GIB, None, "ok"),
        (0, 0, Some(8), "failing ShmTooSmall"),
        (u64::MAX, u64::MAX, Some(u32::MAX), "ok"),
    ] {
        let mut facts = good();
        facts.gpus = gpus.map_or(Reading::Absent, Reading::Value);
        facts.shm = Reading::Value(SharedMemory { size, free });
        assert_eq!(verdict(&facts, "shm"), want, "{size} {free} {gpus:?}");
    }
    let mut facts = good();
    facts.gpus = Reading::Absent;
    for (size, is_default) in [(64 * MIB, true), (32 * MIB, false)] {
        facts.shm = Reading::Value(SharedMemory { size, free: size });
        let message = item(&facts, "shm").message;
        assert_eq!(message.contains("default"), is_default, "{message}");
    }
    facts.shm = Reading::Absent;
    assert_eq!(verdict(&facts, "shm"), "failing NoShm");
    facts.shm = Reading::NotObservable;
    assert_eq!(verdict(&facts, "shm"), "unknown ShmUnreadable");
    facts.shm = fault(FaultKind::Stalled);
    assert_eq!(verdict(&facts, "shm"), "unknown ShmUnreadable");
    facts.shm = Reading::Value(SharedMemory::default());
    set(&mut facts, &[("NCCL_SHM_DISABLE", "1")]);
    assert_eq!(verdict(&facts, "shm"), "ok");
}
