//! Leaving: takes all that is ours off one node or all of them.

use super::api::{ApiError, bounded};
use super::budget::LEASE;
use super::names::{FIELD_MANAGER, Names};
use super::node::{NodeObject, NodeView, resource, text};
use super::plan::condition_removal;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(15);

/// What there is of ours on a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Removal {
    /// Merge patch of the labels.
    pub labels: Option<Value>,
    /// JSON patch of the taints.
    pub taints: Option<Vec<Value>>,
    /// Strategic merge patch of the status.
    pub condition: Option<Value>,
}

impl Removal {
    /// Names of what is removed.
    pub fn parts(&self) -> Vec<&'static str> {
        [
            self.labels.as_ref().map(|_| "labels"),
            self.taints.as_ref().map(|_| "taint"),
            self.condition.as_ref().map(|_| "condition"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// What it takes to leave a node as if we had never been there. The startup taint goes, too: nobody
/// would be left to take it off. The mute annotation is the operator's and stays.
pub fn removal(node: &NodeView, names: &Names) -> Removal {
    let labels: Map<String, Value> = node
        .labels
        .keys()
        .filter(|key| names.is_own_label(key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    let mut ours = names.former_taints();
    ours.push(names.taint());
    let is_ours = |taint: &&Value| {
        let key = text(taint, "key");
        ours.iter().any(|ours| ours == key) || names.is_startup_taint(key)
    };
    let left: Vec<&Value> = node.taints().filter(|taint| !is_ours(taint)).collect();
    let found = node.taints.as_deref().unwrap_or_default();
    let taints = (left.len() < found.len()).then(|| {
        let guard = json!({"op": "test", "path": "/spec/taints", "value": found});
        let change = if left.is_empty() {
            json!({"op": "remove", "path": "/spec/taints"})
        } else {
            json!({"op": "replace", "path": "/spec/taints", "value": left})
        };
        vec![guard, change]
    });
    Removal {
        labels: (!labels.is_empty()).then(|| json!({"metadata": {"labels": labels}})),
        taints,
        condition: condition_removal(node),
    }
}

/// Which nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// This one.
    One(String),
    /// All, and the budget's Leases.
    All,
}

/// Does it, telling of each node that had something; how many nodes and Leases were cleaned.
///
/// # Errors
/// The first request that failed; other nodes are cleaned all the same.
pub async fn clean(
    client: Client,
    namespace: &str,
    names: &Names,
    which: &Which,
    dry_run: bool,
    mut say: impl FnMut(&str, &[&str]),
) -> Result<(usize, usize), ApiError> {
    let nodes: Api<NodeObject> = Api::all_with(client.clone(), &resource());
    let mut cleaned = 0;
    let mut failed = None;
    let mut params = ListParams::default().limit(100);
    if let Which::One(name) = which {
        params = params.fields(&format!("metadata.name={name}"));
    }
    loop {
        let page = bounded("list the nodes", DEADLINE, nodes.list(&params)).await?;
        for node in &page.items {
            let view = NodeView::of(node);
            let parts = removal(&view, names).parts();
            if parts.is_empty() {
                continue;
            }
            if !dry_run {
                match unless_gone(clean_one(&nodes, view.clone(), names).await) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    // The others are cleaned all the same.
                    Err(error) => {
                        say(&view.name, &["nothing, or not all"]);
                        failed.get_or_insert(error);
                        continue;
                    }
                }
            }
            cleaned += 1;
            say(&view.name, &parts);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let mut leases_gone = 0;
    if *which == Which::All {
        let leases: Api<Lease> = Api::namespaced(client, namespace);
        let found = bounded(
            "list the leases",
            DEADLINE,
            leases.list(&ListParams::default()),
        )
        .await?;
        for lease in found.items {
            let name = lease.metadata.name.unwrap_or_default();
            if !name.starts_with(LEASE) {
                continue;
            }
            if !dry_run {
                let params = DeleteParams::default();
                let deleted = leases.delete(&name, &params);
                if !unless_gone(bounded("delete a lease", DEADLINE, deleted).await)? {
                    continue;
                }
            }
            leases_gone += 1;
            say(&format!("lease {name}"), &["budget"]);
        }
    }
    failed.map_or(Ok((cleaned, leases_gone)), Err)
}

/// Whether it was done; false where somebody else took the object away first: nothing is left to do.
fn unless_gone<T>(answer: Result<T, ApiError>) -> Result<bool, ApiError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.failure == super::api::Failure::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn clean_one(
    nodes: &Api<NodeObject>,
    mut view: NodeView,
    names: &Names,
) -> Result<(), ApiError> {
    let name = view.name.clone();
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    for _ in 0..10 {
        let removal = removal(&view, names);
        if let Some(operations) = &removal.taints {
            let operations = Value::Array(operations.clone());
            let patch: Patch<()> =
                Patch::Json(serde_json::from_value(operations).unwrap_or_default());
            let sent = nodes.patch(&name, &params, &patch);
            if let Err(error) = bounded("remove the taint", DEADLINE, sent).await {
                use super::api::Failure::{Conflict, Invalid};
                if !matches!(error.failure, Conflict | Invalid) {
                    return Err(error);
                }
                // Somebody changed the list meanwhile.
                view = NodeView::of(&bounded("read the node", DEADLINE, nodes.get(&name)).await?);
                continue;
            }
        }
        if let Some(body) = &removal.labels {
            let patch = Patch::Merge(body);
            bounded(
                "remove the labels",
                DEADLINE,
                nodes.patch(&name, &params, &patch),
            )
            .await?;
        }
        if let Some(body) = &removal.condition {
            let patch = Patch::Strategic(body);
            let sent = nodes.patch_status(&name, &params, &patch);
            bounded("remove the condition", DEADLINE, sent).await?;
        }
        return Ok(());
    }
    Err(ApiError {
        what: "remove the taint",
        failure: super::api::Failure::Conflict,
        message: format!("the taints of {name} keep changing"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::node::testing::node;
    use super::super::settings::ClusterSettings;
    use super::*;

    #[test]
    fn only_ours_goes() {
        let names = Names::new(&ClusterSettings::default());
        let view = node(
            json!({"selvage.dev/fabric": "ready", "selvage.dev/team": "a", "zone": "b"}),
            json!([
                {"key": "other", "effect": "NoSchedule", "odd": 1},
                {"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"},
                {"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"},
            ]),
            json!([{"type": "Ready"}, {"type": "FabricReady", "status": "False"}]),
        );
        let removal = removal(&view, &names);
        assert_eq!(
            removal.labels.unwrap(),
            json!({"metadata": {"labels": {"selvage.dev/fabric": null}}})
        );
        let taints = removal.taints.unwrap();
        assert_eq!(taints[0]["op"], "test");
        assert_eq!(
            taints[1]["value"],
            json!([{"key": "other", "effect": "NoSchedule", "odd": 1}])
        );
        assert!(removal.condition.is_some());
        let clean = node(
            json!({"zone": "b"}),
            Value::Null,
            json!([{"type": "Ready"}]),
        );
        assert_eq!(super::removal(&clean, &names), Removal::default());
    }
}
