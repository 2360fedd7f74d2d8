//! Removes everything of ours from one node or all of them, before an uninstall.

use super::api::{NodeApi, each};
use super::budget::LEASE;
use super::desired::WantedTaint;
use super::error::{ApiError, ErrorKind, bounded};
use super::names::Names;
use super::node::NodeView;
use super::rate_limit::Limits;
use super::reconcile::{condition_removal, taints};
use super::settings::TaintEffect;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Map, Value, json};

/// Attempts at a Node whose taints change meanwhile.
const ATTEMPTS: usize = 10;

/// Nodes or Leases a page.
const PAGE: u32 = 100;

/// The patches that remove what is ours from a node.
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
            ("labels", self.labels.is_some()),
            ("taint", self.taints.is_some()),
            ("condition", self.condition.is_some()),
        ]
        .into_iter()
        .filter_map(|(part, there)| there.then_some(part))
        .collect()
    }
}

/// The patches that leave a node as if the agent had never run. The startup taint goes, too: no agent
/// is left to remove it. The mute annotation belongs to the operator and stays.
pub fn removal(node: &NodeView, names: &Names) -> Removal {
    let ours = node.labels.keys().filter(|key| names.is_own_label(key));
    let labels: Map<String, Value> = ours.map(|key| (key.clone(), Value::Null)).collect();
    let patch = taints(
        &WantedTaint::Absent,
        true,
        node,
        names,
        TaintEffect::NoSchedule,
    );
    Removal {
        labels: (!labels.is_empty()).then(|| json!({"metadata": {"labels": labels}})),
        taints: patch.map(|patch| patch.operations),
        condition: condition_removal(node),
    }
}

/// Which nodes to clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The node of this name.
    One(String),
    /// All nodes, and the budget's Leases.
    All,
}

/// Cleans nodes, and reports each that had something to `say`; gives the number of nodes and Leases.
///
/// # Errors
/// The first request that failed; the other nodes are cleaned all the same.
pub async fn clean(
    api: &NodeApi,
    names: &Names,
    which: &Which,
    dry_run: bool,
    mut say: impl FnMut(&str, &[&str]),
) -> Result<(usize, usize), ApiError> {
    let mut params = ListParams::default().limit(PAGE);
    if let Which::One(name) = which {
        params = params.fields(&format!("metadata.name={name}"));
    }
    let mut found = Vec::new();
    let limits = Limits::default();
    each("list the nodes", &api.nodes(), params, limits, |node| {
        let view = NodeView::of(&node);
        if !removal(&view, names).parts().is_empty() {
            found.push(view);
        }
    })
    .await?;
    let mut cleaned = 0;
    let mut failed = None;
    for view in found {
        let (name, parts) = (view.name.clone(), removal(&view, names).parts());
        if !dry_run {
            match unless_gone(clean_one(&api.for_node(&name), view, names).await) {
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
    let leases = match which {
        Which::One(_) => 0,
        Which::All => clean_leases(api, dry_run, say).await?,
    };
    failed.map_or(Ok((cleaned, leases)), Err)
}

async fn clean_leases(
    api: &NodeApi,
    dry_run: bool,
    mut say: impl FnMut(&str, &[&str]),
) -> Result<usize, ApiError> {
    let limits = Limits::default();
    let params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    each("list the leases", &api.leases(), params, limits, |lease| {
        found.extend(lease.metadata.name.filter(|name| name.starts_with(LEASE)));
    })
    .await?;
    let mut gone = 0;
    for name in found {
        if !dry_run {
            let (leases, params) = (api.leases(), DeleteParams::default());
            let deleted = leases.delete(&name, &params);
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
fn unless_gone<T>(answer: Result<T, ApiError>) -> Result<bool, ApiError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn clean_one(api: &NodeApi, mut view: NodeView, names: &Names) -> Result<(), ApiError> {
    let mut conflict = None;
    for _ in 0..ATTEMPTS {
        let removal = removal(&view, names);
        if let Some(operations) = &removal.taints
            && let Err(error) = api.patch_taints(operations).await
        {
            if error.kind != ErrorKind::Conflict {
                return Err(error);
            }
            conflict = Some(error);
            view = api.get().await?;
            continue;
        }
        if let Some(body) = &removal.labels {
            api.merge(body).await?;
        }
        if let Some(body) = &removal.condition {
            api.patch_status(body).await?;
        }
        return Ok(());
    }
    conflict.map_or(Ok(()), Err)
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
