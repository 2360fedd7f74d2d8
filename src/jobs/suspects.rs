//! Watches pods with GPUs for traffic that says what their logs do not.

use super::{Inputs, Update};
use crate::check::nccl_suspect::{self, Suspect};
use crate::config::Config;
use crate::observe::pod::{Job, PodFacts};
use crate::observe::traffic::GpuPod;
use crate::source::{device_checkpoint, pod_processes, slurm_jobs};
use crate::supervise;
use crate::tcp_watch::{Netlink, TcpWatch, gpu_pods};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Stack of the thread, in bytes.
const STACK: usize = 256 * 1024;

/// Longest time between two signs of progress while it waits.
const BEAT: Duration = Duration::from_secs(1);

struct Watch {
    config: Config,
    inputs: Inputs,
    traffic: TcpWatch<Netlink>,
    suspects: BTreeMap<String, Suspect>,
}

impl Watch {
    /// One look; it blocks. True if any verdict changed.
    fn look(&mut self) -> bool {
        let host = &self.inputs.host;
        let table = Arc::clone(&self.inputs.pods.borrow());
        let running = table.by_uid.values().filter(|pod| !pod.finished);
        let facts: Vec<PodFacts> = running.map(|pod| PodFacts::clone(pod)).collect();
        let checkpoint = device_checkpoint::read(host);
        let names = match checkpoint.value() {
            Some(_) => pod_processes::names(host, &self.config.nccl.pod_logs),
            None => BTreeMap::new(),
        };
        let mut pods = gpu_pods(&facts, checkpoint.value(), &names);
        // Jobs of Slurm share the host's network: only that of a job alone can be told.
        if pods.is_empty() && slurm_jobs::has_gpus(host) {
            let jobs = slurm_jobs::running(host);
            let alone = jobs.len() == 1;
            let jobs = jobs.into_keys();
            pods.extend(jobs.map(|job| (slurm_jobs::uid(job), slurm_job(job, alone))));
        }
        let policy = &self.config.policy.nccl;
        let threshold = policy.suspect_bytes_per_second;
        let look = (self.traffic).look(host, &pods, threshold, self.inputs.clock.now());
        let judged = nccl_suspect::judge_all(&self.suspects, &look, policy);
        let changed = judged != self.suspects;
        self.suspects = judged;
        changed
    }
}

fn slurm_job(job: u32, alone: bool) -> GpuPod {
    let (kind, name) = ("Slurm".into(), job.to_string());
    GpuPod {
        job: Some(Job { kind, name }),
        alone,
        ..GpuPod::default()
    }
}

/// Starts the thread that looks at intervals until the receiver of `tx` is dropped.
pub(super) fn spawn<T: From<Update> + Send + 'static>(
    config: Config,
    inputs: Inputs,
    tx: mpsc::Sender<T>,
) {
    let every = config.nccl.suspects_every.duration();
    let supervisor = inputs.supervisor.clone();
    supervisor.thread(supervise::TCP_WATCH, STACK, move |task| {
        let exclude = config.counters.exclude.clone();
        let mut watch = Watch {
            traffic: TcpWatch::new(Netlink::new(&inputs.host), exclude),
            suspects: BTreeMap::new(),
            config: config.clone(),
            inputs: inputs.clone(),
        };
        let tell = |suspects: &BTreeMap<_, _>| {
            let update = Update::Suspects(suspects.clone());
            tx.blocking_send(update.into()).is_ok()
        };
        // After a panic, the last verdicts are not current any more.
        let mut told = tell(&watch.suspects);
        while told && !tx.is_closed() {
            told = !watch.look() || tell(&watch.suspects);
            let looked = watch.inputs.clock.now();
            while !tx.is_closed() && watch.inputs.clock.now().since(looked) < every {
                task.beat();
                std::thread::sleep(every.min(BEAT));
            }
        }
        Ok(())
    });
}
