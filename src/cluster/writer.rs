//! The one writer: watches this node's object and brings it to what it should be, whenever the
//! report or the object changes, and slowly in between. What fails is tried again later, from what
//! is then so; nothing is queued but events.

use super::api::{self, Failure, NodeApi};
use super::desired::Desired;
use super::events::Teller;
use super::mute::Mutes;
use super::names::Names;
use super::node::{NodeObject, NodeView};
use super::pace::{Allowance, Backoff, Limits};
use super::settings::ClusterSettings;
use crate::check::CHECKS;
use crate::report::{ClusterStatus, Report};
use crate::units::{Millis, cut};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod bring;
mod room;
mod wires;

pub use wires::{NodeFacts, VerdictChange, Wires};

/// Conflicts in a row after which the server is taken to mean it: a policy that denies a write may
/// answer as a failed test does.
const CONFLICTS: u32 = 5;

/// Requests in a row without a sensible answer after which the way to the server is read anew.
const AWAYS: u32 = 5;

/// The writer with what it knows.
pub struct Writer {
    settings: ClusterSettings,
    names: Names,
    node: String,
    limits: Limits,
    view: Option<NodeView>,
    /// The version for which the budget was granted, until the entry is given back.
    claimed: Option<String>,
    /// The Lease that is known to hold the entry of this tainted node.
    adopted: Option<String>,
    /// The first verdict since the start, until the node as found is known.
    first: Option<VerdictChange>,
    status: ClusterStatus,
    facts: NodeFacts,
    backoff: Backoff,
    conflicts: u32,
    aways: u32,
    /// The credentials are to be read anew.
    reconnect: bool,
    /// After a failure nothing is asked before this.
    quiet_until: Instant,
    /// While the taint is withheld, the budget is not asked before this, for the wait and the words
    /// told last.
    ask_at: Instant,
    asking: Duration,
    withheld: Option<(&'static str, String)>,
    allowance: Allowance,
    /// For taints that another hand changes back each time.
    taint_allowance: Allowance,
    /// For events on pods.
    pod_allowance: Allowance,
    /// The heartbeat was written for its own sake.
    beat_at: Option<Instant>,
    words_at: Option<Instant>,
    /// Part of the heartbeat's time that is added, so that agents started together do not stay so.
    late: f64,
    heard_at: Instant,
    started: Instant,
    /// What a dry run last told.
    would_write: Option<Desired>,
}

/// When to look again, if nothing happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Again(Option<Duration>);

impl Again {
    fn sooner(&mut self, wait: Duration) {
        self.0 = Some(self.0.map_or(wait, |known| known.min(wait)));
    }
}

impl Writer {
    /// For one node. Nothing is asked yet.
    pub fn new(settings: ClusterSettings, node: &str) -> Self {
        Self::limited(settings, node, Limits::default())
    }

    /// With other times than the usual ones.
    pub fn limited(settings: ClusterSettings, node: &str, limits: Limits) -> Self {
        let now = Instant::now();
        Writer {
            names: Names::new(&settings),
            status: ClusterStatus {
                mode: settings.mode.as_str(),
                dry_run: settings.dry_run,
                ..ClusterStatus::default()
            },
            facts: NodeFacts::default(),
            settings,
            node: node.to_string(),
            limits,
            view: None,
            claimed: None,
            adopted: None,
            first: None,
            backoff: Backoff::new(limits.backoff),
            conflicts: 0,
            aways: 0,
            reconnect: false,
            quiet_until: now,
            ask_at: now,
            withheld: None,
            asking: limits.ask_again.0,
            allowance: Allowance::new(limits.at_once, limits.refill, Millis(0)),
            taint_allowance: Allowance::new(limits.at_once, limits.refill, Millis(0)),
            pod_allowance: Allowance::new(limits.at_once, limits.refill, Millis(0)),
            beat_at: None,
            words_at: None,
            late: fastrand::f64(),
            heard_at: now,
            started: now,
            would_write: None,
        }
    }

