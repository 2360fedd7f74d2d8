//! Removes everything of ours from one node or all of them, before an uninstall.

use super::budget::LEASE;
use super::reconcile::{NodePatch, reconcile};
use super::{
    ApiResult, ClusterSettings, Desired, ErrorKind, NodeApi, NodeView, RateLimits, bounded, each,
};
use kube::api::{DeleteParams, ListParams};
use std::time::Duration;

/// Patches of one Node, with those that are repeated because its taints change meanwhile.
const ATTEMPTS: usize = 12;

/// Nodes or Leases a page.
const PAGE: u32 = 100;

/// The patches that leave a node as if the agent had never run. The startup taint goes, too: no agent
/// is left to remove it. The mute annotation belongs to the operator and stays.
fn removal(node: &NodeView, settings: &ClusterSettings) -> impl Iterator<Item = NodePatch> + use<> {
    let node = NodeView {
        // All labels are removed by name, also those that our field manager owns.
        owned_labels: Vec::new(),
        ..node.clone()
    };
    let now = jiff::Timestamp::now();
    let nothing = Desired::nothing();
    reconcile(&node, &nothing, settings, Duration::ZERO, now).all()
}

/// Cleans one node, or all nodes and the budget's Leases, and reports each that had something to `say`; gives the number of nodes and Leases.
///
/// # Errors
/// The first request that failed; the other nodes are cleaned all the same.
pub async fn clean(
    api: &NodeApi,
    settings: &ClusterSettings,
    one: Option<&str>,
    dry_run: bool,
    mut say: impl FnMut(&str, &[&str]),
) -> ApiResult<(usize, usize)> {
    let mut params = ListParams::default().limit(PAGE);
    if let Some(name) = one {
        params = params.fields(&format!("metadata.name={name}"));
    }
    let mut found = Vec::new();
    let limits = RateLimits::default();
    each("list the nodes", &api.nodes, params, limits, |node| {
        let view = NodeView::of(&node);
        if removal(&view, settings).next().is_some() {
            found.push(view);
        }
    })
    .await?;
    let mut cleaned = 0;
    let mut failed = None;
    for view in found {
        let (name, parts) = (view.name.clone(), removal(&view, settings));
        let parts: Vec<&str> = parts.map(|patch| patch.part()).collect();
        if !dry_run {
            match unless_gone(clean_one(&api.for_node(&name), view, settings).await) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    say(&name, &["nothing, or not all"]);
                    failed.get_or_insert(error);
                    continue;
                }
            }
        }
        cleaned += 1;
        say(&name, &parts);
    }
    let leases = match one {
        Some(_) => 0,
        None => clean_leases(api, dry_run, say).await?,
    };
    failed.map_or(Ok((cleaned, leases)), Err)
}

async fn clean_leases(
    api: &NodeApi,
    dry_run: bool,
    mut say: impl FnMut(&str, &[&str]),
) -> ApiResult<usize> {
    let limits = RateLimits::default();
    let params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    each("list the leases", &api.leases, params, limits, |lease| {
        found.extend(lease.metadata.name.filter(|name| name.starts_with(LEASE)));
    })
    .await?;
    let mut gone = 0;
    for name in found {
        if !dry_run {
            let params = DeleteParams::default();
            let deleted = api.leases.delete(&name, &params);
            if !unless_gone(bounded("delete a lease", limits.deadline, deleted).await)? {
                continue;
            }
        }
        gone += 1;
        say(&format!("lease {name}"), &["budget"]);
    }
    Ok(gone)
}

/// False if the object was deleted meanwhile: nothing is left to do.
fn unless_gone<T>(answer: ApiResult<T>) -> ApiResult<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn clean_one(api: &NodeApi, mut view: NodeView, settings: &ClusterSettings) -> ApiResult<()> {
    let mut conflict = None;
    for _ in 0..ATTEMPTS {
        let Some(patch) = removal(&view, settings).next() else {
            return Ok(());
        };
        view = match api.patch(&patch).await {
            Err(error) if error.kind == ErrorKind::Conflict => {
                conflict = Some(error);
                api.get().await?
            }
            answer => answer?,
        };
    }
    conflict.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::super::node::testing::node;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_ours_goes() {
        let settings = ClusterSettings::default();
        let view = node(
            json!({"selvage.dev/fabric": "ready", "selvage.dev/team": "a", "zone": "b"}),
            json!([
                {"key": "other", "effect": "NoSchedule", "odd": 1},
                {"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"},
                {"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"},
            ]),
            json!([{"type": "Ready"}, {"type": "FabricReady", "status": "False"}]),
        );
        let patches: Vec<NodePatch> = removal(&view, &settings).collect();
        let [labels, taints, condition] = patches.as_slice() else {
            panic!("{patches:?}");
        };
        assert_eq!(
            labels.body(),
            json!({"metadata": {"labels": {"selvage.dev/fabric": null}}})
        );
        assert_eq!(taints.body()[0]["op"], "test");
        assert_eq!(
            taints.body()[1]["value"],
            json!([{"key": "other", "effect": "NoSchedule", "odd": 1}])
        );
        assert_eq!(condition.part(), "condition");
        let clean = node(
            json!({"zone": "b"}),
            Value::Null,
            json!([{"type": "Ready"}]),
        );
        assert_eq!(removal(&clean, &settings).count(), 0);
    }
}
