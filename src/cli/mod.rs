//! The commands.

pub mod bench;
pub mod capture;
pub mod check;
pub mod cleanup;
#[cfg(feature = "demo")]
pub mod demo;
pub mod kmsg;
pub mod nccl;
mod packed;
pub mod preflight;
pub mod run;
mod runtime;
pub mod sidecar;
mod syntax;

/// Says on standard error what went wrong. Whoever closed it does not want to hear it: that ends
/// nothing.
pub(crate) fn complain(what: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "selvage: {what}");
}
