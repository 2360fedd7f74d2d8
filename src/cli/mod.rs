//! Commands.
pub mod capture;
pub mod kmsg;
