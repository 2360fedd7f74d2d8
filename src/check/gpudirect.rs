//! Which path GPUDirect RDMA can take on this node, and why.

use serde::{Deserialize, Serialize};

/// How a NIC can reach GPU memory here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Hash, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Every prerequisite of DMA-BUF is met (no kernel file says more than that).
    Dmabuf,
    /// A peer-memory module is registered with ib_core.
    Peermem,
    /// Neither: RDMA works, but data is staged through host memory.
    None,
    /// The sources cannot tell.
    Unknown,
}

/// The verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDirectVerdict {
    /// The path.
    pub path: Path,
    /// What speaks for and against, one short sentence each.
    pub why: Vec<String>,
}

impl Default for GpuDirectVerdict {
    fn default() -> Self {
        GpuDirectVerdict {
            path: Path::Unknown,
            why: Vec::new(),
        }
    }
}
