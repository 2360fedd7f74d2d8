//! A GPU node without hardware: `/sys`, `/proc` and `/dev` as a kernel lays them out, written into
//! a directory that serves as `--host-root`, with changes at run time.
//!
//! What a directory of plain files cannot hold stands beside it: reads that fail in
//! `.selvage-errno` (see [`crate::source::tree`]), ethtool statistics in `selvage/ethtool/<if>`
//! (`name: value` lines, the first `driver: mlx5_core`), DCB settings in `selvage/dcb/<if>.json`,
//! virtual functions' link states in `selvage/vf_links/<if>.json`, queue pairs in
//! `selvage/queue_pairs.json`.

pub mod api;
mod build;
mod cast;
mod cast_jobs;
mod event;
mod files;
mod load;
mod names;
mod nccl;
mod net;
mod node;
mod pci;
mod play;
mod pod;
mod presets;
mod presets_cloud;
mod presets_gcp;
mod presets_other;
mod presets_vfs;
mod proc;
mod process;
mod rdma;
mod script;
mod shapes;
mod spec;

pub use cast::{Role, Timing, cast};
pub use event::{Event, flapping};
pub use nccl::{Carrier, Gang};
pub use node::Node;
pub use play::{PLAY_LENGTH, PLAY_PRESET, Scene, play};
pub use pod::PodSpec;
pub use presets::{PRESETS, about, preset};
pub use process::ProcessSpec;
pub use shapes::{about_shape, by_name, listing, shape_names, spec_of, spec_with_rails};
pub use spec::*;

#[cfg(test)]
mod tests;
