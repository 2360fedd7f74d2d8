//! The loop that watches, and lists where it cannot go on.

use super::decode::{self, Place};
use super::split::{Part, Splitter};
use super::table::{Health, PodTable};
use crate::cluster::api::{self, ApiError, Failure, bounded};
use crate::cluster::failure::of_status;
use crate::cluster::pace::{Backoff, Limits};
use crate::cluster::settings::ClusterSettings;
use crate::units::cut;
use futures::AsyncBufReadExt;
use kube::Client;
use kube::api::WatchParams;
use kube::core::{Request, Resource, Status};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Watches end by themselves after this many seconds, and up to so many more by chance.
const WATCH_SECS: (u32, u32) = (240, 50);

/// A watch that ends sooner, and tells nothing, counts as refused.
const SOON: Duration = Duration::from_secs(1);

/// Failures in a row after which the way to the server is read anew.
const AWAYS: u32 = 5;

const WATCH: &str = "watch the pods";

/// The watch with what it knows.
///
/// ```no_run
/// # use selvage::cluster::{ClusterSettings, pods::{PodTable, PodWatch}};
/// # use std::sync::Arc;
/// # async fn example(settings: ClusterSettings, stopped: impl Future<Output = ()>) {
/// let (table, known) = tokio::sync::watch::channel(Arc::new(PodTable::default()));
/// // Beside the writer, on the cluster's thread: `agent/cluster.rs`.
/// tokio::join!(PodWatch::new(settings, "gpu-1").run(table, stopped), async {
///     let pods = Arc::clone(&known.borrow());
///     let facts = pods.by_uid.get("the UID in the log's path");
/// });
/// # }
/// ```
pub struct PodWatch {
    settings: ClusterSettings,
    node: String,
    pub(super) limits: Limits,
    pub(super) table: Arc<PodTable>,
    /// Where the watch goes on; none: all is listed anew.
    pub(super) version: Option<String>,
    /// Resumptions in a row that were refused.
    pub(super) stale: u32,
    backoff: Backoff,
    forbidden: Backoff,
    aways: u32,
}

impl PodWatch {
    /// For one node. Nothing is asked yet.
    pub fn new(settings: ClusterSettings, node: &str) -> Self {
        Self::limited(settings, node, Limits::default())
    }

    /// With other times than the usual ones.
    pub fn limited(settings: ClusterSettings, node: &str, limits: Limits) -> Self {
        PodWatch {
            settings,
            node: node.to_string(),
            limits,
            table: Arc::new(PodTable {
                health: Health::Away,
                ..PodTable::default()
            }),
            version: None,
            stale: 0,
            backoff: Backoff::new(limits.backoff),
            forbidden: Backoff::new(limits.forbidden),
            aways: 0,
        }
    }

    /// Watches until `shutdown` resolves.
    pub async fn run(
        mut self,
        table: watch::Sender<Arc<PodTable>>,
        shutdown: impl Future<Output = ()>,
    ) {
        tokio::select! {
            () = shutdown => {}
            () = self.go(&table) => {}
        }
    }

