//! RDMA devices, their ports, GID tables.

use super::{Fault, Reading};
use crate::settings_macro::words;
use crate::units::{Bdf, BitsPerSec, DeviceKey, PortKey};
use serde::{Deserialize, Serialize};

/// Kernel driver of Google's virtual NICs, which are listed among the devices though they do no RDMA.
pub const GVNIC_DRIVER: &str = "gve";

/// Their PCI id (drivers/net/ethernet/google/gve, gve.h).
const GVNIC_ID: &str = "1ae0:0042";

/// One RDMA device as enumerated: what changes only when it is re-registered, renamed or re-flashed.
/// Source: `/sys/class/infiniband/<dev>` (drivers/infiniband/core/sysfs.c), RDMA_NLDEV_CMD_GET.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RdmaDevice {
    /// What it is known by while the node lives.
    pub key: DeviceKey,
    /// Its name now: `mlx5_0`, `rocep25s0f0`.
    pub name: String,
    /// RDMA netlink device index; changes when the device is registered again.
    pub index: Option<u32>,
    /// PCI function, or of a sub-function its parent's; none for software devices.
    pub pci: Option<Bdf>,
    /// Kernel driver: `mlx5_core`, `efa`, `bnxt_re`, `irdma`, `mana`, `hfi1`, `rdma_rxe`, `siw`;
    /// `unknown` where nothing tells.
    pub driver: String,
    /// PCI `vendor:device`, lower-case hex such as `15b3:1021`.
    pub pci_id: Option<String>,
    /// `node_type` number: 1 CA, 4 RNIC, 7 unspecified (EFA) …
    pub node_type: Option<u32>,
    /// Firmware version; none where the file is absent or empty.
    pub firmware: Option<String>,
    /// Board id (PSID on mlx5).
    pub board_id: Option<String>,
    /// `hca_type`: `MT4129` is ConnectX-7; absent on EFA, mana, hfi1, rxe.
    pub hca_type: Option<String>,
    /// Node GUID, `xxxx:xxxx:xxxx:xxxx`.
    pub node_guid: Option<String>,
    /// System image GUID: the same on all functions of one card.
    pub sys_image_guid: Option<String>,
    /// Physical function, virtual function, sub-function or software.
    pub function: Function,
    /// SR-IOV: VFs that could exist and that do; none where the function has no SR-IOV files.
    pub sriov: Option<Sriov>,
    /// Parent device's name of an SMI sub-device (multi-plane XDR HCAs); such a device is not a rail.
    pub smi_parent: Option<String>,
    /// NUMA node; none where the kernel says -1.
    pub numa_node: Option<u32>,
    /// Whether `/sys/class/infiniband_verbs` has a uverbs device for it.
    pub uverbs: Reading<String>,
    /// Whether it is a function through which Fabric Manager programs the NVSwitches of a B200 or B300
    /// board: an InfiniBand ConnectX-7 like any rail, by its VPD alone. Not read of other devices.
    #[serde(default)]
    pub manages_switches: Reading<bool>,
    /// Its ports, by number. Where they could not be listed: port 1, with nothing known of it.
    pub ports: Vec<RdmaPort>,
    /// Why its directory or its ports could not be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Fault>,
}

/// A GUID of zeros is what a VF has before it is given one.
pub fn is_guid_set(guid: &str) -> bool {
    guid.chars().any(|c| c != '0' && c != ':')
}

impl RdmaDevice {
    /// Key of one of its ports.
    pub fn port_key(&self, port: u32) -> PortKey {
        PortKey {
            device: self.key.clone(),
            port,
        }
    }

    /// The hardware's own identity, its node GUID; empty where it is not known.
    pub fn identity(&self) -> &str {
        let guid = self.node_guid.as_deref();
        guid.filter(|guid| is_guid_set(guid)).unwrap_or_default()
    }

    /// Whether it is a gVNIC: no RDMA device at all, but the GPUs' fabric where there is none.
    pub fn is_gvnic(&self) -> bool {
        self.driver == GVNIC_DRIVER || self.pci_id.as_deref() == Some(GVNIC_ID)
    }

    /// Whether it is one card with four planes (ConnectX-8): of its twelve ports every third carries
    /// data, on a quarter of the lanes.
    pub fn is_multi_plane(&self) -> bool {
        self.ports.len() == 12
    }

    /// A physical function at a PCI address of which nothing else is known, for tests to fill in.
    #[cfg(test)]
    pub fn at(pci: &str) -> Self {
        RdmaDevice {
            key: DeviceKey(pci.into()),
            pci: pci.parse().ok(),
            ..RdmaDevice::default()
        }
    }
}

/// What of a port does not change with its link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaPort {
    /// Port number, from 1.
    pub number: u32,
    /// InfiniBand, Ethernet, or (EFA) unspecified.
    pub link_layer: LinkLayer,
    /// Network device of this port in this network namespace.
    pub netdev: Option<String>,
}

impl Function {
    /// Whether it may be a rail: neither a function of another device on this host nor software.
    pub fn is_whole(self) -> bool {
        matches!(self, Function::Physical | Function::VirtualInGuest)
    }
}

/// SR-IOV numbers of a physical function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sriov {
    /// Most functions that it can have (`sriov_totalvfs`).
    pub total: u32,
    /// Functions that it has now (`sriov_numvfs`).
    pub enabled: u32,
}

