//! A GPU node without hardware: `/sys`, `/proc` and `/dev` as a kernel lays them out, written to a
//! directory that serves as `--host-root`, with changes at run time.
//!
//! Machines, counters and scenarios are data (`data/*.toml`). What plain files cannot express is
//! stored next to them: reads that fail in `.selvage-errno` (see [`crate::source::tree`]), ethtool
//! statistics, DCB settings, link states of virtual functions and queue pairs below `selvage/` (see
//! [`crate::source::replay`]).

mod change;
mod counters;
mod machines;
mod nccl;
mod node;
mod render;
mod scenario;
mod spec;
mod tree;

pub use change::Change;
pub use machines::{by_name, listing, preset, presets, shape_names};
pub use node::Node;
pub use scenario::{Scenario, Step, fleet, play, plays};
pub use spec::*;

#[cfg(test)]
mod tests;
