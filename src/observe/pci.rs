//! PCI functions that matter: GPUs, NICs and the bridges between.

use super::reading::Reading;
use crate::settings_macro::words;
use crate::units::Bdf;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All PCI facts of one scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciFacts {
    /// GPUs and RDMA functions, and the root ports and switch ports above them.
    pub functions: BTreeMap<String, PciFunction>,
    /// Addresses of all GPUs, sorted.
    pub gpus: Vec<Bdf>,
    /// How near each RDMA function is to each GPU, by `NIC -> GPU` address text.
    pub distances: BTreeMap<String, BTreeMap<String, Distance>>,
    /// Network functions that could carry RDMA and have no RDMA device, by address.
    pub bare: BTreeMap<String, BareNic>,
    /// Network functions that could be rails and have no RDMA device, by address: by their id, or by a
    /// driver whose NICs do RDMA as a rule; also those that `bare` leaves out. Not those with the
    /// default route. Not observable where the bus shows no function, or not the class of each.
    pub rdma_capable: Reading<BTreeMap<String, BareNic>>,
    /// Addresses of the network functions on the bus, whatever they are used for.
    pub nics: BTreeSet<String>,
    /// Some functions' class, or what made one that may be a GPU, cannot be read: there may be more GPUs.
    pub gpus_unread: bool,
    /// Whether the topology looks virtual (a guest): distances then say nothing.
    pub virtual_machine: bool,
    /// What the firmware calls the machine.
    pub machine: MachineFacts,
    /// Network functions that can have virtual functions, by address, and those that they have.
    pub sriov: BTreeMap<String, SriovFacts>,
}

impl PciFacts {
    /// Whether a function's config space was read, and is not all ones.
    pub fn answers(&self, address: &Bdf) -> bool {
        let function = self.functions.get(&address.to_string());
        function.is_some_and(|function| function.config_dead == Reading::Value(false))
    }

    /// Functions of the GPUs, with their addresses.
    pub fn gpu_functions(&self) -> impl Iterator<Item = (&Bdf, &PciFunction)> {
        let function = |gpu: &Bdf| self.functions.get(&gpu.to_string());
        (self.gpus.iter()).filter_map(move |gpu| Some((gpu, function(gpu)?)))
    }
}

/// What the firmware calls the machine, by DMI (`/sys/class/dmi/id`); none where the machine has none
/// (most of arm64's device trees) or it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    /// `sys_vendor`: `Amazon EC2`, `Microsoft Corporation`, `Google`, `NVIDIA` …
    pub vendor: Option<String>,
    /// `product_name`: on EC2 the instance type, on DGX the model.
    pub product: Option<String>,
    /// `chassis_asset_tag`: by it Azure and OCI are known.
    pub asset_tag: Option<String>,
}

/// SR-IOV of one physical network function (`sriov_totalvfs`, `sriov_numvfs`, `virtfnN`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SriovFacts {
    /// Virtual functions that there can be.
    pub total: u32,
    /// Virtual functions that there are.
    pub enabled: u32,
    /// Their addresses with the driver bound to each: `mlx5_core` makes verbs and a network device,
    /// `vfio-pci` neither. At most [`MAX_VFS`].
    pub functions: BTreeMap<String, Option<String>>,
}

/// Most virtual functions of one function that are read.
pub const MAX_VFS: usize = 256;

/// A network function without an RDMA device: its driver failed to probe, is not loaded, or was
/// taken away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BareNic {
    /// `vendor:device`, lower-case hex; empty where it cannot be read.
    pub id: String,
    /// Class code, six hex digits without 0x; all zero where it cannot be read.
    pub class: String,
    /// The driver bound to it, if any.
    pub driver: Option<String>,
    /// How near it is to each GPU, by the GPU's address.
    pub distances: BTreeMap<String, Distance>,
    /// Its config space reads all ones: it fell off the bus.
    pub config_dead: Reading<bool>,
    /// Its own directory holds an RDMA device, which the class does not show: that it has none is not
    /// known.
    pub unseen: bool,
}

impl BareNic {
    /// Whether its make or its class cannot be read.
    pub fn is_unidentified(&self) -> bool {
        self.id.is_empty() || self.class == "000000"
    }

    /// Whether its class is that of InfiniBand controllers, or of Omni-Path's.
    pub fn is_infiniband(&self) -> bool {
        self.class.starts_with("0207") || self.class.starts_with("0208")
    }

    /// Whether it is of a fabric without RDMA devices, which nothing here reads.
    pub fn is_of_slingshot(&self) -> bool {
        self.id.starts_with(SLINGSHOT) && !gives_away(self.driver.as_deref())
    }
}

/// Start of the ids of HPE's Slingshot NICs (`cxi_ss1`), which have no verbs.
pub const SLINGSHOT: &str = "17db:";

/// ConnectX-8's function for Data Direct, in the GPU's own PCI segment: a DMA engine of a NIC, no NIC
/// (mlx5_ib, data_direct).
pub const DATA_DIRECT: &str = "15b3:2100";

/// Whether a driver hands its functions to virtual machines or to drivers in user space.
pub fn gives_away(driver: Option<&str>) -> bool {
    let mut known = "vfio-pci pci-stub uio_pci_generic igb_uio pciback".split(' ');
    driver.is_some_and(|driver| known.any(|known| known == driver))
}

/// What one PCI function's files say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciFunction {
    /// `vendor:device`, lower-case hex; empty where it cannot be read.
    pub id: String,
    /// Class code, six hex digits without 0x; all zero where it cannot be read.
    pub class: String,
    /// The driver bound to it, if any.
    pub driver: Option<String>,
    /// Link now; `Unknown` or 0 (VFs, guests) is not observable.
    pub current: Reading<PcieLink>,
    /// Best link of the device itself.
    pub max: Reading<PcieLink>,
    /// Address of the port above, if any.
    pub parent: Option<String>,
    /// NUMA node; none where the kernel says -1.
    pub numa_node: Option<u32>,
    /// `iommu_group/type`: `identity`, `DMA`, `DMA-FQ`, `blocked`; absent without an IOMMU.
    pub iommu: Reading<String>,
    /// Number of its `iommu_group`; none without an IOMMU.
    pub iommu_group: Option<String>,
    /// AER totals since boot.
    pub aer: BTreeMap<&'static str, u64>,
    /// First bytes of config space read all ones: the function no longer answers.
    pub config_dead: Reading<bool>,
    /// ACS of this bridge redirects peer-to-peer traffic; readable with CAP_SYS_ADMIN only.
    pub acs_redirect: Reading<bool>,
}

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PcieLink {
    /// Megatransfers a second: 2500, 5000, 8000, 16000, 32000, 64000.
    pub megatransfers: u32,
    /// Number of lanes in use, as `current_link_width` has it.
    pub width: u32,
}

/// Severities of AER's totals: corrected by hardware, uncorrected and survived by the link, and not
/// survived.
pub const AER_SEVERITIES: [&str; 3] = ["correctable", "nonfatal", "fatal"];

words! {
    /// NCCL's distance classes between a NIC and a GPU, nearest first (src/graph/topo.h names).
    Distance {
        /// Under one PCIe switch.
        Pix = "PIX",
        /// Several switches, one root port.
        Pxb = "PXB",
        /// Through the CPU of one NUMA node (nvidia-smi: PHB, or NODE between host bridges).
        Phb = "PHB",
        /// The path crosses NUMA nodes.
        Sys = "SYS",
    }
}

impl Distance {
    /// Whether it is within one root port.
    pub fn is_near(self) -> bool {
        matches!(self, Distance::Pix | Distance::Pxb)
    }
}
