//! An API server of one Node, for tests: plain HTTP on loopback, with the semantics that the agent
//! leans on (versions, watch, server-side apply of labels, JSON patch with its tests, compare and
//! swap of Leases), a record of every request, and faults on demand. What it does not know is a
//! complaint, which fails the test.
#![allow(dead_code, reason = "each test file uses a part")]

use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Request, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Instant,
    pub method: String,
    /// Path and query.
    pub uri: String,
    pub content: String,
    pub token: String,
    pub body: Value,
    /// Status of the answer; 0: none was given.
    pub code: u16,
}

impl Seen {
    pub fn writes(&self) -> bool {
        self.method != "GET"
    }
}

/// How a request that a fault is for goes wrong.
#[derive(Debug, Clone)]
pub enum Wrong {
    /// Refused with this status and `details`.
    Status(u16, Value),
    /// Never answered, as by a half-open connection.
    Stall,
    /// Done, and never answered.
    DoneThenStall,
    /// The connection is closed.
    Close,
}

struct Fault {
    method: &'static str,
    part: &'static str,
    times: usize,
    wrong: Wrong,
}

type Body = BoxBody<Bytes, Infallible>;

/// All that it keeps.
#[derive(Default)]
pub struct State {
    revision: u64,
    pub node: Option<Value>,
    /// Other nodes, as the list of a group shows them.
    pub others: Vec<Value>,
    pub leases: BTreeMap<String, Value>,
    pub events: Vec<Value>,
    pub log: Vec<Seen>,
    /// The one bearer token that is good; none: any.
    pub token: Option<String>,
    /// Most items of a list's page.
    pub page: usize,
    pub complaints: Vec<String>,
    faults: Vec<Fault>,
    watchers: Vec<mpsc::UnboundedSender<Bytes>>,
}

/// The server; it ends with the value.
pub struct FakeApi {
    state: Arc<Mutex<State>>,
    pub address: SocketAddr,
    up: watch::Sender<Option<bool>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.up.send_replace(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if !std::thread::panicking() {
            let complaints = self.state().complaints.clone();
            assert!(complaints.is_empty(), "{complaints:#?}");
        }
    }
}

