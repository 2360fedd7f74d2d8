//! Commands.
pub mod demo;
pub mod kmsg;
