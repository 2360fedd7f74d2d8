//! Reads the kernel. Names paths, sockets, errno and formats; says nothing about good or bad.

#[cfg(test)]
mod any_text;
pub mod bench_output;
mod colour;
pub mod container;
pub mod container_log;
pub mod counters;
pub mod device_checkpoint;
pub mod dot1x;
pub mod ethtool;
pub mod gids;
pub mod gpudirect;
pub mod gvnic;
pub mod identity;
pub mod infiniband;
pub mod kernel_log;
pub mod link;
pub mod link_text;
pub mod lldp;
pub mod machine;
pub mod modules;
pub mod nccl;
pub mod netdev;
pub mod netlink;
pub mod nvidia;
pub mod ovs;
pub mod parse;
pub mod pci;
pub mod pci_text;
pub mod pod_logs;
pub mod pod_processes;
pub mod processes;
pub mod rdma_port;
pub mod rdma_traffic;
pub mod replay;
pub mod routes;
pub mod slurm_jobs;
#[cfg(test)]
pub(crate) mod testtree;
pub mod topology;
pub mod tree;
pub mod umad;
pub mod vf;
