//! Nodes, their agents, and what the API server shows of them.

use crate::agents::Agents;
use crate::cluster::Cluster;
use crate::hosts::Hosts;
use crate::seen::{Nodes, Seen};
use crate::table::Table;
use futures::StreamExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use selvage::cluster::budget::Ledger;
use selvage::cluster::node::{NodeObject, resource};
use selvage::cluster::settings::BudgetMax;
use selvage::cluster::{ClusterSettings, names};
use selvage::config::listen::Listen;
use selvage::config::{Config, RdmaSource};
use selvage::units::Span;
use serde_json::json;
use std::time::{Duration, Instant};

pub fn name(index: usize) -> String {
    format!("gpu-{index:04}.fleet.example.internal")
}

/// A fleet.
pub struct Fleet {
    pub count: usize,
    pub cluster: Cluster,
    pub hosts: Hosts,
    pub agents: Agents,
    pub seen: Seen,
    pub table: Table,
    /// Label that divides it, where it is divided.
    pub group_label: String,
    pub budget: BudgetMax,
}

impl Fleet {
    /// Nodes without agents. `pool` says the value of the group label, none: no group label.
    pub async fn new(count: usize, pool: Option<fn(usize) -> &'static str>) -> Self {
        let cluster = Cluster::open().await;
        let nodes = kube::Api::<NodeObject>::all_with(cluster.client.clone(), &resource());
        let (params, all) = (DeleteParams::default(), ListParams::default());
        let gone = nodes.delete_collection(&params, &all).await;
        gone.expect("no nodes of an earlier test");
        let leases = cluster_leases(&cluster);
        let gone = leases.delete_collection(&params, &all).await;
        gone.expect("no ledger of an earlier test");
        let seen = Seen::start(cluster.admin());
        let hosts = Hosts::new(count);
        futures::stream::iter(0..count)
            .for_each_concurrent(8, |index| make_node(&nodes, index, pool))
            .await;
        let fleet = Fleet {
            count,
            cluster,
            hosts,
            agents: Agents::new(),
            seen,
            table: Table::default(),
            group_label: pool.map_or(String::new(), |_| "pool".into()),
            budget: BudgetMax::Percent(10),
        };
        let enough = Duration::from_secs(60);
        let made = |nodes: &Nodes| nodes.now.len() == count;
        fleet.until(enough, "all nodes are there", made).await;
        fleet
    }

    /// What an agent of this fleet is told.
    pub fn config(&self, index: usize) -> Config {
        let mut config = Config::default();
        config.agent.listen = Listen::new(Some([127, 0, 0, 1].into()), 0);
        config.agent.node_name = name(index);
        config.agent.host_root = self.hosts.root(index).to_path_buf();
        config.agent.state_dir = Some(self.hosts.state(index));
        config.agent.rdma_source = RdmaSource::Sysfs;
        let every = &mut config.intervals;
        every.link = Span::from_secs(2);
        every.counters = Span::from_secs(5);
        every.netdev = Span::from_secs(10);
        // A busy machine's late reads are no faults of the nodes.
        every.deadline = Span::from_secs(60);
        // What is seen is believed at once: the waits have tests of their own.
        config.hysteresis.hold = Span::default();
        config.policy.link_state.raise_after = Span::default();
        config.policy.link_state.clear_after = Span::default();
        config.policy.mute.insert("link_flap".into());
        let cluster = &mut config.cluster;
        cluster.kubeconfig = self.cluster.agents.display().to_string();
        cluster.hold = Span::default();
        cluster.clear = Span::from_secs(1);
        cluster.clear_max = Span::from_secs(1);
        cluster.heartbeat = Span::default();
        cluster.budget_max = self.budget;
        cluster.budget_group_label.clone_from(&self.group_label);
        config
    }

    pub fn start(&self, index: usize) {
        self.agents.start(index, self.config(index));
    }

    pub fn start_all(&self) {
        (0..self.count).for_each(|index| self.start(index));
    }

    pub fn crash_all(&self) {
        (0..self.count).for_each(|index| self.agents.crash(index));
    }

