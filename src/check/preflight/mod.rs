//! Judges from inside a training container whether its job can use the fabric. Each item is a row of
//! one table and says what to change if it fails.

mod context;
mod devices;
mod gid;
mod gpu;
mod interfaces;
mod item;
mod job;
mod master;
mod memory;
mod name_lists;
mod nccl_ib_hca;
pub(super) mod nccl_list;
mod plugins;
mod ranks;
mod settings;
#[cfg(test)]
mod testing;

pub(crate) use gid::slot_asked;
pub use item::{Item, ItemStatus};
pub(crate) use job::master_to_ask;
pub(crate) use plugins::libraries_wanted;
pub(crate) use settings::FILES;

use crate::observe::container::ContainerFacts;
use context::Context;
use item::Judged;

/// One row of the table.
struct Row {
    id: &'static str,
    judge: fn(&Context<'_>) -> Judged,
    /// Every reason that the item can have, separated by blanks.
    reasons: &'static str,
    /// Whether problems are skipped for a job that does not need RDMA.
    rdma_only: bool,
}

/// The table of items: name, whether only a job that needs RDMA depends on it, judge, and reasons.
macro_rules! items {
    ($($id:ident $rdma_only:literal $judge:path: $reasons:literal;)*) => {
        /// Every item, in the order of the report.
        const ITEMS: &[Row] = &[$(Row {
            id: stringify!($id),
            judge: $judge,
            reasons: $reasons,
            rdma_only: $rdma_only,
        }),*];
    };
}

items! {
    // RDMA devices have a node in /dev/infiniband that opens.
    uverbs false devices::uverbs:
        "NoRdmaDevice NoUverbs UverbsDenied UverbsPartly UverbsFewer UverbsBroken NoThread UverbsStalled \
         RdmaUnreadable";
    // Their ports are active from inside the container.
    rdma_ports true devices::rdma_ports: "NoActivePort PortDown PortStateUnreadable";
    // NCCL_IB_HCA selects ports that exist, as NCCL reads it.
    ib_hca false nccl_ib_hca::ib_hca: "HcaMatchesNothing HcaMixed HcaPartly HcaPrefix HcaFewer";
    // NCCL_IB_GID_INDEX, or NCCL's own choice, is a RoCE v2 address that works here.
    gid_index true gid::gid_index:
        "GidNotRoceV2 GidEmpty GidLinkLocal GidOfAnotherInterface NoUsableGid GidUnreadable";
    // No setting asks for TCP, or for a network that is not here.
    nccl_network false settings::network: "TcpConfigured NetNotAvailable RdmaUnreadable";
    // NCCL reads the other settings as intended.
    nccl_settings false settings::others:
        "SettingsUnreadable GraphFileMissing TopoFileMissing NoRailInterface NotANumber NotAnAddressFamily \
         P2pDisabled";
    // Libibverbs is where the loader looks.
    libibverbs true plugins::libibverbs: "LibibverbsMissing LibraryUnreadable";
    // The network plugin that is configured, or that the platform needs, is where the loader looks.
    net_plugin false plugins::net_plugin: "PluginMissing OfiProvider LibraryUnreadable";
    // NCCL_SOCKET_IFNAME, or NCCL's own choice, is an interface that other nodes reach.
    socket_ifname false interfaces::socket_ifname:
        "NoInterface InterfacePartly LocalInterface LinkLocalAddress InterfacesUnreadable";
    // GLOO_SOCKET_IFNAME names interfaces that have an address.
    gloo_ifname false name_lists::gloo_ifname: "NoInterface LocalInterface InterfacesUnreadable";
    // UCX_NET_DEVICES names what exists.
    ucx_devices false name_lists::ucx_devices: "NoUcxDevice UcxPartly InterfacesUnreadable";
    // Open MPI's interface lists name what exists.
    mpi_ifname false name_lists::mpi_ifname: "NoInterface MpiPartly InterfacesUnreadable";
    // Memory may be pinned.
    memlock true memory::memlock: "MemlockTooLow MemlockLimited LimitUnreadable";
    // /dev/shm has room for the GPUs.
    shm false memory::shm: "ShmTooSmall ShmSmall NoShm ShmUnreadable";
    // NICs can reach GPU memory.
    gpudirect true gpu::gpudirect: "NoGpuDirect GdrDisabled GpuDirectUnreadable";
    // GPUDirect Storage works if it is configured.
    gds false gpu::gds: "CufileMissing CufileBroken GdsMissing GdsUnreadable";
    // Rank variables are consistent.
    ranks false ranks::ranks: "RankNotANumber RankOutOfRange MoreRanksThanGpus";
    // MASTER_ADDR resolves and answers.
    master false master::master:
        "MasterUnresolvable MasterUnset MasterPort MasterIsLoopback MasterNotListening MasterSilent \
         MasterUnreachable";
}

/// Names of the items, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ITEMS.iter().map(|row| row.id)
}

/// Every item with each reason that it can have.
pub fn reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |row: &'static Row| row.reasons.split(' ').map(|reason| (row.id, reason));
    ITEMS.iter().flat_map(of)
}

/// Judges every item. `gpus`: how many the job uses here; `None` for all that the container sees.
pub fn judge(facts: &ContainerFacts, gpus: Option<u32>) -> Vec<Item> {
    let context = Context::new(facts, gpus);
    let judged = ITEMS.iter().map(|row| {
        let mut item = (row.judge)(&context).unwrap_or_else(|settled| settled);
        debug_assert!(
            (item.reason).is_none_or(|reason| row.reasons.split(' ').any(|known| known == reason)),
            "{}: {:?} is not in the table",
            row.id,
            item.reason
        );
        if row.rdma_only {
            item = context.if_rdma_matters(item);
        }
        item.item = row.id;
        item
    });
    judged.collect()
}
