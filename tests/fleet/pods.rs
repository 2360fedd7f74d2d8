//! The pod watch and Events on pods against a real API server, with the rights that are shipped.

use crate::cluster::Cluster;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use selvage::cluster::pods::{Health, PodTable, PodWatch};
use selvage::cluster::writer::WriterChannels;
use selvage::cluster::{
    ClusterSettings, EventKind, EventSender, NodeFacts, PodRef, RateLimits, Writer,
};
use selvage::config::Config;
use selvage::observe::PodFacts;
use selvage::report::Report;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

const NODE: &str = "pods-1";
const BOUND: Duration = Duration::from_secs(60);

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is().await {
        assert!(began.elapsed() < BOUND, "no {what} within {BOUND:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

/// A pod of the namespace `ml` by its name.
fn named(table: &PodTable, name: &str) -> Option<PodFacts> {
    let mut pods = table.by_uid.values();
    let found = pods.find(|pod| pod.namespace == "ml" && pod.name == name);
    found.map(|pod| pod.as_ref().clone())
}

/// Resident memory of this process, now and at most, in KiB.
fn memory() -> (i64, i64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        value.expect("a number")
    };
    (value("VmRSS:"), value("VmHWM:"))
}

fn pod(name: &str, node: &str) -> Pod {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {
            "training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-index": "1",
        }},
        "spec": {"nodeName": node, "containers": [{
            "name": "main", "image": "x",
            "env": [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "BIG", "value": "x".repeat(20_000)}],
            "resources": {"limits": {"nvidia.com/gpu": "8"}},
        }]},
    });
    serde_json::from_value(pod).expect("a pod")
}

pub async fn all() {
    let cluster = Cluster::open().await;
    let settings = ClusterSettings {
        kubeconfig: cluster.agents.display().to_string(),
        ..ClusterSettings::default()
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    let node = serde_json::from_value(node).expect("a node");
    nodes
        .create(&PostParams::default(), &node)
        .await
        .expect("a node");
    cluster.kubectl(&["create", "namespace", "ml"]);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "ml");
    // The namespace's account is made a moment later.
    until("first pod", async || {
        pods.create(&PostParams::default(), &pod("p-0", NODE))
            .await
            .is_ok()
    })
    .await;
    for n in 1..120 {
        let new = pod(&format!("p-{n}"), NODE);
        pods.create(&PostParams::default(), &new)
            .await
            .expect("a pod");
    }
    let other = pod("elsewhere", "pods-2");
    pods.create(&PostParams::default(), &other)
        .await
        .expect("a pod");

    let (table, known) = watch::channel(Arc::new(PodTable::default()));
    let (stop, stopped) = watch::channel(false);
    let ended = |mut stopped: watch::Receiver<bool>| async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let before = memory();
    let watching = PodWatch::new(settings.clone(), NODE, usize::MAX, RateLimits::default());
    let stop_watching = ended(stopped.clone());
    let watching = tokio::spawn(async move {
        tokio::select! {
            () = watching.run(table) => {}
            () = stop_watching => {}
        }
    });
    let now = || Arc::clone(&known.borrow());
    let took = until("list", async || now().by_uid.len() == 120).await;
    println!(
        "MEASURED list of 120 pods of 22 KB: {} ms",
        took.as_millis()
    );
    let (rss, peak) = (memory().0 - before.0, memory().1 - before.1);
    println!("MEASURED memory for it, connection included: {rss} KiB, peak {peak} KiB");
    let table = now();
    assert_eq!(table.health, Health::Known);
    let one = named(&table, "p-7").expect("a pod");
    assert_eq!((one.gang, one.containers["main"].gpus), (Some(true), 8));
    assert_eq!(one.job.as_ref().map(|job| job.name.as_str()), Some("train"));
    assert!(named(&table, "elsewhere").is_none());

    let done = json!({"status": {"phase": "Succeeded"}});
    let patch = Patch::Merge(&done);
    pods.patch_status("p-7", &PatchParams::default(), &patch)
        .await
        .expect("a status");
    until("its end", async || {
        named(&now(), "p-7").is_some_and(|pod| pod.finished)
    })
    .await;
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("p-7", &at_once).await.expect("a deletion");
    until("its absence", async || named(&now(), "p-7").is_none()).await;

    // The server restarts: gone on from where it was.
    cluster.ctl(&["apiserver", "kill"]);
    until("word of it", async || now().health == Health::Away).await;
    assert_eq!(now().by_uid.len(), 119);
    cluster.ctl(&["apiserver", "start"]);
    until("a new pod", async || {
        pods.create(&PostParams::default(), &pod("late", NODE))
            .await
            .is_ok()
    })
    .await;
    until("it", async || {
        named(&now(), "late").is_some() && now().health == Health::Known
    })
    .await;

    // Rights taken away and given back.
    cluster.kubectl(&["delete", "clusterrolebinding", "selvage-pods"]);
    cluster.ctl(&["apiserver", "kill"]);
    cluster.ctl(&["apiserver", "start"]);
    until("a refusal", async || now().health == Health::Forbidden).await;
    assert!(now().by_uid.is_empty());
    cluster.give_rights();
    until("the rights", async || {
        now().health == Health::Known && now().by_uid.len() == 120
    })
    .await;

    events(&cluster, settings, ended(stopped)).await;
    stop.send_replace(true);
    watching.await.expect("the watch ends");
}

/// An Event on a pod, by the agent's own account.
async fn events(
    cluster: &Cluster,
    settings: ClusterSettings,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let (dir, _node) = crate::support::node("h100_ib");
    let mut config = Config::default();
    config.agent.host_root = dir.path().to_path_buf();
    config.agent.state_dir = None;
    let report = Report {
        node: NODE.into(),
        full_window: true,
        ..selvage::agent::sample_once(&config).await
    };
    let (_reports, reports) = watch::channel(Arc::new(report));
    let (_changes, changes) = mpsc::channel(1);
    let (sender, pods) = EventSender::channel();
    let (status, _status) = watch::channel(None);
    let (node, _node_facts) = watch::channel(NodeFacts::default());
    let mut channels = WriterChannels {
        reports,
        changes,
        pod_events: pods,
        status,
        node,
    };
    let writer = tokio::spawn(async move {
        tokio::select! {
            () = Writer::new(settings, NODE, RateLimits::default()).run(&mut channels) => {}
            () = stopped => {}
        }
    });
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "ml");
    let late = pods.get("late").await.expect("a pod");
    let about = PodRef {
        namespace: "ml".into(),
        name: "late".into(),
        uid: late.metadata.uid.unwrap_or_default(),
    };
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "ml");
    let params = ListParams::default().fields("involvedObject.name=late,reason=NcclTcpFallback");
    for words in ["TCP", "TCP still"] {
        assert!(sender.pod(
            about.clone(),
            "NcclTcpFallback",
            EventKind::Warning,
            words.into()
        ));
        // Together they would be one.
        let told = async || {
            let events = events.list(&params).await.expect("events").items;
            let is = |event: &Event| event.message.as_deref() == Some(words);
            events.len() == 1 && events.iter().any(is)
        };
        until("event", told).await;
    }
    let event = events.list(&params).await.expect("events").items.remove(0);
    assert_eq!(event.count, Some(2));
    println!(
        "MEASURED event on a pod: {}",
        event.metadata.name.unwrap_or_default()
    );
    writer.abort();
}
