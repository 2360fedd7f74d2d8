//! What the kernel log said: one decoded message, without a verdict.
//!
//! The words follow the printing code: NVIDIA's `kernel_rc.c` and `nvswitch`, the NIC drivers
//! under `drivers/net/ethernet`, `drivers/infiniband`, and `drivers/pci/pcie/aer.c`.

use serde::{Deserialize, Serialize};

/// The kind of event that a kernel message reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A GPU error with a code (`NVRM: Xid …`).
    Xid,
    /// An NVSwitch error with a code (`nvidia-nvswitchN: SXid …`).
    Sxid,
    /// A NIC port lost its link.
    NicLinkDown,
    /// A NIC port got its link.
    NicLinkUp,
    /// A cable or module was taken out; also printed at boot for an empty cage.
    NicCableUnplugged,
    /// A cable or module was put in.
    NicCablePlugged,
    /// A NIC's firmware, command channel or transmit path is in trouble.
    NicHealth,
    /// A NIC or its module is too hot.
    NicTemperature,
    /// A NIC or its module gets too little power.
    NicPower,
    /// PCIe error reporting spoke about a device.
    PcieAer,
    /// The GPU peer-memory module reports an error.
    Peermem,
    /// The GPUDirect Storage module reports an error.
    Gds,
    /// A GPU or NIC failed to probe, to initialise or to load its firmware.
    Driver,
    /// NVIDIA's driver was loaded (nv_module_init): whatever went wrong before was before it. No
    /// fault, so [`decode`](crate::source::kernel_log::decode) leaves it out.
    DriverLoaded,
}

impl EventKind {
    /// The name used in JSON and in metric labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xid => "xid",
            Self::Sxid => "sxid",
            Self::NicLinkDown => "nic_link_down",
            Self::NicLinkUp => "nic_link_up",
            Self::NicCableUnplugged => "nic_cable_unplugged",
            Self::NicCablePlugged => "nic_cable_plugged",
            Self::NicHealth => "nic_health",
            Self::NicTemperature => "nic_temperature",
            Self::NicPower => "nic_power",
            Self::PcieAer => "pcie_aer",
            Self::Peermem => "peermem",
            Self::Gds => "gds",
            Self::Driver => "driver",
            Self::DriverLoaded => "driver_loaded",
        }
    }
}

/// One event decoded from one kernel message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelEvent {
    /// What the record says happened.
    pub kind: EventKind,
    /// The Xid code; only on [`EventKind::Xid`].
    pub xid: Option<u32>,
    /// PCI `domain:bus:device` in lower case, function dropped; `None` when the message names none.
    pub pci: Option<String>,
    /// Process id that the GPU driver blames; only on Xid.
    pub pid: Option<u32>,
    /// Process name that the GPU driver blames; only on Xid.
    pub process: Option<String>,
    /// `<driver> <domain:bus:device.function>`, or the address alone when another device reports
    /// about it and its driver is not named.
    pub device: Option<String>,
    /// The message's first line after the log's own prefixes, cut at 1 KiB.
    pub text: String,
    /// The parts that a check needs, by kind.
    #[serde(default)]
    pub detail: Detail,
}

impl KernelEvent {
    /// An event that names nothing yet.
    #[must_use]
    pub fn new(kind: EventKind, text: &str) -> Self {
        let mut end = text.len().min(1024);
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        Self {
            kind,
            xid: None,
            pci: None,
            pid: None,
            process: None,
            device: None,
            text: text.get(..end).unwrap_or_default().to_owned(),
            detail: Detail::None,
        }
    }
}

/// Typed parts of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Detail {
    /// Nothing beyond the kind.
    #[default]
    None,
    /// An Xid's parts.
    Xid(XidDetail),
    /// An SXid's parts.
    Sxid(SxidDetail),
    /// A NIC port's link went up or down.
    Link {
        /// Network or RDMA device name, when printed.
        name: Option<String>,
        /// RDMA port number, when printed.
        port: Option<u32>,
    },
    /// A cable or module event.
    Module {
        /// Number of the transceiver cage, where named.
        module: Option<u32>,
        /// The driver's reason.
        reason: Option<String>,
    },
    /// The card complains about its power supply.
    Power {
        /// Watts that the slot offers, when printed.
        watts: Option<u32>,
    },
    /// A message of the NIC's health reporter.
    Health {
        /// What it is about.
        what: HealthKind,
        /// Firmware command, e.g. `ACCESS_REG`, on command messages.
        command: Option<String>,
        /// Syndrome or fatal-sensor number.
        code: Option<u32>,
    },
    /// A PCIe error report.
    Aer {
        /// How bad the report says it is.
        severity: AerSeverity,
        /// The port that reports, when it is not the one that erred.
        reporter: Option<String>,
    },
}

/// Parts of an Xid message beyond code, device and process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct XidDetail {
    /// MIG GPU instance, where the GPU is partitioned.
    pub gpu_instance: Option<u32>,
    /// MIG compute instance, where the GPU is partitioned.
    pub compute_instance: Option<u32>,
    /// NVLink parts (Xid 74, 136, 144-150).
    pub nvlink: Option<NvLink>,
    /// The driver's own verdict (Xid 154): from, to.
    pub recovery: Option<(RecoveryAction, RecoveryAction)>,
    /// The earlier Xid that this one follows from ("caused by previous Xid N").
    pub caused_by: Option<u32>,
}

/// NVLink parts of an Xid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NvLink {
    /// Reporting unit, e.g. `RLW_SRC_TRACK` (NVLink 5 only).
    pub unit: Option<String>,
    /// The message's own word (NVLink 5 only).
    pub severity: Option<Severity>,
    /// Link number; -1 is the driver's "none in particular".
    pub link: Option<i32>,
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
    /// A number that this version does not know.
    Other(u32),
}

impl RecoveryAction {
    /// The action for the number printed.
    #[must_use]
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

/// Parts of an SXid message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SxidDetail {
    /// The SXid error code.
    pub code: u32,
    /// Switch number in the driver's name.
    pub switch: Option<u32>,
    /// The first line's word; `None` on the detail lines of the same report.
    pub severity: Option<Severity>,
    /// Number of the switch's link, where named.
    pub link: Option<u32>,
}

/// What a NIC health message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthKind {
    /// The firmware's heartbeat stopped.
    HeartbeatLost,
    /// A fatal sensor tripped.
    FatalSensor,
    /// The firmware reports a syndrome.
    Syndrome,
    /// A firmware command was not answered in time.
    CommandTimeout,
    /// A firmware command was refused; often harmless (a register the device lacks).
    CommandFailed,
    /// The driver handles the device as bad, or failed to recover it.
    DeviceError,
    /// The driver began to recover the device.
    RecoveryStarted,
    /// The device works again.
    Recovered,
    /// Transmit or receive queues stand still.
    QueueTimeout,
    /// A cable or module fault other than heat and power.
    ModuleFault,
}

/// Severity of a PCIe error report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AerSeverity {
    /// Corrected by hardware; no data was lost.
    Correctable,
    /// Not corrected, link still sound.
    NonFatal,
    /// Not corrected, link not to be trusted.
    Fatal,
    /// Not said, or cut off.
    Unknown,
}
