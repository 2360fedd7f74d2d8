//! Watches pods with GPUs for traffic that says what their logs do not.

use super::{Inputs, JobUpdate};
use crate::check::suspect::{self, Suspect};
use crate::config::Config;
use crate::observe::{GpuPod, PodFacts, PodJob};
use crate::source::{device_checkpoint, pod_processes, slurm_jobs};
use crate::supervise;
use crate::tcp_watch::{Netlink, TcpWatch, gpu_pods};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Stack of the thread, in bytes.
const STACK: usize = 256 * 1024;

/// Longest time between two signs of progress while it waits.
const BEAT: Duration = Duration::from_secs(1);

/// Takes one look, which blocks, and judges it together with the earlier ones in `before`.
fn look(
    config: &Config,
    inputs: &Inputs,
    traffic: &mut TcpWatch<Netlink>,
    before: &BTreeMap<String, Suspect>,
) -> BTreeMap<String, Suspect> {
    let host = &inputs.host;
    let table = Arc::clone(&inputs.pods.borrow());
    let running = table.by_uid.values().filter(|pod| !pod.finished);
    let facts: Vec<PodFacts> = running.map(|pod| PodFacts::clone(pod)).collect();
    let checkpoint = device_checkpoint::read(host);
    let names = |_| pod_processes::names(host, &config.nccl.pod_logs);
    let names = checkpoint.value().map(names).unwrap_or_default();
    let mut pods = gpu_pods(&facts, checkpoint.value(), &names);
    // Jobs of Slurm share the host's network: only that of a job alone can be told.
    if pods.is_empty() && slurm_jobs::has_gpus(host) {
        let jobs = slurm_jobs::running(host);
        let alone = jobs.len() == 1;
        let jobs = jobs.into_keys();
        pods.extend(jobs.map(|job| (slurm_jobs::uid(job), slurm_job(job, alone))));
    }
    let policy = &config.policy.nccl;
    let threshold = policy.suspect_bytes_per_second;
    let look = traffic.look(host, &pods, threshold, inputs.clock.now());
    suspect::judge_all(before, &look, policy)
}

fn slurm_job(job: u32, alone: bool) -> GpuPod {
    let (kind, name) = ("Slurm".into(), job.to_string());
    GpuPod {
        job: Some(PodJob { kind, name }),
        alone,
        ..GpuPod::default()
    }
}

/// Starts the thread that looks at intervals until the receiver of `tx` is dropped.
pub(super) fn spawn<T: From<JobUpdate> + Send + 'static>(
    config: Config,
    inputs: Inputs,
    tx: mpsc::Sender<T>,
) {
    let every = config.nccl.suspects_every.duration();
    let supervisor = inputs.supervisor.clone();
    supervisor.thread(supervise::TCP_WATCH, STACK, move |task| {
        let exclude = config.counters.exclude.clone();
        let mut traffic = TcpWatch::new(Netlink::new(&inputs.host), exclude);
        let mut suspects = BTreeMap::new();
        let tell = |suspects: &BTreeMap<_, _>| {
            let update = JobUpdate::Suspects(suspects.clone());
            tx.blocking_send(update.into()).is_ok()
        };
        // After a panic, the last verdicts are not current any more.
        let mut told = tell(&suspects);
        while told && !tx.is_closed() {
            let judged = look(&config, &inputs, &mut traffic, &suspects);
            told = judged == suspects || tell(&judged);
            suspects = judged;
            let looked = inputs.clock.now();
            while !tx.is_closed() && inputs.clock.now().since(looked) < every {
                task.beat();
                std::thread::sleep(every.min(BEAT));
            }
        }
        Ok(())
    });
}
