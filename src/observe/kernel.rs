//! What the kernel log said: one decoded message, without a verdict.
//!
//! The words follow the printing code: NVIDIA's `kernel_rc.c` and `nvswitch`, the NIC drivers
//! under `drivers/net/ethernet`, `drivers/infiniband`, and `drivers/pci/pcie/aer.c`.

use serde::{Deserialize, Serialize};

/// One event decoded from one kernel message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelEvent {
    /// What the message says happened.
    pub what: KernelEventKind,
    /// PCI `domain:bus:device` in lower case, function dropped; `None` when the message names none.
    pub pci: Option<String>,
    /// `<driver> <domain:bus:device.function>`, or the address alone when another device reports
    /// about it and its driver is not named.
    pub device: Option<String>,
    /// Interface or RDMA device, where the message names it and no address.
    pub name: Option<String>,
    /// The message after the log's own prefixes, its lines joined, cut at 1024 characters.
    pub text: String,
}

impl KernelEvent {
    /// An event that names no device yet.
    pub fn new(what: KernelEventKind, text: &str) -> Self {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        Self {
            what,
            pci: None,
            device: None,
            name: None,
            text: lines.join(" ").chars().take(1024).collect(),
        }
    }

    /// With the GPU or switch in this slot.
    pub fn of_slot(self, slot: Option<String>) -> Self {
        Self { pci: slot, ..self }
    }
}

/// What a kernel message reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelEventKind {
    /// A GPU error with a code (`NVRM: Xid …`).
    Xid(Xid),
    /// An NVSwitch error with a code (`nvidia-nvswitchN: SXid …`).
    Sxid(Sxid),
    /// Something about a NIC, a driver or the PCIe bus.
    Note(Note),
    /// NVIDIA's driver was loaded (nv_module_init): whatever went wrong before was before it. No
    /// fault, so [`decode`](crate::source::kernel_log::decode) leaves it out.
    DriverLoaded,
}

impl KernelEventKind {
    /// The name used in JSON and in metric labels.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Xid(_) => "xid",
            Self::Sxid(_) => "sxid",
            Self::DriverLoaded => "driver_loaded",
            Self::Note(note) => note.event_name(),
        }
    }
}

/// Subject of a message about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A port lost its link.
    LinkDown,
    /// A port got its link.
    LinkUp,
    /// A cable or module was taken out; also printed at boot for an empty cage.
    CableUnplugged,
    /// A cable or module was put in.
    CablePlugged,
    /// A cable or module fault other than heat and power.
    ModuleFault,
    /// The firmware's heartbeat stopped.
    HeartbeatLost,
    /// No command of RDMA is answered any more, until the driver is loaded again; links go on.
    CommandsStalled,
    /// A fatal sensor tripped.
    FatalSensor,
    /// The firmware reports a syndrome.
    Syndrome,
    /// A firmware command was not answered in time.
    CommandTimeout,
    /// A firmware command was refused; often harmless (a register the device lacks).
    CommandFailed,
    /// The driver handles the device as bad.
    DeviceError,
    /// The driver failed to recover the device, or gave up.
    RecoveryFailed,
    /// The driver began to recover the device.
    RecoveryStarted,
    /// The device works again.
    Recovered,
    /// Transmit or receive queues stand still.
    QueueTimeout,
    /// A NIC or its module is too hot.
    Temperature,
    /// A NIC has cooled down again. No event for people.
    Cooled,
    /// A NIC gets too little power.
    Power,
    /// A module does not run, as it gets too little power.
    ModulePower,
    /// PCIe error, corrected by hardware, or of a severity that is not given.
    AerCorrectable,
    /// PCIe error, not corrected, after which the link may go on.
    AerUncorrected,
    /// PCIe error that is fatal to the link, or for which a port cut off all that is below it.
    AerFatal,
    /// The GPU peer-memory module reports an error.
    Peermem,
    /// NVIDIA's driver refused to share a GPU's memory with a device in its place on the bus.
    DmabufRefused,
    /// The GPUDirect Storage module reports an error.
    Gds,
    /// A GPU or NIC failed to probe, to initialise or to load its firmware.
    Driver,
    /// A firmware file that a NIC's driver could not load: often one that it can do without, or that somebody
    /// wanted to flash.
    FirmwareFile,
    /// A GPU fell off the bus, with an Xid or without one. No event for people, as most drivers
    /// print an Xid as well.
    GpuLost,
    /// NVIDIA's driver refused work on a GPU that needs a reset, and names none. No event for people, as the
    /// driver prints an Xid as well, unless the log has lost it.
    ResetRequired,
    /// A NIC's driver loaded its device again, as after a reset: earlier trouble is over. No event for
    /// people.
    Loaded,
}

