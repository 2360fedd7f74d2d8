//! What requests do, as the API server does it.

use super::{Seen, State};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

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

    pub fn put_pod(&mut self, mut pod: Value) {
        self.revision += 1;
        pod["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let uid = pod["metadata"]["uid"].clone();
        let known = self
            .pods
            .iter()
            .position(|had| had["metadata"]["uid"] == uid);
        let kind = match known.and_then(|at| self.pods.get_mut(at)) {
            Some(had) => {
                had.clone_from(&pod);
                "MODIFIED"
            }
            None => {
                self.pods.push(pod.clone());
                "ADDED"
            }
        };
        self.note_pod(json!({"type": kind, "object": pod}));
    }

    pub fn delete_pod(&mut self, uid: &str) {
        self.revision += 1;
        let at = self
            .pods
            .iter()
            .position(|had| had["metadata"]["uid"] == uid);
        let mut pod = self.pods.remove(at.expect("a pod of that UID"));
        pod["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.note_pod(json!({"type": "DELETED", "object": pod}));
    }

    fn note_pod(&mut self, event: Value) {
        self.pod_changes.push((self.revision, event.clone()));
        self.tell_pods(event.to_string());
    }

    pub(super) fn tell_pods(&mut self, line: String) {
        let line = Bytes::from(line + "\n");
        self.pod_watchers
            .retain(|watcher| watcher.send(line.clone()).is_ok());
    }

    /// A watch of the Node from a version on.
    pub(super) fn watch_node(&mut self, since: u64) -> UnboundedReceiver<Bytes> {
        let (tx, rx) = unbounded_channel();
        let version = |node: &Value| {
            let version = node["metadata"]["resourceVersion"].as_str()?;
            version.parse::<u64>().ok()
        };
        let newer = self
            .node
            .as_ref()
            .filter(|node| version(node) > Some(since));
        if let Some(node) = newer {
            let event = json!({"type": "MODIFIED", "object": node});
            let _ = tx.send(Bytes::from(format!("{event}\n")));
        }
        self.watchers.push(tx);
        rx
    }

    /// A watch of pods from a version on.
    pub(super) fn watch_pods(&mut self, seen: &Seen, since: u64) -> UnboundedReceiver<Bytes> {
        if !seen.uri.contains("fieldSelector=spec.nodeName%3Dnode-1")
            || !seen.uri.contains("allowWatchBookmarks=true")
        {
            self.complaints.push(format!("unexpected: {seen:?}"));
        }
        let (tx, rx) = unbounded_channel();
        let line = |event: &Value| Bytes::from(format!("{event}\n"));
        if since < self.kept_from {
            let (_, gone) = status(410, Value::Null);
            let _ = tx.send(line(&json!({"type": "ERROR", "object": gone})));
            return rx;
        }
        for (_, event) in self.pod_changes.iter().filter(|(at, _)| *at > since) {
            let _ = tx.send(line(event));
        }
        self.pod_watchers.push(tx);
        rx
    }

    fn list_pods(&mut self, seen: &Seen, query: &str) -> (u16, Value) {
        let own = query.contains("fieldSelector=spec.nodeName%3Dnode-1");
        if !own || query.contains("continue=") && query.contains("resourceVersion") {
            return self.complain(seen);
        }
        let pods = self.pods.clone();
        if !query.contains("limit=") {
            // From the cache: all at once.
            let version = self.revision.to_string();
            let list = json!({
                "apiVersion": "v1", "kind": "PodList", "items": pods,
                "metadata": {"resourceVersion": version},
            });
            return (200, list);
        }
        self.page_of(&pods, "PodList", query)
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
            ("GET", ["api", "v1", "pods"]) => self.list_pods(seen, query),
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
            ("POST", ["api", "v1", "namespaces", namespace, "events"]) => {
                if seen.body["metadata"]["namespace"] != **namespace {
                    return self.complain(seen);
                }
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
            ("PATCH", ["api", "v1", "namespaces", _, "events", name]) => {
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
        self.page_of(&all, "NodeList", query)
    }

    fn page_of(&self, all: &[Value], kind: &str, query: &str) -> (u16, Value) {
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
                "apiVersion": "v1", "kind": kind, "items": items,
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
