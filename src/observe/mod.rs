//! States facts. Plain values with units in their types or names; no I/O, no
//! thresholds, no word of good or bad.

pub mod bench;
mod container;
pub mod counters;
mod dot1x;
pub mod fabric;
mod gpudirect;
pub mod history;
mod kernel;
pub mod kernel_log;
mod lldp;
pub mod nccl;
mod netdev;
mod node_resources;
mod pci;
mod pod;
mod rdma;
mod reading;
pub mod remembered;
mod snapshot;
mod totals;
mod track;
mod traffic;
mod vf;

pub use container::{
    Attempt, ContainerFacts, Environment, Interface, Library, MasterFacts, Privileges, SeenDevice,
    SeenPort, SharedMemory, StorageFacts, Variable,
};
pub use counters::{CounterKind, Counts, PMA_WORDS, PmaSkip, PortCounters, hw_kind, pma_kind};
pub use dot1x::Dot1xFacts;
pub use fabric::SeenFabric;
pub use gpudirect::{
    GpuDirectFacts, MODULES_OF_INTEREST, Module, NvidiaDriver, NvidiaFs, NvidiaGpu,
};
pub use history::{DeviceHistory, History, KERNEL_LOG_LOST, Memory, PortHistory, Totals};
pub use kernel::{
    KernelEvent, KernelEventKind, Note, NvLink, RecoveryAction, Severity, Sxid, Xid, XidDetail,
};
pub use lldp::{Advertisement, Neighbor};
pub use netdev::{DcbFacts, EthtoolFacts, Ipv4Facts, NetdevFacts, OvsRoute, Trust, priority_bit};
pub use node_resources::{NodeResources, Offered, is_shared_by_name, is_whole_gpus};
pub use pci::{
    AER_SEVERITIES, BareNic, DATA_DIRECT, Distance, MAX_VFS, MachineFacts, PciFacts, PciFunction,
    PcieLink, SLINGSHOT, SriovFacts, gives_away,
};
pub use pod::{
    ContainerKey, ContainerState, PodContainer, PodFacts, PodJob, is_gpu_resource,
    is_gpudirect_tcp_daemon, is_rdma_resource,
};
pub use rdma::{
    Function, GVNIC_DRIVER, Gid, GidKind, GidTable, LinkFacts, LinkLayer, LinkRate, PhysState,
    PortState, RdmaDevice, RdmaPort, Sriov, is_guid_set, true_rate,
};
pub use reading::{Fault, FaultKind, Reading, Stamped};
pub use snapshot::{Snapshot, SourceHealth};
pub use track::{Increase, Track, Window};
pub use traffic::{
    Bytes, GpuPod, Moved, NetCounters, NodeRdma, OwnedQps, PodQps, PodTraffic, TrafficLook,
};
pub use vf::{VfLink, VfLinks};
