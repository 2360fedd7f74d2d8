//! What it takes to bring the Node from what it carries to what it should: pure, and empty where
//! nothing differs.

use super::desired::{Desired, Want, WantedCondition, WantedTaint};
use super::names::{CONDITION, Names};
use super::node::{NodeView, text};
use super::settings::TaintEffect;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A JSON patch for `spec.taints`.
#[derive(Debug, Clone, PartialEq)]
pub struct TaintPatch {
    /// RFC 6902 operations.
    pub operations: Vec<Value>,
    /// It puts our taint on a node that did not carry it: needs the budget.
    pub taints: bool,
    /// It takes our taint off.
    pub untaints: bool,
    /// It takes the taint off that the node joined with.
    pub ends_startup: bool,
}

/// Body of the server-side apply that gives the labels their values; none where they have them.
///
/// Apply removes what our manager owned and the body leaves out: names of earlier versions, labels
/// under an earlier prefix.
pub fn labels(desired: &Desired, node: &NodeView) -> Option<Value> {
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

/// Merge patch that removes labels of ours that our manager does not own (put there by hand, or
/// under a former prefix by another manager); none where there are none.
pub fn stray_labels(desired: &Desired, node: &NodeView, names: &Names) -> Option<Value> {
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
    /// Only the words differ.
    Words,
    /// Status or reason differ.
    Change,
}

/// Strategic merge patch of our condition, with its reason; none where it stands and its heartbeat
/// is not due. `heartbeat` zero: never for its own sake.
pub fn condition(
    wanted: &WantedCondition,
    node: &NodeView,
    now: jiff::Timestamp,
    heartbeat: Duration,
) -> Option<(ConditionWrite, Value)> {
    let why = match &node.condition {
        Some(stands) if stands.status == wanted.status && stands.reason == wanted.reason => {
            if stands.message != wanted.message {
                ConditionWrite::Words
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

/// Strategic merge patch that removes our condition, which the mode leaves out; none where there is
/// none.
pub fn condition_removal(node: &NodeView) -> Option<Value> {
    let removal = || json!({"status": {"conditions": [{"$patch": "delete", "type": CONDITION}]}});
    node.condition.as_ref().map(|_| removal())
}

fn heartbeat_due(last: Option<jiff::Timestamp>, now: jiff::Timestamp, every: Duration) -> bool {
    // A heartbeat from the future (a clock set back) is renewed, too.
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

/// The patch that gives our taints what they should be; none where they are so. Guarded by the
/// list as it was found, and where our taint is put, by the version of the object as well: see
/// [`super::budget`].
pub fn taints(
    desired: &Desired,
    node: &NodeView,
    names: &Names,
    effect: TaintEffect,
) -> Option<TaintPatch> {
    let ours = names.taint();
    let former = names.former_taints();
    let tainted = node.has_taint(&ours);
    let joins = |taint: &Value| names.is_startup_taint(text(taint, "key"));
    let had_startup = node.taints().any(joins);
    let mut wanted: Vec<Value> = Vec::new();
    let mut placed = false;
    for taint in node.taints() {
        let key = text(taint, "key");
        if key == ours {
            // Ours stands once, with the effect of now.
            match &desired.taint {
                WantedTaint::Keep => wanted.push(taint.clone()),
                WantedTaint::Present { value } if !placed => {
                    wanted.push(as_wanted(taint, &ours, value, effect));
                    placed = true;
                }
                WantedTaint::Present { .. } | WantedTaint::Absent => {}
            }
        } else if former.iter().any(|former| former == key) {
            match &desired.taint {
                WantedTaint::Keep => wanted.push(taint.clone()),
                WantedTaint::Present { .. } | WantedTaint::Absent => {}
            }
        } else if !names.is_startup_taint(key) {
            wanted.push(taint.clone());
        } else {
            // Ended by proof, or replaced by ours in this very patch.
            let replaced = matches!(desired.taint, WantedTaint::Present { .. });
            if !desired.end_startup && !replaced {
                wanted.push(taint.clone());
            }
        }
    }
    if let WantedTaint::Present { value } = &desired.taint
        && !placed
    {
        wanted.push(as_wanted(&json!({}), &ours, value, effect));
    }
    let present = wanted.iter().any(|taint| text(taint, "key") == ours);
    let found: &[Value] = node.taints.as_deref().unwrap_or_default();
    if wanted == found {
        return None;
    }
    let taints = present && !tainted;
    let mut operations = Vec::new();
    if taints || node.taints.is_none() {
        operations.push(json!({"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}));
    }
    if let Some(found) = &node.taints {
        operations.push(json!({"op": "test", "path": "/spec/taints", "value": found}));
    }
    operations.push(if wanted.is_empty() {
        json!({"op": "remove", "path": "/spec/taints"})
    } else if node.taints.is_some() {
        json!({"op": "replace", "path": "/spec/taints", "value": wanted})
    } else {
        json!({"op": "add", "path": "/spec/taints", "value": wanted})
    });
    Some(TaintPatch {
        operations,
        taints,
        untaints: tainted && !present,
        ends_startup: had_startup && !wanted.iter().any(joins),
    })
}

fn as_wanted(found: &Value, key: &str, value: &str, effect: TaintEffect) -> Value {
    if text(found, "value") == value && text(found, "effect") == effect.as_str() {
        return found.clone();
    }
    json!({"key": key, "value": value, "effect": effect.as_str()})
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
