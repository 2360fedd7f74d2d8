//! What a simulated node consists of. Plain values; texts as the kernel prints them.

use crate::observe::netdev::DcbFacts;
use crate::observe::vf::VfLinks;
use crate::units::Bdf;
use std::collections::BTreeMap;

/// One attribute file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attr {
    /// A decimal number.
    Number(u64),
    /// Other text, without the newline: `N/A (no PMA)`.
    Text(String),
    /// Reading it fails with this errno.
    Errno(i32),
}

/// Attribute files of a directory by name.
pub type Attrs = BTreeMap<String, Attr>;

/// A whole node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Host name.
    pub hostname: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// `/proc/sys/kernel/osrelease`.
    pub kernel: String,
    /// Machine architecture, `x86_64` or `aarch64`.
    pub arch: String,
    /// `/proc/cmdline`.
    pub cmdline: String,
    /// `sys_vendor` and `product_name` of DMI.
    pub dmi: (String, String),
    /// `chassis_asset_tag` of DMI, where it tells something.
    pub asset_tag: Option<String>,
    /// Whether a hypervisor is below (the cpuinfo flag).
    pub hypervisor: bool,
    /// IOMMU group type of every PCI function (`identity`, `DMA`); none without an IOMMU.
    pub iommu: Option<String>,
    /// PCI functions: bridges, GPUs, NICs.
    pub pci: BTreeMap<String, PciSpec>,
    /// RDMA devices.
    pub rdma: Vec<RdmaSpec>,
    /// Network devices.
    pub netdevs: Vec<NetdevSpec>,
    /// Interface of the default route.
    pub default_route: Option<String>,
    /// GPUs as the NVIDIA driver lists them.
    pub gpus: Vec<GpuSpec>,
    /// The NVIDIA driver.
    pub nvidia: Option<NvidiaSpec>,
    /// Loaded kernel modules.
    pub modules: Vec<ModuleSpec>,
    /// Clients registered in `/sys/kernel/mm/memory_peers`; none where ib_core has no such interface.
    pub memory_peers: Option<Vec<String>>,
    /// Error counts of `/proc/driver/nvidia-fs/stats`; none where nvidia-fs is not loaded.
    pub nvidia_fs: Option<u64>,
    /// Records of the kernel log at start.
    pub kmsg: Vec<KmsgRecord>,
    /// Pods.
    pub pods: Vec<super::pod::PodSpec>,
    /// Their processes, as far as anybody looks at them.
    pub processes: Vec<super::process::ProcessSpec>,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciSpec {
    /// Its address.
    pub bdf: Bdf,
    /// The port above it; none on a root bus.
    pub parent: Option<Bdf>,
    /// Path below `/sys/devices` of the root bus, where it is not `pciDDDD:BB` (Hyper-V).
    pub root: Option<String>,
    /// Vendor.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class code, 24 bits.
    pub class: u32,
    /// Bound driver.
    pub driver: Option<String>,
    /// NUMA node; -1 is what the kernel prints for none.
    pub numa: i32,
    /// Speed and width now, as printed (`32.0 GT/s PCIe`, 16).
    pub link: (String, u32),
    /// Best speed and width.
    pub max_link: (String, u32),
    /// AER totals: correctable, nonfatal, fatal; none where the function has no AER.
    pub aer: Option<[u64; 3]>,
    /// Access control services redirect peer-to-peer traffic (bridges).
    pub acs: bool,
    /// Config space reads all ones.
    pub dead: bool,
    /// The physical function of a VF on this host.
    pub physfn: Option<Bdf>,
    /// `sriov_totalvfs` and the VFs there are.
    pub sriov: Option<(u32, Vec<Bdf>)>,
    /// `p2p` of an EFA function.
    pub p2p: Option<String>,
}

/// One RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaSpec {
    /// Name.
    pub name: String,
    /// PCI function.
    pub pci: Bdf,
    /// `node_type` number.
    pub node_type: u32,
    /// `fw_ver`.
    pub firmware: String,
    /// `hca_type`, where the driver has it.
    pub hca_type: Option<String>,
    /// `board_id`, where the driver has it.
    pub board_id: Option<String>,
    /// Node GUID.
    pub guid: u64,
    /// System image GUID.
    pub image_guid: u64,
    /// Number of its `uverbsN` and `umadN`.
    pub uverbs: u32,
    /// Ports.
    pub ports: Vec<PortSpec>,
    /// `<dev>/hw_counters`.
    pub device_hw: Option<Attrs>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Number, from 1.
    pub number: u32,
    /// `InfiniBand`, `Ethernet`, `Unknown`.
    pub link_layer: String,
    /// State number.
    pub state: u32,
    /// Physical state number.
    pub phys: u32,
    /// `rate` text while up: `400 Gb/sec (4X NDR)`.
    pub rate: String,
    /// `rate` text while down (mlx5 RoCE prints `40 Gb/sec (4X QDR)`); none: unchanged.
    pub down_rate: Option<String>,
    /// LID.
    pub lid: u32,
    /// Subnet manager's LID.
    pub sm_lid: u32,
    /// `counters/`; none where the driver has no process_mad.
    pub pma: Option<Attrs>,
    /// `hw_counters/`.
    pub hw: Option<Attrs>,
    /// Filled GID slots: index, GID text, type, netdev.
    pub gids: Vec<GidSpec>,
    /// Size of the GID table.
    pub gid_slots: u32,
    /// Partition keys.
    pub pkeys: Vec<u16>,
    /// Its network device.
    pub netdev: Option<String>,
}

