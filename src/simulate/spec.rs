//! What a simulated node consists of: plain values, with texts as the kernel prints them.

use crate::observe::{DcbFacts, VfLinks};
use crate::units::Bdf;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Content of one counter file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub enum SysfsValue {
    /// A decimal number.
    Number(u64),
    /// Other text, without the newline: `N/A (no PMA)`.
    Text(String),
    /// Reading the file fails with this errno.
    Errno(i32),
}

/// Counter files of a directory by name.
pub type SysfsValues = BTreeMap<String, SysfsValue>;

/// A whole node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeFiles {
    /// Host name, also the first word of each device's `node_desc`.
    pub hostname: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Kernel release, `/proc/sys/kernel/osrelease`.
    pub kernel: String,
    /// Machine architecture, `x86_64` or `aarch64`.
    pub arch: String,
    /// Content of /proc/cmdline.
    pub cmdline: String,
    /// `sys_vendor` and `product_name` of DMI.
    pub dmi: (String, String),
    /// `chassis_asset_tag` of DMI, by which clouds mark their machines.
    pub asset_tag: Option<String>,
    /// Whether the node is a guest (the cpuinfo flag).
    pub hypervisor: bool,
    /// IOMMU group type of every PCI function (`identity`, `DMA`); `None` without an IOMMU.
    pub iommu: Option<String>,
    /// Interface of the default route.
    pub default_route: Option<String>,
    /// PCI functions by address: bridges, GPUs, NICs.
    pub pci: BTreeMap<String, PciSpec>,
    /// RDMA devices in the order in which the kernel registered them.
    pub rdma: Vec<RdmaSpec>,
    /// Network devices in the order of their interface index.
    pub netdevs: Vec<NetdevSpec>,
    /// GPUs as the NVIDIA driver lists them.
    pub gpus: Vec<GpuSpec>,
    /// The NVIDIA driver, where loaded.
    pub nvidia: Option<NvidiaSpec>,
    /// Loaded kernel modules, oldest first.
    pub modules: Vec<ModuleSpec>,
    /// Clients registered in `/sys/kernel/mm/memory_peers`; `None` where ib_core has no such interface.
    pub memory_peers: Option<Vec<String>>,
    /// Read errors that `/proc/driver/nvidia-fs/stats` reports; `None` where nvidia-fs is not loaded.
    pub nvidia_fs: Option<u64>,
}

/// A PCI function below /sys/bus/pci/devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PciSpec {
    /// Address of the function, such as `0000:18:00.0`.
    pub bdf: Bdf,
    /// The port above it; `None` on a root bus.
    pub parent: Option<Bdf>,
    /// Path of the root bus below `/sys/devices`, where it is not `pciDDDD:BB` (Hyper-V).
    pub root: Option<String>,
    /// PCI vendor id, such as 0x15b3 for NVIDIA networking.
    pub vendor: u16,
    /// PCI device id, such as 0x1021 for a ConnectX-7.
    pub device: u16,
    /// Class code, 24 bits.
    pub class: u32,
    /// Name of the bound driver; none leaves the function unbound.
    pub driver: Option<String>,
    /// NUMA node; -1 is what the kernel prints for none.
    pub numa: i32,
    /// Current speed and width, as printed (`32.0 GT/s PCIe`, 16).
    pub link: (String, u32),
    /// Best speed and width.
    pub max_link: (String, u32),
    /// AER totals: correctable, nonfatal, fatal; `None` where the function has no AER.
    pub aer: Option<[u64; 3]>,
    /// Config space reads all ones.
    pub dead: bool,
    /// The physical function of a VF on this host.
    pub physfn: Option<Bdf>,
    /// `sriov_totalvfs` and the existing VFs.
    pub sriov: Option<(u32, Vec<Bdf>)>,
    /// Attribute `p2p` of an EFA function.
    pub p2p: Option<String>,
}

/// An RDMA device below /sys/class/infiniband.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RdmaSpec {
    /// Device name, such as `mlx5_0`.
    pub name: String,
    /// Address of the PCI function that it sits on.
    pub pci: Bdf,
    /// Number of `node_type`: 1 is CA, 7 unspecified.
    pub node_type: u32,
    /// Firmware version, file `fw_ver`.
    pub firmware: String,
    /// `hca_type`, where the driver has it.
    pub hca_type: Option<String>,
    /// `board_id`, where the driver has it.
    pub board_id: Option<String>,
    /// Node GUID as a number.
    pub guid: u64,
    /// System image GUID as a number.
    pub image_guid: u64,
    /// Number of its `uverbsN` and `umadN`.
    pub uverbs: u32,
    /// Ports, in the order of their numbers.
    pub ports: Vec<PortSpec>,
    /// Counters of the device itself, `<dev>/hw_counters` (EFA).
    pub device_hw: Option<SysfsValues>,
}

/// One port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortSpec {
    /// Port number, from 1.
    pub number: u32,
    /// `InfiniBand`, `Ethernet` or `Unknown`.
    pub link_layer: String,
    /// Number of the state: 1 down, 4 active.
    pub state: u32,
    /// Number of the physical state: 2 polling, 3 disabled, 5 link up.
    pub phys: u32,
    /// `rate` text while up: `400 Gb/sec (4X NDR)`.
    pub rate: String,
    /// `rate` text while down (mlx5 RoCE prints `40 Gb/sec (4X QDR)`); `None`: unchanged.
    pub down_rate: Option<String>,
    /// Local identifier that the subnet manager assigned.
    pub lid: u32,
    /// The subnet manager's own LID.
    pub sm_lid: u32,
    /// `counters/`; `None` where the driver has no process_mad.
    pub pma: Option<SysfsValues>,
    /// `hw_counters/`; `None` where the driver has none for ports.
    pub hw: Option<SysfsValues>,
    /// Occupied GID slots: the first ones of the table.
    pub gids: Vec<GidSpec>,
    /// Size of the GID table.
    pub gid_slots: usize,
    /// Partition keys by index.
    pub pkeys: Vec<u16>,
    /// The port's network device.
    pub netdev: Option<String>,
}