    /// Waits; how long it took.
    pub async fn until(
        &self,
        limit: Duration,
        what: &str,
        is: impl Fn(&Nodes) -> bool,
    ) -> Duration {
        let began = Instant::now();
        loop {
            if self.seen.with(&is) {
                return began.elapsed();
            }
            if began.elapsed() > limit {
                let words = self.seen.with(|nodes| {
                    let mut kinds = std::collections::BTreeMap::<_, usize>::new();
                    for now in nodes.now.values() {
                        let kind = (&now.fabric, &now.status, now.tainted, now.says_withheld());
                        *kinds.entry(format!("{kind:?}")).or_default() += 1;
                    }
                    format!("{kinds:#?}")
                });
                let errors = self.agents.with(|told| {
                    let mut errors = std::collections::BTreeMap::<_, usize>::new();
                    for status in told.status.values() {
                        *errors.entry(status.error.clone()).or_default() += 1;
                    }
                    format!("{errors:#?}")
                });
                panic!(
                    "after {limit:?} still not: {what}; nodes by (label, condition, tainted, withheld): {words}; errors: {errors}"
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The version of everything now: history is read from here.
    pub async fn revision(&self) -> String {
        let nodes = kube::Api::<NodeObject>::all_with(self.cluster.client.clone(), &resource());
        let list = nodes.list(&ListParams::default().limit(1)).await;
        let version = list.expect("a list").metadata.resource_version;
        version.expect("its version")
    }

    /// The entries of a ledger.
    pub async fn claims(&self, lease: &str) -> Ledger {
        let key = ClusterSettings::default().own(names::LEDGER);
        let lease = cluster_leases(&self.cluster).get_opt(lease).await;
        let lease = lease.expect("an answer");
        let annotations = lease.and_then(|lease| lease.metadata.annotations);
        let text = annotations.and_then(|a| a.get(&key).cloned());
        Ledger::parse(text.as_deref())
    }

    /// Enters names in the ledger that nobody will ever use: what a crash between entry and taint
    /// leaves.
    pub async fn enter_dead(&self, lease: &str, dead: impl IntoIterator<Item = usize>) {
        let mut ledger = self.claims(lease).await;
        for index in dead {
            ledger.claims.insert(name(index), "1".into());
        }
        self.put_ledger(lease, &ledger).await;
    }

    /// Writes a ledger as it is.
    pub async fn put_ledger(&self, lease: &str, ledger: &Ledger) {
        let key = ClusterSettings::default().own(names::LEDGER);
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": lease, "annotations": {key: ledger.to_text()}},
        });
        let params = PatchParams::apply("test").force();
        let put = cluster_leases(&self.cluster)
            .patch(lease, &params, &Patch::Apply(body))
            .await;
        put.expect("the ledger takes it");
    }
}

fn cluster_leases(cluster: &Cluster) -> kube::Api<k8s_openapi::api::coordination::v1::Lease> {
    kube::Api::namespaced(cluster.client.clone(), "selvage")
}

/// A Node of the size that a GPU node has: fifty images, a kubelet's conditions.
async fn make_node(
    nodes: &kube::Api<NodeObject>,
    index: usize,
    pool: Option<fn(usize) -> &'static str>,
) {
    let name = name(index);
    let pool = pool.map_or("all", |pool| pool(index));
    let body = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "nvidia.com/gpu.present": "true", "pool": pool,
            "node.kubernetes.io/instance-type": "gpu.8x", "topology.kubernetes.io/zone": "a",
        }},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
    });
    let node: NodeObject = serde_json::from_value(body).expect("a Node");
    let made = nodes.create(&PostParams::default(), &node).await;
    made.expect("the Node is made");
    let image = |n: usize| {
        json!({"names": [
            format!("registry.example.com/team-{n}/training@sha256:{:064x}", n * 7919),
            format!("registry.example.com/team-{n}/training:v1.{n}.0"),
        ], "sizeBytes": 20_000_000_000u64 + n as u64})
    };
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": format!("Kubelet{kind}"),
            "message": "as the kubelet says", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({"status": {
        "images": (0..50).map(image).collect::<Vec<_>>(),
        "capacity": {"cpu": "192", "memory": "2113449Mi", "nvidia.com/gpu": "8", "pods": "110"},
        "allocatable": {"cpu": "190", "memory": "2100000Mi", "nvidia.com/gpu": "8", "pods": "110"},
        "conditions": [
            condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
            condition("PIDPressure", "False"), condition("Ready", "True"),
        ],
    }});
    let params = PatchParams::default();
    let patched = nodes
        .patch_status(&name, &params, &Patch::Strategic(status))
        .await;
    patched.expect("its status is written");
}
