//! The GPUDirect RDMA and GPUDirect Storage path: drivers and modules present on the node.

use super::Reading;
use crate::units::Bdf;
use serde::Serialize;
use std::collections::BTreeMap;

/// Kernel modules of interest and the drivers' own words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuDirectFacts {
    /// Module name to its facts; only loaded ones. The names looked for are in
    /// [`MODULES_OF_INTEREST`].
    pub modules: Reading<BTreeMap<String, Module>>,
    /// `/proc/driver/nvidia/version`.
    pub driver: Reading<NvidiaDriver>,
    /// `GrdmaPciTopoCheckOverride` of `/proc/driver/nvidia/params`, the value in force; absent where the
    /// driver has no such parameter (before 570, and from 595.91 on).
    pub topology_override: Reading<u64>,
    /// `/proc/driver/nvidia/gpus` is there, though it may be empty.
    pub has_gpu_list: bool,
    /// `/proc/driver/nvidia/gpus/*/information`.
    pub gpus: Vec<NvidiaGpu>,
    /// Kernel release, from `/proc/sys/kernel/osrelease`.
    pub kernel_release: Option<String>,
    /// Machine architecture: `x86_64`, `aarch64`.
    pub arch: Option<String>,
    /// Registered peer-memory clients: names under `/sys/kernel/mm/memory_peers`; absent where
    /// ib_core has no peer-memory interface (upstream kernels).
    pub memory_peers: Reading<Vec<String>>,
    /// `/sys/class/iommu` has entries.
    pub iommu_active: Reading<bool>,
    /// IOMMU words of `/proc/cmdline`, such as `iommu=pt`.
    pub iommu_cmdline: Vec<String>,
    /// `/proc/driver/nvidia-fs/stats` and version.
    pub nvidia_fs: Reading<NvidiaFs>,
    /// EFA functions: address to the peer-to-peer provider that the driver names (empty: none).
    pub efa_p2p: BTreeMap<String, String>,
    /// `/sys/module/mlx5_core/version`: present only with DOCA-OFED's driver.
    pub ofed_version: Option<String>,
}

impl GpuDirectFacts {
    /// Whether NVIDIA's driver lists a GPU, by its address: only one that it has probed.
    pub fn lists(&self, gpu: &str) -> bool {
        self.gpus.iter().any(|of| of.pci == gpu)
    }

    /// Whether the driver has the GPU in a slot, as far as there is a list to be seen.
    pub fn may_have(&self, slot: &str) -> bool {
        let address = |gpu: &NvidiaGpu| gpu.pci.parse::<Bdf>().ok();
        let mut listed = self.gpus.iter().filter_map(address);
        !self.has_gpu_list || listed.any(|gpu| gpu.slot() == slot)
    }
}

/// Modules whose presence the agent tells, with a space between.
pub const MODULES_OF_INTEREST: &str = "nvidia nvidia_peermem nv_peer_mem nvidia_fs gdrdrv ib_core ib_uverbs mlx5_core mlx5_ib efa gve rdma_rxe";

/// One loaded module (`/sys/module/<name>`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// `version`, where the module tells one.
    pub version: Option<String>,
    /// `taint` letters: P proprietary, O out of tree, E unsigned.
    pub taint: Option<String>,
    /// `initstate`: `live`, `coming`, `going`.
    pub state: Option<String>,
}

impl Module {
    /// Whether it runs: old kernels have no initstate for a built-in, and a module that tells none runs.
    pub fn is_live(&self) -> bool {
        self.state.as_deref().is_none_or(|state| state == "live")
    }
}

/// The NVIDIA kernel driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvidiaDriver {
    /// Such as `535.129.03`.
    pub version: String,
    /// Open or proprietary module; none where nothing tells.
    pub open: Option<bool>,
}

/// One GPU as the NVIDIA driver lists it. The directory stays after the GPU fell off the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NvidiaGpu {
    /// PCI address, as the driver prints it.
    pub pci: String,
    /// Marketing name of the model.
    pub model: Option<String>,
    /// UUID, once the GPU was initialised.
    pub uuid: Option<String>,
}

/// nvidia-fs (GPUDirect Storage).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NvidiaFs {
    /// Version of the module nvidia_fs.
    pub version: Option<String>,
    /// Error counts of the statistics file, by `Line/key`, such as `Reads/err`.
    pub errors: BTreeMap<String, u64>,
    /// Bridges that have ACS on, as `/proc/driver/nvidia-fs/bridges` lists them.
    pub acs_bridges: Vec<String>,
}
