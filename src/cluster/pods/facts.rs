//! The few facts that are kept of a Pod.

use crate::cluster::job::{self, Marks};
use crate::cluster::node::count;
use crate::observe::{
    ContainerState, PodContainer, PodFacts, PodJob, is_gpu_resource, is_gpudirect_tcp_daemon,
    is_rdma_resource,
};
use crate::units::cut;
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

/// Prefixes of the variables that are kept: of NCCL, its plugins and its launchers.
const PREFIXES: &str =
    "NCCL_ RCCL_ FI_ OFI_ UCX_ UCC_ GLOO_ PET_ LWS_ SHARP_ TORCH_NCCL_ OMPI_ EFA_ NVIDIA_";

/// Variables that are kept by their whole name.
const NAMES: &str = "WORLD_SIZE NNODES NUM_NODES NODE_RANK RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT \
    CUDA_VISIBLE_DEVICES";

/// Annotations by which networks, and with them RDMA devices, are given to a pod: Multus, GKE.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks networking.gke.io/interfaces";

/// The facts of a pod; `None` where its names or containers are missing or of another type than the
/// API has.
pub(super) fn pod(pod: &Value) -> Option<PodFacts> {
    let meta = pod.get("metadata")?;
    let name = |field: &str| Some(cut(text(meta, field)?.to_string(), NAME_MAX));
    let labels = texts(meta.get("labels"));
    let annotations = texts(meta.get("annotations"));
    let owner = list(meta, "ownerReferences")
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    let marks = Marks {
        labels: &labels,
        annotations: &annotations,
        owner: owner.and_then(|owner| Some((text(owner, "kind")?, text(owner, "name")?))),
    };
    let spec = pod.get("spec")?;
    // Claims of the whole pod may be for any of its containers.
    let claims = list(spec, "resourceClaims").next().is_some()
        || (NETWORKS.split(' ')).any(|name| annotations.contains_key(name));
    let sidecars = list(spec, "initContainers")
        .filter(|container| text(container, "restartPolicy") == Some("Always"));
    let mut containers = BTreeMap::new();
    let all = spec.get("containers")?.as_array()?.iter();
    for each in all.chain(sidecars).take(CONTAINERS) {
        let name = text(each, "name")?;
        let facts = container(name, each, claims);
        containers.insert(cut(name.to_string(), NAME_MAX), facts);
    }
    let status = pod.get("status").unwrap_or(&Value::Null);
    for field in ["containerStatuses", "initContainerStatuses"] {
        for status in list(status, field) {
            let found = text(status, "name").and_then(|name| containers.get_mut(name));
            if let Some(container) = found {
                container.state = status.get("state").and_then(state);
            }
        }
    }
    Some(PodFacts {
        job: job::job(&marks).map(|job| PodJob {
            kind: cut(job.kind, NAME_MAX),
            name: cut(job.name, NAME_MAX),
        }),
        gang: job::gang(&marks, &containers),
        host_network: spec.get("hostNetwork") == Some(&Value::Bool(true)),
        finished: matches!(text(status, "phase"), Some("Succeeded" | "Failed")),
        uid: name("uid")?,
        namespace: name("namespace")?,
        name: name("name")?,
        containers,
    })
}

fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field)?.as_str()
}

fn list<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    let items = object.get(field).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// Labels or annotations, as far as they are text.
fn texts(object: Option<&Value>) -> BTreeMap<String, String> {
    let entries = object.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string())))
        .collect()
}

/// A container's state is one of three; the kubelet reads an empty one as waiting.
fn state(state: &Value) -> Option<ContainerState> {
    let of = |field: &str| state.get(field).filter(|found| found.is_object());
    let reason = |why: &Value| cut(text(why, "reason").unwrap_or_default().into(), REASON_MAX);
    if of("running").is_some() {
        return Some(ContainerState::Running);
    }
    if let Some(ended) = of("terminated") {
        let reason = reason(ended);
        return Some(ContainerState::Ended(match ended.get("exitCode") {
            Some(Value::Number(code)) => format!("{reason}, exit {code}"),
            _ => reason,
        }));
    }
    of("waiting").map(|waiting| ContainerState::Waiting(reason(waiting)))
}

fn container(name: &str, container: &Value, claims: bool) -> PodContainer {
    let image = text(container, "image").unwrap_or_default();
    let mut facts = PodContainer {
        privileged: container.pointer("/securityContext/privileged") == Some(&Value::Bool(true)),
        other_devices: claims,
        tcp_daemon: is_gpudirect_tcp_daemon(name, image),
        ..PodContainer::default()
    };
    for variable in list(container, "env") {
        let Some(name) = text(variable, "name") else {
            continue;
        };
        let Some(value) = text(variable, "value") else {
            // Its value comes from elsewhere, and overrides an earlier one of the name.
            facts.env.remove(name);
            continue;
        };
        let known = facts.env.contains_key(name);
        if matters(name) && (known || facts.env.len() < VARIABLES) {
            facts.env.insert(name.into(), cut(value.into(), VALUE_MAX));
        }
    }
    if let Some(resources) = container.get("resources") {
        devices(resources, &mut facts);
    }
    facts
}

/// The devices that a container requests.
fn devices(resources: &Value, facts: &mut PodContainer) {
    facts.other_devices |= list(resources, "claims").next().is_some();
    // An extended resource's request is its limit; either may stand alone.
    let part = |field: &str| resources.get(field).and_then(Value::as_object);
    let mut requested: BTreeMap<&String, &Value> = BTreeMap::new();
    requested.extend(part("requests").into_iter().flatten());
    requested.extend(part("limits").into_iter().flatten());
    for (name, quantity) in requested {
        let Some(count) = count(quantity).filter(|count| *count > 0) else {
            continue;
        };
        if is_gpu_resource(name) {
            facts.gpus = facts.gpus.saturating_add(count);
        } else if is_rdma_resource(name) {
            facts.rdma.insert(cut(name.clone(), NAME_MAX), count);
        } else {
            facts.other_devices |= is_extended(name);
        }
    }
}

/// Whether a variable is kept.
fn matters(name: &str) -> bool {
    let mut prefixes = PREFIXES.split_whitespace();
    let known = prefixes.any(|prefix| name.starts_with(prefix));
    name.len() <= VALUE_MAX && (known || NAMES.split_whitespace().any(|kept| kept == name))
}

/// Whether a resource is an extended one, and not a share of a GPU's memory or cores.
fn is_extended(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let own = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    !own && !resource.to_ascii_lowercase().contains("gpu")
}

#[cfg(test)]
mod tests;
