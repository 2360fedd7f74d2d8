//! Pinned memory and shared memory.

use super::{Checked, Item, ItemStatus, PodFabric, PodView, known};
use crate::observe::{Privileges, Reading, SharedMemory};

/// Bit of CAP_IPC_LOCK (include/uapi/linux/capability.h).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// A memlock limit up to here is a default: 64 KiB before Linux 5.16, 8 MiB since, 64 MiB in some
/// distributions. A single NCCL connection pins about 10 MiB.
const DEFAULT_LIMITS: u64 = 64 << 20;

/// What NCCL cannot start without, for each GPU: a pool of the GPU's proxy thread
/// (`ncclProxyOpsPool`, src/include/proxy.h: 10 to 33 MB by version) and the buffers of one connection
/// (9,637,888 bytes by NCCL's own messages), each rounded up.
const NCCL_PER_GPU: u64 = 48 << 20;

/// Space for data loaders' batches. With less a typical job eventually fails with a bus error.
const COMFORT_PER_GPU: u64 = 1 << 30;

/// What guides recommend for each GPU.
const ADVISED_PER_GPU: u64 = 8 << 30;

/// The default of container runtimes.
const RUNTIMES_DEFAULT: u64 = 64 << 20;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Judges whether memory may be registered with a NIC.
pub(super) fn memlock(context: &PodView<'_>) -> Checked {
    let has_none = matches!(context.fabric, PodFabric::None | PodFabric::TcpRails);
    Item::skipped("without an RDMA device no memory is registered").when(has_none)?;
    let privileges = &context.facts.privileges;
    let is_capable = has_ipc_lock(&privileges.effective);
    let lifts = is_capable && privileges.first_user_namespace != Reading::Value(false);
    let unreadable = "/proc/self/limits cannot be read";
    let limit = match known(&privileges.memlock, "LimitUnreadable", unreadable) {
        Err(_) if lifts => return Ok(Item::ok("CAP_IPC_LOCK is effective")),
        limit => *limit?,
    };
    let Some(limit) = limit else {
        return Ok(Item::ok("locked memory is not limited"));
    };
    let limited = format!("locked memory is limited to {}", size(limit));
    let item = match privileges.memory {
        _ if lifts => Item::ok(format!("CAP_IPC_LOCK lifts the limit of {}", size(limit))),
        Reading::Value(memory) if limit >= memory => {
            let all = size(memory);
            Item::ok(format!("{limited}, and the machine has {all} in all"))
        }
        _ if privileges.effective.value().is_none() => {
            let message = format!("{limited}, and the capabilities cannot be read");
            Item::unknown("LimitUnreadable", message)
        }
        _ => limited_memlock(context, limit, &limited),
    };
    Ok(item.with("memlock_bytes", limit))
}

fn has_ipc_lock(set: &Reading<u64>) -> bool {
    set.value().is_some_and(|bits| bits & CAP_IPC_LOCK != 0)
}

/// The limit applies to this process.
fn limited_memlock(context: &PodView<'_>, limit: u64, limited: &str) -> Item {
    let (because, remedy) = why_limited(&context.facts.privileges);
    let (reason, status) = match limit <= DEFAULT_LIMITS {
        true => ("MemlockTooLow", ItemStatus::Failing),
        false => ("MemlockLimited", ItemStatus::Degraded),
    };
    if context.ports().is_empty() && context.wanted.is_none() {
        let message = format!(
            "{limited}, {because}; this container can open no RDMA device, and nothing here shows whether RDMA is wanted"
        );
        return Item::unknown(reason, message).fix(format!("if RDMA is wanted: {remedy}"));
    }
    let message = format!(
        "{limited}, {because}. NCCL pins about 10 MiB a connection and fails with `Cannot allocate memory`"
    );
    Item::new(status, Some(reason), message).fix(remedy)
}

/// Why the capability does not lift the limit, and what to change.
fn why_limited(privileges: &Privileges) -> (&'static str, &'static str) {
    let is_root = !matches!(privileges.uid, Reading::Value(1..));
    if has_ipc_lock(&privileges.effective) {
        (
            "and CAP_IPC_LOCK lifts it in the initial user namespace only, and this is another (`hostUsers: false`)",
            "remove `hostUsers: false`, or have the node's container runtime start with LimitMEMLOCK=infinity",
        )
    } else if has_ipc_lock(&privileges.bounding) && !is_root {
        (
            "and IPC_LOCK was added to the container, but a process that is not root does not get it",
            "securityContext.runAsUser: 0 with capabilities.add: [\"IPC_LOCK\"]; or LimitMEMLOCK=infinity for the node's container runtime",
        )
    } else {
        (
            "and CAP_IPC_LOCK is not effective",
            "securityContext.capabilities.add: [\"IPC_LOCK\"] of the container; or LimitMEMLOCK=infinity for the node's container runtime (docker: --ulimit memlock=-1)",
        )
    }
}

/// Judges the size of `/dev/shm` against the number of GPUs.
pub(super) fn shm(context: &PodView<'_>) -> Checked {
    Item::failing("NoShm", "/dev/shm does not exist").when(context.facts.shm == Reading::Absent)?;
    let unreadable = "the size of /dev/shm cannot be read";
    let shm = *known(&context.facts.shm, "ShmUnreadable", unreadable)?;
    let mut shown = size(shm.size);
    if context.nccl_flag("NCCL_SHM_DISABLE") {
        let message = format!("{shown}, and NCCL_SHM_DISABLE keeps NCCL from using it");
        return Ok(Item::ok(message).with("size_bytes", shm.size));
    }
    if shm.size.saturating_sub(shm.free) > shm.size / 10 {
        shown += &format!(" of which {} are free", size(shm.free));
    }
    let item = match context.gpus {
        Some(gpus @ 1..) => shm_for(gpus, shm, &format!("{shown} for {gpus} GPUs")),
        _ if shm.size > RUNTIMES_DEFAULT => {
            Item::ok(format!("{shown}; the number of GPUs is unknown (--gpus)"))
        }
        _ => {
            let default = match shm.size == RUNTIMES_DEFAULT {
                true => ", the container runtime's default",
                false => "",
            };
            let message = format!("{shown}{default}, and the number of GPUs is unknown (--gpus)");
            Item::degraded("ShmSmall", message)
        }
    };
    Ok(item
        .with("size_bytes", shm.size)
        .with("free_bytes", shm.free))
}

fn shm_for(gpus: u32, shm: SharedMemory, shown: &str) -> Item {
    let each = |bytes: u64| bytes.saturating_mul(u64::from(gpus));
    // A single GPU shares memory with no other on its node.
    let need = if gpus > 1 { each(NCCL_PER_GPU) } else { 0 };
    if shm.free < need {
        let need = size(need);
        let message = format!("{shown}; NCCL itself uses up to {need} there and ends without");
        Item::failing("ShmTooSmall", message)
    } else if shm.free < each(COMFORT_PER_GPU) {
        let message = format!(
            "{shown}: enough for NCCL ({}), and little more for data loaders (1 GiB a GPU is a low estimate, 8 GiB often recommended)",
            size(need)
        );
        Item::degraded("ShmSmall", message)
    } else if shm.size < each(ADVISED_PER_GPU) {
        Item::ok(format!(
            "{shown}: enough for NCCL; guides recommend 8 GiB a GPU if data loaders share much"
        ))
    } else {
        Item::ok(shown)
    }
}

/// Bytes in the largest unit that is not below 1.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..MIB => format!("{} KiB", bytes >> 10),
        MIB..GIB => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests;
