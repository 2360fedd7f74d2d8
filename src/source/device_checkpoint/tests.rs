use super::*;
use crate::observe::{Fault, FaultKind};
use crate::source::testtree::TestTree;

const BY_NODE: &str = r#"{"Data":{"PodDeviceEntries":[
    {"PodUID":"0a1b","ContainerName":"trainer","ResourceName":"nvidia.com/gpu",
     "DeviceIDs":{"0":["GPU-1","GPU-2"],"1":["GPU-3"]},"AllocResp":"CgsKAQ=="},
    {"PodUID":"0a1b","ContainerName":"trainer","ResourceName":"rdma/hca_shared_devices_a",
     "DeviceIDs":{"-1":["7"]},"AllocResp":null},
    {"PodUID":"0a1b","ContainerName":"side","ResourceName":"nvidia.com/gpu","DeviceIDs":{},"New":[1]},
    {"PodUID":"2c3d","ContainerName":"a","ResourceName":"amd.com/gpu","DeviceIDs":{"0":["x"],"1":["x"]}}],
    "RegisteredDevices":{"nvidia.com/gpu":["GPU-1"]},"AllDevices":{}},"Checksum":1234567890}"#;

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
fn devices_by_node() {
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
    // As a kubelet writes it before any pod.
    assert_eq!(
        rows(r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}"#),
        []
    );
}

#[test]
fn malformed_checkpoints_are_a_fault() {
    let tree = TestTree::new();
    assert_eq!(read(&tree.host()), Reading::Absent);
    tree.file(PATH, BY_NODE);
    assert!(read(&tree.host()).value().unwrap().contains_key("0a1b"));
    for text in [
        "",
        "[]",
        "{}",
        "{\"Data\":3}",
        &BY_NODE[..BY_NODE.len() - 40],
    ] {
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
