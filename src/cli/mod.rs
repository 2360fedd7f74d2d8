//! The commands.

pub mod check;
pub mod kmsg;
