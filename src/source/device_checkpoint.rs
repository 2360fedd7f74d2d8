//! Devices that the kubelet's device plugins gave to each container, from the kubelet's own checkpoint
//! (kubernetes pkg/kubelet/cm/devicemanager/checkpoint): for nodes where the API server is not
//! asked. It names pods by UID only. Devices that are claimed (DRA) are not in it.

use crate::host::Host;
use crate::observe::Reading;
use crate::source::tree;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Where the kubelet keeps it, independent of its root directory.
pub const PATH: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// Longest checkpoint read. Each entry carries the plugin's whole answer.
const MAX_BYTES: usize = 16 << 20;

/// Devices by pod UID, container and resource name.
pub type Allocations = BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>;

#[derive(Deserialize)]
struct CheckpointFile {
    #[serde(rename = "Data")]
    data: Data,
}

/// Unknown fields are ignored; `Checksum` is a hash of Go's own rendering of the data, and is
/// not checked: a file written halfway does not parse.
#[derive(Deserialize)]
struct Data {
    #[serde(rename = "PodDeviceEntries", default)]
    entries: Option<Vec<PodDevices>>,
}

#[derive(Deserialize)]
struct PodDevices {
    #[serde(rename = "PodUID")]
    pod: String,
    #[serde(rename = "ContainerName")]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    #[serde(rename = "DeviceIDs", default)]
    devices: Option<Devices>,
}

/// IDs by NUMA node, since Kubernetes 1.20.
type Devices = BTreeMap<String, Option<Vec<String>>>;

/// Parses a checkpoint.
///
/// # Errors
/// Why it is malformed.
pub fn parse(bytes: &[u8]) -> Result<Allocations, String> {
    let file: CheckpointFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut pods = Allocations::new();
    for entry in file.data.entries.unwrap_or_default() {
        // A device near two nodes stands under both.
        let ids = entry.devices.iter().flat_map(BTreeMap::values);
        let ids: BTreeSet<&String> = ids.flatten().flatten().collect();
        if ids.is_empty() {
            continue;
        }
        let container = pods.entry(entry.pod).or_default();
        let resources = container.entry(entry.container).or_default();
        let have = resources.entry(entry.resource).or_default();
        *have = have.saturating_add(ids.len() as u64);
    }
    Ok(pods)
}

/// Reads it. Absent where no plugin has allocated a device yet, and outside Kubernetes.
/// Pods that ended stay in it until the kubelet next gives a device.
pub fn read(host: &Host) -> Reading<Allocations> {
    tree::read_bytes(host, PATH, MAX_BYTES).and_then(|bytes| {
        Reading::parsed(parse(&bytes).map_err(|error| format!("{PATH}: {error}")))
    })
}

#[cfg(test)]
mod tests;
