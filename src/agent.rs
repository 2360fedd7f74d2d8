//! The loop that owns a node: samples, kernel log and events come in, reports go out. The only
//! file that may name every layer.

use crate::check::{Finding, profile};
use crate::clock::Clock;
use crate::config::{Config, Listen};
use crate::evaluator::{Evaluator, SamplingMode};
use crate::jobs::{self, NodeJobs};
use crate::kernel_log::{self, Update};
use crate::observe::Memory;
use crate::readiness::taint_hysteresis::{TaintHysteresis, passes_within};
use crate::report::{ClusterStatus, Detail, Report, Tainting, http};
use crate::sampler::{Followed, News, Sampler};
use crate::source::kernel_log::{Delivery, ResumeState};
use crate::source::netlink::route::LinkEvent;
use crate::state::{self, Saved, Saver, StateDir};
use crate::supervise::{self, Supervisor};
use crate::units::Millis;
pub use cluster::ClusterLink;
pub use events::Wake;
pub use one_shot::sample_once;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

mod cluster;
mod events;
mod one_shot;
mod serve;
mod start;
mod systemd;
mod textfile;

/// What stops an agent from starting, or ends it early.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The listen address cannot be bound.
    #[error("cannot listen on {0}: {1}; --listen names another address")]
    Listen(Listen, std::io::Error),
    /// Certificate, key, client authorities or tokens cannot be used: one line each.
    #[error("{}", .0.join("\n"))]
    Serve(Vec<String>),
    /// A task of the agent that ends again and again.
    #[error("{0}")]
    Task(String),
}

/// Shortest time between writes of the state file.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Shortest time between writes that change only counter values.
const SAVE_COUNTS_EVERY: Duration = Duration::from_secs(600);

/// Wakes that may wait in the channel: beyond, the kernel log and the event sockets wait, whose own
/// overruns are counted.
const WAITING: usize = 1024;

/// Most wakes handled before one evaluation.
const AT_ONCE: usize = 256;

/// Stack of the thread that writes state, in bytes.
const STATE_STACK: usize = 128 * 1024;

/// How long the server and the state file may take at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs until `shutdown` resolves. `link` stands in for the cluster (the demo's); `observer` sees every
/// report.
///
/// # Errors
/// [`AgentError`]: before anything was started, or as a task panicked again and again.
pub async fn run(
    config: Config,
    link: Option<ClusterLink>,
    shutdown: impl Future<Output = ()>,
    observer: impl FnMut(&Report, Option<&Arc<ClusterStatus>>),
) -> Result<(), AgentError> {
    let guard = serve::guard(&config).await?;
    let listener = serve::listen(&config).await?;
    serve::announce(&listener, &config, &guard);
    let supervisor = Supervisor::new(config.intervals.deadline.duration());
    serve::watch(&guard, &supervisor);
    let (reports, report_rx) = watch::channel(Arc::new(start::report(&config)));
    let (stop_tx, stop_rx) = watch::channel(false);
    let (seen, stop) = (report_rx.clone(), stop_rx.clone());
    let cluster = cluster::Cluster::start(&config, link, seen, stop, &supervisor);
    let known_clock = Arc::new(OnceLock::new());
    tokio::spawn(systemd::notify(report_rx.clone(), supervisor.clone()));
    let serve = Arc::new(http::ServeState {
        reports: report_rx,
        cluster: cluster.link.status.clone(),
        rendered: Default::default(),
        stats: serve::stats(guard.clone(), supervisor.clone(), known_clock.clone()),
        detail: metrics_detail(&config),
        limits: http::HttpLimits::default(),
        guard,
        hosts: serve::hosts(&config).await,
    });
    if let Some(path) = &config.agent.textfile {
        textfile::start(path.clone(), &serve, stop_rx.clone(), &supervisor);
    }
    serve::start(listener, serve, stop_rx, &supervisor);
    tokio::pin!(shutdown);
    // Whatever hangs from here on, requests are answered and a stop signal is obeyed.
    let found = tokio::select! {
        () = &mut shutdown => {
            tracing::info!("selvage agent stopped while it was looking for its host");
            return Ok(());
        }
        found = start::find(&config, true) => found,
    };
    let clock = found.clock();
    let _ = known_clock.set(clock);
    let (wake_tx, wakes) = mpsc::channel(WAITING);
    let saver = save_on_a_thread(found.state.clone(), &supervisor);
    let mut node = AgentLoop::new(&config, found, cluster, clock, saver, &supervisor, &wake_tx);
    reports.send_replace(Arc::new(node.report()));
    node.follow_kernel_log(&config, &wake_tx);
    if node.found.host.is_live() {
        events::spawn(&supervisor, &wake_tx, config.uses_netlink());
    }
    drop(wake_tx);

    let ended = node.watch(shutdown, wakes, &reports, observer).await;
    node.end(&stop_tx).await;
    ended
}

