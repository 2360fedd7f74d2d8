//! The writer on a thread and runtime of its own: nothing that it waits for, and no list of ten
//! thousand nodes that it reads, holds up sampling or scraping.

use crate::cluster::api::is_in_cluster;
use crate::cluster::settings::Mode;
use crate::cluster::writer::{VerdictChange, Wires};
use crate::cluster::{Told, Writer};
use crate::config::Config;
use crate::report::{ClusterStatus, Report, State};
use crate::thread;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Changes of verdict that may wait for the writer.
const WAITING: usize = 64;

/// TLS and JSON go deeper than one call.
const STACK: usize = 1024 * 1024;

/// The agent's end of the wires to the writer.
pub(super) struct Cluster {
    /// None where there is no cluster to tell.
    told: Option<watch::Receiver<Told>>,
    changes: mpsc::Sender<VerdictChange>,
    state: Option<State>,
    found: bool,
}

impl Cluster {
    /// Starts the writer, if there is a cluster and it is to be told.
    pub fn start(
        config: &Config,
        reports: watch::Receiver<Arc<Report>>,
        mut stop: watch::Receiver<bool>,
    ) -> Self {
        let (changes, changes_rx) = mpsc::channel(WAITING);
        let mut cluster = Cluster {
            told: None,
            changes,
            state: None,
            found: false,
        };
        if config.cluster.mode == Mode::Off {
            return cluster;
        }
        if !is_in_cluster(&config.cluster) {
            tracing::info!("no Kubernetes cluster here: nothing is written to a Node");
            return cluster;
        }
        let (told, told_rx) = watch::channel(Told::default());
        let wires = Wires {
            reports,
            changes: changes_rx,
            told,
        };
        let (settings, node) = (config.cluster.clone(), config.agent.node_name.clone());
        thread::spawn_with_stack("cluster", STACK, move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => runtime.block_on(async {
                    let writer = Writer::new(settings, &node);
                    let stopped = async {
                        let _ = stop.wait_for(|stop| *stop).await;
                    };
                    writer.run(wires, stopped).await;
                }),
                Err(error) => tracing::error!(%error, "nothing can be written to the Node"),
            }
        });
        cluster.told = Some(told_rx);
        cluster
    }

    /// Waits until the writer tells something new.
    pub async fn heard(&mut self) {
        if let Some(told) = &mut self.told
            && told.changed().await.is_ok()
        {
            return;
        }
        // No writer, or it has ended.
        self.told = None;
        std::future::pending().await
    }

    /// What the writer last told.
    pub fn told(&self) -> Told {
        self.told
            .as_ref()
            .map_or_else(Told::default, |told| told.borrow().clone())
    }

    /// Whether the node was just seen for the first time, with our taint on it.
    pub fn found_tainted(&mut self) -> bool {
        match self.told().tainted {
            Some(tainted) if !self.found => {
                self.found = true;
                tainted
            }
            _ => false,
        }
    }

    /// For the report.
    pub fn status(&self, told: &Told) -> Option<Arc<ClusterStatus>> {
        self.told.is_some().then(|| Arc::new(told.status.clone()))
    }

    /// A change of verdict is told as an event.
    pub fn note_change(&mut self, report: &Report) {
        if !report.full_window || self.state == Some(report.state) || self.told.is_none() {
            return;
        }
        let change = VerdictChange::of(report, self.state.is_none());
        self.state = Some(report.state);
        // More than fit are not told one by one: the condition tells what is.
        let _ = self.changes.try_send(change);
    }
}
