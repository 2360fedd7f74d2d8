//! NCCL in this node's jobs: what their logs say, what the kernel shows of pods that log nothing, and
//! what pods ask for.

mod log_files;
mod pod_log_reader;
pub mod registry;
mod sidecar_record;
mod suspects;

pub use pod_log_reader::{PodLogStatus, read_once};

use crate::check::job_verdicts::Jobs;
use crate::check::nccl_daemon::{DaemonTrouble, daemon_trouble};
use crate::check::{nccl_pods::gpus_without_rdma, profile::GpuDirectTcp, suspect::Suspect};
use crate::clock::Clock;
use crate::cluster::EventSender;
use crate::cluster::pods::{Health, PodTable};
use crate::config::Config;
use crate::host::Host;
use crate::observe::{NodeResources, PodFacts};
use crate::sampler::{Followed, Sampler};
use crate::state::{Saver, StateDir};
use crate::supervise::{self, Supervisor};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{mpsc, watch};

/// News for [`NodeJobs`], on its way through the agent's loop.
#[derive(Debug)]
pub enum JobUpdate {
    /// What pods' logs say of NCCL changed.
    Logs(Box<PodLogStatus>),
    /// What traffic says of pods with GPUs changed; by UID.
    Suspects(BTreeMap<String, Suspect>),
}

/// Where jobs are looked for.
#[derive(Clone)]
pub struct Inputs {
    /// The node.
    pub host: Arc<Host>,
    /// The agent's clock.
    pub clock: Clock,
    /// Pods as the API server describes them.
    pub pods: watch::Receiver<Arc<PodTable>>,
    /// Publishes Events on pods.
    pub events: EventSender,
    /// Directory of what outlives a restart.
    pub state: StateDir,
    /// Writes into that directory.
    pub saver: Saver,
    /// Runs the readers.
    pub(crate) supervisor: Supervisor,
}

/// This node's jobs, put together from all that is known.
pub struct NodeJobs {
    jobs: Arc<Jobs>,
    suspects: Arc<BTreeMap<String, Suspect>>,
    pods: watch::Receiver<Arc<PodTable>>,
    /// GPUs of this node for the reader of logs; 0: unknown.
    node_gpus: Arc<AtomicU32>,
    reads_pods: bool,
    reads_files: bool,
    supervisor: Supervisor,
    pod_logs: Followed,
    log_files: Followed,
}

impl NodeJobs {
    /// Starts what the settings ask for; it ends when the receiver of `tx` is dropped.
    pub fn start<T: From<JobUpdate> + Send + 'static>(
        config: &Config,
        inputs: &Inputs,
        tx: &mpsc::Sender<T>,
    ) -> Self {
        let node_gpus = Arc::new(AtomicU32::new(0));
        let (reads_pods, reads_files) = (config.nccl.logs, !config.nccl.log_files.is_empty());
        if reads_pods || reads_files {
            let gpus = Arc::clone(&node_gpus);
            pod_log_reader::spawn(config.clone(), inputs.clone(), gpus, tx.clone());
        }
        if config.nccl.suspects {
            suspects::spawn(config.clone(), inputs.clone(), tx.clone());
        }
        NodeJobs {
            jobs: Arc::default(),
            suspects: Arc::default(),
            pods: inputs.pods.clone(),
            node_gpus,
            reads_pods,
            reads_files,
            supervisor: inputs.supervisor.clone(),
            pod_logs: None,
            log_files: None,
        }
    }

    /// Takes what one of the readers found.
    pub fn update(&mut self, update: JobUpdate) {
        match update {
            JobUpdate::Suspects(suspects) => self.suspects = Arc::new(suspects),
            JobUpdate::Logs(status) => {
                self.jobs = Arc::new(status.jobs);
                (self.pod_logs, self.log_files) = (status.pods, status.files);
            }
        }
    }

    /// The jobs now. `offer`: what the node offers to pods; `tcp`: the daemon that jobs need on this
    /// kind of machine, if any.
    pub fn current(
        &mut self,
        offer: Option<&NodeResources>,
        tcp: Option<GpuDirectTcp>,
    ) -> Arc<Jobs> {
        // As the device plugins count them: parts of a GPU (MIG) can be ranks of their own.
        let gpus = offer.map_or(0, NodeResources::gpus);
        let gpus = u32::try_from(gpus).unwrap_or(0);
        self.node_gpus.store(gpus, Ordering::Relaxed);
        let table = Arc::clone(&self.pods.borrow());
        let no_rdma = (table.by_uid.values()).filter_map(|pod| gpus_without_rdma(pod, offer));
        let running = || table.by_uid.values().filter(|pod| !pod.finished);
        let daemon = |pod: &PodFacts| pod.containers.values().any(|of| of.tcp_daemon);
        let with_daemon = running().filter(|pod| daemon(pod)).count();
        let trouble = |tcp| {
            // A pod without a daemon can only be served by another pod's.
            let troubles =
                running().filter_map(|pod| daemon_trouble(pod, tcp, offer, with_daemon > 0));
            troubles.collect::<Vec<DaemonTrouble>>()
        };
        // What a watcher that hangs saw last may have ended since.
        let suspects = match self.supervisor.silent(supervise::TCP_WATCH) {
            None => Arc::clone(&self.suspects),
            Some(_) => Arc::default(),
        };
        let now = Jobs {
            suspects,
            no_rdma: no_rdma.collect(),
            daemon_troubles: tcp.map(trouble).unwrap_or_default(),
            tcp_daemons: (table.health == Health::Known).then_some(with_daemon),
            ..Jobs::clone(&self.jobs)
        };
        if now != *self.jobs {
            self.jobs = Arc::new(now);
        }
        Arc::clone(&self.jobs)
    }

    /// Reports how reading the logs goes; whether pods' logs were read once, as far as they can be.
    pub fn report_health(&self, sampler: &mut Sampler) -> bool {
        if self.reads_files {
            let stalled = self.supervisor.silent(supervise::LOG_FILES);
            sampler.set_health("log_files", &self.log_files, stalled);
        }
        let stalled = self.supervisor.silent(supervise::POD_LOGS);
        !self.reads_pods || sampler.set_health("pod_logs", &self.pod_logs, stalled)
    }
}
