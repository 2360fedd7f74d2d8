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
pub use item::{Item, ItemStatus, reasons};
pub(crate) use job::master_to_ask;
pub(crate) use plugins::libraries_wanted;
pub(crate) use settings::FILES;

use crate::observe::ContainerFacts;
use context::{PodFabric, PodPort, PodView, is_alike, port_name, port_names};
use item::{Checked, any_of, count, is_of, known, list};

/// An item's judge.
type Judge = fn(&PodView<'_>) -> Checked;

/// Every item, in the order of the report.
const ITEMS: &[(&str, Judge)] = &[
    // RDMA devices have a node in /dev/infiniband that opens.
    ("uverbs", devices::uverbs),
    // Their ports are active from inside the container.
    ("rdma_ports", devices::rdma_ports),
    // NCCL_IB_HCA selects ports that exist, as NCCL reads it.
    ("ib_hca", nccl_ib_hca::ib_hca),
    // NCCL_IB_GID_INDEX, or NCCL's own choice, is a RoCE v2 address that works here.
    ("gid_index", gid::gid_index),
    // No setting asks for TCP, or for a network that is not here.
    ("nccl_network", settings::network),
    // NCCL reads the other settings as intended.
    ("nccl_settings", settings::others),
    // Libibverbs is where the loader looks.
    ("libibverbs", plugins::libibverbs),
    // The network plugin that is configured, or that the platform needs, is where the loader looks.
    ("net_plugin", plugins::net_plugin),
    // NCCL_SOCKET_IFNAME, or NCCL's own choice, is an interface that other nodes reach.
    ("socket_ifname", interfaces::socket_ifname),
    // GLOO_SOCKET_IFNAME names interfaces that have an address.
    ("gloo_ifname", name_lists::gloo_ifname),
    // UCX_NET_DEVICES names what exists.
    ("ucx_devices", name_lists::ucx_devices),
    // Open MPI's interface lists name what exists.
    ("mpi_ifname", name_lists::mpi_ifname),
    // Memory may be pinned.
    ("memlock", memory::memlock),
    // /dev/shm has room for the GPUs.
    ("shm", memory::shm),
    // NICs can reach GPU memory.
    ("gpudirect", gpu::gpudirect),
    // GPUDirect Storage works if it is configured.
    ("gds", gpu::gds),
    // Rank variables are consistent.
    ("ranks", ranks::ranks),
    // MASTER_ADDR resolves and answers.
    ("master", master::master),
];

/// Those whose problems are skipped for a job that does not need RDMA.
const RDMA_ONLY: &str = "rdma_ports gid_index libibverbs memlock gpudirect";

/// Names of the items, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    ITEMS.iter().map(|(id, _)| *id)
}

/// Judges every item. `gpus`: how many the job uses here; `None` for all that the container sees.
pub fn judge(facts: &ContainerFacts, gpus: Option<u32>) -> Vec<Item> {
    let context = PodView::new(facts, gpus);
    let judged = ITEMS.iter().map(|(id, judge)| {
        let mut item = judge(&context).unwrap_or_else(|settled| settled);
        let reason = item.reason;
        debug_assert!(reason.is_none_or(|of| is_of(id, of)), "{id}: {reason:?}");
        if RDMA_ONLY.split(' ').any(|name| name == *id) {
            item = context.if_rdma_matters(item);
        }
        item.item = id;
        item
    });
    judged.collect()
}
