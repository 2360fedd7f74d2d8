//! The parts of a Node that we read. Taints and conditions are kept as they were received, with fields
//! that we do not know, because patches test for them and write them back.

use super::{ClusterSettings, names};
use crate::observe::{NodeResources, Offered, is_gpu_resource, is_rdma_resource};
use kube::core::{ApiResource, Object, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};

/// The part of `spec` that we read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// All taints, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Value>>,
    /// Whether the node is cordoned.
    #[serde(default)]
    pub unschedulable: bool,
}

/// The part of `status` that we read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// All conditions, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Value>>,
    /// What pods may request, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<Value>,
    /// What the node has, healthy or not, as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Value>,
    /// Versions that the kubelet reports, as received.
    #[serde(default)]
    pub node_info: Value,
}

/// A Node object, reduced to the parts that we read.
pub type NodeObject = Object<NodeSpec, NodeStatus>;

/// The resource of [`NodeObject`].
pub fn resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&())
}

/// Our condition as the Node has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// True, False or Unknown.
    pub status: String,
    /// In CamelCase; a schema that alerts rely on.
    pub reason: String,
    /// Text for people, bounded.
    pub message: String,
    /// When the agent last confirmed it.
    pub last_heartbeat_time: Option<jiff::Timestamp>,
    /// When its status last changed.
    pub last_transition_time: Option<jiff::Timestamp>,
}

/// The facts of a Node that the writer works with.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`, which events need
    pub uid: String,
    /// Version of the object, which the taint patch tests for.
    pub resource_version: String,
    /// All labels, ours and others.
    pub labels: BTreeMap<String, String>,
    /// Labels that our field manager owns.
    pub owned_labels: Vec<String>,
    /// All annotations, of which the mute is ours.
    pub annotations: BTreeMap<String, String>,
    /// All taints, in order, as received; `None` if the list is missing.
    pub taints: Option<Vec<Value>>,
    /// Our condition, if it is there.
    pub condition: Option<Condition>,
    /// What the Node promises to pods; `None` before the kubelet reports.
    pub offer: Option<Arc<NodeResources>>,
    /// Whether the node is cordoned.
    pub cordoned: bool,
    /// Kernel release and name of the operating system, by the kubelet; empty before it reports.
    pub versions: [String; 2],
}

impl NodeView {
    /// Extracts them from a Node.
    pub fn of(node: &NodeObject) -> Self {
        let metadata = &node.metadata;
        let status = node.status.as_ref();
        let version = |field| status.map_or("", |status| text(&status.node_info, field));
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let condition = conditions
            .find(|condition| text(condition, "type") == names::CONDITION)
            // One that cannot be decoded is replaced.
            .map(|condition| serde_json::from_value(condition.clone()).unwrap_or_default());
        NodeView {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            owned_labels: owned_labels(metadata),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            taints: node.spec.taints.clone(),
            condition,
            offer: (status.and_then(|of| offer(of, metadata.labels.as_ref()))).map(Arc::new),
            cordoned: node.spec.unschedulable,
            versions: ["kernelVersion", "osImage"].map(|field| version(field).to_string()),
        }
    }

    /// Whether our taint is there.
    pub fn is_tainted(&self, settings: &ClusterSettings) -> bool {
        let ours = settings.taint();
        self.taints().any(|taint| text(taint, "key") == ours)
    }

    /// Whether the taint that a node joins with is there.
    pub fn is_joining(&self, settings: &ClusterSettings) -> bool {
        self.taints()
            .any(|taint| settings.is_startup_taint(text(taint, "key")))
    }

    /// All taints, ours and others.
    pub fn taints(&self) -> impl Iterator<Item = &Value> {
        self.taints.iter().flatten()
    }
}

/// Most resources of a node that are kept: operators choose their names.
const RESOURCES: usize = 64;

/// The label that the cloud's controller sets.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

fn offer(status: &NodeStatus, labels: Option<&BTreeMap<String, String>>) -> Option<NodeResources> {
    let entries = |part: &Option<Value>| part.as_ref()?.as_object().cloned();
    let allocatable = entries(&status.allocatable)?;
    let capacity = entries(&status.capacity).unwrap_or_default();
    let mut offer = NodeResources {
        instance_type: labels.and_then(|labels| labels.get(INSTANCE_TYPE)).cloned(),
        ..NodeResources::default()
    };
    let number = |part: &Map<String, Value>, name: &str| count(part.get(name)?);
    for name in allocatable.keys().chain(capacity.keys()) {
        let ours = is_gpu_resource(name) || is_rdma_resource(name);
        if ours && offer.resources.len() < RESOURCES {
            let offered = Offered {
                allocatable: number(&allocatable, name),
                capacity: number(&capacity, name),
                had: 0,
            };
            offer.resources.insert(name.clone(), offered);
        }
    }
    Some(offer)
}

