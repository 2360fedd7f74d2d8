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
pub mod nccl;
mod preflight;
pub mod run;
mod runtime;
pub mod slurm;

pub(crate) use crate::report::text::complain;
use args::ArgInputs;
use run::{Exit, USAGE, fail, print, refuse, refuse_all, style};
use runtime::{on_runtime, stop_signal};
