//! The one writer: watches this node's object and brings it to what it should be, whenever the
//! report or the object changes, and slowly in between. What fails is tried again later, from what
//! is then so; nothing is queued but events.

use super::api::{self, Failure, NodeApi};
use super::desired;
use super::events::{self, Notice, Teller};
use super::mute::Mutes;
use super::names::Names;
use super::node::{NodeObject, NodeView};
use super::pace::{Allowance, Backoff};
use super::settings::{ClusterSettings, Mode};
use crate::check::CHECKS;
use crate::report::{ClusterStatus, Report, State};
use crate::units::{Millis, cut};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

mod bring;
mod room;

/// The object is read anew when nothing was heard of it for this long.
const RESYNC: Duration = Duration::from_secs(600);
/// Words of the condition alone are written at most this often.
const WORDS_EVERY: Duration = Duration::from_secs(60);
/// Changes of labels and condition that are written at once; then one every [`REFILL`].
const AT_ONCE: u32 = 10;
const REFILL: Duration = Duration::from_secs(30);
/// While the taint is withheld, the budget is looked at after this long, later and later.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// While another node counts the group, or the ledger is fought over.
const BUSY: Duration = Duration::from_millis(400);

/// What the writer tells the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// How it goes.
    pub status: ClusterStatus,
    /// Whether the node carries our taint; none until the node was seen.
    pub tainted: Option<bool>,
    /// What an operator muted.
    pub mutes: Mutes,
}

/// A change of verdict, to be told as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictChange {
    /// The first verdict since the agent started: told only if the node says another.
    pub first: bool,
    /// The verdict.
    pub state: State,
    /// Words for people.
    pub notice: Notice,
}

impl VerdictChange {
    /// The change that a report shows.
    pub fn of(report: &Report, first: bool) -> Self {
        VerdictChange {
            first,
            state: report.state,
            notice: events::of_verdict(report.state, &desired::condition(report)),
        }
    }
}

/// What reaches and leaves the writer.
pub struct Wires {
    /// Reports; only the latest counts.
    pub reports: watch::Receiver<Arc<Report>>,
    /// Changes of verdict, each.
    pub changes: mpsc::Receiver<VerdictChange>,
    /// What the agent is told.
    pub told: watch::Sender<Told>,
}

/// The writer with what it knows.
pub struct Writer {
    settings: ClusterSettings,
    names: Names,
    node: String,
    view: Option<NodeView>,
    claimed: bool,
    adopted: bool,
    told: Told,
    backoff: Backoff,
    /// After a failure nothing is asked before this.
    quiet_until: Instant,
    /// While the taint is withheld, the budget is not asked before this, for the wait and the words
    /// told last.
    ask_at: Instant,
    asking: Duration,
    withheld: Option<(&'static str, String)>,
    allowance: Allowance,
    words_at: Option<Instant>,
    heard_at: Instant,
    started: Instant,
    would_write: Vec<&'static str>,
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
        let now = Instant::now();
        Writer {
            names: Names::new(&settings),
            told: Told {
                status: ClusterStatus {
                    mode: mode_name(settings.mode),
                    dry_run: settings.dry_run,
                    ..ClusterStatus::default()
                },
                ..Told::default()
            },
            settings,
            node: node.to_string(),
            view: None,
            claimed: false,
            adopted: false,
            backoff: Backoff::default(),
            quiet_until: now,
            ask_at: now,
            withheld: None,
            asking: ASK_AGAIN.0,
            allowance: Allowance::new(AT_ONCE, REFILL, Millis(0)),
            words_at: None,
            heard_at: now,
            started: now,
            would_write: Vec::new(),
        }
    }

