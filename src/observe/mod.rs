//! States facts. Plain values with units in their types or names; no I/O, no
//! thresholds, no word of good or bad.

pub mod bench;
pub mod container;
pub mod counters;
pub mod dot1x;
pub mod fabric;
pub mod gpudirect;
pub mod history;
pub mod kernel;
pub mod kernel_log;
pub mod lldp;
pub mod machine;
pub mod nccl;
pub mod netdev;
pub mod node_resources;
pub mod pci;
pub mod pod;
pub mod rdma;
pub mod reading;
pub mod remembered;
pub mod snapshot;
pub mod totals;
pub mod track;
pub mod traffic;
pub mod vf;
