//! selvage keeps a GPU node's fabric from unravelling: it reads the kernel, judges what it reads,
//! and says so in metrics, JSON and plain words.
//!
//! ARCHITECTURE.md has the map of the rooms; `tests/layering.rs` holds its arrows.
//!
//! # Where does this line go?
//! 1. Names a path, socket, errno or log format: `source/`.
//! 2. States what *is*, with a unit: `observe/`.
//! 3. Compares with a threshold, or says good or bad: `check/`.
//! 4. Waits before believing: `check/debounce.rs`.
//! 5. Weighs findings: `readiness.rs`.
//! 6. Formats or sends: `report/`; to the Kubernetes API: `cluster/`.
//! 7. Spawns, sleeps or joins layers: `sampler/` (sources) or `agent.rs` (the rest).
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

pub mod agent;
mod blocking;
pub mod check;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod config;
mod data_files;
pub mod evaluator;
pub mod file_pattern;
mod files;
pub mod fleet;
pub mod glob;
mod hash;
pub mod host;
pub mod jobs;
pub mod kernel_log;
pub mod observe;
pub mod readiness;
pub mod report;
pub mod sampler;
mod settings_macro;
pub mod sidecar;
#[cfg(feature = "demo")]
pub mod simulate;
pub mod slurm;
pub mod source;
pub mod state;
mod supervise;
mod tcp_watch;
pub mod units;
