//! Judges what a container can see of the fabric: can the job in here use it? One item a question,
//! each with what to change where the answer is no.

mod devices;
mod gid;
mod gpu;
mod hca;
mod interfaces;
mod job;
mod lists;
mod memory;
mod mixed;
mod named;
pub mod nccl_list;
mod plugins;
mod reasons;
mod scene;
mod settings;
#[cfg(test)]
mod testing;

pub use gid::slot_asked;
pub use job::master_to_ask;
pub use named::FILES;
pub use plugins::libraries_wanted;
pub use reasons::REASONS;

use crate::observe::container::ContainerFacts;
use scene::Scene;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What became of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// It was looked at, and it is as it should be.
    Ok,
    /// It does not apply here; the message says why.
    Skipped,
    /// It could not be looked at, or what is wanted is not known.
    Unknown,
    /// The job will run with less.
    Degraded,
    /// The job will fail, or fall back to TCP.
    Failing,
}

impl ItemStatus {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ItemStatus::Ok => "ok",
            ItemStatus::Skipped => "skipped",
            ItemStatus::Unknown => "unknown",
            ItemStatus::Degraded => "degraded",
            ItemStatus::Failing => "failing",
        }
    }
}

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// Which question.
    pub item: &'static str,
    /// The answer.
    pub status: ItemStatus,
    /// Why, as one word; none where all is well.
    pub reason: Option<&'static str>,
    /// One sentence with names and numbers.
    pub message: String,
    /// What to change: the variable or the manifest's line.
    pub remedy: String,
    /// What it was judged by.
    pub evidence: BTreeMap<&'static str, Value>,
}

impl Item {
    fn new(
        item: &'static str,
        status: ItemStatus,
        reason: Option<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Item {
            item,
            status,
            reason,
            message: message.into(),
            remedy: String::new(),
            evidence: BTreeMap::new(),
        }
    }

    fn ok(item: &'static str, message: impl Into<String>) -> Self {
        Item::new(item, ItemStatus::Ok, None, message)
    }

    fn skipped(item: &'static str, message: impl Into<String>) -> Self {
        Item::new(item, ItemStatus::Skipped, None, message)
    }

    fn unknown(item: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Item::new(item, ItemStatus::Unknown, Some(reason), message)
    }

    fn degraded(item: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Item::new(item, ItemStatus::Degraded, Some(reason), message)
    }

    fn failing(item: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Item::new(item, ItemStatus::Failing, Some(reason), message)
    }

    fn fix(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    #[inline(never)]
    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name, value.into());
        self
    }
}

/// What the caller knows besides.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How many GPUs the job uses here; none: as many as are seen.
    pub gpus: Option<u32>,
}

/// A question: its name, what has to hold, and the function that answers.
type Row = (&'static str, &'static str, fn(&Scene<'_>) -> Item);

/// Names of the items and what each asks, in order.
pub fn questions() -> impl Iterator<Item = (&'static str, &'static str)> {
    ITEMS.iter().map(|(name, asks, _)| (*name, *asks))
}

/// Every item, in the order in which they are told.
const ITEMS: &[Row] = &[
    (
        "uverbs",
        "RDMA devices have a node in /dev/infiniband that opens",
        devices::uverbs,
    ),
    (
        "rdma_ports",
        "their ports are active from in here",
        devices::ports,
    ),
    (
        "ib_hca",
        "NCCL_IB_HCA selects ports that exist, as NCCL reads it",
        hca::ib_hca,
    ),
    (
        "gid_index",
        "NCCL_IB_GID_INDEX, or NCCL's own choice, is a RoCE v2 address that fits",
        gid::gid_index,
    ),
    (
        "nccl_network",
        "no setting asks for TCP, or for a network that is not here",
        settings::network,
    ),
    (
        "nccl_settings",
        "NCCL reads the other settings as they were meant",
        settings::others,
    ),
    (
        "libibverbs",
        "libibverbs is where the loader looks",
        plugins::libibverbs,
    ),
    (
        "net_plugin",
        "the network plugin that is asked for, or that the platform needs, is where the loader looks",
        plugins::net_plugin,
    ),
    (
        "socket_ifname",
        "NCCL_SOCKET_IFNAME, or NCCL's own choice, is an interface that joins the nodes",
        interfaces::nccl,
    ),
    (
        "gloo_ifname",
        "GLOO_SOCKET_IFNAME names interfaces that have an address",
        interfaces::gloo,
    ),
    (
        "ucx_devices",
        "UCX_NET_DEVICES and UCX_TLS name what exists",
        lists::ucx,
    ),
    (
        "mpi_ifname",
        "Open MPI's interface lists name what exists",
        lists::mpi,
    ),
    ("memlock", "memory may be pinned", memory::memlock),
    ("shm", "/dev/shm has room for the GPUs", memory::shm),
    ("gpudirect", "NICs can reach GPU memory", gpu::gpudirect),
    ("gds", "GPUDirect Storage, where it is asked for", gpu::gds),
    ("ranks", "rank variables make sense", job::ranks),
    ("master", "MASTER_ADDR resolves and answers", job::master),
];

/// Answers every question.
pub fn judge(facts: &ContainerFacts, options: Options) -> Vec<Item> {
    let scene = Scene::new(facts, options);
    ITEMS
        .iter()
        .map(|(name, _, answer)| {
            let item = answer(&scene);
            debug_assert_eq!(item.item, *name);
            debug_assert!(
                item.reason.is_none_or(|reason| {
                    REASONS.iter().any(|row| (row.0, row.1) == (*name, reason))
                }),
                "{name}: a reason without a row: {:?}",
                item.reason
            );
            item
        })
        .collect()
}
