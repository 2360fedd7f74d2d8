//! The watch of the node's pods.

use super::object::PodObject;
use super::table::{Health, PodTable};
use crate::cluster::guarded_client::TOO_LONG;
use crate::cluster::{
    ApiError, ApiResult, ClusterSettings, ErrorKind, RECONNECT_AFTER, RateLimits, api, rate_limit,
};
use futures::StreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, Event, ExponentialBackoff, watcher};
use kube::{Api, Client};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Pods a page, where the list is not answered from the server's cache: the largest ones still fit into
/// an answer.
const PAGE: u32 = 10;

/// Expired versions in a row after which the list is not taken from the server's cache. One answer that
/// was too long has the same effect.
const EXPIRED_MAX: u32 = 2;

/// What errors call it.
const WATCH: &str = "watch the pods";

/// The watch and what it knows.
///
/// ```no_run
/// # use selvage::cluster::{ClusterSettings, RateLimits, pods::{PodTable, PodWatch}};
/// # use std::sync::Arc;
/// # async fn example(settings: ClusterSettings) {
/// let (table, known) = tokio::sync::watch::channel(Arc::new(PodTable::default()));
/// // Next to the writer, on the cluster's thread: `agent/cluster.rs`.
/// let watch = PodWatch::new(settings, "gpu-1", 4 << 20, RateLimits::default());
/// tokio::join!(watch.run(table), async {
///     let pods = Arc::clone(&known.borrow());
///     let facts = pods.by_uid.get("the UID in the log's path");
/// });
/// # }
/// ```
pub struct PodWatch {
    settings: ClusterSettings,
    node: String,
    limits: RateLimits,
    table: Arc<PodTable>,
    /// Lists and watches in a row that could not continue from their version.
    expired: u32,
    /// Other errors in a row.
    errors: u32,
    backoff: ExponentialBackoff,
    forbidden_backoff: ExponentialBackoff,
}

impl PodWatch {
    /// Watches the pods of one node once it runs, and keeps facts of `budget` bytes at most.
    pub fn new(settings: ClusterSettings, node: &str, budget: usize, limits: RateLimits) -> Self {
        PodWatch {
            settings,
            node: node.to_string(),
            limits,
            table: Arc::new(PodTable {
                health: Health::Away,
                budget,
                ..PodTable::default()
            }),
            expired: 0,
            errors: 0,
            backoff: rate_limit::backoff(limits.backoff),
            forbidden_backoff: rate_limit::backoff(limits.forbidden),
        }
    }

    /// Watches until it is dropped.
    pub async fn run(mut self, out: watch::Sender<Arc<PodTable>>) {
        let mut client = None;
        loop {
            self.publish(&out);
            let Err(error) = self.watch(&mut client, &out).await;
            let wait = self.note_error(&error, &mut client);
            self.publish(&out);
            tokio::time::sleep(wait).await;
        }
    }

    /// Lists the pods and watches them until something fails. kube resumes a watch that the server
    /// ends; after an error the pods are listed again.
    async fn watch(
        &mut self,
        client: &mut Option<Client>,
        out: &watch::Sender<Arc<PodTable>>,
    ) -> ApiResult<Infallible> {
        let client = match client {
            Some(client) => client,
            None => client.insert(api::connect(&self.settings, &self.limits, None).await?.0),
        };
        let mut config = Config::default().fields(&format!("spec.nodeName={}", self.node));
        if self.expired < EXPIRED_MAX {
            // A cache answers with all pods at once.
            config.page_size = None;
            config = config.any_semantic();
        } else {
            config = config.page_size(PAGE);
        }
        let mut events = std::pin::pin!(watcher(Api::<PodObject>::all(client.clone()), config));
        let mut listed = Some(self.table.emptied());
        loop {
            let deadline = self.limits.list_deadline;
            let event = match &listed {
                None => events.next().await,
                Some(_) => tokio::time::timeout(deadline, events.next())
                    .await
                    .map_err(|_| ApiError::timeout("list the pods", deadline))?,
            };
            let event = event.ok_or_else(|| ApiError::other(WATCH, "the watch has ended"))?;
            let event = event.map_err(|error| ApiError::of_watch(WATCH, &error))?;
            self.take(event, &mut listed);
            self.publish(out);
        }
    }

    /// Takes an event of the watch. Pods that are listed become known once the list is complete.
    fn take(&mut self, event: Event<PodObject>, listed: &mut Option<PodTable>) {
        match event {
            Event::Init => *listed = Some(self.table.emptied()),
            Event::InitApply(pod) => {
                if let Some(listed) = listed {
                    listed.apply(pod);
                }
            }
            Event::InitDone => {
                self.errors = 0;
                self.backoff.reset();
                self.forbidden_backoff.reset();
                if let Some(listed) = listed.take() {
                    self.table = Arc::new(PodTable {
                        health: Health::Known,
                        error: None,
                        ..listed
                    });
                }
            }
            Event::Apply(pod) => {
                self.expired = 0;
                if !self.table.has(&pod) {
                    Arc::make_mut(&mut self.table).apply(pod);
                }
            }
            Event::Delete(pod) => {
                self.expired = 0;
                if let Some(key) = pod.key.filter(|key| self.table.by_uid.contains_key(key)) {
                    Arc::make_mut(&mut self.table).by_uid.remove(&key);
                }
            }
        }
    }

    fn publish(&self, out: &watch::Sender<Arc<PodTable>>) {
        let shown = Arc::clone(&out.borrow());
        if !Arc::ptr_eq(&shown, &self.table) {
            out.send_replace(Arc::clone(&self.table));
        }
    }

    /// Notes an error in the table; gives the wait before the next attempt.
    fn note_error(&mut self, error: &ApiError, client: &mut Option<Client>) -> Duration {
        if error.kind == ErrorKind::Expired {
            self.expired = self.expired.saturating_add(1);
            tracing::debug!(%error, "the watch of pods expired; listing them again");
            return self.backoff.next().unwrap_or_default();
        }
        self.errors += 1;
        if error.message.contains(TOO_LONG) {
            self.expired = EXPIRED_MAX;
        }
        if error.kind == ErrorKind::Unauthorized || self.errors >= RECONNECT_AFTER {
            self.errors = 0;
            *client = None;
        }
        let forbidden = error.kind == ErrorKind::Forbidden;
        let (health, backoff) = match forbidden {
            true => (Health::Forbidden, &mut self.forbidden_backoff),
            false => (Health::Away, &mut self.backoff),
        };
        let wait = backoff.next().unwrap_or_default();
        let message = error.to_string();
        if self.table.health != health || self.table.error.as_ref() != Some(&message) {
            tracing::info!(%error, health = health.as_str(), "watching the node's pods failed; retrying");
            let table = Arc::make_mut(&mut self.table);
            (table.health, table.error) = (health, Some(message));
            if forbidden {
                // What may no longer be read goes stale.
                table.by_uid.clear();
            }
        }
        wait.max(error.requested_wait())
    }
}
