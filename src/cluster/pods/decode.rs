//! A pod of the API, made into the few facts that are kept of it.

use crate::cluster::job::{self, Marks};
use crate::observe::pod::{
    ContainerFacts, ContainerState, PodFacts, is_gpu_resource, is_gpudirect_tcp_daemon,
    is_rdma_resource,
};
use crate::units::cut;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest value of a variable that is kept, in bytes.
const VALUE_MAX: usize = 256;

/// Most variables of a container that are kept.
const VARIABLES: usize = 64;

/// Most containers of a pod that are kept.
const CONTAINERS: usize = 32;

/// Longest reason of a container's state that is kept, in bytes.
const REASON_MAX: usize = 64;

/// Longest name of an object or resource (DNS subdomain, with a prefix of another).
const NAME_MAX: usize = 2 * 253;

/// Variables that steer NCCL, its plugins and what starts its processes: what they begin with.
const PREFIXES: [&str; 14] = [
    "NCCL_",
    "RCCL_",
    "FI_",
    "OFI_",
    "UCX_",
    "UCC_",
    "GLOO_",
    "PET_",
    "LWS_",
    "SHARP_",
    "TORCH_NCCL_",
    "OMPI_",
    "EFA_",
    "NVIDIA_",
];

/// … and whole names.
const NAMES: [&str; 9] = [
    "WORLD_SIZE",
    "NNODES",
    "NUM_NODES",
    "NODE_RANK",
    "RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES",
];

/// Annotations by which networks, and with them RDMA devices, are given to a pod: Multus, GKE.
const NETWORKS: [&str; 2] = [
    "k8s.v1.cni.cncf.io/networks",
    "networking.gke.io/interfaces",
];

/// Of a static pod's mirror: the UID that the kubelet and its log directories go by.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Where a pod stands in a watch: read by itself, so that what cannot be made out of the rest does
/// not keep the watch from going on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Place {
    metadata: PlaceMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PlaceMeta {
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Place {
    /// Version of the object; none where it tells none.
    pub fn version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }

    /// By what the pod is kept: the UID that its logs' directory has.
    pub fn key(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref();
        let mirror = annotations.and_then(|annotations| annotations.get(MIRROR));
        mirror.or(self.metadata.uid.as_ref()).map(String::as_str)
    }
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Meta,
    spec: Spec,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    kind: String,
    name: String,
    controller: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    host_network: Option<bool>,
    containers: Vec<Container>,
    init_containers: Option<Vec<Container>>,
    resource_claims: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Deserialize)]
struct ContainerStatus {
    name: String,
    state: Option<State>,
}

