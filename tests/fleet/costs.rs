//! What single requests cost the API server.

use crate::fleet::Fleet;
use crate::kubelet::Kubelets;
use kube::api::ListParams;
use selvage::cluster::budget::Ledger;
use selvage::cluster::node::{NodeObject, resource};
use std::time::Duration;

/// A heartbeat is one patch of the status: what one costs the server, kubelets' likewise.
pub async fn heartbeat(fleet: &mut Fleet) {
    let count = fleet.count;
    let before = fleet.cluster.usage().await;
    let kubelets = Kubelets::start(fleet.cluster.admin(), count, Duration::from_secs(10));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let patches = kubelets.patches();
    drop(kubelets);
    let spent = fleet.cluster.usage().await.since(&before);
    fleet.table.row(
        "a patch of the status",
        format!(
            "{:.1} ms of the API server's CPU, watchers served ({patches} patches)",
            spent.cpu / patches as f64 * 1000.0
        ),
    );
}

/// Lists and ledgers, and how large a ledger gets.
pub async fn requests(fleet: &mut Fleet) {
    const TIMES: usize = 20;
    let nodes = kube::Api::<NodeObject>::all_with(fleet.cluster.client.clone(), &resource());
    let before = fleet.cluster.usage().await;
    for _ in 0..TIMES {
        let list = nodes.list(&ListParams::default()).await;
        assert!(list.is_ok());
    }
    let spent = fleet.cluster.usage().await.since(&before);
    fleet.table.row(
        "a list of all nodes",
        format!(
            "{:.1} ms of the API server's CPU",
            spent.cpu / TIMES as f64 * 1000.0
        ),
    );
    for claims in [fleet.count / 10, 100, 1000] {
        let mut ledger = Ledger {
            nodes: Some(claims * 10),
            counted: Some(jiff::Timestamp::now()),
            ..Ledger::default()
        };
        for n in 0..claims {
            let name = format!(
                "ip-10-100-{}-{}.us-east-2.compute.internal",
                n / 256,
                n % 256
            );
            ledger.claims.insert(name, "1234567890".into());
        }
        let before = fleet.cluster.usage().await;
        for _ in 0..TIMES {
            fleet.put_ledger("selvage-costs", &ledger).await;
            fleet.claims("selvage-costs").await;
        }
        let spent = fleet.cluster.usage().await.since(&before);
        fleet.table.row(
            format!("a ledger of {claims} entries"),
            format!(
                "{} bytes; written and read in {:.1} ms, {:.1} ms of the API server's CPU",
                ledger.to_text().len(),
                spent.wall.as_secs_f64() / TIMES as f64 * 1000.0,
                spent.cpu / TIMES as f64 * 1000.0
            ),
        );
    }
}