/// One occupied GID slot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GidSpec {
    /// Full text form of the GID.
    pub gid: String,
    /// `IB/RoCE v1` or `RoCE v2`.
    pub kind: String,
    /// Network device; reading it gives EINVAL where there is none.
    pub netdev: Option<String>,
}

/// A network device below /sys/class/net.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct NetdevSpec {
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// PCI function; `None` for a virtual device.
    pub pci: Option<Bdf>,
    /// Interface index.
    pub ifindex: u32,
    /// `dev_port`: which port of the function, from 0.
    pub dev_port: u32,
    /// ARPHRD type: 1 Ethernet, 32 InfiniBand.
    pub kind: u32,
    /// IFF_UP: set up by the administrator.
    pub admin_up: bool,
    /// Whether the link has carrier.
    pub carrier: bool,
    /// Speed in Mb/s while the link is up.
    pub speed: u64,
    /// MTU in bytes.
    pub mtu: u32,
    /// Carrier edges since the interface exists.
    pub carrier_changes: u64,
    /// Name of the bond or synthetic interface above.
    pub master: Option<String>,
    /// Driver and statistics as `ethtool -S` prints them, in its order.
    pub ethtool: Option<(String, Vec<(String, u64)>)>,
    /// DCB settings, where the driver answers DCB_CMD_IEEE_GET.
    pub dcb: Option<DcbFacts>,
    /// Link states of the virtual functions behind it.
    pub vf_links: Option<VfLinks>,
}

/// One GPU of the NVIDIA driver.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GpuSpec {
    /// Address of the function, such as `0000:18:00.0`.
    pub bdf: Bdf,
    /// Model name, such as `NVIDIA H200`.
    pub model: String,
    /// UUID with its prefix `GPU-`.
    pub uuid: String,
}

/// The NVIDIA kernel driver and its companions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NvidiaSpec {
    /// Driver version as /proc/driver/nvidia/version has it.
    pub version: String,
    /// Whether it is the open kernel module.
    pub open: bool,
}

/// A row of /proc/modules and its directory below /sys/module.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModuleSpec {
    /// Name as in `/proc/modules`.
    pub name: String,
    /// Version, where the module declares one.
    pub version: Option<String>,
    /// Taint letters, such as `POE`.
    pub taint: String,
}

/// One process of a pod, in a network namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessSpec {
    /// Process id.
    pub pid: u32,
    /// UID of its pod.
    pub pod: String,
    /// Whether it owns a connected queue pair of each device.
    pub queue_pairs: bool,
    /// Bytes that its namespace has received by TCP, and as many sent.
    pub tcp: u64,
}

impl NodeFiles {
    /// An RDMA device by name.
    pub fn device(&self, name: &str) -> Option<&RdmaSpec> {
        self.rdma.iter().find(|device| device.name == name)
    }

    /// The first port of a device.
    pub(super) fn port_mut(&mut self, device: &str) -> Option<&mut PortSpec> {
        let mut devices = self.rdma.iter_mut();
        let device = devices.find(|known| known.name == device)?;
        device.ports.first_mut()
    }

    /// A network device by name.
    pub fn netdev(&self, name: &str) -> Option<&NetdevSpec> {
        self.netdevs.iter().find(|netdev| netdev.name == name)
    }

    pub(super) fn netdev_mut(&mut self, name: &str) -> Option<&mut NetdevSpec> {
        self.netdevs.iter_mut().find(|netdev| netdev.name == name)
    }

    pub(super) fn function_mut(&mut self, bdf: Bdf) -> Option<&mut PciSpec> {
        self.pci.get_mut(&bdf.to_string())
    }

    /// The bond or synthetic interface above a network device.
    pub(super) fn master_of(&self, netdev: &NetdevSpec) -> Option<&NetdevSpec> {
        self.netdev(netdev.master.as_deref()?)
    }

    pub(super) fn is_arm(&self) -> bool {
        self.arch == "aarch64"
    }

    pub(super) fn has_module(&self, name: &str) -> bool {
        self.modules.iter().any(|module| module.name == name)
    }

    /// Path of a PCI function below the root: `sys/devices/pci0000:15/0000:15:01.0/…`.
    pub fn pci_path(&self, bdf: Bdf) -> String {
        let spec = self.pci.get(&bdf.to_string());
        let root = spec.and_then(|spec| spec.root.as_deref());
        match (spec.and_then(|spec| spec.parent), root) {
            (Some(parent), _) => format!("{}/{bdf}", self.pci_path(parent)),
            (None, Some(root)) => format!("sys/devices/{root}/{bdf}"),
            (None, None) => format!("sys/devices/pci{:04x}:{:02x}/{bdf}", bdf.domain, bdf.bus),
        }
    }

    /// Path of an RDMA device below the root.
    pub fn rdma_path(&self, device: &RdmaSpec) -> String {
        format!("{}/infiniband/{}", self.pci_path(device.pci), device.name)
    }

    /// Path of a network device below the root.
    pub fn netdev_path(&self, netdev: &NetdevSpec) -> String {
        match netdev.pci {
            Some(bdf) => format!("{}/net/{}", self.pci_path(bdf), netdev.name),
            None => format!("sys/devices/virtual/net/{}", netdev.name),
        }
    }
}
