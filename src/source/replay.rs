//! What a directory tree cannot show as kernel files: ethtool statistics, DCB settings and virtual
//! functions' link states, as `selvage capture` writes them under `selvage/` in the tree, and queue
//! pairs of a simulated node.

use super::{ethtool, tree};
use crate::host::Host;
use crate::observe::{EthtoolFacts, Reading};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Path of a network device's recorded ethtool statistics: a line `driver: NAME`, then a line
/// `NAME: VALUE` for each.
pub fn ethtool_path(name: &str) -> String {
    format!("selvage/ethtool/{name}")
}

/// Path of what is recorded of a network device as JSON: its DCB settings (`DcbFacts`, `dcb`), or the
/// link states of its virtual functions (`VfLinks`, `vf_links`).
pub fn json_path(what: &str, name: &str) -> String {
    format!("selvage/{what}/{name}.json")
}

/// Recorded ethtool statistics of `name`.
pub fn ethtool(host: &Host, name: &str) -> Reading<EthtoolFacts> {
    tree::read_text(host, ethtool_path(name)).map(|text| {
        let mut driver = "";
        let mut stats = Vec::new();
        for (key, value) in text.lines().filter_map(|line| line.rsplit_once(':')) {
            let (key, value) = (key.trim(), value.trim());
            if key == "driver" {
                driver = value;
            } else if let Ok(value) = value.parse::<u64>() {
                stats.push((key, value));
            }
        }
        ethtool::names::facts(driver, &stats)
    })
}

/// Path of recorded queue pairs: [`QueuePairs`] as JSON.
pub const QUEUE_PAIRS: &str = "selvage/queue_pairs.json";

/// What RDMA netlink would tell of a node's queue pairs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueuePairs {
    /// Devices may be hidden in other network namespaces; none: no such mode.
    pub exclusive: Option<bool>,
    /// Devices, in the kernel's order.
    pub devices: Vec<DeviceQueuePairs>,
}

/// One device's part of [`QueuePairs`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceQueuePairs {
    /// Name of the RDMA device.
    pub name: String,
    /// How many ports it has.
    pub ports: u32,
    /// PIDs of the owners of its connected queue pairs, one for each.
    pub connected: Vec<u32>,
}

/// What is recorded as JSON.
pub fn json<T: DeserializeOwned>(host: &Host, path: &str) -> Reading<T> {
    tree::read_text(host, path).and_then(|text| {
        let facts = serde_json::from_str(&text);
        Reading::parsed(facts.map_err(|error| format!("{path}: {error}")))
    })
}
