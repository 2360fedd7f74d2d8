//! Reads the kernel. Names paths, sockets, errno and formats; says nothing about good or bad.

pub mod ethtool;
pub mod netlink;
pub mod tree;