    /// Connects, and writes until `shutdown` resolves. What stands on the node stays.
    pub async fn run(mut self, mut wires: Wires, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        self.tell(&wires);
        let mut teller = None;
        loop {
            let Some((client, namespace)) = self.connect(&wires, shutdown.as_mut()).await else {
                return;
            };
            let api = NodeApi::new(client.clone(), &namespace, &self.node, &self.names)
                .limited(self.limits);
            let teller = teller.get_or_insert_with(|| Teller::new(&self.node, self.limits));
            teller.use_client(client);
            if !self
                .serve(&api, teller, &mut wires, shutdown.as_mut())
                .await
            {
                return;
            }
        }
    }

    /// A client, with the credentials as they are now; none on shutdown.
    async fn connect<S: Future<Output = ()>>(
        &mut self,
        wires: &Wires,
        mut shutdown: Pin<&mut S>,
    ) -> Option<(kube::Client, String)> {
        loop {
            match api::connect(&self.settings).await {
                Ok(connected) => return Some(connected),
                Err(error) => {
                    self.status.api_up = Some(false);
                    self.status.error = Some(error.to_string());
                    self.tell(wires);
                    tracing::warn!(%error, "no way to the API server");
                }
            }
            let wait = self.backoff.after(fastrand::f64(), None);
            tokio::select! {
                () = &mut shutdown => return None,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Writes until shutdown (false), or until other credentials are needed (true).
    async fn serve<S: Future<Output = ()>>(
        &mut self,
        api: &NodeApi,
        teller: &mut Teller,
        wires: &mut Wires,
        mut shutdown: Pin<&mut S>,
    ) -> bool {
        let only_this = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let mut nodes = std::pin::pin!(watcher(api.nodes(), only_this).default_backoff());
        let mut again = Again(None);
        loop {
            let wait = again.0.unwrap_or(self.limits.resync);
            tokio::select! {
                () = &mut shutdown => return false,
                changed = wires.reports.changed() => if changed.is_err() { return false },
                event = nodes.next() => self.take_watched(event),
                Some(change) = wires.changes.recv() => self.take_change(change, teller),
                Some(notice) = wires.pods.recv() => teller.push_pod(notice),
                () = tokio::time::sleep(wait) => {}
            }
            while let Ok(change) = wires.changes.try_recv() {
                self.take_change(change, teller);
            }
            while let Ok(notice) = wires.pods.try_recv() {
                teller.push_pod(notice);
            }
            self.tell(wires);
            let quiet = self.quiet_until.saturating_duration_since(Instant::now());
            if !quiet.is_zero() {
                again = Again(Some(quiet));
                continue;
            }
            if std::mem::take(&mut self.reconnect) {
                return true;
            }
            let report = Arc::clone(&wires.reports.borrow_and_update());
            again = tokio::select! {
                () = &mut shutdown => return false,
                again = self.pass(api, teller, &report) => again,
            };
            self.tell(wires);
        }
    }

    fn take_watched(&mut self, event: Option<watcher::Result<watcher::Event<NodeObject>>>) {
        match event {
            Some(Ok(watcher::Event::Apply(node))) => {
                let seen = NodeView::of(&node);
                // What was written meanwhile is newer than what the watch is only now telling.
                if !self.view.as_ref().is_some_and(|view| is_older(&seen, view)) {
                    self.see(seen);
                }
            }
            Some(Ok(watcher::Event::InitApply(node))) => {
                let seen = NodeView::of(&node);
                if self.view.as_ref().is_some_and(|view| is_older(&seen, view)) {
                    // Listed before the last write, or the server's data was set back.
                    self.view = None;
                } else {
                    self.see(seen);
                }
            }
            Some(Ok(watcher::Event::Delete(_))) => self.view = None,
            Some(Ok(watcher::Event::InitDone)) => {}
            // Said before anything is asked.
            Some(Ok(watcher::Event::Init)) | None => return,
            Some(Err(error)) => {
                tracing::debug!(%error, "watching the node");
                if api::is_unauthorized(&error) && !self.reconnect {
                    self.reconnect = true;
                    let wait = self.backoff.after(fastrand::f64(), None);
                    self.quiet_until = self.quiet_until.max(Instant::now() + wait);
                }
                let error = error.to_string();
                // A watch that is taken up again says nothing by itself: read what was missed.
                self.view = None;
                self.status.api_up = Some(false);
                self.status.error = Some(format!("watch the Node: {}", cut(error, 300)));
                return;
            }
        }
        self.status.api_up = Some(true);
    }

    fn see(&mut self, view: NodeView) {
        self.heard_at = Instant::now();
        let tainted = view.is_tainted(&self.names);
        self.facts.found_tainted.get_or_insert(tainted);
        self.status.taint_applied = Some(tainted);
        let is_check = |id: &str| CHECKS.iter().any(|check| check.id == id);
        let mutes = view
            .annotations
            .get(&self.names.mute())
            .map_or_else(Mutes::default, |text| Mutes::parse(text, is_check));
        if view.devices != self.facts.devices {
            self.facts.devices.clone_from(&view.devices);
        }
        if view.offer != self.facts.offer {
            self.facts.offer.clone_from(&view.offer);
        }
        if mutes != self.facts.mutes {
            for complaint in &mutes.complaints {
                tracing::warn!(
                    annotation = self.names.mute(),
                    complaint,
                    "mute not understood"
                );
            }
            self.facts.mutes = mutes;
        }
        self.view = Some(view);
    }

    fn take_change(&mut self, change: VerdictChange, teller: &mut Teller) {
        if change.first {
            self.first = Some(change);
        } else {
            teller.push(change.notice);
        }
    }

    /// The first verdict is told only if it is another than the one that the node was left with.
    fn settle_first(&mut self, teller: &mut Teller) {
        let Some(view) = &self.view else {
            return;
        };
        let Some(first) = self.first.take() else {
            return;
        };
        let label = self.names.own(super::names::FABRIC);
        let stands = view.labels.get(&label).map(String::as_str);
        if stands != Some(first.state.as_str()) {
            teller.push_first(first.notice);
        }
    }

    fn tell(&self, wires: &Wires) {
        wires.status.send_if_modified(|shown| {
            let differs = shown.as_deref() != Some(&self.status);
            if differs {
                *shown = Some(Arc::new(self.status.clone()));
            }
            differs
        });
        wires.node.send_if_modified(|shown| {
            let differs = *shown != self.facts;
            if differs {
                shown.clone_from(&self.facts);
            }
            differs
        });
    }

    /// One pass; says when to look again.
    async fn pass(&mut self, api: &NodeApi, teller: &mut Teller, report: &Report) -> Again {
        let mut again = Again(None);
        let Err(error) = self.bring(api, teller, report, &mut again).await else {
            self.backoff.reset();
            self.conflicts = 0;
            self.aways = 0;
            // What failed before is done, or no longer needed.
            if self.view.is_some() {
                self.status.api_up = Some(true);
                self.status.error = None;
            }
            return again;
        };
        let conflict = error.failure == Failure::Conflict;
        self.conflicts = if conflict { self.conflicts + 1 } else { 0 };
        let wait = match error.failure {
            // The object moved: look at it again, soon.
            Failure::Conflict if self.conflicts <= CONFLICTS => {
                Duration::from_millis(20 + fastrand::u64(0..200))
            }
            Failure::Throttled(asked) => self.backoff.after(fastrand::f64(), asked),
            _ => self.backoff.after(fastrand::f64(), None),
        };
        if conflict {
            self.view = None;
        }
        self.reconnect |= error.failure == Failure::Unauthorized;
        // Address or authorities in the kubeconfig may have changed since it was read.
        self.aways = match error.failure {
            Failure::Other | Failure::Timeout => self.aways + 1,
            _ => 0,
        };
        if self.aways >= AWAYS {
            self.aways = 0;
            self.reconnect = true;
        }
        if conflict && self.conflicts <= CONFLICTS {
            tracing::debug!(%error, "conflict");
        } else {
            tracing::warn!(%error, again_in = ?wait, "API server");
            self.status.api_up = Some(false);
            self.status.error = Some(error.to_string());
        }
        self.quiet_until = Instant::now() + wait;
        again.sooner(wait);
        again
    }
}

/// Whether a view is of an older version than another. Versions are numbers on every API server in
/// use; where they are not, the newer word counts.
fn is_older(view: &NodeView, than: &NodeView) -> bool {
    let number = |view: &NodeView| view.resource_version.parse::<u64>().ok();
    view.uid == than.uid
        && match (number(view), number(than)) {
            (Some(view), Some(than)) => view < than,
            _ => false,
        }
}
