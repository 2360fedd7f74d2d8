//! The loop that owns a node: sampler, kernel log and events in; judged reports out. The only file
//! that may name every layer.

use crate::check::profile::GpuDirectTcp;
use crate::config::Config;
use crate::evaluator::{Evaluator, Look};
use crate::readiness::taint_hysteresis::TaintHysteresis;
use crate::report::catalogue::Detail;
use crate::report::http::{self, ServeState};
use crate::report::metrics::Options;
use crate::report::{ClusterStatus, Report, Tainting};
use crate::sampler::{Clock, Plan, Remembered, Sampler};
use crate::source::kernel_log::follow::Way;
use crate::source::kernel_log::state::ResumeState;
use crate::state::{Saved, Saver};
use crate::units::Millis;
pub use events::Wake;
pub use one_shot::sample_once;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

mod cluster;
mod events;
mod jobs;
mod one_shot;
mod serve;
mod start;
mod suspects;

/// What stops an agent from starting.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The listen address cannot be bound.
    #[error("cannot listen on {address}: {source}; --listen names another address")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// Certificate, key, client authorities or tokens are of no use: one line each.
    #[error("{}", .0.join("\n"))]
    Serve(Vec<String>),
}

/// How often what is remembered is written to the state directory, at most.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Wakes that may wait to be taken in: beyond, the kernel log and the event sockets wait, whose own
/// overruns are counted.
const WAITING: usize = 1024;

/// Wakes taken in for one evaluation, at most.
const AT_ONCE: usize = 256;

/// Runs until `shutdown` resolves. `observer` sees every report (the demo's terminal view).
///
/// # Errors
/// [`AgentError`], before anything was started.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()>,
    mut observer: impl FnMut(&Report, Option<&Arc<ClusterStatus>>),
) -> Result<(), AgentError> {
    let guard = serve::guard(&config).await?;
    let listener = tokio::net::TcpListener::bind(config.agent.listen.addresses().as_slice())
        .await
        .map_err(|source| AgentError::Listen {
            address: config.agent.listen.to_string(),
            source,
        })?;
    if let Ok(address) = listener.local_addr() {
        let root = config.agent.host_root.display();
        tracing::info!(%address, tls = guard.is_tls(), %root, "serving");
        serve::warn(&guard, address.ip());
    }
    let _watching = serve::watch(&guard);
    let (report_tx, report_rx) = watch::channel(Arc::new(start::report(&config)));
    let (stop_tx, stop_rx) = watch::channel(false);
    let cluster = cluster::Cluster::start(&config, report_rx.clone(), stop_rx.clone());
    let serve = ServeState::new(
        report_rx,
        cluster.status.clone(),
        serve::stats(Arc::clone(&guard)),
        metrics_options(&config),
        http::Limits::default(),
    )
    .guarded(guard);
    let server = tokio::spawn(http::serve(listener, Arc::new(serve), stopped(stop_rx)));
    tokio::pin!(shutdown);
    // Whatever hangs from here on: who asks is answered, and who stops is heard.
    let found = tokio::select! {
        () = &mut shutdown => return Ok(()),
        found = start::find(&config, true) => found,
    };
    tracing::debug!(live = found.host.is_live(), "watching");
    let clock = Clock::starting_at(crate::clock::monotonic());

    let (wake_tx, mut wake_rx) = mpsc::channel(WAITING);
    let jobs = jobs::JobsPart::start(&config, &found, &cluster, clock, &wake_tx);
    let start::Found {
        host,
        boot_id,
        saved,
        state,
    } = found;
    let log = crate::kernel_log::settings(
        &host,
        &config.agent,
        boot_id.as_deref(),
        saved.kernel_log.clone(),
    );
    let mut node = Node {
        sampler: Sampler::new(
            Arc::clone(&host),
            plan(&config),
            clock,
            boot_id.clone(),
            saved.restricted_of(boot_id.as_deref()),
        ),
        evaluator: Evaluator::new(
            config.agent.node_name.clone(),
            config.policy.clone(),
            config.role_overrides(),
            saved.memory_to_restore(boot_id.as_deref()),
            config.hysteresis.clone(),
        )
        .on_platform(config.platform.clone()),
        clock,
        saved_at: clock.now(),
        kernel_log: saved.kernel_log.clone(),
        saved,
        save_now: false,
        full_window: false,
        saver: Saver::start(state),
        hold: TaintHysteresis::new(config.cluster.hold_times()),
        node_seen: false,
        cluster,
        jobs,
        tcp: None,
    };
    if let Some(memory) = node.saved.memory_of(boot_id.as_deref()) {
        let remembered = Remembered {
            devices: memory.devices.keys().cloned().collect(),
            gpus: memory.gpus.iter().cloned().collect(),
        };
        node.sampler.remember(remembered);
    }

    report_tx.send_replace(Arc::new(node.report()));
    let kernel_log = crate::kernel_log::spawn(log, clock, wake_tx.clone());
    if host.is_live() {
        events::spawn(&wake_tx, config.uses_netlink());
    }
    drop(wake_tx);

    loop {
        let mut taken = 0;
        tokio::select! {
            () = &mut shutdown => break,
            () = node.sampler.run_until_change() => {}
            change = node.cluster.changed() => if change == cluster::Change::Status {
                // Shown, and nothing to judge by.
                observer(&report_tx.borrow(), node.cluster.status.borrow().as_ref());
                continue;
            },
            Some(wake) = wake_rx.recv() => {
                let mut next = Some(wake);
                while let Some(wake) = next {
                    node.take(wake);
                    taken += 1;
                    next = (taken < AT_ONCE).then(|| wake_rx.try_recv().ok()).flatten();
                }
            }
        }
        let report = node.report();
        log_change(&report_tx.borrow(), &report);
        node.cluster.note_change(&report);
        observer(&report, node.cluster.status.borrow().as_ref());
        report_tx.send_replace(Arc::new(report));
        node.save_if_due();
        if taken == AT_ONCE {
            // A flood: those who ask come in between.
            tokio::task::yield_now().await;
        }
    }
    kernel_log.stop();
    node.save_now = true;
    node.save_if_due();
    let _ = stop_tx.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), server).await;
    node.saver.finish(Duration::from_secs(2));
    Ok(())
}