impl FakeApi {
    /// A server whose Node has these labels and taints.
    pub fn new(labels: Value, taints: Value) -> Self {
        let std_listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = std_listener.local_addr().expect("its address");
        let mut state = State {
            page: 100,
            revision: 100,
            ..State::default()
        };
        state.create_node(labels, taints);
        let state = Arc::new(Mutex::new(state));
        let (up, up_rx) = watch::channel(Some(true));
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(serve(std_listener, address, shared, up_rx));
        });
        FakeApi {
            state,
            address,
            up,
            thread: Some(thread),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Refuses connections and drops those that are, or comes back on the same port.
    pub fn set_up(&self, up: bool) {
        self.up.send_replace(Some(up));
        let end = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(self.address).is_ok() != up {
            assert!(Instant::now() < end, "the server does not go {up}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The next `times` requests of this method whose URI holds `part` go wrong.
    pub fn fail(&self, method: &'static str, part: &'static str, times: usize, wrong: Wrong) {
        self.state().faults.push(Fault {
            method,
            part,
            times,
            wrong,
        });
    }

    /// All faults end.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    pub fn log(&self) -> Vec<Seen> {
        self.state().log.clone()
    }

    /// Requests that write, in order.
    pub fn writes(&self) -> Vec<Seen> {
        self.log().into_iter().filter(Seen::writes).collect()
    }

    /// Method and path of what was written with success.
    pub fn written(&self) -> Vec<String> {
        let written = self
            .writes()
            .into_iter()
            .filter(|seen| (200..300).contains(&seen.code));
        written
            .map(|seen| {
                let path = seen.uri.split('?').next().unwrap_or("").to_string();
                let kind = match seen.content.as_str() {
                    "application/apply-patch+yaml" => " apply",
                    "application/json-patch+json" => " json",
                    _ => "",
                };
                format!("{} {path}{kind}", seen.method)
            })
            .collect()
    }

    pub fn node(&self) -> Value {
        self.state().node.clone().unwrap_or_default()
    }

    /// Somebody else changes the Node.
    pub fn change(&self, change: impl FnOnce(&mut Value)) {
        self.state().change(|node| {
            change(node);
            Ok(())
        });
    }

    /// What every watch is told, word for word.
    pub fn tell_watchers(&self, event: &Value) {
        self.state().tell(event);
    }

    /// A kubeconfig for this server with a user's entry (`token: x`).
    pub fn kubeconfig(&self, user: &str) -> String {
        let address = self.address;
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n"
        )
    }
}

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

    fn tell(&mut self, event: &Value) {
        let line = Bytes::from(format!("{event}\n"));
        self.watchers
            .retain(|watcher| watcher.send(line.clone()).is_ok());
    }

    fn change(&mut self, change: impl FnOnce(&mut Value) -> Result<(), u16>) -> (u16, Value) {
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

    fn answer(&mut self, seen: &Seen) -> (u16, Value) {
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
            (
                "POST",
                [
                    "apis",
                    "events.k8s.io",
                    "v1",
                    "namespaces",
                    "default",
                    "events",
                ],
            ) => {
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
            (
                "PATCH",
                [
                    "apis",
                    "events.k8s.io",
                    "v1",
                    "namespaces",
                    "default",
                    "events",
                    name,
                ],
            ) => {
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

fn status(code: u16, details: Value) -> (u16, Value) {
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

async fn serve(
    listener: std::net::TcpListener,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    mut up: watch::Receiver<Option<bool>>,
) {
    listener.set_nonblocking(true).expect("a socket");
    let mut listener = tokio::net::TcpListener::from_std(listener).ok();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = up.changed() => {
                let want = *up.borrow_and_update();
                match want {
                    _ if changed.is_err() => return,
                    None => return,
                    Some(false) => {
                        listener = None;
                        connections.abort_all();
                        lock(&state).watchers.clear();
                    }
                    Some(true) => listener = tokio::net::TcpListener::bind(address).await.ok(),
                }
            }
            Ok((stream, _)) = accept => {
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    let service = hyper::service::service_fn(|request| handle(Arc::clone(&state), request));
                    let io = hyper_util::rt::TokioIo::new(stream);
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                });
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|e| e.into_inner())
}

/// Ends the connection.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
struct Closed;

async fn handle(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Closed> {
    let header = |name: &str| {
        let value = request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_string()
    };
    // `?&limit=1` and `?limit=1` are the same.
    let uri = request.uri().to_string().replace("?&", "?");
    let mut seen = Seen {
        at: Instant::now(),
        method: request.method().to_string(),
        uri: uri.trim_end_matches('?').to_string(),
        content: header("content-type"),
        token: header("authorization")
            .trim_start_matches("Bearer ")
            .to_string(),
        body: Value::Null,
        code: 0,
    };
    let body = request
        .into_body()
        .collect()
        .await
        .map_err(|_| Closed)?
        .to_bytes();
    if !body.is_empty() {
        seen.body = serde_json::from_slice(&body).unwrap_or_default();
    }
    let watches = seen.uri.contains("watch=true");
    let (wrong, (code, answer), events) = {
        let mut state = lock(&state);
        let fits = |fault: &&mut Fault| {
            fault.times > 0 && fault.method == seen.method && seen.uri.contains(fault.part)
        };
        let wrong = state.faults.iter_mut().find(fits).map(|fault| {
            fault.times -= 1;
            fault.wrong.clone()
        });
        let denied = state
            .token
            .as_ref()
            .is_some_and(|token| *token != seen.token);
        let mut events = None;
        let answer = match &wrong {
            _ if denied => status(401, Value::Null),
            Some(Wrong::Status(code, details)) => status(*code, details.clone()),
            Some(Wrong::Stall | Wrong::Close) => (0, Value::Null),
            Some(Wrong::DoneThenStall) => (state.answer(&seen).0, Value::Null),
            None if watches => {
                let (tx, rx) = mpsc::unbounded_channel();
                // What changed between list and watch.
                let since = seen
                    .uri
                    .split('&')
                    .find_map(|part| part.strip_prefix("resourceVersion="));
                let since = since
                    .and_then(|version| version.parse::<u64>().ok())
                    .unwrap_or(0);
                let version = |node: &Value| {
                    node["metadata"]["resourceVersion"]
                        .as_str()?
                        .parse::<u64>()
                        .ok()
                };
                if let Some(node) = state
                    .node
                    .as_ref()
                    .filter(|node| version(node) > Some(since))
                {
                    let _ = tx.send(Bytes::from(format!(
                        "{}\n",
                        json!({"type": "MODIFIED", "object": node})
                    )));
                }
                state.watchers.push(tx);
                events = Some(rx);
                (200, Value::Null)
            }
            None => state.answer(&seen),
        };
        seen.code = answer.0;
        state.log.push(seen);
        (wrong, answer, events)
    };
    match wrong {
        Some(Wrong::Stall | Wrong::DoneThenStall) => std::future::pending().await,
        Some(Wrong::Close) => Err(Closed),
        _ => {
            let body = match events {
                Some(events) => {
                    let lines = futures::stream::unfold(events, |mut events| async {
                        let line = events.recv().await?;
                        Some((Ok::<_, Infallible>(Frame::data(line)), events))
                    });
                    BodyExt::boxed(StreamBody::new(lines.boxed_sync()))
                }
                None => Full::new(Bytes::from(answer.to_string())).boxed(),
            };
            let response = Response::builder()
                .status(code)
                .header("content-type", "application/json");
            response.body(body).map_err(|_| Closed)
        }
    }
}

trait BoxedSync: futures::Stream + Send + Sync + Sized + 'static {
    /// Pinned, and `Sync`, as a boxed body is.
    fn boxed_sync(
        self,
    ) -> std::pin::Pin<Box<dyn futures::Stream<Item = Self::Item> + Send + Sync>> {
        Box::pin(self)
    }
}

impl<S: futures::Stream + Send + Sync + Sized + 'static> BoxedSync for S {}
