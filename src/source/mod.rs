//! Reads the kernel. Names paths, sockets, errno and formats; says nothing about good or bad.

pub mod attr;
pub mod counter_files;
pub mod counters;
pub mod gids;
pub mod identity;
pub mod infiniband;
pub mod kernel_log;
pub mod link;
pub mod link_text;
pub mod rdma_port;
#[cfg(test)]
pub(crate) mod testtree;
pub mod tree;
