//! The patches that bring the Node from what it carries to what it should carry. Pure.

use super::desired::{Desired, Want, WantedCondition, WantedTaint};
use super::names::{CONDITION, Names};
use super::node::{NodeView, text};
use super::settings::TaintEffect;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// What differs between the Node and what it should carry; empty where nothing does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patches {
    /// Server-side apply of our labels.
    pub labels: Option<Value>,
    /// Merge patch that removes labels of ours that our field manager does not own.
    pub stray_labels: Option<Value>,
    /// JSON patch of the taints.
    pub taints: Option<TaintPatch>,
    /// Strategic merge patch of the status, and why it is due.
    pub condition: Option<(ConditionWrite, Value)>,
}

/// Compares a Node with what it should carry. `heartbeat` zero: the condition is not renewed.
pub fn reconcile(
    node: &NodeView,
    desired: &Desired,
    names: &Names,
    effect: TaintEffect,
    heartbeat: Duration,
    now: jiff::Timestamp,
) -> Patches {
    Patches {
        labels: labels(desired, node),
        stray_labels: stray_labels(desired, node, names),
        taints: taints(&desired.taint, desired.end_startup, node, names, effect),
        condition: if desired.writes_condition {
            condition(&desired.condition, node, now, heartbeat)
        } else {
            condition_removal(node).map(|patch| (ConditionWrite::Change, patch))
        },
    }
}

/// A JSON patch for `spec.taints`.
#[derive(Debug, Clone, PartialEq)]
pub struct TaintPatch {
    /// The operations by RFC 6902.
    pub operations: Vec<Value>,
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
    let mut wanted: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, want) in &desired.labels {
        match want {
            Want::Set(value) => {
                wanted.insert(key, value);
            }
            Want::Keep => {
                if let Some(value) = node.labels.get(key) {
                    wanted.insert(key, value);
                }
            }
        }
    }
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
fn stray_labels(desired: &Desired, node: &NodeView, names: &Names) -> Option<Value> {
    let strays: serde_json::Map<String, Value> = node
        .labels
        .keys()
        .filter(|key| names.is_own_label(key))
        .filter(|key| !desired.labels.contains_key(*key) && !node.owned_labels.contains(key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    (!strays.is_empty()).then(|| json!({"metadata": {"labels": strays}}))
}

/// Why a condition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionWrite {
    /// Only the heartbeat is due.
    Heartbeat,
    /// Only the message differs.
    Message,
    /// Status or reason differ.
    Change,
}

/// Strategic merge patch of our condition, and why it is due.
fn condition(
    wanted: &WantedCondition,
    node: &NodeView,
    now: jiff::Timestamp,
    heartbeat: Duration,
) -> Option<(ConditionWrite, Value)> {
    let why = match &node.condition {
        Some(stands) if stands.status == wanted.status && stands.reason == wanted.reason => {
            if stands.message != wanted.message {
                ConditionWrite::Message
            } else if !heartbeat.is_zero()
                && heartbeat_due(stands.last_heartbeat_time, now, heartbeat)
            {
                ConditionWrite::Heartbeat
            } else {
                return None;
            }
        }
        _ => ConditionWrite::Change,
    };
    let since = node
        .condition
        .as_ref()
        .filter(|stands| stands.status == wanted.status)
        .and_then(|stands| stands.last_transition_time)
        .unwrap_or(now);
    let patch = json!({"status": {"conditions": [{
        "type": CONDITION,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastHeartbeatTime": seconds(now),
        "lastTransitionTime": seconds(since),
    }]}});
    Some((why, patch))
}

/// Strategic merge patch that removes our condition, if it is there.
pub(super) fn condition_removal(node: &NodeView) -> Option<Value> {
    let removal = || json!({"status": {"conditions": [{"$patch": "delete", "type": CONDITION}]}});
    node.condition.as_ref().map(|_| removal())
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
pub(super) fn taints(
    desired: &WantedTaint,
    end_startup: bool,
    node: &NodeView,
    names: &Names,
    effect: TaintEffect,
) -> Option<TaintPatch> {
    let ours = names.taint();
    let joins = |taint: &Value| names.is_startup_taint(text(taint, "key"));
    let wanted = wanted_taints(desired, end_startup, node, names, effect);
    let found = node.taints.as_deref().unwrap_or_default();
    if wanted == found {
        return None;
    }
    let tainted = node.has_taint(&ours);
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
        operations,
        taints: present && !tainted,
        untaints: tainted && !present,
        ends_startup: found.iter().any(joins) && !wanted.iter().any(joins),
    })
}

/// The taints as they should be: others' as they are, ours once.
fn wanted_taints(
    desired: &WantedTaint,
    end_startup: bool,
    node: &NodeView,
    names: &Names,
    effect: TaintEffect,
) -> Vec<Value> {
    let ours = names.taint();
    let former = names.former_taints();
    let keep = *desired == WantedTaint::Keep;
    let mut wanted: Vec<Value> = Vec::new();
    let mut placed = false;
    for taint in node.taints() {
        let key = text(taint, "key");
        let keep = if key == ours {
            if let WantedTaint::Present { value } = desired
                && !placed
            {
                wanted.push(as_wanted(taint, &ours, value, effect));
                placed = true;
            }
            keep
        } else if former.iter().any(|former| former == key) {
            keep
        } else {
            // The startup taint is ended by proof, or replaced by ours in this very patch.
            !names.is_startup_taint(key) || !(end_startup || desired.is_present())
        };
        if keep {
            wanted.push(taint.clone());
        }
    }
    if let WantedTaint::Present { value } = desired
        && !placed
    {
        wanted.push(as_wanted(&json!({}), &ours, value, effect));
    }
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
