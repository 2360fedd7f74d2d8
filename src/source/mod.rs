//! Reads the kernel. Names paths, sockets, errno and formats; says nothing about good or bad.

pub mod kernel_log;
pub mod tree;
