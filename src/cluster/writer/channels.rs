//! What reaches and leaves the writer.

use crate::cluster::desired;
use crate::cluster::events::EventRequest;
use crate::cluster::silence::Mutes;
use crate::observe::node_resources::NodeResources;
use crate::report::{ClusterStatus, Report, State};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// What the Node object says that the agent judges by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFacts {
    /// Whether the Node carried our taint when it was first seen; `None` until then.
    pub found_tainted: Option<bool>,
    /// Checks, and the taint, that an operator muted by annotation.
    pub mutes: Mutes,
    /// What the Node promises to pods; `None` until the kubelet reports.
    pub offer: Option<Arc<NodeResources>>,
}

/// A change of verdict, to be published as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictChange {
    /// The first verdict since the agent started: published only if the Node's label differs.
    pub first: bool,
    /// The verdict since then.
    pub state: State,
    /// What to publish.
    pub event: EventRequest,
}

impl VerdictChange {
    /// The change that a report shows.
    pub fn of(report: &Report, first: bool) -> Self {
        VerdictChange {
            first,
            state: report.state,
            event: EventRequest::of_verdict(report.state, desired::condition(report)),
        }
    }
}

/// What reaches and leaves the writer.
pub struct WriterChannels {
    /// Reports; only the latest counts.
    pub reports: watch::Receiver<Arc<Report>>,
    /// Changes of verdict, each of which is published.
    pub changes: mpsc::Receiver<VerdictChange>,
    /// Events on pods, each of which is published.
    pub pod_events: mpsc::Receiver<EventRequest>,
    /// What the writer has done, for those who show it. `None` until it runs.
    pub status: watch::Sender<Option<Arc<ClusterStatus>>>,
    /// What the Node says, for the agent.
    pub node: watch::Sender<NodeFacts>,
}

impl WriterChannels {
    /// Sends what has changed.
    pub(super) fn send(&self, status: &ClusterStatus, facts: &NodeFacts) {
        self.status.send_if_modified(|sent| {
            let differs = sent.as_deref() != Some(status);
            if differs {
                *sent = Some(Arc::new(status.clone()));
            }
            differs
        });
        self.node.send_if_modified(|sent| {
            let differs = sent != facts;
            if differs {
                sent.clone_from(facts);
            }
            differs
        });
    }
}
