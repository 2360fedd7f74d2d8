//! The loop that owns a node: sampler, kernel log and events in; judged reports out. The only file
//! that may name every layer.

use crate::config::Config;
use crate::evaluate::{Evaluator, Look};
use crate::host::Host;
use crate::observe::history::Memory;
use crate::observe::reading::{Fault, FaultKind};
use crate::report::Report;
use crate::report::catalogue::Detail;
use crate::report::http::{self, ServeState};
use crate::report::metrics::Options;
use crate::sampler::{Clock, Plan, Remembered, Sampler, assemble};
use crate::source::kernel_log::follow::KmsgItem;
use crate::source::kernel_log::state::ResumeState;
use crate::source::netlink::{monitor, route};
use crate::state::{Saved, Saver, StateDir};
use crate::thread;
use crate::units::Millis;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Something that reached the agent without being asked for.
#[derive(Debug)]
pub enum Wake {
    /// A decoded kernel-log record.
    Kernel {
        /// Moment of the record, on the agent's clock.
        at: Millis,
        /// The event.
        item: Box<KmsgItem>,
    },
    /// The kernel log was read up to here, all events handed over.
    KernelThrough(ResumeState),
    /// The kernel log's own health.
    KernelLog {
        /// More records were overwritten before they were read.
        lost: Option<u64>,
        /// Why it cannot be followed, if so.
        fault: Option<Fault>,
        /// There is no kernel log under this root.
        absent: bool,
    },
    /// A network device changed.
    Netdev(String),
    /// DCB settings changed.
    Dcb,
    /// RDMA devices came or went.
    Devices,
    /// Events were lost.
    Lost,
}

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
}

/// How often what is remembered is written to the state directory, at most.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Runs until `shutdown` resolves. `observer` sees every report (the demo's terminal view).
///
/// # Errors
/// [`AgentError`], before anything was started.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()>,
    mut observer: impl FnMut(&Report),
) -> Result<(), AgentError> {
    let listener = tokio::net::TcpListener::bind(config.agent.listen.addresses().as_slice())
        .await
        .map_err(|source| AgentError::Listen {
            address: config.agent.listen.to_string(),
            source,
        })?;
    let host = Arc::new(Host::new(&config.agent.host_root));
    let boot_id = assemble::boot_id(&host);
    let state = StateDir::new(config.agent.state_dir.as_deref());
    let saved = state.load();
    let clock = Clock::starting_at(crate::clock::monotonic());
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, root = %host.root().display(), live = host.is_live(), "serving");
    }

    let (wake_tx, mut wake_rx) = mpsc::unbounded_channel();
    let log = crate::kernel_log::settings(
        &host,
        &config.agent.kmsg,
        config.agent.kmsg_all_facilities,
        saved.kernel_log.clone(),
    );
    let mut node = Node {
        sampler: Sampler::new(
            Arc::clone(&host),
            plan(&config),
            clock,
            saved.restricted_of(boot_id.as_deref()),
        ),
        evaluator: Evaluator::new(
            config.agent.node_name.clone(),
            config.policy.clone(),
            config.role_overrides(),
            saved.memory.clone(),
            config.hysteresis.clone(),
        ),
        clock,
        saved_at: clock.now(),
        saved,
        save_now: false,
        full_window: false,
        saver: Saver::start(state),
    };
    if let Some(memory) = node.saved.memory_of(boot_id.as_deref()) {
        let remembered = Remembered {
            devices: memory.devices.keys().cloned().collect(),
            gpus: memory.gpus.iter().cloned().collect(),
        };
        node.sampler.remember(remembered);
    }

    let (report_tx, report_rx) = watch::channel(Arc::new(node.report()));
    let (stop_tx, stop_rx) = watch::channel(false);
    let serve = ServeState::new(
        report_rx,
        crate::clock::process_stats,
        metrics_options(&config),
        http::Limits::default(),
    );
    let server = tokio::spawn(http::serve(listener, Arc::new(serve), stopped(stop_rx)));
    let kernel_log = crate::kernel_log::spawn(log, clock, wake_tx.clone());
    if host.is_live() {
        spawn_event_threads(&wake_tx, config.uses_netlink());
    }
    drop(wake_tx);

    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            () = node.sampler.run_until_change() => {}
            Some(wake) = wake_rx.recv() => {
                node.take(wake);
                while let Ok(more) = wake_rx.try_recv() {
                    node.take(more);
                }
            }
        }
        let report = node.report();
        log_change(&report_tx.borrow(), &report);
        observer(&report);
        report_tx.send_replace(Arc::new(report));
        node.save_if_due();
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
    saved: Saved,
    saved_at: Millis,
    save_now: bool,
    full_window: bool,
}

impl Node {
    fn report(&mut self) -> Report {
        self.full_window |= self.sampler.full_window();
        self.evaluator.evaluate(
            self.sampler.snapshot(Some(jiff::Timestamp::now())),
            Look::Watching {
                full_window: self.full_window,
            },
        )
    }

