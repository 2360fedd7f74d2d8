//! The commands.

pub mod capture;
pub mod check;
pub mod demo;
pub mod kmsg;
pub mod run;
