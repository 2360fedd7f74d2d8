//! The patches that bring the Node from what it carries to what it should carry. Pure.

use super::{
    ClusterSettings, Condition, Desired, NodeView, TaintEffect, WITHHELD, WantedTaint, names, text,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// A patch of the Node.
#[derive(Debug, Clone, PartialEq)]
pub enum NodePatch {
    /// Server-side apply of our labels.
    Labels(Value),
    /// Merge patch that removes labels of ours that our field manager does not own.
    StrayLabels(Value),
    /// JSON patch of the taints: the operations by RFC 6902.
    Taints(Value),
    /// Strategic merge patch of the status.
    Condition(Value),
}

impl NodePatch {
    /// What it writes, as metrics and the report call it.
    pub fn part(&self) -> &'static str {
        match self {
            NodePatch::Labels(_) | NodePatch::StrayLabels(_) => "labels",
            NodePatch::Taints(_) => "taint",
            NodePatch::Condition(_) => "condition",
        }
    }

    /// The request's body.
    pub fn body(&self) -> Value {
        use NodePatch::{Condition, Labels, StrayLabels, Taints};
        let (Labels(body) | StrayLabels(body) | Taints(body) | Condition(body)) = self;
        body.clone()
    }
}

/// What differs between the Node and what it should carry; empty where nothing does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patches {
    /// Our labels.
    pub labels: Option<NodePatch>,
    /// Labels that should not be there.
    pub stray_labels: Option<NodePatch>,
    /// Our taints.
    pub taints: Option<TaintPatch>,
    /// Our condition, and why it is due.
    pub condition: Option<(ConditionWrite, NodePatch)>,
}

impl Patches {
    /// All of them.
    pub fn all(self) -> impl Iterator<Item = NodePatch> {
        let taints = self.taints.map(|taints| taints.patch);
        let condition = self.condition.map(|(_, patch)| patch);
        let all = [self.labels, self.stray_labels, taints, condition];
        all.into_iter().flatten()
    }
}

/// Compares a Node with what it should carry. `heartbeat` zero: the condition is not renewed.
pub fn reconcile(
    node: &NodeView,
    desired: &Desired,
    settings: &ClusterSettings,
    heartbeat: Duration,
    now: jiff::Timestamp,
) -> Patches {
    let condition = match desired.writes_condition {
        true => condition(&desired.condition, node, now, heartbeat),
        false => node.condition.as_ref().map(|_| {
            let removal =
                json!({"status": {"conditions": [{"$patch": "delete", "type": names::CONDITION}]}});
            (ConditionWrite::Change, removal)
        }),
    };
    Patches {
        labels: labels(desired, node).map(NodePatch::Labels),
        stray_labels: stray_labels(desired, node, settings).map(NodePatch::StrayLabels),
        taints: taints(desired, node, settings),
        condition: condition.map(|(why, body)| (why, NodePatch::Condition(body))),
    }
}

/// A JSON patch for `spec.taints`.
#[derive(Debug, Clone, PartialEq)]
pub struct TaintPatch {
    /// The operations.
    pub patch: NodePatch,
    /// Adds our taint to a node without it, which needs a slot of the budget.
    pub taints: bool,
    /// Removes our taint from the node.
    pub untaints: bool,
    /// Removes the taint that the node joined with.
    pub ends_startup: bool,
}

/// Body of the server-side apply of our labels.
///
/// Apply removes what our manager owns and the body leaves out: names of earlier versions, labels under
/// an earlier prefix.
fn labels(desired: &Desired, node: &NodeView) -> Option<Value> {
    let wanted: BTreeMap<&str, &str> = (desired.labels.iter())
        .filter_map(|(key, want)| {
            let value = want.as_ref().or_else(|| node.labels.get(key))?;
            Some((key.as_str(), value.as_str()))
        })
        .collect();
    let differs = wanted
        .iter()
        .any(|(key, value)| node.labels.get(*key).map(String::as_str) != Some(*value));
    let orphan = |key: &String| !wanted.contains_key(key.as_str()) && node.labels.contains_key(key);
    let orphaned = node.owned_labels.iter().any(orphan);
    (differs || orphaned).then(|| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "labels": wanted},
        })
    })
}

/// Merge patch that removes labels of ours that our manager does not own: put there by hand, or under
/// a former prefix by another manager.
fn stray_labels(desired: &Desired, node: &NodeView, settings: &ClusterSettings) -> Option<Value> {
    let ours = node.labels.keys().filter(|key| settings.is_own_label(key));
    let is_meant =
        |key: &&String| desired.labels.contains_key(*key) || node.owned_labels.contains(key);
    let strays = ours.filter(|key| !is_meant(key));
    let strays: serde_json::Map<_, _> = strays.map(|key| (key.clone(), Value::Null)).collect();
    (!strays.is_empty()).then(|| json!({"metadata": {"labels": strays}}))
}

