//! Whether the agent's token could write another Node: RBAC alone cannot tie it to its own. Asked once,
//! by a patch that changes nothing, in a dry run.

use super::names::FIELD_MANAGER;
use super::{
    ApiError, ApiResult, ClusterSettings, ErrorKind, NodeApi, RateLimits, bounded, rate_limit,
};
use backon::Retryable;
use kube::api::{ListParams, Patch, PatchParams};
use std::time::Duration;

/// Agents that are started together ask within this time of each other.
const SPREAD: Duration = Duration::from_secs(600);

/// Attempts while the server does not answer.
const ATTEMPTS: usize = 10;

/// Finds out, and logs it. `node`: the agent's own.
pub async fn log_reach(settings: ClusterSettings, node: &str) {
    let limits = RateLimits::default();
    tokio::time::sleep(SPREAD.mul_f64(fastrand::f64())).await;
    let attempt = async || {
        let api = NodeApi::connect(&settings, node, limits).await?;
        reach(&api, limits).await
    };
    let waits = rate_limit::backoff(limits.backoff).take(ATTEMPTS - 1);
    match attempt.retry(waits).when(|error| !error.is_final()).await {
        Ok(Some((other, None))) => tracing::warn!(
            other,
            "the agent's token can write Nodes other than its own; install the admission-policy component (docs/security.md)"
        ),
        Ok(Some((_, Some(by)))) => {
            tracing::info!(by, "the agent's token writes no Node but its own")
        }
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "whether other Nodes could be written is unknown"),
    }
}

/// Lists two nodes and tries an empty patch, in a dry run, on the one that is not the agent's own: its
/// name, and what refused the patch, if something did. `None`: there is only one Node.
///
/// # Errors
/// When the server does not answer in time, or refuses the list.
pub async fn reach(
    api: &NodeApi,
    limits: RateLimits,
) -> ApiResult<Option<(String, Option<&'static str>)>> {
    let nodes = &api.nodes;
    let two = ListParams::default().limit(2);
    let some = bounded("list two nodes", limits.list_deadline, nodes.list(&two)).await?;
    let names = some.items.into_iter().filter_map(|node| node.metadata.name);
    let Some(other) = names.into_iter().find(|name| *name != api.node) else {
        return Ok(None);
    };
    let params = PatchParams::apply(FIELD_MANAGER).dry_run();
    let nothing = Patch::Merge(serde_json::json!({}));
    let request = nodes.patch(&other, &params, &nothing);
    match bounded("try another Node", limits.deadline, request).await {
        Ok(_) => Ok(Some((other, None))),
        Err(error) => match refused_by(&error) {
            Some(by) => Ok(Some((other, Some(by)))),
            None => Err(error),
        },
    }
}

/// What refused the write, by the server's words; `None` where it failed otherwise. A policy answers 422
/// unless it names another reason, a webhook 400 unless it names another code.
fn refused_by(error: &ApiError) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 3] = [
        ("ValidatingAdmissionPolicy", "admission policy"),
        (WEBHOOK, "admission webhook"),
        ("impersonate", "constrained impersonation"),
    ];
    let is_refused = matches!(error.kind, ErrorKind::Forbidden | ErrorKind::Invalid);
    if !is_refused && !error.message.contains(WEBHOOK) {
        return None;
    }
    let known = (KNOWN.iter()).find(|(part, _)| error.message.contains(part));
    Some(known.map_or("RBAC or another authorizer", |(_, by)| by))
}

/// What the API server says where a webhook refuses.
const WEBHOOK: &str = "admission webhook";
