//! Judges from inside a training container whether its job can use the fabric. Each item is a row of
//! one table and says what to change if its answer is no.

mod context;
mod devices;
mod gid;
mod gpu;
mod heterogeneous;
mod interfaces;
mod item;
mod job;
mod master;
mod memory;
mod nccl_ib_hca;
mod nccl_list;
mod network;
mod plugin_names;
mod plugins;
mod ranks;
mod referenced_files;
mod settings;
#[cfg(test)]
mod testing;
mod ucx_openmpi;
mod wording;

pub(crate) use gid::slot_asked;
pub use item::{Item, ItemStatus};
pub(crate) use job::master_to_ask;
pub(crate) use plugin_names::libraries_wanted;
pub(crate) use referenced_files::FILES;

use crate::observe::container::ContainerFacts;
use context::Context;

/// One row of the table.
struct Row {
    id: &'static str,
    /// Why the item does not apply; `None` if it does.
    skip: fn(&Context<'_>) -> Option<&'static str>,
    judge: fn(&Context<'_>) -> Item,
    /// Whether problems are skipped for a job that does not need RDMA.
    rdma_only: bool,
    /// Every reason that the item can have.
    reasons: &'static [&'static str],
}

const ROW: Row = Row {
    id: "",
    skip: |_| None,
    judge: |_| Item::ok(""),
    rdma_only: false,
    reasons: &[],
};

/// Every item, in the order of the report.
const ITEMS: &[Row] = &[
    // RDMA devices have a node in /dev/infiniband that opens.
    Row {
        id: "uverbs",
        judge: devices::uverbs,
        reasons: &[
            "NoRdmaDevice",
            "NoUverbs",
            "UverbsDenied",
            "UverbsPartly",
            "UverbsFewer",
            "UverbsBroken",
            "NoThread",
            "UverbsStalled",
            "RdmaUnreadable",
        ],
        ..ROW
    },
    // Their ports are active from inside the container.
    Row {
        id: "rdma_ports",
        skip: devices::rdma_ports_skip,
        judge: devices::rdma_ports,
        rdma_only: true,
        reasons: &["NoActivePort", "PortDown", "PortStateUnreadable"],
    },
    // NCCL_IB_HCA selects ports that exist, as NCCL reads it.
    Row {
        id: "ib_hca",
        skip: nccl_ib_hca::ib_hca_skip,
        judge: nccl_ib_hca::ib_hca,
        reasons: &[
            "HcaMatchesNothing",
            "HcaMixed",
            "HcaPartly",
            "HcaPrefix",
            "HcaFewer",
        ],
        ..ROW
    },
    // NCCL_IB_GID_INDEX, or NCCL's own choice, is a RoCE v2 address that works here.
    Row {
        id: "gid_index",
        skip: gid::gid_index_skip,
        judge: gid::gid_index,
        rdma_only: true,
        reasons: &[
            "GidNotRoceV2",
            "GidEmpty",
            "GidLinkLocal",
            "GidOfAnotherInterface",
            "NoUsableGid",
            "GidUnreadable",
        ],
    },
    // No setting asks for TCP, or for a network that is not here.
    Row {
        id: "nccl_network",
        judge: settings::network,
        reasons: &["TcpConfigured", "NetNotAvailable", "RdmaUnreadable"],
        ..ROW
    },
    // NCCL reads the other settings as intended.
    Row {
        id: "nccl_settings",
        judge: settings::others,
        reasons: &[
            "SettingsUnreadable",
            "GraphFileMissing",
            "TopoFileMissing",
            "NoRailInterface",
            "NotANumber",
            "NotAnAddressFamily",
            "P2pDisabled",
        ],
        ..ROW
    },
    // Libibverbs is where the loader looks.
    Row {
        id: "libibverbs",
        skip: plugins::libibverbs_skip,
        judge: plugins::libibverbs,
        rdma_only: true,
        reasons: &["LibibverbsMissing", "LibraryUnreadable"],
    },
    // The network plugin that is configured, or that the platform needs, is where the loader looks.
    Row {
        id: "net_plugin",
        judge: plugins::net_plugin,
        reasons: &["PluginMissing", "OfiProvider", "LibraryUnreadable"],
        ..ROW
    },
    // NCCL_SOCKET_IFNAME, or NCCL's own choice, is an interface that other nodes reach.
    Row {
        id: "socket_ifname",
        judge: interfaces::socket_ifname,
        reasons: &[
            "NoInterface",
            "InterfacePartly",
            "LocalInterface",
            "LinkLocalAddress",
            "InterfacesUnreadable",
        ],
        ..ROW
    },
    // GLOO_SOCKET_IFNAME names interfaces that have an address.
    Row {
        id: "gloo_ifname",
        skip: interfaces::gloo_ifname_skip,
        judge: interfaces::gloo_ifname,
        reasons: &["NoInterface", "LocalInterface", "InterfacesUnreadable"],
        ..ROW
    },
    // UCX_NET_DEVICES and UCX_TLS name what exists.
    Row {
        id: "ucx_devices",
        skip: ucx_openmpi::ucx_devices_skip,
        judge: ucx_openmpi::ucx_devices,
        reasons: &[
            "NoUcxDevice",
            "UcxPartly",
            "UcxNewForm",
            "UcxWithoutRdma",
            "InterfacesUnreadable",
        ],
        ..ROW
    },
    // Open MPI's interface lists name what exists.
    Row {
        id: "mpi_ifname",
        skip: ucx_openmpi::mpi_ifname_skip,
        judge: ucx_openmpi::mpi_ifname,
        reasons: &["NoInterface", "MpiPartly", "InterfacesUnreadable"],
        ..ROW
    },
    // Memory may be pinned.
    Row {
        id: "memlock",
        skip: memory::memlock_skip,
        judge: memory::memlock,
        rdma_only: true,
        reasons: &["MemlockTooLow", "MemlockLimited", "LimitUnreadable"],
    },
    // /dev/shm has room for the GPUs.
    Row {
        id: "shm",
        judge: memory::shm,
        reasons: &["ShmTooSmall", "ShmSmall", "NoShm", "ShmUnreadable"],
        ..ROW
    },
    // NICs can reach GPU memory.
    Row {
        id: "gpudirect",
        skip: gpu::gpudirect_skip,
        judge: gpu::gpudirect,
        rdma_only: true,
        reasons: &["NoGpuDirect", "GdrDisabled", "GpuDirectUnreadable"],
    },
    // GPUDirect Storage works if it is configured.
    Row {
        id: "gds",
        skip: gpu::gds_skip,
        judge: gpu::gds,
        reasons: &[
            "CufileMissing",
            "CufileBroken",
            "GdsMissing",
            "GdsUnreadable",
        ],
        ..ROW
    },
    // Rank variables are consistent.
    Row {
        id: "ranks",
        skip: ranks::ranks_skip,
        judge: ranks::ranks,
        reasons: &["RankNotANumber", "RankOutOfRange", "MoreRanksThanGpus"],
        ..ROW
    },
    // MASTER_ADDR resolves and answers.
    Row {
        id: "master",
        judge: master::master,
        reasons: &[
            "MasterUnresolvable",
            "MasterUnset",
            "MasterPort",
            "MasterIsLoopback",
            "MasterNotListening",
            "MasterSilent",
            "MasterUnreachable",
        ],
        ..ROW
    },
];

/// Names of the items, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ITEMS.iter().map(|row| row.id)
}

/// Every item with each reason that it can have.
pub fn reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = ITEMS.iter();
    rows.flat_map(|row| row.reasons.iter().map(|reason| (row.id, *reason)))
}

/// Judges every item. `gpus`: how many the job uses here; `None` for all that the container sees.
pub fn judge(facts: &ContainerFacts, gpus: Option<u32>) -> Vec<Item> {
    let context = Context::new(facts, gpus);
    let judged = ITEMS.iter().map(|row| {
        let mut item = match (row.skip)(&context) {
            Some(why) => Item::skipped(why),
            None => (row.judge)(&context),
        };
        debug_assert!(
            item.reason
                .is_none_or(|reason| row.reasons.contains(&reason)),
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