/// Why a condition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionWrite {
    /// Only the heartbeat is due.
    Heartbeat,
    /// Only the message differs.
    Message,
    /// Status or reason differ, or whether the taint is withheld.
    Change,
}

/// Strategic merge patch of our condition, and why it is due.
fn condition(
    wanted: &Condition,
    node: &NodeView,
    now: jiff::Timestamp,
    heartbeat: Duration,
) -> Option<(ConditionWrite, Value)> {
    let stands = node.condition.as_ref();
    let why = match stands {
        Some(stands) if stands.status == wanted.status && stands.reason == wanted.reason => {
            let withheld = |message: &str| message.starts_with(WITHHELD);
            if stands.message == wanted.message {
                let due = heartbeat_due(stands.last_heartbeat_time, now, heartbeat);
                (!heartbeat.is_zero() && due).then_some(ConditionWrite::Heartbeat)?
            } else if withheld(&stands.message) == withheld(&wanted.message) {
                ConditionWrite::Message
            } else {
                // That the taint is withheld, or no longer, is news.
                ConditionWrite::Change
            }
        }
        _ => ConditionWrite::Change,
    };
    let same = stands.filter(|stands| stands.status == wanted.status);
    let since = same.and_then(|stands| stands.last_transition_time);
    let patch = json!({"status": {"conditions": [{
        "type": names::CONDITION,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastHeartbeatTime": seconds(now),
        "lastTransitionTime": seconds(since.unwrap_or(now)),
    }]}});
    Some((why, patch))
}

fn heartbeat_due(last: Option<jiff::Timestamp>, now: jiff::Timestamp, every: Duration) -> bool {
    // So is a heartbeat in the future, from before a clock was set back.
    last.is_none_or(|last| {
        let age = now.duration_since(last);
        age >= jiff::SignedDuration::try_from(every).unwrap_or(jiff::SignedDuration::MAX)
            || age < jiff::SignedDuration::from_secs(-60)
    })
}

/// metav1.Time holds whole seconds.
fn seconds(at: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

/// The patch of our taints, guarded by the list as it was found, and where our taint is added by the
/// version of the object as well: see [`super::budget`].
fn taints(desired: &Desired, node: &NodeView, settings: &ClusterSettings) -> Option<TaintPatch> {
    let ours = settings.taint();
    let joins = |taint: &Value| settings.is_startup_taint(text(taint, "key"));
    let wanted = wanted_taints(desired, node, settings);
    let found = node.taints.as_deref().unwrap_or_default();
    if wanted == found {
        return None;
    }
    let tainted = node.is_tainted(settings);
    let present = wanted.iter().any(|taint| text(taint, "key") == ours);
    let mut operations = Vec::new();
    if (present && !tainted) || node.taints.is_none() {
        operations.push(json!({"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}));
    }
    if let Some(found) = &node.taints {
        operations.push(json!({"op": "test", "path": "/spec/taints", "value": found}));
    }
    operations.push(match (wanted.is_empty(), &node.taints) {
        (true, _) => json!({"op": "remove", "path": "/spec/taints"}),
        (false, Some(_)) => json!({"op": "replace", "path": "/spec/taints", "value": wanted}),
        (false, None) => json!({"op": "add", "path": "/spec/taints", "value": wanted}),
    });
    Some(TaintPatch {
        patch: NodePatch::Taints(operations.into()),
        taints: present && !tainted,
        untaints: tainted && !present,
        ends_startup: found.iter().any(joins) && !wanted.iter().any(joins),
    })
}

/// The taints as they should be: others' as they are, ours once.
fn wanted_taints(desired: &Desired, node: &NodeView, settings: &ClusterSettings) -> Vec<Value> {
    let ours = settings.taint();
    let mut put = match &desired.taint {
        WantedTaint::Present(value) => Some(value),
        WantedTaint::Keep | WantedTaint::Absent => None,
    };
    // The startup taint is ended by proof, or replaced by ours in this very patch.
    let end_startup = desired.end_startup || put.is_some();
    let with = |found: &Value, value: &str| as_wanted(found, &ours, value, settings.taint_effect);
    let kept = node.taints().filter_map(|taint| {
        let key = text(taint, "key");
        if let Some(value) = put.take_if(|_| key == ours) {
            return Some(with(taint, value));
        }
        let stays = match settings.is_own_taint(key) {
            true => desired.taint == WantedTaint::Keep,
            false => !(end_startup && settings.is_startup_taint(key)),
        };
        stays.then(|| taint.clone())
    });
    let mut wanted: Vec<Value> = kept.collect();
    wanted.extend(put.map(|value| with(&json!({}), value)));
    wanted
}

/// Our taint with this value; as it was found if nothing differs.
fn as_wanted(found: &Value, key: &str, value: &str, effect: TaintEffect) -> Value {
    if text(found, "value") == value && text(found, "effect") == effect.as_str() {
        return found.clone();
    }
    json!({"key": key, "value": value, "effect": effect.as_str()})
}

#[cfg(test)]
mod tests;
