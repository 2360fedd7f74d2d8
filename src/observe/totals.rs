//! Totals for metrics: they outlive the snapshots.

use crate::units::PortKey;
use std::collections::BTreeMap;

/// Counts since the agent started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Link edges by port.
    pub link_edges: BTreeMap<PortKey, u64>,
    /// Xids by GPU slot (`0000:17:00`, empty where the line told none) and code.
    pub xids: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Kernel events of NICs and other devices by address (by slot where the line told no function,
    /// empty where it told none) and event name (`nic_link_down`, `pcie_aer` …).
    pub nic_events: BTreeMap<String, BTreeMap<String, u64>>,
    /// Kernel-log records that were overwritten before they were read.
    pub kmsg_records_lost: u64,
    /// Changes of verdict by the state entered.
    pub transitions: BTreeMap<String, u64>,
}