    /// Connects, and writes until `shutdown` resolves. What stands on the node stays.
    pub async fn run(mut self, mut wires: Wires, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        self.tell(&wires);
        let (client, namespace) = loop {
            match api::connect(&self.settings).await {
                Ok(connected) => break connected,
                Err(error) => {
                    self.told.status.api_up = Some(false);
                    self.told.status.error = Some(error.to_string());
                    self.tell(&wires);
                    tracing::warn!(%error, "no way to the API server");
                }
            }
            let wait = self.backoff.after(fastrand::f64(), None);
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(wait) => {}
            }
        };
        let api = NodeApi::new(client.clone(), &namespace, &self.node, &self.names);
        let mut teller = Teller::new(client, &self.node);
        let only_this = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let mut nodes = std::pin::pin!(watcher(api.nodes(), only_this).default_backoff());
        let mut again = Again(None);
        loop {
            let wait = again.0.unwrap_or(RESYNC);
            tokio::select! {
                () = &mut shutdown => return,
                changed = wires.reports.changed() => if changed.is_err() { return },
                event = nodes.next() => self.take_watched(event),
                Some(change) = wires.changes.recv() => self.take_change(change, &mut teller),
                () = tokio::time::sleep(wait) => {}
            }
            while let Ok(change) = wires.changes.try_recv() {
                self.take_change(change, &mut teller);
            }
            self.tell(&wires);
            let quiet = self.quiet_until.saturating_duration_since(Instant::now());
            if !quiet.is_zero() {
                again = Again(Some(quiet));
                continue;
            }
            let report = Arc::clone(&wires.reports.borrow_and_update());
            again = tokio::select! {
                () = &mut shutdown => return,
                again = self.pass(&api, &mut teller, &report) => again,
            };
            self.tell(&wires);
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
            Some(Ok(watcher::Event::InitApply(node))) => self.see(NodeView::of(&node)),
            Some(Ok(watcher::Event::Delete(_))) => self.view = None,
            Some(Ok(watcher::Event::Init | watcher::Event::InitDone)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "watching the node");
                let error = error.to_string();
                self.told.status.api_up = Some(false);
                self.told.status.error = Some(format!("watch the Node: {}", cut(error, 300)));
                return;
            }
            None => return,
        }
        self.told.status.api_up = Some(true);
    }

    fn see(&mut self, view: NodeView) {
        self.heard_at = Instant::now();
        let tainted = view.is_tainted(&self.names);
        self.told.tainted = Some(tainted);
        self.told.status.taint_applied = Some(tainted);
        let is_check = |id: &str| CHECKS.iter().any(|check| check.id == id);
        let mutes = view
            .annotations
            .get(&self.names.mute())
            .map_or_else(Mutes::default, |text| Mutes::parse(text, is_check));
        if mutes != self.told.mutes {
            for complaint in &mutes.complaints {
                tracing::warn!(
                    annotation = self.names.mute(),
                    complaint,
                    "mute not understood"
                );
            }
            self.told.mutes = mutes;
        }
        self.view = Some(view);
    }

    fn take_change(&mut self, change: VerdictChange, teller: &mut Teller) {
        if change.first {
            let label = self.names.own(super::names::FABRIC);
            let told = self.view.as_ref().and_then(|view| view.labels.get(&label));
            if told.is_some_and(|told| told == change.state.as_str()) {
                return;
            }
        }
        teller.push(change.notice);
    }

    fn tell(&self, wires: &Wires) {
        wires.told.send_if_modified(|told| {
            let differs = *told != self.told;
            if differs {
                told.clone_from(&self.told);
            }
            differs
        });
    }

    /// One pass; says when to look again.
    async fn pass(&mut self, api: &NodeApi, teller: &mut Teller, report: &Report) -> Again {
        let mut again = Again(None);
        match self.bring(api, teller, report, &mut again).await {
            Ok(()) => self.backoff.reset(),
            Err(error) => {
                let asked = match error.failure {
                    Failure::Throttled(wait) => wait,
                    _ => None,
                };
                let wait = match error.failure {
                    // The object moved: look at it again, soon.
                    Failure::Conflict => Duration::from_millis(20 + fastrand::u64(0..200)),
                    _ => self.backoff.after(fastrand::f64(), asked),
                };
                if error.failure == Failure::Conflict {
                    tracing::debug!(%error, "conflict");
                    self.view = None;
                } else {
                    tracing::warn!(%error, again_in = ?wait, "API server");
                    self.told.status.api_up = Some(false);
                    self.told.status.error = Some(error.to_string());
                }
                self.quiet_until = Instant::now() + wait;
                again.sooner(wait);
            }
        }
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

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Labels => "labels",
        Mode::Condition => "condition",
        Mode::All => "all",
    }
}
