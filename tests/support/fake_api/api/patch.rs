//! Patches of an object, and label selectors. Any input is accepted.

use serde_json::{Map, Value, json};

/// Sets a field of a part, which is created where it is missing; a value that is not an object stays as it is.
pub(super) fn set(object: &mut Value, part: &str, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        let part = object
            .entry(part)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(part) = part.as_object_mut() {
            part.insert(field.to_string(), value);
        }
    }
}

/// Whether a label selector picks a node; the selector is URL-encoded: `key`, `!key`, `key=value`, `key!=value`, joined by commas.
pub(super) fn selects(selector: &str, node: &Value) -> bool {
    let selector = selector
        .replace("%2F", "/")
        .replace("%2C", ",")
        .replace("%21", "!")
        .replace("%3D", "=");
    let label = |key: &str| node.pointer("/metadata/labels")?.get(key)?.as_str();
    let fits = |part: &str| {
        if let Some((key, value)) = part.split_once("!=") {
            label(key) != Some(value)
        } else if let Some((key, value)) = part.split_once('=') {
            label(key) == Some(value)
        } else if let Some(key) = part.strip_prefix('!') {
            label(key).is_none()
        } else {
            label(part).is_some()
        }
    };
    let mut parts = selector.split(',').filter(|part| !part.is_empty());
    parts.all(fits)
}

/// Server-side apply of labels: those that the manager owned and no longer names are removed.
pub(super) fn apply_labels(node: &mut Value, body: &Value) -> Result<(), u16> {
    let wanted = body.pointer("/metadata/labels").and_then(Value::as_object);
    let wanted = wanted.ok_or(400u16)?.clone();
    let owned: Map<String, Value> = wanted
        .keys()
        .map(|key| (format!("f:{key}"), json!({})))
        .collect();
    let before = "/metadata/managedFields/0/fieldsV1/f:metadata/f:labels";
    let before = node.pointer(before).and_then(Value::as_object).cloned();
    let labels = node.pointer_mut("/metadata/labels");
    let labels = labels.and_then(Value::as_object_mut).ok_or(400u16)?;
    for key in before.iter().flat_map(Map::keys) {
        labels.remove(key.trim_start_matches("f:"));
    }
    labels.extend(wanted);
    let fields = json!([{
        "manager": "selvage", "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:labels": owned}},
    }]);
    set(node, "metadata", "managedFields", fields);
    Ok(())
}

/// Strategic merge of conditions, by type.
pub(super) fn merge_condition(node: &mut Value, body: &Value) -> Result<(), u16> {
    let conditions = |value: &Value| value.pointer("/status/conditions")?.as_array().cloned();
    let new = conditions(body).ok_or(400u16)?;
    let stand = node.pointer_mut("/status/conditions");
    let stand = stand.and_then(Value::as_array_mut).ok_or(400u16)?;
    for condition in new {
        let kind = condition.get("type");
        if condition
            .get("$patch")
            .is_some_and(|patch| patch == "delete")
        {
            stand.retain(|had| had.get("type") != kind);
            continue;
        }
        match stand.iter_mut().find(|had| had.get("type") == kind) {
            Some(had) => json_patch::merge(had, &condition),
            None => stand.push(condition.clone()),
        }
    }
    Ok(())
}