/// A change of verdict belongs in the log too.
fn log_change(before: &Report, now: &Report) {
    if (before.state, &before.reasons) != (now.state, &now.reasons) {
        let reasons = now.reasons.join(", ");
        tracing::info!(state = now.state.as_str(), %reasons, "verdict");
    }
}

/// What the loop owns.
struct Node {
    sampler: Sampler,
    evaluator: Evaluator,
    clock: Clock,
    saver: Saver,
    /// As last written.
    saved: Saved,
    /// How far the kernel log was taken in.
    kernel_log: Option<ResumeState>,
    saved_at: Millis,
    save_now: bool,
    full_window: bool,
    hold: TaintHysteresis,
    /// The Node object has been seen.
    node_seen: bool,
    cluster: cluster::Cluster,
    jobs: jobs::JobsPart,
    /// What the machine's jobs need beside them, by the last report's profile.
    tcp: Option<GpuDirectTcp>,
}

impl Node {
    fn report(&mut self) -> Report {
        self.full_window |= self.sampler.full_window();
        let wall = jiff::Timestamp::now();
        let facts = self.cluster.node();
        self.evaluator.mute(facts.mutes.checks(wall));
        self.jobs.health(&mut self.sampler, self.clock);
        self.evaluator.set_jobs(self.jobs.jobs(&facts, self.tcp));
        self.evaluator.set_offer(facts.offer.clone());
        let mut report = self.evaluator.evaluate(
            self.sampler.snapshot(Some(wall)),
            Look::Watching {
                full_window: self.full_window,
            },
        );
        self.tcp = report.profile.gpudirect_tcp();
        let now = report.snapshot.at;
        if facts.found_tainted == Some(true) && !self.node_seen {
            self.hold.adopt(now);
        }
        self.node_seen |= facts.found_tainted.is_some();
        let tainting = self.hold.update(report.state, report.full_window, now);
        // Until the node has been seen, nothing says whether a taint is to be waited for.
        report.tainting = if self.node_seen {
            tainting
        } else {
            Tainting::Keep
        };
        report.taint_muted = facts.mutes.taint(wall);
        report
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            // Kept in the same file as what the event led to, and never one without the other:
            // after a kill, an event is either remembered and skipped, or forgotten and read again.
            Wake::Kernel { at, item, through } => {
                self.evaluator.push_event(at, item.historic, &item.event);
                self.kernel_log = Some(through);
                self.save_now = true;
            }
            Wake::KernelThrough(through) => self.kernel_log = Some(through),
            Wake::KernelLog {
                lost,
                fault,
                absent,
                via,
            } => {
                self.evaluator.add_records_lost(lost.unwrap_or(0));
                if lost.is_none() {
                    let via = via.map(Way::name);
                    self.sampler.set_kernel_log(fault, absent, via);
                }
            }
            Wake::Suspects(suspects) => self.jobs.suspects(suspects),
            Wake::Jobs(told) => self.jobs.logs(*told),
            Wake::Netdev(name) => self.sampler.netdev_changed(&name),
            Wake::Dcb => self.sampler.dcb_changed(),
            Wake::Devices => self.sampler.devices_changed(),
            Wake::Lost => self.sampler.resync(),
        }
    }

    /// Writes what is to be remembered if it changed: at once after a kernel event or when a port
    /// was found restricted, else every few seconds.
    fn save_if_due(&mut self) {
        let now = self.clock.now();
        let (new, restricted) = self.sampler.restricted();
        if !(self.save_now || new || now.since(self.saved_at) >= SAVE_EVERY) {
            return;
        }
        self.saved_at = now;
        self.save_now = false;
        let kernel_log = self.kernel_log.clone();
        let current = Saved::new(self.evaluator.memory(), restricted, kernel_log);
        if current != self.saved && self.saver.save(current.clone()) {
            self.saved = current;
        }
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// How the sampler is to read.
pub fn plan(config: &Config) -> Plan {
    let every = &config.intervals;
    Plan {
        link: every.link.duration(),
        counters: every.counters.duration(),
        ethtool: every.ethtool.duration(),
        netdev: every.netdev.duration(),
        devices: every.devices.duration(),
        gids: every.gids.duration(),
        pci: every.pci.duration(),
        gpudirect: every.gpudirect.duration(),
        dcb: every.dcb.duration(),
        dot1x: every.dot1x.duration(),
        deadline: every.deadline.duration(),
        netlink: config.uses_netlink(),
        essential_only: !config.counters.full,
        exclude: config.counters.exclude.clone(),
    }
}

/// How much is exported.
pub fn metrics_options(config: &Config) -> Options {
    Options {
        detail: if config.counters.full {
            Detail::Full
        } else {
            Detail::Default
        },
    }
}

#[cfg(test)]
mod tests;
