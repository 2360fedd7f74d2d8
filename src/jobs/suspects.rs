//! Watches pods with GPUs for traffic that says what their logs do not.

use super::{Inputs, Update};
use crate::check::nccl_suspect::{self, Suspect};
use crate::config::Config;
use crate::observe::pod::PodFacts;
use crate::source::device_checkpoint;
use crate::source::pod_processes::names;
use crate::tcp_watch::{Netlink, TcpWatch, gpu_pods};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

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
            Some(_) => names::read(host, &self.config.nccl.pod_logs),
            None => BTreeMap::new(),
        };
        let pods = gpu_pods(&facts, checkpoint.value(), &names);
        let policy = &self.config.policy.nccl;
        let threshold = policy.suspect_bytes_per_second;
        let look = (self.traffic).look(host, &pods, threshold, self.inputs.clock.now());
        let judged = nccl_suspect::judge_all(&self.suspects, &look, policy);
        let changed = judged != self.suspects;
        self.suspects = judged;
        changed
    }
}

/// Looks at intervals until the receiver of `tx` is dropped.
pub(super) async fn watch<T: From<Update>>(config: Config, inputs: Inputs, tx: mpsc::Sender<T>) {
    let every = config.nccl.suspects_every.duration();
    let exclude = config.counters.exclude.clone();
    let mut watch = Watch {
        traffic: TcpWatch::new(Netlink::new(&inputs.host), exclude),
        suspects: BTreeMap::new(),
        config,
        inputs,
    };
    loop {
        let looked = tokio::task::spawn_blocking(move || {
            let changed = watch.look();
            (watch, changed)
        });
        let Ok((back, changed)) = looked.await else {
            tracing::error!(
                "bug in selvage: looking at pods' traffic panicked; it is not watched any more"
            );
            // The last verdicts are not current any more.
            let _ = tx.send(Update::Suspects(BTreeMap::new()).into()).await;
            return;
        };
        watch = back;
        let update = || Update::Suspects(watch.suspects.clone());
        if changed && tx.send(update().into()).await.is_err() {
            return;
        }
        tokio::select! {
            () = tx.closed() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
}