/// A quantity as a count, rounded down: `8`, `"8"`, `"1k"`, `"63"` (apimachinery's `resource.Quantity`).
pub fn count(quantity: &Value) -> Option<u64> {
    let text = match quantity {
        Value::Number(number) => return number.as_u64(),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text.strip_suffix(suffix)?.parse().ok()?;
    let factor: u64 = match suffix {
        "" => 1,
        "m" => return Some(number / 1000),
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    Some(number.saturating_mul(factor))
}

/// A text field of an object; empty if missing.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or("")
}

/// Labels of which `metadata.managedFields` says that our server-side apply owns them.
fn owned_labels(metadata: &ObjectMeta) -> Vec<String> {
    let ours = metadata.managed_fields.iter().flatten().filter(|entry| {
        entry.manager.as_deref() == Some(names::FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.is_none()
    });
    let fields = ours.filter_map(|entry| entry.fields_v1.as_ref());
    let labels = fields.filter_map(|of| of.0.pointer("/f:metadata/f:labels")?.as_object());
    let keys = labels.flat_map(|labels| labels.keys());
    let keys = keys.filter_map(|key| key.strip_prefix("f:"));
    let mut owned: Vec<String> = keys.map(str::to_string).collect();
    owned.sort();
    owned
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use serde_json::json;

    /// A Node of the API, with these labels, taints and conditions.
    pub fn node(labels: Value, taints: Value, conditions: Value) -> NodeView {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "gpu-1", "uid": "u-1", "resourceVersion": "7", "labels": labels,
            },
            "spec": if taints.is_null() { json!({}) } else { json!({ "taints": taints }) },
            "status": {"conditions": conditions},
        });
        NodeView::of(&serde_json::from_value(node).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_looked_through() {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "gpu-1", "uid": "u-1", "resourceVersion": "7",
                "managedFields": [
                    {"manager": "selvage", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:selvage.dev/rails": {}, "f:selvage.dev/fabric": {}}}}},
                    {"manager": "selvage", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:x": {}}}}},
                    {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:y": {}}}}},
                ],
            },
            "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule", "someday": 1}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "FabricReady", "status": "False", "lastHeartbeatTime": "2026-11-21T10:00:00Z"}], "images": []},
        });
        let view = NodeView::of(&serde_json::from_value(node).unwrap());
        assert_eq!(
            view.owned_labels,
            ["selvage.dev/fabric", "selvage.dev/rails"]
        );
        assert_eq!(view.taints().next().unwrap()["someday"], 1);
        let condition = view.condition.unwrap();
        assert_eq!(condition.status, "False");
        assert!(condition.last_heartbeat_time.is_some());
    }

    #[test]
    fn what_pods_may_ask_for() {
        let devices = |allocatable: Value| {
            let node = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"allocatable": allocatable}});
            let view = NodeView::of(&serde_json::from_value(node).unwrap());
            let offer = view.offer?;
            let rdma = offer.rdma().map(|(name, count)| (name.clone(), count));
            Some((offer.gpus(), rdma.collect::<Vec<_>>()))
        };
        let told = devices(json!({
            "cpu": "96", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32",
            "rdma/hca_shared_devices_a": "1k", "rdma/gone": "0", "rdma/odd": {}, "hugepages-2Mi": "0",
        }));
        let rdma = [
            ("rdma/hca_shared_devices_a".to_string(), 1000),
            ("vpc.amazonaws.com/efa".to_string(), 32),
        ];
        assert_eq!(told, Some((8, rdma.into())));
        assert_eq!(devices(json!({})), Some((0, Vec::new())));
        let node = json!({
            "metadata": {"name": "a", "labels": {"node.kubernetes.io/instance-type": "p5.48xlarge"}},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "96", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "0"},
                "capacity": {"cpu": "96", "vpc.amazonaws.com/efa": "32", "rdma/ib": "1"},
            },
        });
        let offer = NodeView::of(&serde_json::from_value(node).unwrap())
            .offer
            .unwrap();
        assert_eq!(offer.instance_type.as_deref(), Some("p5.48xlarge"));
        let offered = |allocatable, capacity| Offered {
            allocatable,
            capacity,
            had: 0,
        };
        let want = [
            ("nvidia.com/gpu", offered(Some(8), None)),
            ("rdma/ib", offered(None, Some(1))),
            ("vpc.amazonaws.com/efa", offered(Some(0), Some(32))),
        ];
        let want = want.map(|(name, offered)| (name.to_string(), offered));
        assert_eq!(offer.resources, want.into());
        assert_eq!(devices(json!("odd")), None);
    }

    #[test]
    fn a_bare_node_and_a_broken_condition_are_read() {
        let bare = json!({"metadata": {"name": "a"}, "spec": {}});
        let view = NodeView::of(&serde_json::from_value(bare).unwrap());
        assert_eq!((view.taints, view.condition), (None, None));
        assert_eq!(view.offer, None, "not reported is not zero");
        let odd = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": [{"type": "FabricReady", "lastHeartbeatTime": "never"}, 5]}});
        let view = NodeView::of(&serde_json::from_value(odd).unwrap());
        assert_eq!(view.condition, Some(Condition::default()));
    }
}
