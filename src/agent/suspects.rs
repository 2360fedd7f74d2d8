//! The thread that looks at pods with GPUs: it blocks in reads, so it has its own.

use super::Wake;
use crate::check::nccl_suspect::{self, Suspect};
use crate::check::policy;
use crate::clock::Clock;
use crate::config::Config;
use crate::host::Host;
use crate::observe::pod::PodFacts;
use crate::sampler::suspects::{Netlink, SuspectWatch, gpu_pods};
use crate::source::device_checkpoint;
use crate::source::pod_processes::names;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Stack: paths, one JSON document, netlink buffers on the heap.
const STACK: usize = 512 * 1024;

/// What the thread is told once.
pub(super) struct Settings {
    every: Duration,
    pod_logs: PathBuf,
    policy: policy::Nccl,
    exclude: Vec<crate::glob::Glob>,
}

impl Settings {
    /// Out of the agent's; none where nobody wants to know.
    pub fn of(config: &Config) -> Option<Settings> {
        config.nccl.suspects.then(|| Settings {
            every: config.nccl.suspects_every.duration(),
            pod_logs: config.nccl.pod_logs.clone(),
            policy: config.policy.nccl.clone(),
            exclude: config.counters.exclude.clone(),
        })
    }
}

/// Starts it. `pods` gives what the API server tells of this node's pods; nothing where it is not
/// asked. Ends when the agent no longer listens.
pub(super) fn spawn(
    host: Arc<Host>,
    settings: Settings,
    clock: Clock,
    pods: impl Fn() -> Vec<PodFacts> + Send + 'static,
    tx: mpsc::Sender<Wake>,
) {
    crate::blocking::spawn_with_stack("suspects", STACK, move || {
        let view = Netlink::new(&host);
        let mut watch = SuspectWatch::new(view, settings.exclude);
        let mut suspects: BTreeMap<String, Suspect> = BTreeMap::new();
        loop {
            let look = || {
                let checkpoint = device_checkpoint::read(&host);
                let names = match checkpoint.value() {
                    Some(_) => names::read(&host, &settings.pod_logs),
                    None => BTreeMap::new(),
                };
                let pods = gpu_pods(&pods(), checkpoint.value(), &names);
                let threshold = settings.policy.suspect_bytes_per_second;
                let look = watch.look(&host, &pods, threshold, clock.now());
                nccl_suspect::judge_all(&suspects, &look, &settings.policy)
            };
            let Ok(judged) = catch_unwind(AssertUnwindSafe(look)) else {
                // What was thought last is not what is so.
                tracing::error!("looking at pods panicked; this is a bug in selvage");
                let _ = tx.blocking_send(Wake::Suspects(BTreeMap::new()));
                return;
            };
            let changed = judged != suspects;
            suspects = judged;
            if changed && tx.blocking_send(Wake::Suspects(suspects.clone())).is_err() {
                return;
            }
            std::thread::sleep(settings.every);
            if tx.is_closed() {
                return;
            }
        }
    });
}