words! {
    /// Kind of PCI function behind an RDMA device.
    #[derive(Default)]
    Function {
        /// A physical function, or the only function there is.
        #[default]
        Physical = "physical",
        /// A VF whose PF is on this host (`physfn` link).
        VirtualOfHost = "virtual_of_host",
        /// A VF handed to this machine as a guest (VF device id, no PF in sight): it *is* the fabric here.
        VirtualInGuest = "virtual_in_guest",
        /// An mlx5 sub-function on the auxiliary bus.
        SubFunction = "sub_function",
        /// rxe, siw: no hardware behind it.
        Software = "software",
    }

    /// Link layer of a port.
    LinkLayer {
        /// `InfiniBand`: needs a subnet manager.
        Infiniband = "infiniband",
        /// `Ethernet`: RoCE or iWARP.
        Ethernet = "ethernet",
        /// `Unknown`: EFA says so.
        Unspecified = "unspecified",
    }

    /// Logical state of a port (`enum ib_port_state`).
    PortState {
        /// 0 (NOP) or a number the kernel does not name.
        Unknown = "unknown",
        /// 1
        Down = "down",
        /// 2: trained, but no subnet manager has configured it.
        Init = "init",
        /// 3
        Armed = "armed",
        /// 4
        Active = "active",
        /// 5
        ActiveDefer = "active_defer",
    }

    /// Physical state of a port (IBTA PortPhysicalState).
    PhysState {
        /// 0 or a number without a name.
        Unknown = "unknown",
        /// 1
        Sleep = "sleep",
        /// 2: no partner in sight; an unplugged IB cable reads so.
        Polling = "polling",
        /// 3: disabled, or (RoCE) simply no carrier.
        Disabled = "disabled",
        /// 4
        Training = "training",
        /// 5
        LinkUp = "link_up",
        /// 6
        ErrorRecovery = "error_recovery",
        /// 7
        PhyTest = "phy_test",
    }

    /// Kind of a GID, from `gid_attrs/types/N`.
    GidKind {
        /// `IB/RoCE v1`: native InfiniBand, or RoCE that cannot be routed.
        IbOrRoceV1 = "ib_or_roce_v1",
        /// `RoCE v2`: RDMA over UDP, routable.
        RoceV2 = "roce_v2",
    }
}

impl PortState {
    /// From the kernel's number.
    pub fn from_id(id: u32) -> Self {
        *Self::ALL.get(id as usize).unwrap_or(&Self::Unknown)
    }

    /// Whether traffic passes: a port in ActiveDefer is still up, though its link was lost a moment
    /// ago (IBTA, PortState).
    pub fn is_up(self) -> bool {
        matches!(self, PortState::Active | PortState::ActiveDefer)
    }
}

impl PhysState {
    /// From the kernel's number.
    pub fn from_id(id: u32) -> Self {
        *Self::ALL.get(id as usize).unwrap_or(&Self::Unknown)
    }
}

/// State of one port at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFacts {
    /// Logical state of the link.
    pub state: Reading<PortState>,
    /// State of the physical layer.
    pub phys_state: Reading<PhysState>,
    /// Rate as `ports/N/rate` tells it. It lies while the port is not active: a down mlx5 RoCE
    /// port prints 40 Gb/s.
    pub rate: Reading<LinkRate>,
    /// LID; 0 on Ethernet.
    pub lid: Option<u32>,
    /// LID of the subnet manager that configured an InfiniBand port.
    pub sm_lid: Option<u32>,
    /// First entry of an InfiniBand port's P_Key table, the one that queue pairs use by default: the
    /// top bit says full member, 0 is empty.
    pub pkey: Option<u16>,
}

/// Speed and width of a link. Text in sysfs: `400 Gb/sec (4X NDR)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRate {
    /// Rate in bits a second.
    pub rate: BitsPerSec,
    /// Number of lanes, from `(4X …)`.
    pub lanes: Option<u32>,
}

/// What mlx5 prints for Ethernet speeds that it has no name for, and of a RoCE port that is down
/// (drivers/infiniband/hw/mlx5/main.c, mlx5_query_port_roce; translate_eth_ext_proto_oper).
pub const MLX5_ETHERNET_UNNAMED: BitsPerSec = BitsPerSec::from_gbps(40);

/// The rate to go by of a port that is up: as told, or the speed of its network device (Mb/s) where what is
/// told may be no more than mlx5's default; none where that speed is not known.
pub fn true_rate(
    link_layer: LinkLayer,
    driver: &str,
    told: BitsPerSec,
    netdev_mbps: Option<u64>,
) -> Option<BitsPerSec> {
    let ethernet = link_layer == LinkLayer::Ethernet && driver.starts_with("mlx5");
    if !(ethernet && told == MLX5_ETHERNET_UNNAMED) {
        return Some(told);
    }
    netdev_mbps.map(|mbps| BitsPerSec(mbps.saturating_mul(1_000_000)))
}

/// GID table of a port: filled slots only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GidTable {
    /// Slots that hold a GID.
    pub gids: Vec<Gid>,
    /// Whether the whole table was read (reading stops after a bound on big tables).
    pub complete: bool,
}

/// One filled GID slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Slot: what `NCCL_IB_GID_INDEX` names.
    pub index: u32,
    /// Full IPv6 text form as the kernel prints it.
    pub gid: String,
    /// Type; absent on kernels or devices that tell none.
    pub kind: Option<GidKind>,
    /// Network device behind it.
    pub netdev: Option<String>,
}
