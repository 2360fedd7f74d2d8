//! The writer on a thread and runtime of its own: nothing that it waits for, and no list of ten
//! thousand nodes that it reads, holds up sampling or scraping.

use crate::blocking;
use crate::cluster::api::is_in_cluster;
use crate::cluster::pods::{PodTable, PodWatch};
use crate::cluster::settings::Mode;
use crate::cluster::writer::{VerdictChange, Wires};
use crate::cluster::{EventSender, Told, Writer};
use crate::config::{Config, PodSource};
use crate::report::{ClusterStatus, Report, State};
use std::pin::Pin;
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
    events: EventSender,
    pods: watch::Receiver<Arc<PodTable>>,
    state: Option<State>,
    found: bool,
}

impl Cluster {
    /// Starts the writer and the watch of the node's pods, if there is a cluster and they are wanted.
    pub fn start(
        config: &Config,
        reports: watch::Receiver<Arc<Report>>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (changes, changes_rx) = mpsc::channel(WAITING);
        let (events, events_rx) = EventSender::channel();
        let (table, pods) = watch::channel(Arc::new(PodTable::default()));
        let mut cluster = Cluster {
            told: None,
            changes,
            events,
            pods,
            state: None,
            found: false,
        };
        let writes = config.cluster.mode != Mode::Off;
        let asks = match config.nccl.pods {
            PodSource::Auto => writes,
            PodSource::Api => true,
            PodSource::Paths => false,
        };
        if !writes && !asks {
            return cluster;
        }
        if !is_in_cluster(&config.cluster) {
            tracing::info!("no Kubernetes cluster here: nothing is written to a Node");
            return cluster;
        }
        let (settings, node) = (config.cluster.clone(), config.agent.node_name.clone());
        let mut parts: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        if writes {
            let (told, told_rx) = watch::channel(Told::default());
            let wires = Wires {
                reports,
                changes: changes_rx,
                pods: events_rx,
                told,
            };
            let writer = Writer::new(settings.clone(), &node);
            parts.push(Box::pin(writer.run(wires, stopped(stop.clone()))));
            cluster.told = Some(told_rx);
        }
        if asks {
            let watch = PodWatch::new(settings, &node);
            parts.push(Box::pin(watch.run(table, stopped(stop))));
        }
        blocking::spawn_with_stack("cluster", STACK, move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(futures::future::join_all(parts));
                }
                Err(error) => tracing::error!(%error, "nothing can be written to the Node"),
            }
        });
        cluster
    }

    /// The node's pods as the API server has them; `off` where nobody asks it.
    pub fn pods(&self) -> watch::Receiver<Arc<PodTable>> {
        self.pods.clone()
    }

    /// Where events on pods are handed in; what is, goes nowhere where nothing is written.
    pub fn events(&self) -> EventSender {
        self.events.clone()
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

async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
