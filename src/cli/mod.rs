//! Commands.
pub mod kmsg;