    async fn go(&mut self, out: &watch::Sender<Arc<PodTable>>) {
        self.tell(out);
        let mut client = None;
        loop {
            let done = self.round(&mut client, out).await;
            let wait = match done {
                Ok(()) => {
                    // Servers that restart close all watches at once.
                    self.limits.backoff.0.mul_f64(fastrand::f64())
                }
                Err(error) => self.take_failure(&error, &mut client, out),
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Lists if need be, and watches until the server ends that.
    async fn round(
        &mut self,
        client: &mut Option<Client>,
        out: &watch::Sender<Arc<PodTable>>,
    ) -> Result<(), ApiError> {
        let client = match client {
            Some(client) => client.clone(),
            None => {
                let connected = api::connect(&self.settings).await;
                let (new, _) = connected.map_err(|error| other(error.to_string()))?;
                client.insert(new).clone()
            }
        };
        if self.version.is_none() {
            self.list(&client).await?;
            self.is_well();
            self.tell(out);
        }
        self.watch(&client, out).await
    }

    fn is_well(&mut self) {
        self.backoff.reset();
        self.forbidden.reset();
        self.aways = 0;
        self.is_known();
    }

    fn is_known(&mut self) {
        if self.table.health != Health::Known {
            let table = Arc::make_mut(&mut self.table);
            table.health = Health::Known;
            table.error = None;
        }
    }

    fn tell(&self, out: &watch::Sender<Arc<PodTable>>) {
        out.send_if_modified(|told| {
            let differs = !Arc::ptr_eq(told, &self.table);
            if differs {
                *told = Arc::clone(&self.table);
            }
            differs
        });
    }

    /// What a failure means; how long to wait.
    fn take_failure(
        &mut self,
        error: &ApiError,
        client: &mut Option<Client>,
        out: &watch::Sender<Arc<PodTable>>,
    ) -> Duration {
        if error.failure == Failure::Expired {
            self.version = None;
            self.stale = self.stale.saturating_add(1);
            tracing::debug!(%error, "the pods are listed anew");
            return self.backoff.after(fastrand::f64(), None);
        }
        let table = Arc::make_mut(&mut self.table);
        let known = (table.health, table.error.take());
        table.error = Some(error.to_string());
        let wait = if error.failure == Failure::Forbidden {
            // Who may no longer look knows nothing that stays true.
            table.health = Health::Forbidden;
            table.by_uid.clear();
            self.version = None;
            self.forbidden.after(fastrand::f64(), None)
        } else {
            table.health = Health::Away;
            let asked = match error.failure {
                Failure::Throttled(asked) => asked,
                _ => None,
            };
            self.backoff.after(fastrand::f64(), asked)
        };
        self.aways = self.aways.saturating_add(1);
        if error.failure == Failure::Unauthorized || self.aways >= AWAYS {
            // Token, address or authorities may be others by now.
            self.aways = 0;
            *client = None;
        }
        let now = (self.table.health, self.table.error.clone());
        if known != now {
            tracing::info!(%error, health = self.table.health.as_str(), "the node's pods");
        }
        self.tell(out);
        wait
    }

    pub(super) fn request(&self) -> Request {
        Request::new(k8s_openapi::api::core::v1::Pod::url_path(&(), None))
    }

    pub(super) fn only_this_node(&self) -> String {
        format!("spec.nodeName={}", self.node)
    }

    /// Takes in changes until the server ends the watch, as it does every few minutes.
    async fn watch(
        &mut self,
        client: &Client,
        out: &watch::Sender<Arc<PodTable>>,
    ) -> Result<(), ApiError> {
        let secs = WATCH_SECS.0 + fastrand::u32(0..WATCH_SECS.1);
        let params = WatchParams::default()
            .fields(&self.only_this_node())
            .timeout(secs);
        let version = self.version.clone().unwrap_or_default();
        let request = self.request().watch(&params, &version);
        let request = request.map_err(|error| other(error.to_string()))?;
        let answer = bounded(
            WATCH,
            self.limits.list_deadline,
            client.request_stream(request),
        )
        .await?;
        let mut answer = std::pin::pin!(answer);
        let end = Instant::now() + Duration::from_secs(secs.into()) + self.limits.deadline;
        let start = Instant::now();
        let mut splitter = Splitter::default();
        let mut event = Event::default();
        let mut heard = false;
        self.is_known();
        self.tell(out);
        loop {
            // A connection that is dead at the other end is given up.
            let Ok(read) = tokio::time::timeout_at(end, answer.fill_buf()).await else {
                return Ok(());
            };
            let bytes = read.map_err(|error| other(error.to_string()))?;
            if bytes.is_empty() {
                // A server that ends every watch at once is not asked again at once.
                let lasted = heard || start.elapsed() >= SOON;
                return lasted
                    .then_some(())
                    .ok_or_else(|| other("the watch was ended".into()));
            }
            let mut failed = None;
            let fed = splitter.feed(bytes, &mut |part| match part {
                Part::Member("type", text) => event.kind = serde_json::from_slice(text).ok(),
                Part::Member("object", text) => event.object = text.to_vec(),
                Part::End => {
                    let taken = self.take_event(&std::mem::take(&mut event));
                    failed = failed.take().or(taken.err());
                }
                _ => {}
            });
            let count = bytes.len();
            answer.consume_unpin(count);
            if let Some(error) = failed {
                return Err(error);
            }
            fed.map_err(|error| other(error.to_string()))?;
            heard = true;
            self.stale = 0;
            self.is_well();
            self.tell(out);
        }
    }

    fn take_event(&mut self, event: &Event) -> Result<(), ApiError> {
        let kind = event.kind.as_deref().unwrap_or("");
        if kind == "ERROR" {
            let status: Status = serde_json::from_slice(&event.object).unwrap_or_default();
            return Err(ApiError {
                what: WATCH,
                failure: of_status(&status),
                message: cut(format!("{} {}", status.code, status.message), 400),
            });
        }
        let place: Place = serde_json::from_slice(&event.object).unwrap_or_default();
        if let Some(version) = place.version() {
            self.version = Some(version.to_string());
        }
        match kind {
            "ADDED" | "MODIFIED" => match (place.key(), decode::pod(&event.object)) {
                (Some(key), Ok(facts)) => {
                    let known = self.table.by_uid.get(key);
                    if known.is_none_or(|known| **known != facts) {
                        Arc::make_mut(&mut self.table).put(key, facts);
                    }
                }
                _ => Arc::make_mut(&mut self.table).skipped += 1,
            },
            "DELETED" => {
                if let Some(key) = place
                    .key()
                    .filter(|key| self.table.by_uid.contains_key(*key))
                {
                    Arc::make_mut(&mut self.table).by_uid.remove(key);
                }
            }
            "BOOKMARK" => {}
            _ => Arc::make_mut(&mut self.table).skipped += 1,
        }
        Ok(())
    }
}

/// A line of a watch.
#[derive(Debug, Default)]
struct Event {
    kind: Option<String>,
    object: Vec<u8>,
}

pub(super) fn other(message: String) -> ApiError {
    ApiError {
        what: "look at the pods",
        failure: Failure::Other,
        message,
    }
}
