//! Subjects of kernel-log lines about a device.

use crate::observe::kernel::{AerSeverity, Detail, EventKind, HealthKind, KernelEvent};
use serde::{Deserialize, Serialize};

/// Subject of a line about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A port lost its link.
    LinkDown,
    /// A port got its link.
    LinkUp,
    /// Cable or module taken out.
    CableUnplugged,
    /// Cable or module put in.
    CablePlugged,
    /// Cable or module faulty.
    ModuleFault,
    /// The firmware's heartbeat stopped.
    HeartbeatLost,
    /// A fatal sensor tripped.
    FatalSensor,
    /// The firmware reports a syndrome.
    Syndrome,
    /// A firmware command was not answered.
    CommandTimeout,
    /// A firmware command was refused.
    CommandFailed,
    /// The driver handles the device as bad.
    DeviceError,
    /// The driver began to recover the device.
    RecoveryStarted,
    /// The driver recovered the device.
    Recovered,
    /// Transmit or receive queues are stuck.
    QueueTimeout,
    /// NIC or module is too hot.
    Temperature,
    /// NIC or module gets too little power.
    Power,
    /// PCIe error, corrected by hardware.
    AerCorrectable,
    /// PCIe error, not corrected.
    AerUncorrected,
    /// The peer-memory module complained.
    Peermem,
    /// The GPUDirect Storage module complained.
    Gds,
    /// A driver failed to probe or load.
    Driver,
}

/// Whether busy devices log it all day and no verdict depends on it.
pub(super) fn is_everyday(note: Note) -> bool {
    matches!(note, Note::LinkDown | Note::LinkUp | Note::CommandFailed)
}

pub(super) fn note_of(event: &KernelEvent) -> Option<Note> {
    Some(match event.kind {
        EventKind::Xid | EventKind::Sxid | EventKind::DriverLoaded => return None,
        EventKind::NicLinkDown => Note::LinkDown,
        EventKind::NicLinkUp => Note::LinkUp,
        EventKind::NicCableUnplugged => Note::CableUnplugged,
        EventKind::NicCablePlugged => Note::CablePlugged,
        EventKind::NicTemperature => Note::Temperature,
        EventKind::NicPower => Note::Power,
        EventKind::PcieAer => match &event.detail {
            Detail::Aer { severity, .. } => match severity {
                AerSeverity::NonFatal | AerSeverity::Fatal => Note::AerUncorrected,
                AerSeverity::Correctable | AerSeverity::Unknown => Note::AerCorrectable,
            },
            _ => Note::AerCorrectable,
        },
        EventKind::Peermem => Note::Peermem,
        EventKind::Gds => Note::Gds,
        EventKind::Driver => Note::Driver,
        EventKind::NicHealth => match &event.detail {
            Detail::Health { what, .. } => match what {
                HealthKind::HeartbeatLost => Note::HeartbeatLost,
                HealthKind::FatalSensor => Note::FatalSensor,
                HealthKind::Syndrome => Note::Syndrome,
                HealthKind::CommandTimeout => Note::CommandTimeout,
                HealthKind::CommandFailed => Note::CommandFailed,
                HealthKind::DeviceError => Note::DeviceError,
                HealthKind::RecoveryStarted => Note::RecoveryStarted,
                HealthKind::Recovered => Note::Recovered,
                HealthKind::QueueTimeout => Note::QueueTimeout,
                HealthKind::ModuleFault => Note::ModuleFault,
            },
            _ => Note::Syndrome,
        },
    })
}