    fn take(&mut self, wake: Wake) {
        match wake {
            Wake::Kernel { at, item } => {
                self.evaluator.push_event(at, item.historic, &item.event);
                self.save_now = true;
            }
            // Kept in the same file as what the events led to: after a kill, an event is either
            // remembered and skipped, or forgotten and read again.
            Wake::KernelThrough(through) => self.saved.kernel_log = Some(through),
            Wake::KernelLog {
                lost,
                fault,
                absent,
            } => {
                self.evaluator.add_records_lost(lost.unwrap_or(0));
                if lost.is_none() {
                    self.sampler.set_kernel_log(fault, absent);
                }
            }
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
        let current = Saved::new(
            self.evaluator.memory(),
            restricted,
            self.saved.kernel_log.clone(),
        );
        if current != self.saved && self.saver.save(current.clone()) {
            self.saved = current;
        }
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Threads that wait for the kernel's events. Each ends when the agent no longer listens.
fn spawn_event_threads(tx: &mpsc::UnboundedSender<Wake>, rdma_netlink: bool) {
    const WAIT: Duration = Duration::from_secs(30);
    let links = tx.clone();
    thread::spawn("rtnetlink", move || {
        let mut monitor = match route::LinkMonitor::open() {
            Ok(monitor) => monitor,
            Err(error) => {
                tracing::warn!(%error, "no rtnetlink events; polling only");
                return;
            }
        };
        while !links.is_closed() {
            let events = monitor.wait(WAIT).unwrap_or_else(|error| {
                tracing::warn!(%error, "rtnetlink");
                std::thread::sleep(Duration::from_secs(1));
                vec![route::LinkEvent::Lost]
            });
            for event in events {
                let wake = match event {
                    route::LinkEvent::Link(link) => match link.name {
                        Some(name) => Wake::Netdev(name),
                        None => continue,
                    },
                    route::LinkEvent::DcbChanged(_) => Wake::Dcb,
                    route::LinkEvent::Lost => Wake::Lost,
                };
                if links.send(wake).is_err() {
                    return;
                }
            }
        }
    });
    if !rdma_netlink {
        return;
    }
    let devices = tx.clone();
    thread::spawn("rdma-monitor", move || {
        let Ok(mut monitor) = monitor::Monitor::open() else {
            return;
        };
        if !monitor.supported() {
            // Kernels before 6.12 take the subscription and send nothing.
            tracing::info!("no RDMA event monitor in this kernel; devices are found by polling");
            return;
        }
        while !devices.is_closed() {
            match monitor.wait(WAIT) {
                Ok(events) if events.is_empty() => {}
                Ok(_) => {
                    if devices.send(Wake::Devices).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "RDMA monitor");
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        }
    });
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

/// Looks once: every source is read, nothing is waited for beyond the deadline, what is seen is
/// believed. Nothing is written.
pub async fn look_once(config: &Config) -> Report {
    let host = Arc::new(Host::new(&config.agent.host_root));
    let clock = Clock::starting_at(crate::clock::monotonic());
    let saved = StateDir::existing(config.agent.state_dir.as_deref()).load();
    let boot_id = assemble::boot_id(&host);
    let mut sampler = Sampler::new(
        Arc::clone(&host),
        plan(config),
        clock,
        saved.restricted_of(boot_id.as_deref()),
    );
    let mut policy = config.policy.clone();
    // There is one look: what it lacks is gone.
    policy.device_missing.missed = 1;
    policy.device_missing.gone_after = Default::default();
    let mut evaluator = Evaluator::new(
        config.agent.node_name.clone(),
        policy,
        config.role_overrides(),
        // What the agent saw this boot says what should be; the kernel log is read whole below.
        Memory {
            kernel: Default::default(),
            ..saved
                .memory_of(boot_id.as_deref())
                .cloned()
                .unwrap_or_default()
        },
        config.hysteresis.clone(),
    );
    let log = crate::kernel_log::settings(
        &host,
        &config.agent.kmsg,
        config.agent.kmsg_all_facilities,
        None,
    );
    let now = clock.now();
    let read = tokio::task::spawn_blocking(move || crate::kernel_log::read_existing(&log, now));
    while !sampler.looked_once() {
        sampler.run_until_change().await;
    }
    match tokio::time::timeout(config.intervals.deadline.duration(), read).await {
        Ok(Ok(Ok(items))) => {
            sampler.set_kernel_log(None, items.is_none());
            for (at, item) in items.unwrap_or_default() {
                evaluator.push_event(at, item.historic, &item.event);
            }
        }
        Ok(Ok(Err(fault))) => sampler.set_kernel_log(Some(fault), false),
        Ok(Err(_)) | Err(_) => {
            let fault = Fault {
                kind: FaultKind::Stalled,
                detail: "the kernel log did not answer".into(),
            };
            sampler.set_kernel_log(Some(fault), false);
        }
    }
    evaluator.evaluate(sampler.snapshot(Some(jiff::Timestamp::now())), Look::Once)
}

#[cfg(test)]
mod tests;
