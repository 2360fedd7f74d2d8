//! Pinned memory and shared memory.

use super::scene::{Fabric, Scene};
use super::{Item, ItemStatus};
use crate::observe::reading::Reading;

/// Bit of CAP_IPC_LOCK (include/uapi/linux/capability.h).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// A memlock limit up to here is somebody's default: 64 KiB before Linux 5.16, 8 MiB since, 64 MiB
/// of some distributions. A single NCCL connection pins about 10 MiB.
const DEFAULT_LIMITS: u64 = 64 << 20;

/// One pool of a GPU's proxy thread (`ncclProxyOpsPool`, src/include/proxy.h: some 10 to 33 MB by
/// version), and one connection's buffers (9,637,888 bytes, as NCCL's own messages tell), each
/// rounded up: what NCCL cannot start without, of each GPU.
const NCCL_PER_GPU: u64 = 48 << 20;

/// Room for what shares it: data loaders' batches. Below this a job of today's kind fails sooner or
/// later with a bus error.
const COMFORT_PER_GPU: u64 = 1 << 30;

/// What guides advise.
const ADVISED_PER_GPU: u64 = 8 << 30;

/// What container runtimes give where nothing is said.
const RUNTIMES_DEFAULT: u64 = 64 << 20;

const MIB: u64 = 1 << 20;

/// Whether memory may be registered with the NIC.
pub(super) fn memlock(scene: &Scene<'_>) -> Item {
    const ID: &str = "memlock";
    if matches!(scene.fabric, Fabric::None | Fabric::TcpRails) {
        return Item::skipped(ID, "there is no RDMA device to register memory with");
    }
    let privileges = &scene.facts.privileges;
    let has = |set: &Reading<u64>| set.value().is_some_and(|bits| bits & CAP_IPC_LOCK != 0);
    let capable = has(&privileges.effective);
    let first = privileges.first_user_namespace != Reading::Value(false);
    let limit = match &privileges.memlock {
        Reading::Value(None) => return Item::ok(ID, "locked memory is not limited"),
        Reading::Value(Some(limit)) => *limit,
        _ if capable && first => return Item::ok(ID, "CAP_IPC_LOCK is effective"),
        Reading::Failed(fault) => {
            return Item::unknown(ID, "LimitUnreadable", fault.detail.clone());
        }
        _ => return Item::unknown(ID, "LimitUnreadable", "/proc/self/limits cannot be read"),
    };
    let shown = size(limit);
    if capable && first {
        return Item::ok(ID, format!("CAP_IPC_LOCK lifts the limit of {shown}"))
            .with("memlock_bytes", limit);
    }
    if let Reading::Value(memory) = privileges.memory
        && limit >= memory
    {
        return Item::ok(
            ID,
            format!(
                "locked memory is limited to {shown}, and the machine has {} in all",
                size(memory)
            ),
        )
        .with("memlock_bytes", limit);
    }
    if privileges.effective.value().is_none() {
        return Item::unknown(
            ID,
            "LimitUnreadable",
            format!("locked memory is limited to {shown}, and the capabilities cannot be read"),
        );
    }
    let because = if capable {
        "and CAP_IPC_LOCK lifts it in the machine's first user namespace only, and this is another (`hostUsers: false`)"
    } else if has(&privileges.bounding) && matches!(privileges.uid, Reading::Value(uid) if uid != 0)
    {
        "and IPC_LOCK was added to the container, but a process that is not root does not get it"
    } else {
        "and CAP_IPC_LOCK is not effective"
    };
    let remedy = if capable {
        "leave `hostUsers: false` out, or have the node's container runtime start with LimitMEMLOCK=infinity"
    } else if has(&privileges.bounding) && matches!(privileges.uid, Reading::Value(uid) if uid != 0)
    {
        "securityContext.runAsUser: 0 with capabilities.add: [\"IPC_LOCK\"]; or LimitMEMLOCK=infinity for the node's container runtime"
    } else {
        "securityContext.capabilities.add: [\"IPC_LOCK\"] of the container; or LimitMEMLOCK=infinity for the node's container runtime (docker: --ulimit memlock=-1)"
    };
    let (status, reason) = match (scene.does_without(), limit <= DEFAULT_LIMITS) {
        (Some(why), _) => {
            return Item::skipped(ID, format!("locked memory is limited to {shown}; {why}"))
                .with("memlock_bytes", limit);
        }
        (None, true) => (ItemStatus::Failing, "MemlockTooLow"),
        (None, false) => (ItemStatus::Degraded, "MemlockLimited"),
    };
    if scene.ports().next().is_none() && scene.wanted.is_none() {
        return Item::unknown(
            ID,
            reason,
            format!("locked memory is limited to {shown}, {because}; this container can open no RDMA device, and nothing here tells whether RDMA is wanted"),
        )
        .fix(format!("where RDMA is wanted: {remedy}"))
        .with("memlock_bytes", limit);
    }
    Item::new(
        ID,
        status,
        Some(reason),
        format!("locked memory is limited to {shown}, {because}. NCCL pins about 10 MiB a connection and fails with `Cannot allocate memory`"),
    )
    .fix(remedy)
    .with("memlock_bytes", limit)
}

