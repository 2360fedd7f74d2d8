//! Whether the agent's token could write another Node: RBAC alone cannot tie it to its own. Asked once,
//! by a patch that changes nothing, in a dry run.

use super::api::{self, NodeApi};
use super::error::{ApiError, ApiResult, ErrorKind, bounded};
use super::names::{FIELD_MANAGER, Names};
use super::rate_limit::{self, Limits};
use super::settings::ClusterSettings;
use kube::api::{ListParams, Patch, PatchParams};
use std::time::Duration;

/// Agents that are started together ask within this time of each other.
const SPREAD: Duration = Duration::from_secs(600);

/// Attempts while the server does not answer.
const ATTEMPTS: usize = 10;

/// How far the token reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// There is only one Node.
    NoOther,
    /// Another Node could be written: its name.
    Others(String),
    /// What holds it to its own Node.
    Held(&'static str),
}

/// Finds out, and logs it. `node`: the agent's own.
pub async fn tell(settings: ClusterSettings, node: &str) {
    let limits = Limits::default();
    let mut waits = rate_limit::backoff(limits.backoff);
    tokio::time::sleep(SPREAD.mul_f64(fastrand::f64())).await;
    for wait in waits.by_ref().take(ATTEMPTS) {
        let reach = async {
            let (client, namespace) = api::connect(&settings, &limits, None).await?;
            let names = Names::new(&settings);
            let api = NodeApi::new(client, &namespace, node, &names, limits);
            reach(&api, limits).await
        };
        match reach.await {
            Ok(Reach::Others(other)) => tracing::warn!(
                other,
                "the agent's token could write other Nodes than its own: nothing holds it; add the component admission-policy (docs/security.md)"
            ),
            Ok(Reach::Held(by)) => {
                tracing::info!(by, "the agent's token writes no Node but its own")
            }
            Ok(Reach::NoOther) => {}
            Err(error) if error.is_final() => {
                tracing::debug!(%error, "whether other Nodes could be written is unknown");
            }
            Err(_) => {
                tokio::time::sleep(wait).await;
                continue;
            }
        }
        return;
    }
}

/// Lists two nodes and tries an empty patch, in a dry run, on the one that is not the agent's own.
///
/// # Errors
/// When the server does not answer in time, or refuses the list.
pub async fn reach(api: &NodeApi, limits: Limits) -> ApiResult<Reach> {
    let nodes = api.nodes();
    let two = ListParams::default().limit(2);
    let some = bounded("list two nodes", limits.list_deadline, nodes.list(&two)).await?;
    let names = some.items.into_iter().filter_map(|node| node.metadata.name);
    let Some(other) = names.into_iter().find(|name| name != api.node()) else {
        return Ok(Reach::NoOther);
    };
    let params = PatchParams {
        dry_run: true,
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let nothing = Patch::Merge(serde_json::json!({}));
    let request = nodes.patch(&other, &params, &nothing);
    match bounded("try another Node", limits.deadline, request).await {
        Ok(_) => Ok(Reach::Others(other)),
        Err(error) if refuses(&error) => Ok(Reach::Held(mechanism(&error.message))),
        Err(error) => Err(error),
    }
}

/// Whether the write was refused, rather than failed. A policy answers 422 unless it names another
/// reason, a webhook 400 unless it names another code.
fn refuses(error: &ApiError) -> bool {
    matches!(error.kind, ErrorKind::Forbidden | ErrorKind::Invalid)
        || error.message.contains(WEBHOOK)
}

/// What the API server says where a webhook refuses.
const WEBHOOK: &str = "admission webhook";

/// What refused, by the server's words.
fn mechanism(message: &str) -> &'static str {
    let has = |part: &str| message.contains(part);
    match () {
        () if has("ValidatingAdmissionPolicy") => "admission policy",
        () if has(WEBHOOK) => "admission webhook",
        () if has("impersonate") => "constrained impersonation",
        () => "RBAC or another authorizer",
    }
}
