//! A GPU node without hardware: `/sys`, `/proc` and `/dev` as a kernel lays them out, written into
//! a directory that serves as `--host-root`, with changes at run time.
//!
//! What a directory of plain files cannot hold stands beside it: reads that fail in
//! `.selvage-errno` (see [`crate::source::tree`]), ethtool statistics in `selvage/ethtool/<if>`
//! (`name: value` lines, the first `driver: mlx5_core`), DCB settings in `selvage/dcb/<if>.json`.

mod act;
mod build;
mod files;
mod load;
mod names;
mod net;
mod node;
mod pci;
mod play;
mod presets;
mod presets_cloud;
mod presets_gcp;
mod presets_other;
mod presets_vfs;
mod proc;
mod rdma;
mod spec;

pub use act::{Act, flapping};
pub use node::Node;
pub use play::{PLAY_LENGTH, PLAY_PRESET, Scene, play};
pub use presets::{PRESETS, about, preset};
pub use spec::*;

#[cfg(test)]
mod tests;
