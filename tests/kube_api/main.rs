//! What is asked of the API server, word for word, and what is made of every way in which that goes
//! wrong: the real writer, and the real agent, against a server that keeps a record.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod agent;
mod daemon;
mod errors;
#[path = "../support/fake_api/mod.rs"]
mod fake_api;
mod fleet;
mod hostile;
mod others;
mod paths;
mod pod_events;
mod pods;
mod promised;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/told.rs"]
mod told;

use fake_api::FakeApi;
use selvage::cluster::ClusterSettings;
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/selvage/leases";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const LABELS: &str = "PATCH /api/v1/nodes/node-1 apply";
const TAINTS: &str = "PATCH /api/v1/nodes/node-1 json";
const STATUS: &str = "PATCH /api/v1/nodes/node-1/status";

fn settings() -> ClusterSettings {
    ClusterSettings::default()
}

fn gpu() -> Value {
    json!({"key": "gpu", "value": "h100", "effect": "NoSchedule"})
}

fn startup() -> Value {
    json!({"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"})
}

fn ours() -> Value {
    json!({"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"})
}

fn condition(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array().cloned();
    let ours = |condition: &Value| condition["type"] == "FabricReady";
    conditions
        .unwrap_or_default()
        .into_iter()
        .find(ours)
        .unwrap_or_default()
}

fn ledger(api: &FakeApi) -> Value {
    let state = api.state();
    let text = state
        .leases
        .get("selvage-budget")
        .map(|lease| lease["metadata"]["annotations"]["selvage.dev/ledger"].clone());
    serde_json::from_str(text.unwrap_or_default().as_str().unwrap_or("null")).unwrap()
}

/// How often each thing was written with success.
fn count(api: &FakeApi, what: &str) -> usize {
    api.written()
        .iter()
        .filter(|written| written.starts_with(what))
        .count()
}

fn settled(api: &FakeApi, label: &str, taints: &Value) -> bool {
    let node = api.node();
    let status = match label {
        "ready" => "True",
        _ => "False",
    };
    node["metadata"]["labels"]["selvage.dev/fabric"] == label
        && node["spec"]["taints"] == *taints
        && condition(&node)["status"] == status
}
