//! The only writer: watches this node's object and reconciles it with the latest report, whenever
//! either changes, and slowly in between. A failed write is planned again from the state at that
//! time; nothing is queued but events.

use super::event_recorder::EventRecorder;
use super::{
    ApiError, ApiResult, ClusterSettings, Desired, ErrorKind, EventRequest, Gate, Gates, Mutes,
    NodeApi, NodeView, RECONNECT_AFTER, RateLimits, budget, names, rate_limit, topology,
};
use crate::check::CHECKS;
use crate::observe::NodeResources;
use crate::report::{ClusterStatus, Report};
use crate::units::cut;
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, ExponentialBackoff, watch_object};
use std::{sync::Arc, time::Duration};
use taint_budget::TaintBudget;
use tokio::sync::{mpsc, watch};

mod apply;
mod taint_budget;

/// Conflicts in a row that are retried at once. An admission policy that denies a write may answer as a
/// failed test does.
const CONFLICTS_MAX: u32 = 5;

/// What the Node object says that the agent judges by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFacts {
    /// Whether the Node carried our taint when it was first seen; `None` until then.
    pub found_tainted: Option<bool>,
    /// Checks, and the taint, that an operator muted by annotation.
    pub mutes: Mutes,
    /// Value of the annotation that accepts the machine as it is; `None` if it is absent or no moment.
    pub accept: Option<jiff::Timestamp>,
    /// What the Node promises to pods; `None` until the kubelet reports.
    pub offer: Option<Arc<NodeResources>>,
}

/// What reaches and leaves the writer.
pub struct WriterChannels {
    /// Reports; only the latest counts.
    pub reports: watch::Receiver<Arc<Report>>,
    /// Changes of verdict, each of which is published.
    pub changes: mpsc::Receiver<EventRequest>,
    /// Events on pods, each of which is published.
    pub pod_events: mpsc::Receiver<EventRequest>,
    /// What the writer has done, for those who show it. `None` until it runs.
    pub status: watch::Sender<Option<Arc<ClusterStatus>>>,
    /// What the Node says, for the agent.
    pub node: watch::Sender<NodeFacts>,
}

impl WriterChannels {
    /// Sends what has changed.
    fn send(&self, status: &ClusterStatus, facts: &NodeFacts) {
        if self.status.borrow().as_deref() != Some(status) {
            self.status.send_replace(Some(Arc::new(status.clone())));
        }
        if *self.node.borrow() != *facts {
            self.node.send_replace(facts.clone());
        }
    }
}

/// The writer and its state.
pub struct Writer {
    settings: ClusterSettings,
    node: String,
    limits: RateLimits,
    /// The setting, and up to a tenth more, so that agents started together drift apart.
    heartbeat: Duration,
    /// The Node as last seen.
    view: Option<NodeView>,
    /// All of its clocks.
    gates: Gates,
    budget: TaintBudget,
    backoff: ExponentialBackoff,
    /// Conflicts in a row, and requests in a row without an answer.
    conflicts: u32,
    unreachable_count: u32,
    /// Credentials and the server's address are to be read again.
    reconnect: bool,
    events: EventRecorder,
    /// What a dry run has logged last.
    logged: Option<Desired>,
    status: ClusterStatus,
    facts: NodeFacts,
}

impl Writer {
    /// Writes the object of one node once it runs.
    pub fn new(settings: ClusterSettings, node: &str, limits: RateLimits) -> Self {
        let heartbeat = settings.heartbeat.duration();
        Writer {
            view: None,
            gates: Gates::new(&limits),
            budget: TaintBudget::new(&limits),
            backoff: rate_limit::backoff(limits.backoff),
            conflicts: 0,
            unreachable_count: 0,
            reconnect: false,
            events: EventRecorder::new(node, limits),
            logged: None,
            status: ClusterStatus {
                mode: settings.mode.as_str(),
                dry_run: settings.dry_run,
                ..ClusterStatus::default()
            },
            facts: NodeFacts::default(),
            settings,
            node: node.to_string(),
            limits,
            heartbeat: heartbeat + heartbeat.mul_f64(0.1 * fastrand::f64()),
        }
    }

    /// Connects, and writes for as long as there are reports. Dropped, it leaves the Node with what it
    /// carries then.
    pub async fn run(mut self, channels: &mut WriterChannels) {
        channels.send(&self.status, &self.facts);
        while channels.reports.has_changed().is_ok() {
            let api = self.connect(channels).await;
            self.serve(&api, channels).await;
        }
    }

    /// A client with the current credentials.
    async fn connect(&mut self, channels: &WriterChannels) -> NodeApi {
        loop {
            match NodeApi::connect(&self.settings, &self.node, self.limits).await {
                Ok(api) => return api,
                Err(error) => {
                    self.note_outage(&error);
                    channels.send(&self.status, &self.facts);
                    tracing::warn!(%error, "cannot configure the API client; retrying");
                }
            }
            tokio::time::sleep(self.backoff.next().unwrap_or_default()).await;
        }
    }

