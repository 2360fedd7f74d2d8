//! A stand-in for the cluster: the nodes' pods and devices, and the taint within its budget, by the
//! rules of the real writer but without an API server.

use crate::agent::ClusterLink;
use crate::blocking::lock;
use crate::cluster::desired::desired;
use crate::cluster::pods::{Health, PodTable};
use crate::cluster::{ClusterSettings, Desired, NodeFacts, WantedTaint, topology};
use crate::observe::{NodeResources, Offered};
use crate::report::{BudgetStatus, ClusterStatus, Report};
use crate::simulate::{Change, NodeFiles, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The nodes that carry the taint, and of how many.
#[derive(Default)]
pub(super) struct DemoBudget {
    pub(super) carriers: Mutex<BTreeSet<String>>,
    pub(super) nodes: usize,
}

/// One node as the cluster has it.
pub(super) struct ClusterNode {
    name: String,
    labels: BTreeMap<String, String>,
    budget: Arc<DemoBudget>,
    status: watch::Sender<Option<Arc<ClusterStatus>>>,
    facts: watch::Sender<NodeFacts>,
    pods: watch::Sender<Arc<PodTable>>,
    /// What was written last.
    written: Mutex<Option<Desired>>,
}

impl ClusterNode {
    /// A node with the devices that its plugins offer.
    pub(super) fn new(scenario: &Scenario, spec: &NodeFiles, budget: &Arc<DemoBudget>) -> Self {
        let efa = spec.rdma.iter().any(|device| device.node_type == 7);
        let (rdma, count) = match efa {
            true => ("vpc.amazonaws.com/efa", spec.rdma.len()),
            false => ("rdma/hca_shared_devices_a", 63),
        };
        let mut offer = NodeResources::default();
        if !spec.gpus.is_empty() {
            for (resource, count) in [("nvidia.com/gpu", spec.gpus.len()), (rdma, count)] {
                let count = u64::try_from(count).ok();
                let offered = Offered {
                    allocatable: count,
                    capacity: count,
                    had: 0,
                };
                offer.resources.insert(resource.into(), offered);
            }
        }
        ClusterNode {
            name: scenario.name.clone(),
            labels: scenario.labels.clone(),
            budget: Arc::clone(budget),
            status: watch::Sender::new(None),
            facts: watch::Sender::new(NodeFacts {
                found_tainted: Some(false),
                offer: Some(Arc::new(offer)),
                ..NodeFacts::default()
            }),
            pods: watch::Sender::new(Arc::new(PodTable {
                health: Health::Known,
                ..PodTable::default()
            })),
            written: Mutex::default(),
        }
    }

    /// The agent's end.
    pub(super) fn link(&self) -> ClusterLink {
        ClusterLink {
            status: self.status.subscribe(),
            node: self.facts.subscribe(),
            pods: self.pods.subscribe(),
        }
    }

    /// The cluster knows pods and device plugins.
    pub(super) fn apply(&self, event: &Change) {
        match event {
            Change::PodStarts(pod) => self.pods.send_modify(|table| {
                let pods = &mut Arc::make_mut(table).by_uid;
                pods.insert(pod.uid.clone(), Arc::new(pod.as_ref().clone()));
            }),
            Change::PodEnds(uid) => self.pods.send_modify(|table| {
                Arc::make_mut(table).by_uid.remove(uid);
            }),
            // The kubelet sets allocatable to 0 and keeps the capacity.
            Change::PluginStops(resource) => self.facts.send_modify(|facts| {
                let offer = facts.offer.get_or_insert_default();
                if let Some(offered) = Arc::make_mut(offer).resources.get_mut(resource) {
                    offered.allocatable = Some(0);
                }
            }),
            _ => {}
        }
    }

    /// Writes what a report wants of the Node, as the writer would.
    pub(super) fn write(&self, report: &Report) {
        let settings = ClusterSettings::default();
        let Some(desired) = desired(report, &settings) else {
            return;
        };
        let wanted = desired.taint.is_present();
        let limit = settings.budget_max.of(self.budget.nodes);
        let mut carriers = lock(&self.budget.carriers);
        let before = carriers.contains(&self.name);
        if wanted && carriers.len() < limit {
            carriers.insert(self.name.clone());
        } else if desired.taint == WantedTaint::Absent {
            carriers.remove(&self.name);
        }
        let (tainted, claimed) = (carriers.contains(&self.name), carriers.len());
        drop(carriers);
        let mut written = lock(&self.written);
        let last = written.replace(desired.clone());
        let differs = |of: fn(&Desired, &Desired) -> bool| {
            last.as_ref().is_none_or(|last| of(last, &desired))
        };
        let new = [
            ("labels", differs(|a, b| a.labels != b.labels)),
            ("condition", differs(|a, b| a.condition != b.condition)),
            ("event", differs(|a, b| a.state != b.state)),
            ("taint", tainted != before),
        ];
        self.status.send_if_modified(|sent| {
            let mut status = sent.as_deref().cloned().unwrap_or_default();
            (status.mode, status.api_up) = (settings.mode.as_str(), Some(true));
            status.places = topology::places(&self.labels);
            status.taint_applied = Some(tainted);
            status.withheld = (wanted && !tainted).then_some("budget");
            status.budget = wanted.then(|| BudgetStatus {
                lease: crate::cluster::budget::LEASE.into(),
                claimed,
                limit,
                nodes: self.budget.nodes,
            });
            for (what, _) in new.into_iter().filter(|(_, differs)| *differs) {
                *status.writes.entry(what).or_default() += 1;
                *status.results.entry("ok").or_default() += 1;
            }
            let changed = sent.as_deref() != Some(&status);
            *sent = Some(Arc::new(status));
            changed
        });
    }
}
