//! This node's jobs as the loop knows them: what their logs tell, what the kernel shows of them,
//! and what their pods ask for, put together.

use super::cluster::Cluster;
use super::suspects;
use super::{Wake, start::Found};
use crate::check::nccl_daemon::{DaemonTrouble, daemon_trouble};
use crate::check::nccl_jobs::Jobs;
use crate::check::nccl_pods::gpus_without_rdma;
use crate::check::nccl_suspect::Suspect;
use crate::check::profile::GpuDirectTcp;
use crate::clock::Clock;
use crate::cluster::NodeFacts;
use crate::cluster::node::devices;
use crate::cluster::pods::{Health, PodTable};
use crate::config::Config;
use crate::jobs::{self, Settings, Wires};
use crate::observe::pod::{NodeDevices, PodFacts};
use crate::sampler::Sampler;
use crate::source::pod_logs::Progress;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What the logs alone tell.
pub(super) fn jobs_of(told: &jobs::Told) -> Jobs {
    Jobs {
        containers: told.containers.clone(),
        fallbacks_in_a_row: told.fallbacks_in_a_row,
        logs: (!told.absent).then(|| told.logs.clone()),
        ..Jobs::default()
    }
}

/// The part of the loop that knows of jobs.
pub(super) struct JobsPart {
    jobs: Arc<Jobs>,
    pods: watch::Receiver<Arc<PodTable>>,
    node_gpus: Arc<AtomicU32>,
    /// Where the reader of logs is; none where logs are not read.
    progress: Option<Arc<Progress>>,
    told: Option<jobs::Told>,
    deadline: Duration,
}

impl JobsPart {
    /// Starts the threads that the settings ask for.
    pub fn start(
        config: &Config,
        found: &Found,
        cluster: &Cluster,
        clock: Clock,
        tx: &mpsc::Sender<Wake>,
    ) -> Self {
        let node_gpus = Arc::new(AtomicU32::new(0));
        let pods = cluster.pods.clone();
        let progress = Settings::of(config).map(|settings| {
            let wires = Wires {
                clock,
                pods: pods.clone(),
                events: cluster.events.clone(),
                node_gpus: Arc::clone(&node_gpus),
                state: found.state.clone(),
                tx: tx.clone(),
            };
            jobs::spawn(&found.host, settings, wires)
        });
        if let Some(settings) = suspects::Settings::of(config) {
            let table = pods.clone();
            let facts = move || {
                let table = Arc::clone(&table.borrow());
                let running = table.by_uid.values().filter(|pod| !pod.finished);
                running.map(|pod| PodFacts::clone(pod)).collect()
            };
            suspects::spawn(Arc::clone(&found.host), settings, clock, facts, tx.clone());
        }
        JobsPart {
            jobs: Arc::default(),
            pods,
            node_gpus,
            progress,
            told: None,
            deadline: config.intervals.deadline.duration(),
        }
    }

    /// Takes in what the logs tell.
    pub fn logs(&mut self, told: jobs::Told) {
        let before = Arc::make_mut(&mut self.jobs);
        *before = Jobs {
            no_rdma: std::mem::take(&mut before.no_rdma),
            daemon_troubles: std::mem::take(&mut before.daemon_troubles),
            suspects: std::mem::take(&mut before.suspects),
            tcp_daemons: before.tcp_daemons,
            ..jobs_of(&told)
        };
        self.told = Some(told);
    }

    /// Takes in what is thought of pods that log nothing.
    pub fn suspects(&mut self, suspects: BTreeMap<String, Suspect>) {
        Arc::make_mut(&mut self.jobs).suspects = Arc::new(suspects);
    }

    /// What is known now, on a machine that needs this daemon beside its jobs, if any.
    pub fn jobs(&mut self, node: &NodeFacts, tcp: Option<GpuDirectTcp>) -> Arc<Jobs> {
        // As the device plugins count them: parts of a GPU (MIG) can be ranks of their own.
        let devices = node.offer.as_deref().map(devices);
        let gpus = devices.as_ref().map_or(0, |devices| devices.gpus);
        let gpus = u32::try_from(gpus).unwrap_or(0);
        self.node_gpus.store(gpus, Ordering::Relaxed);
        let table = Arc::clone(&self.pods.borrow());
        let no_rdma: Vec<_> = table
            .by_uid
            .values()
            .filter_map(|pod| gpus_without_rdma(pod, devices.as_ref()))
            .collect();
        if self.jobs.no_rdma != no_rdma {
            Arc::make_mut(&mut self.jobs).no_rdma = no_rdma;
        }
        let daemon_troubles = tcp.map_or_else(Vec::new, |tcp| {
            daemon_troubles(&table, tcp, devices.as_ref())
        });
        if self.jobs.daemon_troubles != daemon_troubles {
            Arc::make_mut(&mut self.jobs).daemon_troubles = daemon_troubles;
        }
        let tcp_daemons = (table.health == Health::Known).then(|| {
            let running = table.by_uid.values().filter(|pod| !pod.finished);
            running.filter(|pod| has_daemon(pod)).count()
        });
        if self.jobs.tcp_daemons != tcp_daemons {
            Arc::make_mut(&mut self.jobs).tcp_daemons = tcp_daemons;
        }
        Arc::clone(&self.jobs)
    }

    /// Tells the sampler how reading the logs goes.
    pub fn health(&self, sampler: &mut Sampler, clock: Clock) {
        let (Some(progress), Some(told)) = (&self.progress, &self.told) else {
            return;
        };
        let stalled = progress.busy_for(clock.now());
        let stalled = stalled.filter(|busy| *busy > self.deadline);
        sampler.set_health("pod_logs", told.fault.clone(), told.absent, stalled, None);
    }
}

fn has_daemon(pod: &PodFacts) -> bool {
    pod.containers
        .values()
        .any(|container| container.tcp_daemon)
}

/// Pods whose daemon is missing or down.
fn daemon_troubles(
    table: &PodTable,
    tcp: GpuDirectTcp,
    node: Option<&NodeDevices>,
) -> Vec<DaemonTrouble> {
    let pods = || table.by_uid.values().filter(|pod| !pod.finished);
    // One that has none of its own can only be served by another pod's.
    let another = pods().any(|pod| has_daemon(pod));
    pods()
        .filter_map(|pod| daemon_trouble(pod, tcp, node, another))
        .collect()
}