    /// Writes until it must connect again, or there are no more reports.
    async fn serve(&mut self, api: &NodeApi, channels: &mut WriterChannels) {
        let nodes = watch_object(api.nodes.clone(), &self.node).default_backoff();
        let mut nodes = std::pin::pin!(nodes);
        self.gates.requeue = None;
        loop {
            let wait = self.gates.requeue.unwrap_or(self.limits.resync);
            tokio::select! {
                changed = channels.reports.changed() => if changed.is_err() { return },
                Some(seen) = nodes.next() => match seen {
                    Ok(node) => self.take_watched(node.as_ref().map(NodeView::of)),
                    Err(error) => self.take_watch_error(&error),
                },
                Some(change) = channels.changes.recv() => self.events.push(change),
                Some(event) = channels.pod_events.recv() => self.events.push(event),
                () = tokio::time::sleep(wait) => {}
            }
            for events in [&mut channels.changes, &mut channels.pod_events] {
                while let Ok(event) = events.try_recv() {
                    self.events.push(event);
                }
            }
            channels.send(&self.status, &self.facts);
            self.gates.requeue = None;
            if !self.gates.open_or_requeue(Gate::Request) {
                continue;
            }
            if std::mem::take(&mut self.reconnect) {
                return;
            }
            let report = Arc::clone(&channels.reports.borrow_and_update());
            let done = self.reconcile(api, &report).await;
            self.take_result(done);
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
        if error.kind == ErrorKind::Unauthorized && !self.reconnect {
            self.reconnect = true;
            let wait = self.backoff.next().unwrap_or_default();
            let wait = wait.max(self.gates.wait(Gate::Request));
            self.gates.close(Gate::Request, wait);
        }
        // A resumed watch is silent until the next change: read what was missed.
        self.view = None;
        self.note_outage(&error);
    }

    fn note_outage(&mut self, error: &ApiError) {
        self.status.api_up = Some(false);
        self.status.error = Some(error.to_string());
    }

    fn note_answer(&mut self) {
        self.status.api_up = Some(true);
        self.status.error = None;
    }

    /// Takes the Node as it is now.
    fn see(&mut self, view: NodeView) {
        self.gates.close(Gate::Refresh, self.limits.resync);
        let tainted = view.is_tainted(&self.settings);
        self.status.taint_applied = Some(tainted);
        self.status.places = topology::places(&view.labels);
        let is_check = |id: &str| CHECKS.iter().any(|check| check.id == id);
        let annotation = self.settings.own(names::MUTE);
        let text = view.annotations.get(&annotation);
        let mutes = Mutes::parse(text.map_or("", String::as_str), is_check);
        if mutes != self.facts.mutes {
            for complaint in &mutes.complaints {
                tracing::warn!(annotation, complaint, "invalid mute annotation");
            }
        }
        let accept = self.accepted(&view);
        self.facts = NodeFacts {
            found_tainted: self.facts.found_tainted.or(Some(tainted)),
            mutes,
            accept,
            offer: view.offer.clone(),
        };
        self.view = Some(view);
    }

    /// The moment in the annotation that accepts the machine as it is. A malformed one is logged once.
    fn accepted(&self, view: &NodeView) -> Option<jiff::Timestamp> {
        let annotation = self.settings.own(names::ACCEPT);
        let text = view.annotations.get(&annotation)?;
        let moment = text.trim().parse().ok();
        let seen = self.view.as_ref();
        let seen = seen.and_then(|view| view.annotations.get(&annotation));
        if moment.is_none() && seen != Some(text) {
            tracing::warn!(
                annotation,
                value = cut(text.clone(), 64),
                "the annotation is not an RFC 3339 time; nothing is forgotten"
            );
        }
        moment
    }

    /// The first verdict is published only if it differs from what the Node was left with.
    fn settle_first(&mut self) {
        let label = self.settings.own(names::FABRIC);
        let label = self.view.as_ref().and_then(|view| view.labels.get(&label));
        self.events.on_node.retain_mut(|event| {
            let state = event.unless_labelled.take();
            state.is_none_or(|state| label.map(String::as_str) != Some(state.as_str()))
        });
    }

    /// What follows from a pass.
    fn take_result(&mut self, done: ApiResult<()>) {
        match done {
            Ok(()) => {
                self.backoff.reset();
                (self.conflicts, self.unreachable_count) = (0, 0);
                // An earlier error is resolved, or no longer matters.
                if self.view.is_some() {
                    self.note_answer();
                }
            }
            Err(error) => self.take_error(&error),
        }
    }

    fn take_error(&mut self, error: &ApiError) {
        let counted = |count: u32, again: bool| if again { count + 1 } else { 0 };
        let conflict = error.kind == ErrorKind::Conflict;
        let unreachable = matches!(error.kind, ErrorKind::Other | ErrorKind::Timeout);
        self.conflicts = counted(self.conflicts, conflict);
        self.unreachable_count = counted(self.unreachable_count, unreachable);
        if error.kind == ErrorKind::Unauthorized || self.unreachable_count >= RECONNECT_AFTER {
            self.unreachable_count = 0;
            self.reconnect = true;
        }
        let wait = if conflict && self.conflicts <= CONFLICTS_MAX {
            tracing::debug!(%error, "the Node has changed meanwhile; reading it again");
            Duration::from_millis(20 + fastrand::u64(0..200))
        } else {
            let wait = self.backoff.next().unwrap_or_default();
            let wait = wait.max(error.requested_wait());
            tracing::warn!(%error, retry_in = ?wait, "request to the API server failed");
            self.note_outage(error);
            wait
        };
        if conflict {
            self.view = None;
        }
        self.gates.close(Gate::Request, wait);
        self.gates.requeue_within(wait);
    }
}

/// Whether a view is of an older version than another. Where versions are not numbers, the later arrival
/// counts as the newer.
fn is_older(view: &NodeView, than: &NodeView) -> bool {
    let later = budget::is_later(&than.resource_version, &view.resource_version);
    view.uid == than.uid && later == Some(true)
}