/// State is written by a thread of its own: a disk may hang.
fn save_on_a_thread(dir: StateDir, supervisor: &Supervisor) -> Saver {
    let saver = Saver::new(dir);
    let writes = saver.clone();
    supervisor.thread(supervise::STATE, STATE_STACK, move |task| {
        writes.run(|| task.beat());
        Ok(())
    });
    saver
}

/// Whether an agent that runs with the settings `before` could run with `now`.
///
/// # Errors
/// What would keep it from starting.
pub async fn can_follow(before: &Config, now: &Config) -> Result<(), AgentError> {
    serve::guard(now).await?;
    serve::can_listen(before, now).await
}

/// A change of verdict belongs in the log too.
fn log_change(before: &Report, now: &Report) {
    if (before.state, &before.reasons) != (now.state, &now.reasons) {
        let reasons = now.reasons.join(", ");
        tracing::info!(state = now.state.as_str(), %reasons, "verdict changed");
    }
}

/// Everything that the loop owns.
struct AgentLoop {
    /// What the agent started from, with the content of the state file as last written.
    found: start::Startup,
    sampler: Sampler,
    evaluator: Evaluator,
    clock: Clock,
    saver: Saver,
    supervisor: Supervisor,
    /// How far the kernel log has been processed.
    kernel_log: Option<ResumeState>,
    log_health: Followed,
    saved_at: Millis,
    counts_saved_at: Millis,
    save_now: bool,
    /// Since the last write, which takes what counters count with it: findings rest on that.
    findings_changed: bool,
    full_window: bool,
    /// When the node is judged again though nothing changes.
    due: Millis,
    hold: TaintHysteresis,
    /// The Node object has been seen.
    node_seen: bool,
    cluster: cluster::Cluster,
    jobs: NodeJobs,
    /// Extra needs of jobs on this machine (GPUDirect-TCP), by the last report.
    tcp: Option<profile::GpuDirectTcp>,
}

impl AgentLoop {
    fn new(
        config: &Config,
        found: start::Startup,
        cluster: cluster::Cluster,
        clock: Clock,
        saver: Saver,
        supervisor: &Supervisor,
        wakes: &mpsc::Sender<Wake>,
    ) -> Self {
        let inputs = jobs::Inputs {
            host: Arc::clone(&found.host),
            clock,
            pods: cluster.link.pods.clone(),
            events: cluster.events.clone(),
            state: found.state.clone(),
            saver: saver.clone(),
            supervisor: supervisor.clone(),
        };
        let jobs = NodeJobs::start(config, &inputs, wakes);
        let memory = found.memory();
        let mut sampler = found.sampler(config, clock);
        sampler.remember(&memory);
        let mut evaluator = start::evaluator(config, config.policy.clone(), memory);
        let findings = found.saved.findings_of(found.boot_id.as_deref());
        evaluator.restore(findings, clock.now());
        AgentLoop {
            sampler,
            evaluator,
            clock,
            saver,
            supervisor: supervisor.clone(),
            log_health: None,
            kernel_log: found.saved.kernel_log.clone(),
            found,
            saved_at: clock.now(),
            counts_saved_at: clock.now(),
            save_now: false,
            findings_changed: false,
            full_window: false,
            due: clock.now(),
            hold: TaintHysteresis::new(config.cluster.hold_times()),
            node_seen: false,
            cluster,
            jobs,
            tcp: None,
        }
    }

    /// Starts the thread that follows the kernel log.
    fn follow_kernel_log(&self, config: &Config, wakes: &mpsc::Sender<Wake>) {
        let (found, resume) = (&self.found, self.kernel_log.clone());
        let boot_id = found.boot_id.as_deref();
        let settings =
            kernel_log::Settings::new(&found.host, &config.agent, boot_id, found.uptime, resume);
        kernel_log::spawn(&self.supervisor, settings, self.clock, wakes.clone());
    }

