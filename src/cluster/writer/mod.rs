//! The only writer: watches this node's object and reconciles it with the latest report, whenever
//! either changes, and slowly in between. A failed write is planned again from the state at that
//! time; nothing is queued but events.

use super::api::{self, NodeApi};
use super::desired::Desired;
use super::error::{ApiError, ErrorKind};
use super::event_recorder::EventRecorder;
use super::names::{self, Names};
use super::node::NodeView;
use super::rate_limit::{self, Limits, RateLimit};
use super::settings::ClusterSettings;
use super::silence::Mutes;
use crate::check::CHECKS;
use crate::report::{ClusterStatus, Report};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, ExponentialBackoff, watch_object};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use taint_budget::TaintBudget;
use tokio::time::Instant;

mod apply;
mod channels;
mod taint_budget;

pub use channels::{NodeFacts, VerdictChange, WriterChannels};

/// Conflicts in a row that are retried at once. An admission policy that denies a write may answer as a
/// failed test does.
const CONFLICTS_MAX: u32 = 5;

/// Requests in a row without an answer after which the server's address is read again.
const RECONNECT_AFTER: u32 = 5;

/// What the writer works with; constant while it runs.
struct Context {
    settings: ClusterSettings,
    names: Names,
    node: String,
    limits: Limits,
}

/// The writer and its state.
pub struct Writer {
    context: Context,
    /// The Node as last seen, and when.
    view: Option<NodeView>,
    seen_at: Instant,
    budget: TaintBudget,
    rate: RateLimits,
    condition: ConditionTimers,
    retry: Retry,
    events: EventRecorder,
    /// The first verdict since the start, until the Node as found is known.
    first: Option<VerdictChange>,
    /// What a dry run has logged last.
    logged: Option<Desired>,
    requeue: Requeue,
    status: ClusterStatus,
    facts: NodeFacts,
}

/// How often each kind of write is allowed, whatever the reason.
struct RateLimits {
    labels_and_condition: RateLimit,
    taints: RateLimit,
    pod_events: RateLimit,
}

/// When a condition may be written again for these reasons alone.
struct ConditionTimers {
    /// The setting, and up to a tenth more, so that agents started together drift apart.
    heartbeat: Duration,
    heartbeat_after: Instant,
    message_after: Instant,
}

/// What follows from the latest errors.
struct Retry {
    /// No request is made before this.
    after: Instant,
    backoff: ExponentialBackoff,
    conflicts: u32,
    unreachable_count: u32,
    /// Credentials and the server's address are to be read again.
    reconnect: bool,
}

/// The wait before the next pass, if nothing changes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Requeue(Option<Duration>);

impl Requeue {
    fn within(&mut self, wait: Duration) {
        self.0 = Some(self.0.map_or(wait, |known| known.min(wait)));
    }
}

impl Writer {
    /// Writes the object of one node once it runs.
    pub fn new(settings: ClusterSettings, node: &str) -> Self {
        Self::limited(settings, node, Limits::default())
    }

    /// The same with other time limits.
    pub fn limited(settings: ClusterSettings, node: &str, limits: Limits) -> Self {
        let now = Instant::now();
        let heartbeat = settings.heartbeat.duration();
        Writer {
            view: None,
            seen_at: now,
            budget: TaintBudget::new(&limits, now),
            rate: RateLimits {
                labels_and_condition: RateLimit::new(&limits, now),
                taints: RateLimit::new(&limits, now),
                pod_events: RateLimit::new(&limits, now),
            },
            condition: ConditionTimers {
                heartbeat: heartbeat + heartbeat.mul_f64(0.1 * fastrand::f64()),
                heartbeat_after: now,
                message_after: now,
            },
            retry: Retry {
                after: now,
                backoff: rate_limit::backoff(limits.backoff),
                conflicts: 0,
                unreachable_count: 0,
                reconnect: false,
            },
            events: EventRecorder::new(node, limits),
            first: None,
            logged: None,
            requeue: Requeue::default(),
            status: ClusterStatus {
                mode: settings.mode.as_str(),
                dry_run: settings.dry_run,
                ..ClusterStatus::default()
            },
            facts: NodeFacts::default(),
            context: Context {
                names: Names::new(&settings),
                settings,
                node: node.to_string(),
                limits,
            },
        }
    }

