//! What reaches and leaves the writer.

use crate::cluster::desired;
use crate::cluster::events::{self, Notice};
use crate::cluster::mute::Mutes;
use crate::cluster::pod_events::PodNotice;
use crate::observe::node_resources::NodeResources;
use crate::observe::pod::NodeDevices;
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
    /// GPUs and RDMA devices that pods on the node may request; `None` until the kubelet reports.
    pub devices: Option<NodeDevices>,
    /// What the Node promises to pods; `None` until the kubelet reports.
    pub offer: Option<Arc<NodeResources>>,
}

/// A change of verdict, to be told as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictChange {
    /// The first verdict since the agent started: told only if the node says another.
    pub first: bool,
    /// The verdict.
    pub state: State,
    /// Words for people.
    pub notice: Notice,
}

impl VerdictChange {
    /// The change that a report shows.
    pub fn of(report: &Report, first: bool) -> Self {
        VerdictChange {
            first,
            state: report.state,
            notice: events::of_verdict(report.state, &desired::condition(report)),
        }
    }
}

/// What reaches and leaves the writer.
pub struct Wires {
    /// Reports; only the latest counts.
    pub reports: watch::Receiver<Arc<Report>>,
    /// Changes of verdict, each.
    pub changes: mpsc::Receiver<VerdictChange>,
    /// Events on pods, each.
    pub pods: mpsc::Receiver<PodNotice>,
    /// What the writer has done, for those who show it. `None` until it runs.
    pub status: watch::Sender<Option<Arc<ClusterStatus>>>,
    /// What the Node says, for the agent.
    pub node: watch::Sender<NodeFacts>,
}
