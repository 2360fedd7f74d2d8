//! The loop that owns a node: sampler, kernel log and events in; judged reports out. The only file
//! that may name every layer.

use crate::config::Config;
use crate::evaluate::{Evaluator, Look};
use crate::host::Host;
use crate::observe::history::Memory;
use crate::observe::kernel::KernelEvent;
use crate::observe::reading::Fault;
use crate::observe::snapshot::SourceHealth;
use crate::report::Report;
use crate::report::http::{self, ServeState};
use crate::sampler::{Clock, Sampler};
use crate::source::netlink::{monitor, rdma, route};
use crate::state::StateDir;
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
        /// It was logged before the agent started.
        historic: bool,
        /// The event.
        event: Box<KernelEvent>,
    },
    /// The kernel log's own health.
    KernelLog {
        /// Records overwritten before they were read, in all.
        lost: u64,
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
    #[error("cannot listen on {address}: {source}")]
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
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()>,
    mut observer: impl FnMut(&Report),
) -> Result<(), AgentError> {
    let host = Arc::new(Host::new(&config.agent.host_root));
    let state = StateDir::new(config.agent.state_dir.as_deref());
    let saved = state.load();
    let clock = Clock::starting_at(crate::clock::monotonic());
    let mut sampler = Sampler::new(
        Arc::clone(&host),
        config.sampler_plan(),
        clock,
        saved.restricted_of(crate::sampler::assemble::boot_id(&host).as_deref()),
    );
    let mut evaluator = Evaluator::new(
        config.agent.node_name.clone(),
        config.policy.clone(),
        config.role_overrides(),
        saved.memory,
    );
    evaluator.begin_boot(crate::sampler::assemble::boot_id(&host).as_deref());

    let first = evaluator.evaluate(
        sampler.snapshot(Some(jiff::Timestamp::now())),
        Look::Watching { full_window: false },
    );
    let (report_tx, report_rx) = watch::channel(Arc::new(first));
    let listener = tokio::net::TcpListener::bind(&config.agent.listen.to_string())
        .await
        .map_err(|source| AgentError::Listen {
            address: config.agent.listen.to_string(),
            source,
        })?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, root = %host.root().display(), live = host.is_live(), "serving");
    }
    let (stop_tx, stop_rx) = watch::channel(false);
    let server = tokio::spawn(http::serve(
        listener,
        Arc::new(ServeState::new(report_rx, crate::clock::process_stats, config.metrics_detail())),
        stopped(stop_rx),
    ));

    let (wake_tx, mut wake_rx) = mpsc::unbounded_channel();
    let kernel_log = crate::kernel_log::spawn(&config, &host, clock, &state, wake_tx.clone());
    if host.is_live() {
        spawn_event_threads(&wake_tx, config.uses_netlink());
    }
    drop(wake_tx);

    let mut loop_state = Loop {
        clock,
        saved_at: clock.now(),
        saved: None,
        full_window: false,
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            () = sampler.run_until_change() => {}
            Some(wake) = wake_rx.recv() => {
                take(wake, &mut sampler, &mut evaluator);
                while let Ok(more) = wake_rx.try_recv() {
                    take(more, &mut sampler, &mut evaluator);
                }
            }
        }
        loop_state.full_window |= sampler.full_window();
        let report = evaluator.evaluate(
            sampler.snapshot(Some(jiff::Timestamp::now())),
            Look::Watching {
                full_window: loop_state.full_window,
            },
        );
        observer(&report);
        report_tx.send_replace(Arc::new(report));
        loop_state.save_if_due(&state, &mut sampler, &evaluator, false);
    }
    loop_state.save_if_due(&state, &mut sampler, &evaluator, true);
    kernel_log.stop();
    let _ = stop_tx.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), server).await;
    Ok(())
}

struct Loop {
    clock: Clock,
    saved_at: Millis,
    saved: Option<(Memory, Vec<crate::units::PortKey>)>,
    full_window: bool,
}

impl Loop {
    /// Writes what is to be remembered if it changed: at once when a port was found restricted,
    /// else every few seconds.
    fn save_if_due(
        &mut self,
        state: &StateDir,
        sampler: &mut Sampler,
        evaluator: &Evaluator,
        force: bool,
    ) {
        let now = self.clock.now();
        let (new, restricted) = sampler.restricted();
        if !(force || new || now.since(self.saved_at) >= SAVE_EVERY) {
            return;
        }
        self.saved_at = now;
        let memory = evaluator.memory();
        let current = (memory, restricted);
        if self.saved.as_ref() == Some(&current) {
            return;
        }
        state.save(&current.0, &current.1);
        self.saved = Some(current);
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn take(wake: Wake, sampler: &mut Sampler, evaluator: &mut Evaluator) {
    match wake {
        Wake::Kernel {
            at,
            historic,
            event,
        } => evaluator.push_event(at, historic, &event),
        Wake::KernelLog {
            lost,
            fault,
            absent,
        } => {
            evaluator.set_records_lost(lost);
            sampler.set_kernel_log(SourceHealth {
                source: "kernel_log".into(),
                subject: String::new(),
                last_ok: None,
                micros: 0,
                stalled_since: None,
                fault,
                absent,
            });
        }
        Wake::Netdev(name) => sampler.netdev_changed(&name),
        Wake::Dcb => sampler.dcb_changed(),
        Wake::Devices => sampler.devices_changed(),
        Wake::Lost => sampler.resync(),
    }
}

/// Threads that wait for the kernel's events. Each ends when the agent no longer listens.
fn spawn_event_threads(tx: &mpsc::UnboundedSender<Wake>, rdma_netlink: bool) {
    const WAIT: Duration = Duration::from_secs(30);
    let links = tx.clone();
    spawn("rtnetlink", move || {
        let mut monitor = match route::LinkMonitor::open() {
            Ok(monitor) => monitor,
            Err(error) => {
                tracing::warn!(%error, "no rtnetlink events; polling only");
                return;
            }
        };
        while !links.is_closed() {
            let events = match monitor.wait(WAIT) {
                Ok(events) => events,
                Err(error) => {
                    tracing::warn!(%error, "rtnetlink");
                    std::thread::sleep(Duration::from_secs(1));
                    vec![route::RouteEvent::Lost]
                }
            };
            for event in events {
                let wake = match event {
                    route::RouteEvent::Link(link) => Wake::Netdev(link.name),
                    route::RouteEvent::DcbChanged => Wake::Dcb,
                    route::RouteEvent::Lost => Wake::Lost,
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
    spawn("rdma-monitor", move || {
        // Kernels before 6.12 take the subscription and send nothing.
        let supported = rdma::Client::open()
            .and_then(|mut client| client.system())
            .is_ok_and(|system| system.monitor);
        if !supported {
            tracing::info!("the kernel has no RDMA event monitor; devices are enumerated by polling");
            return;
        }
        let Ok(mut monitor) = monitor::Monitor::open() else {
            return;
        };
        while !devices.is_closed() {
            match monitor.wait(WAIT) {
                Ok(events) if events.is_empty() => {}
                Ok(events) => {
                    let lost = events.iter().any(|e| matches!(e, monitor::RdmaEvent::Lost));
                    let wake = if lost { Wake::Lost } else { Wake::Devices };
                    if devices.send(wake).is_err() {
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

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    let spawned = std::thread::Builder::new()
        .name(name.into())
        .stack_size(128 * 1024)
        .spawn(body);
    if let Err(error) = spawned {
        tracing::warn!(%error, name, "cannot start a thread");
    }
}