impl Note {
    fn event_name(self) -> &'static str {
        match self {
            Self::LinkDown => "nic_link_down",
            Self::LinkUp => "nic_link_up",
            Self::CableUnplugged => "nic_cable_unplugged",
            Self::CablePlugged => "nic_cable_plugged",
            Self::Temperature => "nic_temperature",
            Self::Power | Self::ModulePower => "nic_power",
            Self::AerCorrectable | Self::AerUncorrected | Self::AerFatal => "pcie_aer",
            Self::Peermem => "peermem",
            Self::Gds => "gds",
            Self::Driver | Self::FirmwareFile | Self::GpuLost | Self::DmabufRefused => "driver",
            _ => "nic_health",
        }
    }

    /// Whether busy devices log it all day and no verdict depends on it.
    pub(super) fn is_routine(self) -> bool {
        matches!(self, Self::LinkDown | Self::LinkUp | Self::CommandFailed)
    }

    /// Whether it says that a NIC's firmware failed.
    pub fn is_grave(self) -> bool {
        matches!(
            self,
            Self::FatalSensor
                | Self::HeartbeatLost
                | Self::CommandsStalled
                | Self::DeviceError
                | Self::RecoveryFailed
        )
    }

    /// Whether it says alone that nothing is wrong.
    pub(super) fn is_benign(self) -> bool {
        self.is_routine() || matches!(self, Self::Loaded | Self::Recovered | Self::Cooled)
    }
}

/// An Xid message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Xid {
    /// The Xid code.
    pub code: u32,
    /// Process id that the driver blames.
    pub pid: Option<u32>,
    /// Process name that the driver blames.
    pub process: Option<String>,
    /// What it says beyond that.
    pub detail: XidDetail,
}

/// Parts of an Xid message beyond code, device and process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct XidDetail {
    /// NVLink parts (Xid 74, 136, 144-150).
    pub nvlink: Option<NvLink>,
    /// The driver's own verdict (Xid 154): from, to.
    pub recovery: Option<(RecoveryAction, RecoveryAction)>,
}

/// NVLink parts of an Xid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NvLink {
    /// The message's own word (NVLink 5 only).
    pub severity: Option<Severity>,
    /// Register words in print order; fewer than sent when the line was cut.
    pub words: Vec<u32>,
}

/// A fault's own severity word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// `Fatal`: traffic through the switch stops.
    Fatal,
    /// `Nonfatal` or `Non-fatal`.
    Nonfatal,
}

/// GPU recovery actions as Xid 154 numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryAction {
    /// 0: nothing to do.
    None,
    /// 1: the GPU needs a reset.
    GpuReset,
    /// 2: the node needs a reboot.
    NodeReboot,
    /// 3: peer-to-peer traffic must be drained.
    DrainP2p,
    /// 4: drain the GPU, then reset it.
    DrainAndReset,
    /// 5: the IMEX domain must be recovered.
    RecoverImex,
    /// A number that this version does not know, or one that was cut off.
    Other(u32),
}

impl RecoveryAction {
    /// The action for the number printed.
    pub fn from_code(code: u32) -> Self {
        match code {
            0 => Self::None,
            1 => Self::GpuReset,
            2 => Self::NodeReboot,
            3 => Self::DrainP2p,
            4 => Self::DrainAndReset,
            5 => Self::RecoverImex,
            other => Self::Other(other),
        }
    }
}

/// An SXid message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sxid {
    /// The SXid error code.
    pub code: u32,
    /// The first line's word; `None` on the detail lines of the same report.
    pub severity: Option<Severity>,
}