    /// Connects, and writes until `shutdown` resolves. The Node keeps what it carries then.
    pub async fn run(mut self, mut channels: WriterChannels, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        channels.send(&self.status, &self.facts);
        loop {
            let connected = tokio::select! {
                () = &mut shutdown => return,
                connected = self.connect(&channels) => connected,
            };
            let served = self.serve(&connected, &mut channels, shutdown.as_mut());
            if !served.await {
                return;
            }
        }
    }

    /// A client with the current credentials.
    async fn connect(&mut self, channels: &WriterChannels) -> Connected {
        let Context {
            settings,
            names,
            node,
            limits,
        } = &self.context;
        loop {
            match api::connect(settings, limits).await {
                Ok((client, namespace)) => {
                    let node = NodeApi::new(client.clone(), &namespace, node, names, *limits);
                    return Connected { client, node };
                }
                Err(error) => {
                    self.status.api_up = Some(false);
                    self.status.error = Some(error.to_string());
                    channels.send(&self.status, &self.facts);
                    tracing::warn!(%error, "cannot configure the API client; retrying");
                }
            }
            tokio::time::sleep(self.retry.backoff.next().unwrap_or_default()).await;
        }
    }

    /// Writes until shutdown (false), or until it must connect again (true).
    async fn serve<S: Future<Output = ()>>(
        &mut self,
        api: &Connected,
        channels: &mut WriterChannels,
        mut shutdown: Pin<&mut S>,
    ) -> bool {
        let nodes = watch_object(api.node.nodes(), &self.context.node).default_backoff();
        let mut nodes = std::pin::pin!(nodes);
        self.requeue = Requeue::default();
        loop {
            let wait = self.requeue.0.unwrap_or(self.context.limits.resync);
            tokio::select! {
                () = &mut shutdown => return false,
                changed = channels.reports.changed() => if changed.is_err() { return false },
                Some(seen) = nodes.next() => match seen {
                    Ok(node) => self.take_watched(node.as_ref().map(NodeView::of)),
                    Err(error) => self.take_watch_error(&error),
                },
                Some(change) = channels.changes.recv() => self.take_change(change),
                Some(event) = channels.pod_events.recv() => self.events.push(event),
                () = tokio::time::sleep(wait) => {}
            }
            while let Ok(change) = channels.changes.try_recv() {
                self.take_change(change);
            }
            while let Ok(event) = channels.pod_events.try_recv() {
                self.events.push(event);
            }
            channels.send(&self.status, &self.facts);
            let wait = self.retry.after.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                self.requeue = Requeue(Some(wait));
                continue;
            }
            if std::mem::take(&mut self.retry.reconnect) {
                return true;
            }
            let report = Arc::clone(&channels.reports.borrow_and_update());
            tokio::select! {
                () = &mut shutdown => return false,
                () = self.pass(api, &report) => {}
            }
            channels.send(&self.status, &self.facts);
        }
    }

    fn take_watched(&mut self, seen: Option<NodeView>) {
        // The answer to a write is newer than what the watch delivers after it.
        match (seen, &self.view) {
            (Some(seen), Some(view)) if is_older(&seen, view) => {}
            (Some(seen), _) => self.see(seen),
            (None, _) => self.view = None,
        }
        self.status.api_up = Some(true);
    }

    fn take_watch_error(&mut self, error: &watcher::Error) {
        let error = ApiError::of_watch("watch the Node", error);
        tracing::debug!(%error, "the watch of the Node failed; resuming it");
        if error.kind == ErrorKind::Unauthorized && !self.retry.reconnect {
            self.retry.reconnect = true;
            let wait = self.retry.backoff.next().unwrap_or_default();
            self.retry.after = self.retry.after.max(Instant::now() + wait);
        }
        // A resumed watch is silent until the next change: read what was missed.
        self.view = None;
        self.status.api_up = Some(false);
        self.status.error = Some(error.to_string());
    }

    /// Takes the Node as it is now.
    fn see(&mut self, view: NodeView) {
        self.seen_at = Instant::now();
        let tainted = view.is_tainted(&self.context.names);
        self.status.taint_applied = Some(tainted);
        let is_check = |id: &str| CHECKS.iter().any(|check| check.id == id);
        let annotation = self.context.names.mute();
        let mutes = match view.annotations.get(&annotation) {
            Some(text) => Mutes::parse(text, is_check),
            None => Mutes::default(),
        };
        if mutes != self.facts.mutes {
            for complaint in &mutes.complaints {
                tracing::warn!(
                    annotation,
                    complaint,
                    "invalid entry in the mute annotation"
                );
            }
        }
        self.facts = NodeFacts {
            found_tainted: self.facts.found_tainted.or(Some(tainted)),
            mutes,
            offer: view.offer.clone(),
        };
        self.view = Some(view);
    }

    fn take_change(&mut self, change: VerdictChange) {
        if change.first {
            self.first = Some(change);
        } else {
            self.events.push(change.event);
        }
    }

    /// The first verdict is published only if it differs from what the Node was left with.
    fn settle_first(&mut self) {
        let Some(view) = &self.view else {
            return;
        };
        let Some(first) = self.first.take() else {
            return;
        };
        let label = self.context.names.own(names::FABRIC);
        if view.labels.get(&label).map(String::as_str) != Some(first.state.as_str()) {
            self.events.push_first(first.event);
        }
    }

    /// One pass, and what follows from its error.
    async fn pass(&mut self, api: &Connected, report: &Report) {
        self.requeue = Requeue::default();
        match self.reconcile(api, report).await {
            Ok(()) => {
                self.retry.backoff.reset();
                self.retry.conflicts = 0;
                self.retry.unreachable_count = 0;
                // An earlier error is resolved, or no longer matters.
                if self.view.is_some() {
                    self.status.api_up = Some(true);
                    self.status.error = None;
                }
            }
            Err(error) => self.take_error(&error),
        }
    }

    fn take_error(&mut self, error: &ApiError) {
        let retry = &mut self.retry;
        let conflict = error.kind == ErrorKind::Conflict;
        let unreachable = matches!(error.kind, ErrorKind::Other | ErrorKind::Timeout);
        retry.conflicts = if conflict { retry.conflicts + 1 } else { 0 };
        retry.unreachable_count = if unreachable {
            retry.unreachable_count + 1
        } else {
            0
        };
        if error.kind == ErrorKind::Unauthorized || retry.unreachable_count >= RECONNECT_AFTER {
            retry.unreachable_count = 0;
            retry.reconnect = true;
        }
        let wait = if conflict && retry.conflicts <= CONFLICTS_MAX {
            tracing::debug!(%error, "the Node has changed meanwhile; reading it again");
            Duration::from_millis(20 + fastrand::u64(0..200))
        } else {
            let wait = retry.backoff.next().unwrap_or_default();
            let wait = wait.max(error.requested_wait());
            tracing::warn!(%error, retry_in = ?wait, "request to the API server failed");
            self.status.api_up = Some(false);
            self.status.error = Some(error.to_string());
            wait
        };
        if conflict {
            self.view = None;
        }
        self.retry.after = Instant::now() + wait;
        self.requeue.within(wait);
    }
}

/// A connection to the API server.
struct Connected {
    client: kube::Client,
    node: NodeApi,
}

/// Whether a view is of an older version than another. Versions are numbers on every API server in
/// use; where they are not, the later arrival counts as the newer.
fn is_older(view: &NodeView, than: &NodeView) -> bool {
    let number = |view: &NodeView| view.resource_version.parse::<u64>().ok();
    view.uid == than.uid
        && match (number(view), number(than)) {
            (Some(view), Some(than)) => view < than,
            _ => false,
        }
}