/// One of them; the kubelet takes none for waiting.
#[derive(Debug, Deserialize)]
struct State {
    waiting: Option<Why>,
    running: Option<IgnoredAny>,
    terminated: Option<Why>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Why {
    reason: Option<String>,
    exit_code: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    image: Option<String>,
    env: Option<Vec<Variable>>,
    resources: Option<Resources>,
    security_context: Option<Security>,
    restart_policy: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Variable {
    name: String,
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resources {
    limits: Option<BTreeMap<String, Value>>,
    requests: Option<BTreeMap<String, Value>>,
    claims: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
struct Security {
    privileged: Option<bool>,
    capabilities: Option<Capabilities>,
}

#[derive(Debug, Deserialize)]
struct Capabilities {
    add: Option<Vec<String>>,
}

/// The facts of a pod.
///
/// # Errors
/// What is missing, or of another kind than the API has it.
pub fn pod(text: &[u8]) -> Result<PodFacts, serde_json::Error> {
    let pod: Pod = serde_json::from_slice(text)?;
    let (labels, annotations) = (
        pod.metadata.labels.unwrap_or_default(),
        pod.metadata.annotations.unwrap_or_default(),
    );
    let owners = pod.metadata.owner_references.unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true));
    let marks = Marks {
        labels: &labels,
        annotations: &annotations,
        owner: owner.map(|owner| (owner.kind.as_str(), owner.name.as_str())),
    };
    // Claims of the whole pod may be for any of its containers.
    let claims = pod
        .spec
        .resource_claims
        .is_some_and(|claims| !claims.is_empty())
        || NETWORKS.iter().any(|name| annotations.contains_key(*name));
    let sidecars = pod.spec.init_containers.unwrap_or_default();
    let sidecars = sidecars
        .into_iter()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = pod.spec.containers.into_iter().chain(sidecars);
    let mut containers: BTreeMap<String, ContainerFacts> = containers
        .take(CONTAINERS)
        .map(|each| (cut(each.name.clone(), NAME_MAX), container(each, claims)))
        .collect();
    let mut job = job::job(&marks);
    if let Some(job) = &mut job {
        job.kind = cut(std::mem::take(&mut job.kind), NAME_MAX);
        job.name = cut(std::mem::take(&mut job.name), NAME_MAX);
    }
    let status = pod.status.unwrap_or_default();
    let statuses = [status.container_statuses, status.init_container_statuses];
    for status in statuses.into_iter().flatten().flatten() {
        if let Some(container) = containers.get_mut(&status.name) {
            container.state = status.state.and_then(state);
        }
    }
    let phase = status.phase;
    Ok(PodFacts {
        job,
        gang: job::gang(&marks, &containers),
        host_network: pod.spec.host_network == Some(true),
        finished: matches!(phase.as_deref(), Some("Succeeded" | "Failed")),
        uid: cut(pod.metadata.uid, NAME_MAX),
        namespace: cut(pod.metadata.namespace, NAME_MAX),
        name: cut(pod.metadata.name, NAME_MAX),
        containers,
    })
}

fn state(state: State) -> Option<ContainerState> {
    let word = |why: &Why| cut(why.reason.clone().unwrap_or_default(), REASON_MAX);
    match (state.running, state.terminated, state.waiting) {
        (Some(_), _, _) => Some(ContainerState::Running),
        (None, Some(why), _) => Some(ContainerState::Ended(match why.exit_code {
            Some(code) => format!("{}, exit {code}", word(&why)),
            None => word(&why),
        })),
        (None, None, Some(why)) => Some(ContainerState::Waiting(word(&why))),
        (None, None, None) => None,
    }
}

fn container(container: Container, claims: bool) -> ContainerFacts {
    let image = container.image.as_deref().unwrap_or_default();
    let mut facts = ContainerFacts {
        other_devices: claims,
        tcp_daemon: is_gpudirect_tcp_daemon(&container.name, image),
        ..ContainerFacts::default()
    };
    for variable in container.env.into_iter().flatten() {
        let Some(value) = variable.value else {
            // From elsewhere: not known. What the name stood for before is no longer so.
            facts.env.remove(&variable.name);
            continue;
        };
        let known = facts.env.contains_key(&variable.name);
        if matters(&variable.name) && (known || facts.env.len() < VARIABLES) {
            facts.env.insert(variable.name, cut(value, VALUE_MAX));
        }
    }
    if let Some(resources) = container.resources {
        facts.other_devices |= resources.claims.is_some_and(|claims| !claims.is_empty());
        // An extended resource's request is its limit; either may stand alone.
        let mut asked = resources.requests.unwrap_or_default();
        asked.extend(resources.limits.unwrap_or_default());
        for (name, quantity) in asked {
            let Some(count) = count(&quantity).filter(|count| *count > 0) else {
                continue;
            };
            if is_gpu_resource(&name) {
                facts.gpus = facts.gpus.saturating_add(count);
            } else if is_rdma_resource(&name) {
                facts.rdma.insert(cut(name, NAME_MAX), count);
            } else {
                facts.other_devices |= is_extended(&name);
            }
        }
    }
    if let Some(security) = container.security_context {
        facts.privileged = security.privileged == Some(true);
        let added = security
            .capabilities
            .and_then(|capabilities| capabilities.add);
        let locks = |name: &String| {
            let name = name.strip_prefix("CAP_").unwrap_or(name);
            ["IPC_LOCK", "ALL"].contains(&name)
        };
        facts.may_lock_memory = facts.privileged || added.iter().flatten().any(locks);
    }
    facts
}

/// Whether a variable is kept.
fn matters(name: &str) -> bool {
    name.len() <= VALUE_MAX
        && (PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name))
}

/// Whether a resource is none of Kubernetes' own, and no share of a GPU's memory or cores.
fn is_extended(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let own = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    !own && !resource.to_ascii_lowercase().contains("gpu")
}

/// A quantity as a count, rounded down: `8`, `"8"`, `"1k"`, `"63"` (apimachinery's `resource.Quantity`).
pub fn count(quantity: &Value) -> Option<u64> {
    let text = match quantity {
        Value::Number(number) => return number.as_u64(),
        Value::String(text) => text.trim(),
        _ => return None,
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
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

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