    /// Judges the node whenever something changed or a wait may be over, until `shutdown` resolves or a
    /// task ends the process.
    async fn watch(
        &mut self,
        mut shutdown: impl Future<Output = ()> + Unpin,
        mut wakes: mpsc::Receiver<Wake>,
        reports: &watch::Sender<Arc<Report>>,
        mut observer: impl FnMut(&Report, Option<&Arc<ClusterStatus>>),
    ) -> Result<(), AgentError> {
        let supervisor = self.supervisor.clone();
        let mut tasks = supervisor.news();
        loop {
            let mut handled = 0;
            let mut judge = true;
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                why = supervisor.failed() => return Err(AgentError::Task(why)),
                Ok(()) = tasks.changed() => {}
                news = self.sampler.run_until_news() => judge = news == News::Changed || self.clock.now() >= self.due,
                () = tokio::time::sleep_until(self.clock.instant(self.due)) => {}
                // Where the writer was never started, or has ended, these two say nothing.
                Ok(()) = self.cluster.link.node.changed() => {}
                Ok(()) = self.cluster.link.status.changed() => {
                    // Shown, without a new verdict.
                    observer(&reports.borrow(), self.cluster.status().as_ref());
                    continue;
                }
                Some(wake) = wakes.recv() => {
                    let mut next = Some(wake);
                    while let Some(wake) = next {
                        self.handle(wake);
                        handled += 1;
                        next = (handled < AT_ONCE).then(|| wakes.try_recv().ok()).flatten();
                    }
                }
            }
            let report = match judge {
                true => self.report(),
                // The same verdict, over newer samples of counters.
                false => {
                    let snapshot = self.sampler.snapshot(Some(jiff::Timestamp::now()));
                    self.evaluator.resample(&reports.borrow(), snapshot)
                }
            };
            self.findings_changed |= !same_findings(&reports.borrow(), &report);
            log_change(&reports.borrow(), &report);
            self.cluster.note_change(&report);
            observer(&report, self.cluster.status().as_ref());
            reports.send_replace(Arc::new(report));
            self.accept_if_requested();
            self.save_if_due();
            if handled == AT_ONCE {
                // In a flood of events, requests get their turn.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Writes the state and ends the other tasks.
    async fn end(&mut self, stop: &watch::Sender<bool>) {
        self.save_now = true;
        self.accept_if_requested();
        self.save_if_due();
        let _ = stop.send(true);
        let ending = async {
            for task in [supervise::HTTP, supervise::CLUSTER, supervise::TEXTFILE] {
                self.supervisor.ended(task).await;
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, ending).await;
        self.saver.finish(SHUTDOWN_TIMEOUT);
        tracing::info!("selvage agent stopped");
    }

    fn report(&mut self) -> Report {
        let stalled = self.supervisor.silent(supervise::KERNEL_LOG);
        let log_read = (self.sampler).set_health("kernel_log", &self.log_health, stalled);
        let logs_read = self.jobs.report_health(&mut self.sampler) && log_read;
        self.full_window |= logs_read && self.sampler.full_window();
        let wall = jiff::Timestamp::now();
        let facts = self.cluster.node();
        self.evaluator.mute(facts.mutes.checks(wall));
        let jobs = self.jobs.current(facts.offer.as_deref(), self.tcp);
        self.evaluator.jobs = jobs;
        self.evaluator.set_offer(facts.offer.clone());
        let full_window = self.full_window;
        let snapshot = self.sampler.snapshot(Some(wall));
        let look = SamplingMode::Watching { full_window };
        let mut report = self.evaluator.evaluate(snapshot, look);
        self.tcp = report.profile.shape.and_then(|shape| shape.gpudirect_tcp);
        let now = report.snapshot.at;
        if facts.found_tainted == Some(true) && !self.node_seen {
            self.hold.adopt(now);
        }
        self.node_seen |= facts.found_tainted.is_some();
        self.hold.patience = passes_within(&report.findings);
        let tainting = self.hold.update(report.state, report.full_window, now);
        // Until the Node has been seen, it is unknown whether it carries the taint.
        report.tainting = match self.node_seen {
            true => tainting,
            false => Tainting::Keep,
        };
        report.taint_muted = facts.mutes.taint(wall);
        self.due = self.evaluator.next_look(&report, tainting);
        report
    }

    fn handle(&mut self, wake: Wake) {
        match wake {
            Wake::KernelLog(update) => self.handle_kernel_log(update),
            Wake::Jobs(update) => self.jobs.update(update),
            Wake::Link(LinkEvent::Link(name)) => self.sampler.netdev_changed(&name),
            // Statistics are read at their own pace: shares of time need samples that lie well apart.
            Wake::Link(LinkEvent::DcbChanged(_)) => self.sampler.wake(&["dcb"]),
            Wake::Devices => self.sampler.wake(&["devices"]),
            // All that the lost events could have reported.
            Wake::Link(LinkEvent::Lost) => self.sampler.wake(&["devices", "link", "netdev"]),
        }
    }

    fn handle_kernel_log(&mut self, update: Update) {
        match update {
            // Saved in the same file as its consequences, and never one without the other: after a
            // kill, an event is either remembered and skipped, or forgotten and read again.
            Update::Read(at, Delivery::Item(item)) => {
                let history = &mut self.evaluator.history;
                history.push_event(at, item.historic, &item.event);
                self.kernel_log = Some(item.through);
                self.save_now = true;
            }
            Update::Read(_, Delivery::Through(through)) => self.kernel_log = Some(through),
            Update::Read(_, Delivery::Lost(lost)) => {
                self.evaluator.history.totals.kmsg_records_lost += lost;
            }
            Update::Read(_, Delivery::Rebooted) => {}
            Update::Health(way) => self.log_health = Some(way.map(|way| Some(way.as_str()))),
        }
    }

    /// Forgets the best values where `selvage accept` or the Node's annotation asks for it.
    fn accept_if_requested(&mut self) {
        let remembered = &mut self.evaluator.history.remembered;
        let annotated = self.cluster.node().accept;
        let by_annotation = annotated.is_some_and(|request| remembered.accepts(request));
        if self.saver.is_accepted() || by_annotation {
            self.evaluator.forget();
            tracing::info!("machine accepted as it is now; remembered best values dropped");
            self.hold.accepted = true;
            self.save_now = true;
            self.due = self.clock.now();
        }
    }

    /// Writes the state file if its content changed: at once after a kernel event and when the findings or the
    /// restricted ports change, else every few seconds; what counters count, with these and every few
    /// minutes. A memory of a boot is not replaced by that of a boot without a name, which may be the same.
    fn save_if_due(&mut self) {
        let now = self.clock.now();
        let restricted = self.sampler.restricted();
        let differ = restricted != self.found.saved.restricted;
        let is_due = self.findings_changed || now.since(self.saved_at) >= SAVE_EVERY;
        if !(self.save_now || differ || is_due) {
            return;
        }
        self.saved_at = now;
        let save_now = std::mem::take(&mut self.save_now);
        let with_counts = save_now
            || std::mem::take(&mut self.findings_changed)
            || now.since(self.counts_saved_at) >= SAVE_COUNTS_EVERY;
        let kernel_log = self.kernel_log.clone();
        let mut memory = self.evaluator.history.memory();
        let mut findings = self.evaluator.findings_to_keep();
        let saved = &self.found.saved;
        if memory.boot_id.is_none() && saved.memory.boot_id.is_some() {
            let remembered = memory.remembered;
            memory = Memory {
                remembered,
                ..saved.memory.clone()
            };
            findings.clone_from(&saved.findings);
        }
        let mut current = Saved::new(memory, restricted, kernel_log);
        current.findings = findings;
        if current != *saved && (with_counts || !current.is_like(saved)) {
            self.counts_saved_at = now;
            self.saver.put(state::FILE, &current);
            self.found.saved = current;
        }
    }
}

/// Whether two reports have the same findings, by reason and subject.
fn same_findings(a: &Report, b: &Report) -> bool {
    let same = |a: &Finding, b: &Finding| (a.reason, &a.subject) == (b.reason, &b.subject);
    let (a, b) = (&a.findings, &b.findings);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// How much is exported.
pub fn metrics_detail(config: &Config) -> Detail {
    match config.counters.full {
        true => Detail::Full,
        false => Detail::Default,
    }
}

#[cfg(test)]
mod tests;
