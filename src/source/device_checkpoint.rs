//! What the kubelet's device plugins gave to which container, from the kubelet's own checkpoint
//! (kubernetes pkg/kubelet/cm/devicemanager/checkpoint): for nodes where the API server is not
//! asked. It names pods by UID only. Devices that are claimed (DRA) are not in it.

use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::source::tree;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Where the kubelet keeps it, whatever its root directory.
pub const PATH: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// Longest checkpoint taken. Each entry carries the plugin's whole answer.
const MAX_BYTES: usize = 16 << 20;

/// Devices by pod UID, container and resource name.
pub type Allocations = BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: Data,
}

/// Of unknown fields nothing is said; `Checksum` is a hash of Go's own rendering of the data, and is
/// not checked: a file written halfway does not parse.
#[derive(Deserialize)]
struct Data {
    #[serde(rename = "PodDeviceEntries", default)]
    entries: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: String,
    #[serde(rename = "ContainerName")]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    #[serde(rename = "DeviceIDs", default)]
    devices: Option<Devices>,
}

/// By NUMA node since Kubernetes 1.20, a plain list before.
#[derive(Deserialize)]
#[serde(untagged)]
enum Devices {
    ByNode(BTreeMap<String, Option<Vec<String>>>),
    List(Vec<String>),
}

impl Devices {
    fn count(&self) -> u64 {
        let count = match self {
            Devices::ByNode(nodes) => {
                // A device near two nodes stands under both.
                let ids = nodes.values().flatten().flatten();
                ids.collect::<std::collections::BTreeSet<_>>().len()
            }
            Devices::List(ids) => ids.len(),
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// Parses a checkpoint.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Allocations, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut pods = Allocations::new();
    for entry in file.data.entries.unwrap_or_default() {
        let count = entry.devices.as_ref().map_or(0, Devices::count);
        if count == 0 {
            continue;
        }
        let container = pods.entry(entry.pod).or_default();
        let resources = container.entry(entry.container).or_default();
        let have = resources.entry(entry.resource).or_default();
        *have = have.saturating_add(count);
    }
    Ok(pods)
}

/// Reads it. Absent where no plugin gave anything yet, or on a node without a kubelet.
/// Pods that ended stay in it until the kubelet next gives a device.
pub fn read(host: &Host) -> Reading<Allocations> {
    tree::read_bytes(host, PATH, MAX_BYTES).and_then(|bytes| match parse(&bytes) {
        Ok(pods) => Reading::Value(pods),
        Err(error) => Reading::Failed(Fault {
            kind: FaultKind::Malformed,
            detail: format!("{PATH}: {error}"),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    const BY_NODE: &str = r#"{"Data":{"PodDeviceEntries":[
        {"PodUID":"0a1b","ContainerName":"trainer","ResourceName":"nvidia.com/gpu",
         "DeviceIDs":{"0":["GPU-1","GPU-2"],"1":["GPU-3"]},"AllocResp":"CgsKAQ=="},
        {"PodUID":"0a1b","ContainerName":"trainer","ResourceName":"rdma/hca_shared_devices_a",
         "DeviceIDs":{"-1":["7"]},"AllocResp":null},
        {"PodUID":"0a1b","ContainerName":"side","ResourceName":"nvidia.com/gpu","DeviceIDs":{},"New":[1]},
        {"PodUID":"2c3d","ContainerName":"a","ResourceName":"amd.com/gpu","DeviceIDs":{"0":["x"],"1":["x"]}}],
        "RegisteredDevices":{"nvidia.com/gpu":["GPU-1"]},"AllDevices":{}},"Checksum":1234567890}"#;
    const LIST: &str = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"0a1b","ContainerName":"c",
        "ResourceName":"nvidia.com/mig-1g.10gb","DeviceIDs":["MIG-1","MIG-2"],"AllocResp":""}],
        "RegisteredDevices":{}},"Checksum":1}"#;

    fn rows(text: &str) -> Vec<(String, String, String, u64)> {
        let mut rows = Vec::new();
        for (pod, containers) in parse(text.as_bytes()).unwrap() {
            for (container, resources) in containers {
                for (resource, count) in resources {
                    rows.push((pod.clone(), container.clone(), resource, count));
                }
            }
        }
        rows
    }

    #[test]
    fn both_forms() {
        let row = |pod: &str, container: &str, resource: &str, count| {
            (pod.into(), container.into(), resource.into(), count)
        };
        assert_eq!(
            rows(BY_NODE),
            [
                row("0a1b", "trainer", "nvidia.com/gpu", 3),
                row("0a1b", "trainer", "rdma/hca_shared_devices_a", 1),
                row("2c3d", "a", "amd.com/gpu", 1),
            ]
        );
        assert_eq!(rows(LIST), [row("0a1b", "c", "nvidia.com/mig-1g.10gb", 2)]);
        // As a kubelet writes it before any pod.
        assert_eq!(
            rows(r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}"#),
            []
        );
    }

    #[test]
    fn what_is_no_checkpoint_is_said_to_be_none() {
        let tree = TestTree::new();
        assert_eq!(read(&tree.host()), Reading::Absent);
        tree.file(PATH, LIST);
        assert!(read(&tree.host()).value().unwrap().contains_key("0a1b"));
        for text in ["", "[]", "{}", "{\"Data\":3}", &LIST[..LIST.len() - 40]] {
            tree.bytes(PATH, text.as_bytes());
            assert!(matches!(read(&tree.host()), Reading::Failed(_)), "{text}");
        }
        tree.errno(13, PATH);
        assert!(matches!(
            read(&tree.host()),
            Reading::Failed(Fault {
                kind: FaultKind::Denied,
                ..
            })
        ));
    }
}
