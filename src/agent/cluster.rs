//! The writer of the Node and the watch of its pods, on a thread and runtime of their own, so that a
//! slow API server or a list of ten thousand nodes never delays sampling or scraping.

use super::stopped;
use crate::blocking::lock;
use crate::cluster::pods::{Health, PodTable, PodWatch};
use crate::cluster::writer::WriterChannels;
use crate::cluster::{EventRequest, EventSender, Mode, NodeFacts, RateLimits, Writer, api, reach};
use crate::config::{Config, PodSource};
use crate::report::{ClusterStatus, Report, State};
use crate::supervise::{self, Supervisor};
use futures::future::OptionFuture;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};

/// Changes of verdict that may wait for the writer.
const WAITING: usize = 64;

/// TLS and JSON go deeper than one call.
const STACK: usize = 4 * 1024 * 1024;

/// What the cluster's side tells the agent.
pub struct ClusterLink {
    /// What the writer has done, for those who show it; `None` in it where nothing is written.
    pub status: watch::Receiver<Option<Arc<ClusterStatus>>>,
    /// What the Node object says of what is judged: mutes, devices, promises.
    pub node: watch::Receiver<NodeFacts>,
    /// The node's pods as the API server has them; `off` where they are not watched.
    pub pods: watch::Receiver<Arc<PodTable>>,
}

/// The agent's ends of the channels to and from the cluster.
pub(super) struct Cluster {
    pub link: ClusterLink,
    changes: mpsc::Sender<EventRequest>,
    /// Takes events on pods, and drops them where no Node is written.
    pub events: EventSender,
    state: Option<State>,
}

/// Whether the Node is written, and pods are watched; `None`: neither, or without a cluster.
fn wanted(config: &Config) -> Option<(bool, bool)> {
    let writes = config.cluster.mode != Mode::Off;
    let asks = match config.nccl.pods {
        PodSource::Auto => writes,
        PodSource::Api => true,
        PodSource::Paths => false,
    };
    if !writes && !asks {
        return None;
    }
    if !api::is_in_cluster(&config.cluster) {
        tracing::info!("not in a Kubernetes cluster; Node writer and pod watch are off");
        return None;
    }
    Some((writes, asks))
}

impl Cluster {
    /// With a stand-in for the cluster (`link`), else with the writer and the watch of the node's pods,
    /// if there is a cluster and they are wanted.
    pub fn start(
        config: &Config,
        link: Option<ClusterLink>,
        reports: watch::Receiver<Arc<Report>>,
        stop: watch::Receiver<bool>,
        supervisor: &Supervisor,
    ) -> Self {
        let (changes, changes_rx) = mpsc::channel(WAITING);
        let (events, events_rx) = EventSender::channel();
        let (table, pods) = watch::channel(Arc::new(PodTable::default()));
        let (status_tx, status) = watch::channel(None);
        let (node_tx, node) = watch::channel(NodeFacts::default());
        let wanted = link.is_none().then(|| wanted(config)).flatten();
        let cluster = Cluster {
            link: link.unwrap_or(ClusterLink { status, node, pods }),
            changes,
            events,
            state: None,
        };
        let Some((writes, asks)) = wanted else {
            return cluster;
        };
        if asks {
            // Before the watch has begun, logs wait for facts about their pods.
            table.send_modify(|table| Arc::make_mut(table).health = Health::Away);
        }
        let (settings, name) = (config.cluster.clone(), config.agent.node_name.clone());
        let channels = Mutex::new(WriterChannels {
            reports,
            changes: changes_rx,
            pod_events: events_rx,
            status: status_tx,
            node: node_tx,
        });
        let ((_, memory), limits) = (config.nccl.memory(), RateLimits::default());
        supervisor.thread(supervise::CLUSTER, STACK, move |task| {
            let mut channels = lock(&channels);
            let settings = settings.clone();
            // Boxed: all that a client's futures hold would not fit on the stack several times over.
            let writer = Box::pin(Writer::new(settings.clone(), &name, limits).run(&mut channels));
            let writer = OptionFuture::from(writes.then_some(writer));
            let watch = PodWatch::new(settings.clone(), &name, memory, limits).run(table.clone());
            let watch = OptionFuture::from(asks.then_some(Box::pin(watch)));
            let reach = Box::pin(reach::log_reach(settings, &name));
            let reach = OptionFuture::from(writes.then_some(reach));
            let all = async {
                tokio::select! {
                    () = stopped(stop.clone()) => {}
                    _ = futures::future::join3(writer, watch, reach) => {}
                }
            };
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build()?;
            runtime.block_on(task.beating(all));
            Ok(())
        });
        cluster
    }

    /// What the writer has done. A value of its own: the one that looks at it may send the next one.
    pub fn status(&self) -> Option<Arc<ClusterStatus>> {
        self.link.status.borrow().clone()
    }

    /// What the Node object last said.
    pub fn node(&self) -> NodeFacts {
        self.link.node.borrow().clone()
    }

    /// Has a change of verdict published as an event.
    pub fn note_change(&mut self, report: &Report) {
        if !report.full_window || self.state == Some(report.state) {
            return;
        }
        let change = EventRequest::of_verdict(report, self.state.is_none());
        self.state = Some(report.state);
        // What does not fit, or is received by none, is not published; the condition has the latest
        // verdict.
        let _ = self.changes.try_send(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pods_are_unknown_until_they_are_listed() {
        let mut config = Config::default();
        for (kubeconfig, asks, want) in [
            ("/no/such/file", PodSource::Api, Health::Away),
            ("/no/such/file", PodSource::Paths, Health::Off),
            ("", PodSource::Api, Health::Off),
        ] {
            config.cluster.kubeconfig = kubeconfig.into();
            config.nccl.pods = asks;
            let report = Arc::new(crate::agent::start::report(&config));
            let (_report, reports) = watch::channel(report);
            // Stopped at once: what counts is what stands before the thread runs.
            let (_stop, stop) = watch::channel(true);
            let supervisor = Supervisor::new(std::time::Duration::from_secs(60));
            let cluster = Cluster::start(&config, None, reports, stop, &supervisor);
            assert_eq!(cluster.link.pods.borrow().health, want, "{kubeconfig}");
        }
    }
}
