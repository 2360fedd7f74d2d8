//! What requests do, as the API server does it.

use super::{Seen, State};
use hyper::body::Bytes;
use serde_json::{Value, json};

impl State {
    /// The Node joins.
    pub fn create_node(&mut self, labels: Value, taints: Value) {
        self.revision += 1;
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "node-1", "uid": format!("uid-{}", self.revision),
                "resourceVersion": self.revision.to_string(), "labels": labels,
            },
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        if !taints.is_null() {
            node["spec"]["taints"] = taints;
        }
        let event = json!({"type": "ADDED", "object": node});
        self.node = Some(node);
        self.tell(&event);
    }

    pub(super) fn tell(&mut self, event: &Value) {
        let line = Bytes::from(format!("{event}\n"));
        self.watchers
            .retain(|watcher| watcher.send(line.clone()).is_ok());
    }

    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut Value) -> Result<(), u16>,
    ) -> (u16, Value) {
        let Some(before) = self.node.clone() else {
            return status(404, Value::Null);
        };
        let mut node = before.clone();
        if let Err(code) = change(&mut node) {
            return status(code, Value::Null);
        }
        if node != before {
            self.revision += 1;
            node["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            self.node = Some(node.clone());
            self.tell(&json!({"type": "MODIFIED", "object": node}));
        }
        (200, node)
    }

    pub(super) fn answer(&mut self, seen: &Seen) -> (u16, Value) {
        let (path, query) = seen.uri.split_once('?').unwrap_or((&seen.uri, ""));
        let has = |part: &str| query.split('&').any(|had| had == part);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (seen.method.as_str(), parts.as_slice()) {
            ("GET", ["api", "v1", "nodes"]) => self.list(query),
            ("GET", ["api", "v1", "nodes", "node-1"]) => match &self.node {
                Some(node) => (200, node.clone()),
                None => status(404, Value::Null),
            },
            ("PATCH", ["api", "v1", "nodes", "node-1"]) => match seen.content.as_str() {
                "application/apply-patch+yaml"
                    if has("fieldManager=selvage") && has("force=true") =>
                {
                    self.change(|node| apply_labels(node, &seen.body))
                }
                "application/json-patch+json" => self.change(|node| {
                    let patch: json_patch::Patch =
                        serde_json::from_value(seen.body.clone()).map_err(|_| 400u16)?;
                    json_patch::patch(node, &patch).map_err(|_| 422)
                }),
                "application/merge-patch+json" => self.change(|node| {
                    json_patch::merge(node, &seen.body);
                    Ok(())
                }),
                _ => self.complain(seen),
            },
            ("PATCH", ["api", "v1", "nodes", "node-1", "status"])
                if seen.content == "application/strategic-merge-patch+json" =>
            {
                self.change(|node| merge_condition(node, &seen.body))
            }
            (
                "GET",
                [
                    "apis",
                    "coordination.k8s.io",
                    "v1",
                    "namespaces",
                    "selvage",
                    "leases",
                    name,
                ],
            ) => match self.leases.get(*name) {
                Some(lease) => (200, lease.clone()),
                None => status(404, Value::Null),
            },
            (
                "POST",
                [
                    "apis",
                    "coordination.k8s.io",
                    "v1",
                    "namespaces",
                    "selvage",
                    "leases",
                ],
            ) => {
                let name = seen.body["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_string();
                if self.leases.contains_key(&name) {
                    return status(409, Value::Null);
                }
                self.put_lease(name, seen.body.clone(), 201)
            }
            (
                "PUT",
                [
                    "apis",
                    "coordination.k8s.io",
                    "v1",
                    "namespaces",
                    "selvage",
                    "leases",
                    name,
                ],
            ) => {
                let stands = self
                    .leases
                    .get(*name)
                    .map(|lease| lease["metadata"]["resourceVersion"].clone());
                match stands {
                    None => status(404, Value::Null),
                    Some(version) if version != seen.body["metadata"]["resourceVersion"] => {
                        status(409, Value::Null)
                    }
                    Some(_) => self.put_lease((*name).to_string(), seen.body.clone(), 200),
                }
            }
            ("POST", ["api", "v1", "namespaces", "default", "events"]) => {
                let name = &seen.body["metadata"]["name"];
                if self
                    .events
                    .iter()
                    .any(|event| event["metadata"]["name"] == *name)
                {
                    return status(409, Value::Null);
                }
                self.events.push(seen.body.clone());
                (201, seen.body.clone())
            }
            ("PATCH", ["api", "v1", "namespaces", "default", "events", name]) => {
                let named = |event: &&mut Value| event["metadata"]["name"] == **name;
                match self.events.iter_mut().find(named) {
                    Some(event) => {
                        json_patch::merge(event, &seen.body);
                        (200, event.clone())
                    }
                    None => status(404, Value::Null),
                }
            }
            _ => self.complain(seen),
        }
    }

    fn complain(&mut self, seen: &Seen) -> (u16, Value) {
        self.complaints.push(format!("unexpected: {seen:?}"));
        status(500, Value::Null)
    }

    fn put_lease(&mut self, name: String, mut lease: Value, code: u16) -> (u16, Value) {
        self.revision += 1;
        lease["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.leases.insert(name, lease.clone());
        (code, lease)
    }

    fn list(&mut self, query: &str) -> (u16, Value) {
        let own = query.contains("fieldSelector=metadata.name%3Dnode-1");
        let all: Vec<Value> = if own {
            self.node.iter().cloned().collect()
        } else {
            self.node.iter().chain(&self.others).cloned().collect()
        };
        let from = query
            .split('&')
            .find_map(|part| part.strip_prefix("continue=")?.parse::<usize>().ok())
            .unwrap_or(0);
        let to = (from + self.page).min(all.len());
        let next = if to < all.len() {
            to.to_string()
        } else {
            String::new()
        };
        let items = all.get(from..to).unwrap_or_default();
        let version = self.revision.to_string();
        (
            200,
            json!({
                "apiVersion": "v1", "kind": "NodeList", "items": items,
                "metadata": {"resourceVersion": version, "continue": next},
            }),
        )
    }
}

/// Server-side apply of labels: what the manager owned and no longer names goes.
fn apply_labels(node: &mut Value, body: &Value) -> Result<(), u16> {
    let wanted = body["metadata"]["labels"]
        .as_object()
        .ok_or(400u16)?
        .clone();
    let keys = |key: &str| json!({ format!("f:{key}"): {} });
    let mut owned = json!({});
    for key in wanted.keys() {
        json_patch::merge(&mut owned, &keys(key));
    }
    let before = node["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"].clone();
    let labels = node["metadata"]["labels"].as_object_mut().ok_or(400u16)?;
    for key in before.as_object().into_iter().flatten().map(|(key, _)| key) {
        labels.remove(key.trim_start_matches("f:"));
    }
    labels.extend(wanted);
    node["metadata"]["managedFields"] = json!([{
        "manager": "selvage", "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:labels": owned}},
    }]);
    Ok(())
}

/// Strategic merge of conditions, by type.
fn merge_condition(node: &mut Value, body: &Value) -> Result<(), u16> {
    let new = body["status"]["conditions"].as_array().ok_or(400u16)?;
    let conditions = node["status"]["conditions"].as_array_mut().ok_or(400u16)?;
    for condition in new {
        if condition["$patch"] == "delete" {
            conditions.retain(|had| had["type"] != condition["type"]);
            continue;
        }
        match conditions
            .iter_mut()
            .find(|had| had["type"] == condition["type"])
        {
            Some(had) => json_patch::merge(had, condition),
            None => conditions.push(condition.clone()),
        }
    }
    Ok(())
}

pub(super) fn status(code: u16, details: Value) -> (u16, Value) {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "",
    };
    (
        code,
        json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
            "message": format!("scripted {code}"), "reason": reason, "details": details,
        }),
    )
}
