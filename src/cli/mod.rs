//! The commands.

pub mod check;
//! Commands.
pub mod demo;
pub mod kmsg;
pub mod run;
