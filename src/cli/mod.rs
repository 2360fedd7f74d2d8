//! The commands of `selvage`.

mod args;
mod ask;
pub mod bench;
pub mod capture;
mod check;
pub mod cleanup;
mod compression;
#[cfg(feature = "demo")]
pub mod demo;
pub mod fleet;
pub mod kmsg;
mod log;
pub mod nccl;
mod preflight;
pub mod run;
mod runtime;
pub mod slurm;

/// Prints an error for the user to standard error. A closed standard error is ignored.
pub(crate) fn complain(what: impl std::fmt::Display) {
    use std::io::Write;
    // File names and arguments may hold escape sequences.
    let what = what.to_string();
    let lines: Vec<_> = what.split('\n').map(crate::report::text::clean).collect();
    let _ = writeln!(std::io::stderr(), "selvage: {}", lines.join("\n"));
}
