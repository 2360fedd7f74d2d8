//! What requests do, as in the API server.

use super::patch::{apply_labels, merge_condition, selects, set};
use super::watches::Watches;
use super::{Asked, Lines};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const LEASES: [&str; 4] = ["apis", "coordination.k8s.io", "v1", "namespaces"];

/// Everything that the server stores.
#[derive(Debug)]
pub struct Objects {
    revision: u64,
    /// Nodes, in the order in which they joined.
    pub nodes: Vec<Value>,
    /// Leases by name.
    pub leases: BTreeMap<String, Value>,
    /// Events, in the order in which they came.
    pub events: Vec<Value>,
    /// Events that are kept at most; the oldest are dropped first.
    pub most_events: usize,
    /// Pods, in the order in which they came.
    pub pods: Vec<Value>,
    /// What the pod proxy answers: by pod and port, and the path with its query.
    pub proxied: BTreeMap<(String, String), Value>,
    /// Largest number of items in one page of a list.
    pub page: usize,
    /// Requests that the server does not support, for tests to fail on.
    pub complaints: Vec<String>,
    /// Open watches of nodes.
    pub node_watches: Watches,
    /// Open watches of pods.
    pub pod_watches: Watches,
}

impl Default for Objects {
    fn default() -> Self {
        Objects {
            revision: 100,
            nodes: Vec::new(),
            leases: BTreeMap::new(),
            events: Vec::new(),
            most_events: 1000,
            pods: Vec::new(),
            proxied: BTreeMap::new(),
            page: 100,
            complaints: Vec::new(),
            node_watches: Watches::default(),
            pod_watches: Watches::default(),
        }
    }
}

/// Code and body of an answer.
type Told = (u16, Value);

impl Objects {
    fn next(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Forgets all earlier changes of pods: a watch that resumes from before gets 410. Ends open watches.
    pub fn forget_the_past(&mut self) {
        let version = self.next();
        self.pod_watches.forget(version);
    }

    /// Adds a Node to the cluster.
    pub fn create_node(&mut self, name: &str, labels: Value, taints: Value, allocatable: Value) {
        let version = self.next();
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "uid": format!("uid-{version}"),
                "resourceVersion": version.to_string(), "labels": labels,
            },
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        if !taints.is_null() {
            set(&mut node, "spec", "taints", taints);
        }
        if !allocatable.is_null() {
            set(&mut node, "status", "capacity", allocatable.clone());
            set(&mut node, "status", "allocatable", allocatable);
        }
        self.node_watches.note(version, name, "ADDED", &node);
        self.nodes.push(node);
    }

    /// The Node of this name.
    pub fn node(&self, name: &str) -> Option<&Value> {
        self.nodes.iter().find(|node| name_of(node) == Some(name))
    }

