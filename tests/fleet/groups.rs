//! Budgets by pool, and absolute ones.

use crate::fleet::{Fleet, name};
use crate::history;
use crate::phases::BOUND;
use crate::seen::Nodes;
use selvage::cluster::budget::lease_name;
use selvage::cluster::settings::BudgetMax;
use selvage::report::State;
use std::time::Duration;

const COUNT: usize = 60;

/// A third of the nodes are `small`.
fn pool(index: usize) -> &'static str {
    if index.is_multiple_of(3) {
        "small"
    } else {
        "large"
    }
}

fn tainted_in(nodes: &Nodes, of: &str) -> usize {
    let tainted = nodes.tainted();
    (0..COUNT)
        .filter(|n| pool(*n) == of && tainted.contains(&name(*n)))
        .count()
}

pub async fn all() {
    let mut fleet = Fleet::new(COUNT, Some(pool)).await;
    for (budget, small, large) in [
        (BudgetMax::Percent(10), 2, 4),
        (BudgetMax::Nodes(3), 3, 3),
        (BudgetMax::Nodes(0), 0, 0),
    ] {
        fleet.budget = budget;
        let from = fleet.revision().await;
        fleet.start_all();
        let ready =
            |nodes: &Nodes| nodes.count(|now| now.fabric == "ready" && !now.tainted) == COUNT;
        // What the labels say may be an earlier agent's word.
        let seen = |nodes: &Nodes| {
            ready(nodes) && fleet.agents.with(|told| told.say(State::Ready)) == COUNT
        };
        fleet.until(BOUND, "all are ready", seen).await;
        fleet.hosts.links(0..COUNT, false);
        let told = |nodes: &Nodes| {
            (tainted_in(nodes, "small"), tainted_in(nodes, "large")) == (small, large)
                && nodes.count(|now| now.status == "False" && (now.tainted || now.says_withheld()))
                    == COUNT
        };
        fleet
            .until(BOUND, "each pool spends its budget and no more", told)
            .await;
        fleet.hosts.links(0..COUNT, true);
        fleet.until(BOUND, "all recover", ready).await;
        let leases = [lease_name("small"), lease_name("large")];
        let end = std::time::Instant::now() + BOUND;
        for lease in &leases {
            while !fleet.claims(lease).await.claims.is_empty() {
                assert!(std::time::Instant::now() < end, "{lease} is not emptied");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        fleet.crash_all();
        let steps = history::since(&fleet.cluster, &from, "pool").await;
        let limit = |lease: &str| if lease == leases[0] { small } else { large };
        let most = history::hold(&steps, limit);
        let of = |lease: &String| most.get(lease).map_or(0, |most| most.tainted);
        let got = (of(&leases[0]), of(&leases[1]));
        assert_eq!(got, (small, large), "{budget}");
        fleet.table.row(
            format!("budget {budget} by pool: most tainted at any instant"),
            format!("{} of 20, {} of 40", got.0, got.1),
        );
    }
    fleet.table.print();
}
