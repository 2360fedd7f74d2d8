//! Readers of the kernel.
pub mod kernel_log;
