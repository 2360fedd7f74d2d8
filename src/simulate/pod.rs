//! Pods of a simulated node: where the kubelet keeps their logs, and what the API server says of them.

use serde_json::{Map, Value, json};

/// A pod with one container that runs a part of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSpec {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID, which also names its log directory.
    pub uid: String,
    /// Kind and name of the controlling owner.
    pub owner: (String, String),
    /// Labels by key.
    pub labels: Vec<(String, String)>,
    /// Environment variables of the container.
    pub env: Vec<(String, String)>,
    /// Number of GPUs requested.
    pub gpus: u32,
    /// RDMA resource requested, and how many of it.
    pub rdma: Option<(String, u32)>,
}

/// One process of a pod, in a network namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// Process id.
    pub pid: u32,
    /// UID of its pod.
    pub pod: String,
    /// Whether it owns a connected queue pair of each device.
    pub queue_pairs: bool,
    /// Bytes that its namespace has received by TCP, and as many sent.
    pub tcp: u64,
}

const CONTAINER: &str = "trainer";

impl PodSpec {
    /// Log directory below the root, as the kubelet names it (`pkg/kubelet/kuberuntime/helpers.go`).
    pub(super) fn log_dir(&self) -> String {
        let (namespace, name, uid) = (&self.namespace, &self.name, &self.uid);
        format!("var/log/pods/{namespace}_{name}_{uid}")
    }

    /// Log file of the container's first run.
    pub(super) fn log_file(&self) -> String {
        format!("{}/{CONTAINER}/0.log", self.log_dir())
    }

    /// The pod object of the API server, running on a node.
    pub fn object(&self, node: &str) -> Value {
        let (kind, owner) = &self.owner;
        let labels = self.labels.iter();
        let labels: Map<String, Value> = labels.map(|(k, v)| (k.clone(), json!(v))).collect();
        let env = self.env.iter();
        let env: Vec<Value> = env.map(|(k, v)| json!({"name": k, "value": v})).collect();
        let mut limits = json!({"nvidia.com/gpu": self.gpus.to_string()});
        if let (Some(limits), Some((resource, count))) = (limits.as_object_mut(), &self.rdma) {
            limits.insert(resource.clone(), json!(count.to_string()));
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "uid": self.uid, "labels": labels,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": kind, "name": owner,
                    "uid": format!("{owner}-uid"), "controller": true,
                }],
            },
            "spec": {
                "nodeName": node,
                "containers": [{
                    "name": CONTAINER, "env": env, "resources": {"limits": limits},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                }],
            },
            "status": {"phase": "Running"},
        })
    }
}

/// Lines as the container runtime writes them (`containerd/pkg/cri/io/logger.go`), all at one moment.
pub(super) fn framed(lines: &[String]) -> String {
    let now = jiff::Timestamp::now();
    let framed = lines
        .iter()
        .map(|line| format!("{now:.9} stdout F {line}\n"));
    framed.collect()
}
