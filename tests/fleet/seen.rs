//! The Nodes as the API server tells them, with the moment of each change.

use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use selvage::cluster::ClusterSettings;
use selvage::cluster::node::{NodeObject, NodeView, resource};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a node carries of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Now {
    pub fabric: String,
    pub tainted: bool,
    pub status: String,
    pub message: String,
}

impl Now {
    pub fn of(view: &NodeView, settings: &ClusterSettings) -> Self {
        let label = view.labels.get(&settings.own("fabric"));
        let condition = view.condition.clone().unwrap_or_default();
        Now {
            fabric: label.cloned().unwrap_or_default(),
            tainted: view.is_tainted(settings),
            status: condition.status,
            message: condition.message,
        }
    }

    pub fn says_withheld(&self) -> bool {
        self.message.contains("taint is withheld")
    }
}

/// All nodes, and how they came to be so.
#[derive(Default)]
pub struct Nodes {
    pub now: BTreeMap<String, Now>,
    pub changes: Vec<(Instant, String, Now)>,
    pub events: u64,
}

impl Nodes {
    pub fn count(&self, is: impl Fn(&Now) -> bool) -> usize {
        self.now.values().filter(|now| is(now)).count()
    }

    pub fn tainted(&self) -> BTreeSet<String> {
        let tainted = self.now.iter().filter(|(_, now)| now.tainted);
        tainted.map(|(name, _)| name.clone()).collect()
    }

    /// When a node was first seen so, after a moment.
    pub fn first(&self, node: &str, after: Instant, is: impl Fn(&Now) -> bool) -> Option<Instant> {
        let found = self
            .changes
            .iter()
            .find(|(at, name, now)| *at > after && name == node && is(now));
        found.map(|(at, ..)| *at)
    }

    fn take(&mut self, node: &NodeObject, settings: &ClusterSettings) {
        let view = NodeView::of(node);
        let now = Now::of(&view, settings);
        self.events += 1;
        if self.now.get(&view.name) != Some(&now) {
            self.changes
                .push((Instant::now(), view.name.clone(), now.clone()));
            self.now.insert(view.name, now);
        }
    }
}

/// A watch of all Nodes on a thread of its own, until the process ends.
#[derive(Clone)]
pub struct Seen(Arc<Mutex<Nodes>>);

impl Seen {
    pub fn start(kubeconfig: PathBuf) -> Self {
        let nodes = Arc::new(Mutex::new(Nodes::default()));
        let seen = Seen(Arc::clone(&nodes));
        std::thread::spawn(move || {
            crate::block_on(async {
                loop {
                    // Ends with the server, and begins anew with it.
                    let _ = follow(&kubeconfig, &nodes).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        });
        seen
    }

    pub fn with<T>(&self, ask: impl FnOnce(&Nodes) -> T) -> T {
        ask(&self.0.lock().unwrap())
    }
}

async fn follow(kubeconfig: &Path, nodes: &Mutex<Nodes>) -> kube::Result<()> {
    let settings = ClusterSettings::default();
    let client = crate::cluster::client(kubeconfig).await;
    let api = kube::Api::<NodeObject>::all_with(client, &resource());
    let list = api.list(&ListParams::default()).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    {
        let mut nodes = nodes.lock().unwrap();
        let there: BTreeSet<_> = list.items.iter().map(|n| n.metadata.name.clone()).collect();
        nodes
            .now
            .retain(|name, _| there.contains(&Some(name.clone())));
        for node in &list.items {
            nodes.take(node, &settings);
        }
    }
    loop {
        let params = WatchParams::default().timeout(290);
        let mut events = std::pin::pin!(api.watch(&params, &version).await?);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                    version = node.metadata.resource_version.clone().unwrap_or_default();
                    nodes.lock().unwrap().take(&node, &settings);
                }
                WatchEvent::Deleted(node) => {
                    version = node.metadata.resource_version.unwrap_or_default();
                    let name = node.metadata.name.unwrap_or_default();
                    nodes.lock().unwrap().now.remove(&name);
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
    }
}
