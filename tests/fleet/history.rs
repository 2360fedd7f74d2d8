//! The API server's own history: every version of every Node and Lease, in the order of their
//! revisions. A second API server without watch cache, on the same etcd, tells it: the first
//! forgets what was before its own start.

use crate::cluster::{Cluster, client};
use futures::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use kube::config::Kubeconfig;
use kube::core::{ApiResource, DynamicObject};
use selvage::cluster::ClusterSettings;
use selvage::cluster::budget::Ledger;
use selvage::cluster::names;
use selvage::cluster::node::{NodeObject, NodeView, resource};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the objects that end a history.
const END: &str = "zz-end-of-history";

/// One change.
pub enum Change {
    /// A Node, tainted or not; its value of the group label.
    Node { tainted: bool, group: String },
    /// It is gone.
    NoNode,
    /// A ledger's entries.
    Ledger(Option<Ledger>),
}

/// A change at a revision.
pub struct Step {
    pub revision: u64,
    pub name: String,
    pub what: Change,
}

/// Ends a process by its id.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All that happened after a revision. `group` is the label that divides the nodes; it may be empty.
pub async fn since(cluster: &Cluster, revision: &str, group: &str) -> Vec<Step> {
    let (_server, client) = second_server(cluster).await;
    let nodes = kube::Api::<NodeObject>::all_with(client.clone(), &resource());
    let kind = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
    let leases = kube::Api::<DynamicObject>::namespaced_with(client, "selvage", &kind);
    put_ends(cluster).await;
    let settings = ClusterSettings::default();
    let params = WatchParams::default().timeout(290);
    let mut steps = Vec::new();
    let mut events = std::pin::pin!(nodes.watch(&params, revision).await.expect("a watch"));
    while let Some(event) = events.next().await {
        let (node, there) = match event.expect("history") {
            WatchEvent::Added(node) | WatchEvent::Modified(node) => (node, true),
            WatchEvent::Deleted(node) => (node, false),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        let view = NodeView::of(&node);
        if view.name == END && there {
            break;
        }
        let what = match there {
            true => Change::Node {
                tainted: view.is_tainted(&settings),
                group: view.labels.get(group).cloned().unwrap_or_default(),
            },
            false => Change::NoNode,
        };
        steps.push(Step {
            revision: number(&view.resource_version),
            name: view.name,
            what,
        });
    }
    let mut events = std::pin::pin!(leases.watch(&params, revision).await.expect("a watch"));
    while let Some(event) = events.next().await {
        let (lease, there) = match event.expect("history") {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) => (lease, true),
            WatchEvent::Deleted(lease) => (lease, false),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        let name = lease.metadata.name.unwrap_or_default();
        if name == END && there {
            break;
        }
        let annotations = lease.metadata.annotations.unwrap_or_default();
        let text = annotations
            .get(&settings.own(names::LEDGER))
            .map(String::as_str);
        steps.push(Step {
            revision: number(&lease.metadata.resource_version.unwrap_or_default()),
            name,
            what: Change::Ledger(there.then(|| Ledger::parse(text))),
        });
    }
    for api in [&nodes_of(cluster), &leases_of(cluster)] {
        let _ = api.delete(END, &Default::default()).await;
    }
    steps.sort_by_key(|step| step.revision);
    steps
}

fn number(version: &str) -> u64 {
    version.parse().expect("a revision")
}

async fn second_server(cluster: &Cluster) -> (Ended, kube::Client) {
    let address = crate::support::free_address();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let command = std::fs::read_to_string(cluster.dir.join("commands/apiserver"));
    let command = command.expect("the API server's command");
    let first = command
        .split_whitespace()
        .skip_while(|word| *word != "--secure-port")
        .nth(1)
        .expect("its port");
    let command = command.replacen(
        &format!("--secure-port {first}"),
        &format!("--watch-cache=false --secure-port {port}"),
        1,
    );
    let log = std::fs::File::create(cluster.dir.join("logs/history.log")).expect("a log");
    let child = Command::new("bash")
        .args(["-c", &command])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn();
    let child = Ended(child.expect("a second API server"));
    let file = cluster.dir.join("history.kubeconfig");
    let text = std::fs::read_to_string(cluster.admin()).expect("a kubeconfig");
    let text = text.replace(&format!(":{first}"), &format!(":{port}"));
    assert!(Kubeconfig::from_yaml(&text).is_ok());
    std::fs::write(&file, text).expect("a kubeconfig");
    let client = client(&file).await;
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let request = hyper::http::Request::get("/readyz").body(Vec::new());
        let answer = client.request_text(request.expect("a request")).await;
        if answer.is_ok() {
            return (child, client);
        }
        assert!(Instant::now() < end, "no second API server: {answer:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn nodes_of(cluster: &Cluster) -> kube::Api<DynamicObject> {
    kube::Api::all_with(cluster.client.clone(), &resource())
}

fn leases_of(cluster: &Cluster) -> kube::Api<DynamicObject> {
    let kind = ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
    kube::Api::namespaced_with(cluster.client.clone(), "selvage", &kind)
}

/// Objects after which nothing is read; those of an earlier history go first.
async fn put_ends(cluster: &Cluster) {
    let (nodes, leases) = (nodes_of(cluster), leases_of(cluster));
    for (api, version, kind) in [
        (&nodes, "v1", "Node"),
        (&leases, "coordination.k8s.io/v1", "Lease"),
    ] {
        let _ = api.delete(END, &Default::default()).await;
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": END}});
        let body: DynamicObject = serde_json::from_value(body).expect("an object");
        let made = api.create(&Default::default(), &body).await;
        made.expect("the end of history");
    }
}

/// What the history shows of a group.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Most {
    pub tainted: usize,
    pub claims: usize,
    pub taintings: usize,
}

/// Replays a history: after each change, the tainted nodes of each group are at most `limit` of it
/// and all in its ledger, and the ledger holds no more than that. Gives what each group had at most.
pub fn hold(steps: &[Step], limit: impl Fn(&str) -> usize) -> BTreeMap<String, Most> {
    let mut tainted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut group_of: BTreeMap<String, String> = BTreeMap::new();
    let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut most: BTreeMap<String, Most> = BTreeMap::new();
    for step in steps {
        let at = step.revision;
        let group = match &step.what {
            Change::Ledger(ledger) => {
                let names = ledger.iter().flat_map(|l| l.claims.keys().cloned());
                claims.insert(step.name.clone(), names.collect());
                let most = most.entry(step.name.clone()).or_default();
                most.claims = most.claims.max(claims[&step.name].len());
                step.name.clone()
            }
            Change::Node { tainted: is, group } => {
                let lease = selvage::cluster::budget::lease_name(group);
                group_of.insert(step.name.clone(), lease.clone());
                let of = tainted.entry(lease.clone()).or_default();
                let new = match is {
                    true => of.insert(step.name.clone()),
                    false => {
                        of.remove(&step.name);
                        false
                    }
                };
                let most = most.entry(lease.clone()).or_default();
                most.tainted = most.tainted.max(of.len());
                most.taintings += usize::from(new);
                lease
            }
            Change::NoNode => {
                let lease = group_of.remove(&step.name).unwrap_or_default();
                tainted.entry(lease.clone()).or_default().remove(&step.name);
                lease
            }
        };
        let (none, limit) = (BTreeSet::new(), limit(&group));
        let carry = tainted.get(&group).unwrap_or(&none);
        let may = claims.get(&group).unwrap_or(&none);
        assert!(
            carry.len() <= limit && may.len() <= limit,
            "revision {at}, {group}: {} tainted, {} entries, limit {limit}",
            carry.len(),
            may.len()
        );
        let outside: Vec<_> = carry.difference(may).collect();
        assert!(
            outside.is_empty(),
            "revision {at}, {group}: tainted without an entry: {outside:?}"
        );
    }
    most
}
