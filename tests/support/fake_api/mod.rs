//! The simulated API server with one Node, for tests: with a record of every request, and faults on
//! demand. What it does not know is a complaint, which fails the test.
#![allow(dead_code, reason = "each test file uses a part")]

mod api;
mod serve;

use api::Objects;
use serde_json::Value;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The Node that tests speak of.
const NODE: &str = "node-1";

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
    /// Refused with this status and message.
    Refused(u16, &'static str),
    /// Never answered, as by a half-open connection.
    Stall,
    /// Done, and never answered.
    DoneThenStall,
    /// The connection is closed.
    Close,
    /// Answered with 200 and this many bytes of no line.
    Bytes(usize),
}

struct Fault {
    method: &'static str,
    part: &'static str,
    times: usize,
    wrong: Wrong,
}

/// All that it keeps.
#[derive(Default)]
pub struct State {
    objects: Objects,
    pub log: Vec<Seen>,
    /// The one bearer token that is good; none: any.
    pub token: Option<String>,
    faults: Vec<Fault>,
}

impl Deref for State {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }
}

impl State {
    /// The Node joins.
    pub fn join(&mut self, labels: Value, taints: Value) {
        self.create_node(NODE, labels, taints, Value::Null);
    }

    /// The Node goes.
    pub fn leave(&mut self) {
        self.nodes.retain(|node| node["metadata"]["name"] != NODE);
    }

    /// Other nodes of the group.
    pub fn set_others(&mut self, others: Vec<Value>) {
        self.nodes.retain(|node| node["metadata"]["name"] == NODE);
        self.nodes.extend(others);
    }
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
        let mut state = State::default();
        state.join(labels, taints);
        let state = Arc::new(Mutex::new(state));
        let (up, up_rx) = watch::channel(Some(true));
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(serve::serve(std_listener, address, shared, up_rx));
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
                    "application/merge-patch+json" => " merge",
                    _ => "",
                };
                format!("{} {path}{kind}", seen.method)
            })
            .collect()
    }

    pub fn node(&self) -> Value {
        self.state().node(NODE).cloned().unwrap_or_default()
    }

    /// Somebody else changes the Node.
    pub fn change(&self, change: impl FnOnce(&mut Value)) {
        self.state().change_node(NODE, |node| {
            change(node);
            Ok(())
        });
    }

    /// A pod comes, or changes: by its UID.
    pub fn put_pod(&self, pod: Value) {
        self.state().put_pod(pod);
    }

    /// A pod goes.
    pub fn delete_pod(&self, uid: &str) {
        assert!(self.state().delete_pod(uid), "a pod of that UID");
    }

    /// The past is forgotten: who goes on from before gets 410. Open watches end.
    pub fn forget_the_past(&self) {
        self.state().forget_the_past();
    }

    /// The server ends all watches of pods.
    pub fn end_pod_watches(&self) {
        self.state().pod_watches.end();
    }

    /// What every watch of pods is told, word for word.
    pub fn tell_pod_watchers(&self, line: &str) {
        self.state().pod_watches.tell(line);
    }

    /// How many watch pods now.
    pub fn pod_watches(&self) -> usize {
        self.state().pod_watches.count()
    }

    /// What every watch is told, word for word.
    pub fn tell_watchers(&self, event: &Value) {
        self.state().node_watches.tell(&event.to_string());
    }

    /// A kubeconfig for this server with a user's entry (`token: x`).
    pub fn kubeconfig(&self, user: &str) -> String {
        api::kubeconfig(self.address, user)
    }
}