/// One filled GID slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GidSpec {
    /// Slot.
    pub index: u32,
    /// Full text form.
    pub gid: String,
    /// `IB/RoCE v1` or `RoCE v2`.
    pub kind: String,
    /// Network device; EINVAL where none.
    pub netdev: Option<String>,
}

/// One network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetdevSpec {
    /// Name.
    pub name: String,
    /// PCI function; none for a virtual device.
    pub pci: Option<Bdf>,
    /// Interface index.
    pub ifindex: u32,
    /// `dev_port`: which port of the function, from 0.
    pub dev_port: u32,
    /// ARPHRD type: 1 Ethernet, 32 InfiniBand.
    pub kind: u32,
    /// IFF_UP.
    pub admin_up: bool,
    /// Carrier.
    pub carrier: bool,
    /// Speed in Mb/s while the link is up.
    pub speed: u64,
    /// MTU in bytes.
    pub mtu: u32,
    /// Carrier edges.
    pub carrier_changes: u64,
    /// Bond above.
    pub master: Option<String>,
    /// Driver and statistics as `ethtool -S` prints them, in its order.
    pub ethtool: Option<(String, Vec<(String, u64)>)>,
    /// DCB settings.
    pub dcb: Option<DcbFacts>,
    /// Link states of the virtual functions behind it.
    pub vf_links: Option<VfLinks>,
}

/// One GPU of the NVIDIA driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuSpec {
    /// Address.
    pub bdf: Bdf,
    /// Model name.
    pub model: String,
    /// UUID.
    pub uuid: String,
}

/// The NVIDIA kernel driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvidiaSpec {
    /// Version.
    pub version: String,
    /// Open kernel module.
    pub open: bool,
}

/// One loaded module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleSpec {
    /// Name as in `/proc/modules`.
    pub name: String,
    /// `version`, where it has one.
    pub version: Option<String>,
    /// `taint` letters.
    pub taint: String,
}

/// One record of the kernel log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsgRecord {
    /// Facility times 8 plus level.
    pub priority: u32,
    /// Sequence number since boot.
    pub sequence: u64,
    /// Microseconds since boot.
    pub micros: u64,
    /// Text.
    pub text: String,
    /// Dictionary, such as `("DEVICE", "+pci:0000:5e:00.0")`.
    pub dictionary: Vec<(String, String)>,
}

impl NodeSpec {
    /// A device by name.
    pub fn device(&self, name: &str) -> Option<&RdmaSpec> {
        self.rdma.iter().find(|device| device.name == name)
    }

    pub(super) fn device_mut(&mut self, name: &str) -> Option<&mut RdmaSpec> {
        self.rdma.iter_mut().find(|device| device.name == name)
    }

    pub(super) fn port_mut(&mut self, device: &str, number: u32) -> Option<&mut PortSpec> {
        self.device_mut(device)?
            .ports
            .iter_mut()
            .find(|port| port.number == number)
    }

    /// A network device by name.
    pub fn netdev(&self, name: &str) -> Option<&NetdevSpec> {
        self.netdevs.iter().find(|netdev| netdev.name == name)
    }

    pub(super) fn netdev_mut(&mut self, name: &str) -> Option<&mut NetdevSpec> {
        self.netdevs.iter_mut().find(|netdev| netdev.name == name)
    }

    /// Path of a PCI function below the root: `sys/devices/pci0000:15/0000:15:01.0/…`.
    pub fn pci_path(&self, bdf: Bdf) -> String {
        let spec = self.pci.get(&bdf.to_string());
        match spec.and_then(|spec| spec.parent) {
            Some(parent) => format!("{}/{bdf}", self.pci_path(parent)),
            None => match spec.and_then(|spec| spec.root.as_deref()) {
                Some(root) => format!("sys/devices/{root}/{bdf}"),
                None => format!("sys/devices/pci{:04x}:{:02x}/{bdf}", bdf.domain, bdf.bus),
            },
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
