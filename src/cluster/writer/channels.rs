//! What reaches and leaves the writer.

use crate::cluster::events::EventRequest;
use crate::cluster::silence::Mutes;
use crate::observe::node_resources::NodeResources;
use crate::report::{ClusterStatus, Report};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// What the Node object says that the agent judges by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeFacts {
    /// Whether the Node carried our taint when it was first seen; `None` until then.
    pub found_tainted: Option<bool>,
    /// Checks, and the taint, that an operator muted by annotation.
    pub mutes: Mutes,
    /// Value of the annotation that accepts the machine as it is; `None` if it is absent or no moment.
    pub accept: Option<jiff::Timestamp>,
    /// What the Node promises to pods; `None` until the kubelet reports.
    pub offer: Option<Arc<NodeResources>>,
}

/// What reaches and leaves the writer.
pub struct WriterChannels {
    /// Reports; only the latest counts.
    pub reports: watch::Receiver<Arc<Report>>,
    /// Changes of verdict, each of which is published.
    pub changes: mpsc::Receiver<EventRequest>,
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
        if self.status.borrow().as_deref() != Some(status) {
            self.status.send_replace(Some(Arc::new(status.clone())));
        }
        if *self.node.borrow() != *facts {
            self.node.send_replace(facts.clone());
        }
    }
}