/// `/dev/shm` against the GPUs.
pub(super) fn shm(scene: &Scene<'_>) -> Item {
    const ID: &str = "shm";
    const FIX: &str = "volumes: `- name: dshm, emptyDir: {medium: Memory}` mounted at /dev/shm, in this container and the init container that looks (docker: --shm-size)";
    let shm = match &scene.facts.shm {
        Reading::Value(shm) => shm,
        Reading::Absent => {
            return Item::failing(ID, "NoShm", "there is no /dev/shm").fix(FIX);
        }
        Reading::Failed(fault) => {
            return Item::unknown(ID, "ShmUnreadable", fault.detail.clone());
        }
        Reading::NotObservable => {
            return Item::unknown(ID, "ShmUnreadable", "the size of /dev/shm cannot be read");
        }
    };
    if scene
        .nccl_number("NCCL_SHM_DISABLE")
        .is_some_and(|n| n != 0)
    {
        return Item::ok(
            ID,
            format!(
                "{}, and NCCL_SHM_DISABLE keeps NCCL out of it",
                size(shm.size)
            ),
        )
        .with("size_bytes", shm.size);
    }
    let told = match shm.size.saturating_sub(shm.free) > shm.size / 10 {
        true => format!("{} of which {} are free", size(shm.size), size(shm.free)),
        false => size(shm.size),
    };
    let item = match scene.gpus {
        None | Some(0) => {
            if shm.size <= RUNTIMES_DEFAULT {
                let default = match shm.size == RUNTIMES_DEFAULT {
                    true => ", the container runtime's default",
                    false => "",
                };
                Item::degraded(
                    ID,
                    "ShmSmall",
                    format!("{told}{default}, and the number of GPUs is not known (--gpus)"),
                )
                .fix(FIX)
            } else {
                Item::ok(
                    ID,
                    format!("{told}; the number of GPUs is not known (--gpus)"),
                )
            }
        }
        Some(gpus) => {
            let each = |bytes: u64| bytes.saturating_mul(u64::from(gpus));
            // A single GPU has nobody on its node to share with.
            let need = if gpus > 1 { each(NCCL_PER_GPU) } else { 0 };
            if shm.free < need {
                Item::failing(
                    ID,
                    "ShmTooSmall",
                    format!(
                        "{told} for {gpus} GPUs; NCCL itself takes up to {} there and ends without",
                        size(need)
                    ),
                )
                .fix(FIX)
            } else if shm.free < each(COMFORT_PER_GPU) {
                Item::degraded(
                    ID,
                    "ShmSmall",
                    format!("{told} for {gpus} GPUs: enough for NCCL ({}), little beside it for data loaders (1 GiB a GPU is a low estimate, 8 GiB often advised)", size(need)),
                )
                .fix(FIX)
            } else if shm.size < each(ADVISED_PER_GPU) {
                Item::ok(
                    ID,
                    format!(
                        "{told} for {gpus} GPUs: enough for NCCL; guides advise 8 GiB a GPU where data loaders share much"
                    ),
                )
            } else {
                Item::ok(ID, format!("{told} for {gpus} GPUs"))
            }
        }
    };
    item.with("size_bytes", shm.size)
        .with("free_bytes", shm.free)
}

/// Bytes in the unit that shows them whole.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..MIB => format!("{} KiB", bytes >> 10),
        MIB..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests;