    /// Changes a Node and notifies its watches.
    pub fn change_node(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Value) -> Result<(), u16>,
    ) -> Told {
        let version = self.revision + 1;
        let mut nodes = self.nodes.iter_mut();
        let Some(node) = nodes.find(|node| name_of(node) == Some(name)) else {
            return status(404, Value::Null);
        };
        let mut changed = node.clone();
        if let Err(code) = change(&mut changed) {
            return status(code, Value::Null);
        }
        if changed != *node {
            set_version(&mut changed, version);
            node.clone_from(&changed);
            self.revision = version;
            self.node_watches.note(version, name, "MODIFIED", &changed);
        }
        (200, changed)
    }

    /// Adds a pod, or replaces the one with the same UID.
    pub fn put_pod(&mut self, mut pod: Value) {
        let version = self.next();
        set_version(&mut pod, version);
        let known = |had: &&mut Value| uid_of(had) == uid_of(&pod);
        let kind = match self.pods.iter_mut().find(known) {
            Some(had) => {
                had.clone_from(&pod);
                "MODIFIED"
            }
            None => {
                self.pods.push(pod.clone());
                "ADDED"
            }
        };
        self.pod_watches.note(version, place_of(&pod), kind, &pod);
    }

    /// Removes a pod; false where there is none with that UID.
    pub fn delete_pod(&mut self, uid: &str) -> bool {
        let version = self.next();
        let Some(at) = self.pods.iter().position(|had| uid_of(had) == Some(uid)) else {
            return false;
        };
        let mut pod = self.pods.remove(at);
        set_version(&mut pod, version);
        self.pod_watches
            .note(version, place_of(&pod), "DELETED", &pod);
        true
    }

    /// Opens a watch of one Node, or of the pods of one node.
    pub fn watch(&mut self, asked: &Asked) -> Option<Lines> {
        match asked.parts().0 {
            "/api/v1/nodes" => {
                let name = asked.field("metadata.name");
                Some(self.node_watches.open(name, asked.since()))
            }
            "/api/v1/pods" => {
                let node = asked.field("spec.nodeName");
                if node.is_none() || !asked.has("allowWatchBookmarks=true") {
                    self.complain(asked);
                }
                Some(self.pod_watches.open(node, asked.since()))
            }
            _ => None,
        }
    }

    /// Handles a request that is not a watch.
    pub fn answer(&mut self, asked: &Asked) -> Told {
        let (path, _) = asked.parts();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (asked.method.as_str(), parts.as_slice()) {
            ("GET", ["api", "v1", "nodes"]) => self.list_nodes(asked),
            ("GET", ["api", "v1", "pods"]) => self.list_pods(asked),
            ("GET", ["api", "v1", "namespaces", "selvage", "pods"]) => self.list_pods(asked),
            (
                "GET",
                [
                    "api",
                    "v1",
                    "namespaces",
                    "selvage",
                    "pods",
                    pod,
                    "proxy",
                    ..,
                ],
            ) => {
                let (_, path) = asked.uri.split_once("/proxy").unwrap_or_default();
                match self.proxied.get(&((*pod).to_string(), path.to_string())) {
                    Some(report) => (200, report.clone()),
                    None => status(503, Value::Null),
                }
            }
            ("GET", ["api", "v1", "nodes", name]) => match self.node(name) {
                Some(node) => (200, node.clone()),
                None => status(404, Value::Null),
            },
            ("PATCH", ["api", "v1", "nodes", name]) => self.patch_node(name, asked),
            ("PATCH", ["api", "v1", "nodes", name, "status"])
                if asked.content == "application/strategic-merge-patch+json" =>
            {
                self.change_node(name, |node| merge_condition(node, &asked.body))
            }
            (method, [a, b, c, d, "selvage", "leases", name @ ..])
                if [*a, *b, *c, *d] == LEASES =>
            {
                self.lease(method, name, asked)
            }
            ("POST", ["api", "v1", "namespaces", namespace, "events"]) => {
                self.create_event(namespace, asked)
            }
            ("PATCH", ["api", "v1", "namespaces", _, "events", name]) => {
                let named = |event: &&mut Value| name_of(event) == Some(*name);
                match self.events.iter_mut().find(named) {
                    Some(event) => {
                        json_patch::merge(event, &asked.body);
                        (200, event.clone())
                    }
                    None => status(404, Value::Null),
                }
            }
            _ => self.complain(asked),
        }
    }

    fn complain(&mut self, asked: &Asked) -> Told {
        if self.complaints.len() < 100 {
            self.complaints.push(format!("unexpected: {asked:?}"));
        }
        status(500, Value::Null)
    }

    fn patch_node(&mut self, name: &str, asked: &Asked) -> Told {
        match asked.content.as_str() {
            "application/apply-patch+yaml"
                if asked.has("fieldManager=selvage") && asked.has("force=true") =>
            {
                self.change_node(name, |node| apply_labels(node, &asked.body))
            }
            "application/json-patch+json" => self.change_node(name, |node| {
                let patch: json_patch::Patch =
                    serde_json::from_value(asked.body.clone()).map_err(|_| 400u16)?;
                json_patch::patch(node, &patch).map_err(|_| 422)
            }),
            "application/merge-patch+json" if asked.has("dryRun=All") => match self.node(name) {
                Some(node) => (200, node.clone()),
                None => status(404, Value::Null),
            },
            "application/merge-patch+json" => self.change_node(name, |node| {
                json_patch::merge(node, &asked.body);
                Ok(())
            }),
            _ => self.complain(asked),
        }
    }

    fn lease(&mut self, method: &str, name: &[&str], asked: &Asked) -> Told {
        let stands = |name: &str| self.leases.get(name);
        match (method, name) {
            ("GET", [name]) => match stands(name) {
                Some(lease) => (200, lease.clone()),
                None => status(404, Value::Null),
            },
            ("POST", []) => match name_of(&asked.body) {
                None => status(400, Value::Null),
                Some(name) if stands(name).is_some() => status(409, Value::Null),
                Some(name) => self.put_lease(name.to_string(), asked.body.clone(), 201),
            },
            ("PUT", [name]) => {
                let version = |lease: &Value| lease.pointer("/metadata/resourceVersion").cloned();
                match stands(name) {
                    None => status(404, Value::Null),
                    Some(lease) if version(lease) != version(&asked.body) => {
                        status(409, Value::Null)
                    }
                    Some(_) => self.put_lease((*name).to_string(), asked.body.clone(), 200),
                }
            }
            _ => self.complain(asked),
        }
    }

    fn put_lease(&mut self, name: String, mut lease: Value, code: u16) -> Told {
        let version = self.next();
        set_version(&mut lease, version);
        self.leases.insert(name, lease.clone());
        (code, lease)
    }

    fn create_event(&mut self, namespace: &str, asked: &Asked) -> Told {
        let said = asked.body.pointer("/metadata/namespace");
        if said.and_then(Value::as_str) != Some(namespace) {
            return self.complain(asked);
        }
        let name = name_of(&asked.body);
        if self.events.iter().any(|event| name_of(event) == name) {
            return status(409, Value::Null);
        }
        if self.events.len() >= self.most_events {
            self.events.remove(0);
        }
        self.events.push(asked.body.clone());
        (201, asked.body.clone())
    }

    fn list_nodes(&mut self, asked: &Asked) -> Told {
        let name = asked.field("metadata.name");
        let selector = asked.parameter("labelSelector").unwrap_or_default();
        let fits = |node: &&Value| {
            name.is_none_or(|name| name_of(node) == Some(name)) && selects(selector, node)
        };
        let nodes = self.nodes.iter().filter(fits).cloned().collect();
        self.page_of(nodes, "NodeList", asked)
    }

    fn list_pods(&mut self, asked: &Asked) -> Told {
        let continues = asked.parameter("continue").is_some();
        let Some(node) = asked.field("spec.nodeName") else {
            return self.complain(asked);
        };
        if continues && asked.parameter("resourceVersion").is_some() {
            return self.complain(asked);
        }
        let here = |pod: &&Value| place_of(pod) == node;
        let pods: Vec<Value> = self.pods.iter().filter(here).cloned().collect();
        if asked.parameter("limit").is_none() {
            // From the cache: all at once.
            let list = json!({
                "apiVersion": "v1", "kind": "PodList", "items": pods,
                "metadata": {"resourceVersion": self.revision.to_string()},
            });
            return (200, list);
        }
        self.page_of(pods, "PodList", asked)
    }

    fn page_of(&self, all: Vec<Value>, kind: &str, asked: &Asked) -> Told {
        let from = asked.parameter("continue");
        let from = from.and_then(|text| text.parse().ok()).unwrap_or(0);
        let to = all.len().min(self.page.saturating_add(from));
        let next = if to < all.len() {
            to.to_string()
        } else {
            String::new()
        };
        let items = all.get(from..to).unwrap_or_default();
        let version = self.revision.to_string();
        let page = json!({
            "apiVersion": "v1", "kind": kind, "items": items,
            "metadata": {"resourceVersion": version, "continue": next},
        });
        (200, page)
    }
}

fn name_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/name")?.as_str()
}

fn uid_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/uid")?.as_str()
}

/// The node that a pod runs on.
fn place_of(pod: &Value) -> &str {
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
    node.unwrap_or_default()
}

fn set_version(object: &mut Value, version: u64) {
    set(
        object,
        "metadata",
        "resourceVersion",
        json!(version.to_string()),
    );
}

/// Code and body of an answer of kind `Status`.
pub fn status(code: u16, details: Value) -> Told {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "",
    };
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "message": format!("scripted {code}"), "reason": reason, "details": details,
    });
    (code, body)
}
