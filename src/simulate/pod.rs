//! Pods of a simulated node: their logs where the kubelet keeps them, and what the API server tells
//! of them.

use super::files::Files;
use super::node::{Node, none};
use serde_json::{Value, json};
use std::io;

/// A pod with one container that runs a part of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSpec {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Its container.
    pub container: String,
    /// Kind and name of what it is a part of.
    pub owner: (String, String),
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Variables of the container.
    pub env: Vec<(String, String)>,
    /// GPUs that it asks for.
    pub gpus: u32,
    /// RDMA resource that it asks for, and how many.
    pub rdma: Option<(String, u32)>,
}

impl PodSpec {
    /// Its directory below the root, as the kubelet names it (`pkg/kubelet/kuberuntime/helpers.go`).
    pub fn logs(&self) -> String {
        let (namespace, name, uid) = (&self.namespace, &self.name, &self.uid);
        format!("var/log/pods/{namespace}_{name}_{uid}")
    }

    /// As the API server has it, running on a node.
    pub fn object(&self, node: &str) -> Value {
        let (kind, owner) = &self.owner;
        let labels: serde_json::Map<String, Value> = self
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let env: Vec<Value> = self
            .env
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let mut limits = serde_json::Map::new();
        limits.insert("nvidia.com/gpu".into(), json!(self.gpus.to_string()));
        if let Some((resource, count)) = &self.rdma {
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
                    "name": self.container, "env": env, "resources": {"limits": limits},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                }],
            },
            "status": {"phase": "Running"},
        })
    }
}

/// Lines as the container runtime writes them (`containerd/pkg/cri/io/logger.go`), all at one moment.
fn framed(lines: &[String]) -> String {
    let now = jiff::Timestamp::now();
    lines
        .iter()
        .map(|line| format!("{now:.9} stdout F {line}\n"))
        .collect()
}

/// Nothing is made where there is no pod: a machine without a kubelet has no such directory.
pub(super) fn write(files: &mut Files, pods: &[PodSpec]) -> io::Result<()> {
    pods.iter().try_for_each(|pod| begin(files, pod))
}

fn begin(files: &mut Files, pod: &PodSpec) -> io::Result<()> {
    files.append(format!("{}/{}/0.log", pod.logs(), pod.container), "")
}

impl Node {
    pub(super) fn pod_comes(&mut self, pod: &PodSpec) -> io::Result<()> {
        self.spec.pods.push(pod.clone());
        begin(&mut self.files, pod)
    }

    pub(super) fn pod_says(&mut self, uid: &str, restart: u32, lines: &[String]) -> io::Result<()> {
        let pod = self.spec.pods.iter().find(|pod| pod.uid == uid);
        let pod = pod.ok_or_else(|| none(uid))?;
        let path = format!("{}/{}/{restart}.log", pod.logs(), pod.container);
        self.files.append(path, &framed(lines))
    }

    pub(super) fn pod_goes(&mut self, uid: &str) -> io::Result<()> {
        let at = self.spec.pods.iter().position(|pod| pod.uid == uid);
        let pod = self.spec.pods.remove(at.ok_or_else(|| none(uid))?);
        self.processes_go(uid)?;
        self.files.remove(pod.logs())
    }
}
