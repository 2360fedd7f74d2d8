//! The writer on a thread and runtime of its own: nothing that it waits for, and no list of ten
//! thousand nodes that it reads, holds up sampling or scraping.

use crate::blocking;
use crate::cluster::api::is_in_cluster;
use crate::cluster::pods::{PodTable, PodWatch};
use crate::cluster::settings::Mode;
use crate::cluster::writer::{VerdictChange, Wires};
use crate::cluster::{EventSender, NodeFacts, Writer};
use crate::config::{Config, PodSource};
use crate::report::{ClusterStatus, Report, State};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Changes of verdict that may wait for the writer.
const WAITING: usize = 64;

/// TLS and JSON go deeper than one call.
const STACK: usize = 1024 * 1024;

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// What the Node object says of what is judged: mutes, devices, promises.
    Node,
    /// What the writer has done: for those who show it.
    Status,
}

/// The agent's end of the wires to the writer.
pub(super) struct Cluster {
    /// What the writer has done; `None` in it where nothing is written.
    status: watch::Receiver<Option<Arc<ClusterStatus>>>,
    node: watch::Receiver<NodeFacts>,
    writes: bool,
    changes: mpsc::Sender<VerdictChange>,
    events: EventSender,
    pods: watch::Receiver<Arc<PodTable>>,
    state: Option<State>,
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
        let (status, status_rx) = watch::channel(None);
        let (node, node_rx) = watch::channel(NodeFacts::default());
        let mut cluster = Cluster {
            status: status_rx,
            node: node_rx,
            writes: false,
            changes,
            events,
            pods,
            state: None,
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
        let (settings, name) = (config.cluster.clone(), config.agent.node_name.clone());
        let mut parts: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        if writes {
            let wires = Wires {
                reports,
                changes: changes_rx,
                pods: events_rx,
                status,
                node,
            };
            let writer = Writer::new(settings.clone(), &name);
            parts.push(Box::pin(writer.run(wires, stopped(stop.clone()))));
            cluster.writes = true;
        }
        if asks {
            let watch = PodWatch::new(settings, &name);
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

    /// Waits until the writer or the Node object has news; for ever where nothing writes.
    pub async fn changed(&mut self) -> Change {
        let (changed, change) = tokio::select! {
            changed = self.node.changed() => (changed, Change::Node),
            changed = self.status.changed() => (changed, Change::Status),
        };
        match changed {
            Ok(()) => change,
            // There is no writer, or it has ended.
            Err(_) => std::future::pending().await,
        }
    }

    /// What the Node object last said.
    pub fn node(&self) -> NodeFacts {
        self.node.borrow().clone()
    }

    /// What the writer has done.
    pub fn status(&self) -> watch::Receiver<Option<Arc<ClusterStatus>>> {
        self.status.clone()
    }

    /// A change of verdict is told as an event.
    pub fn note_change(&mut self, report: &Report) {
        if !report.full_window || self.state == Some(report.state) || !self.writes {
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
