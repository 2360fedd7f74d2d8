//! One node, an otherwise idle API server: from the report with the fault to the patches.

use crate::fleet::{Fleet, name};
use crate::phases::latencies;
use crate::seen::Nodes;
use crate::table::{median, spread};
use selvage::report::State;
use selvage::units::Span;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
const FAULTS: usize = 50;

pub async fn all() {
    let mut fleet = Fleet::new(1, None).await;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    fleet.table.row("load of the machine", load.trim());
    let mut config = fleet.config(0);
    config.intervals.link = Span::from_millis(100);
    // A new agent is soon sure.
    config.intervals.counters = Span::from_millis(300);
    let node = name(0);
    let (mut labels, mut taints) = (Vec::new(), Vec::new());
    let ready = |nodes: &Nodes| nodes.now[&node].fabric == "ready" && !nodes.now[&node].tainted;
    let tainted = |nodes: &Nodes| nodes.now[&node].fabric == "unready" && nodes.now[&node].tainted;
    // A flapping node is written ten times at once and then every half minute: a new agent has ten.
    const AT_ONCE: usize = 2;
    for fault in 0..FAULTS {
        if fault % AT_ONCE == 0 {
            fleet.agents.crash(0);
            fleet.agents.start(0, config.clone());
        }
        let seen =
            |nodes: &Nodes| ready(nodes) && fleet.agents.with(|told| told.say(State::Ready)) == 1;
        fleet.until(MINUTE, "the node is ready", seen).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let began = Instant::now();
        fleet.hosts.links([0], false);
        fleet.until(MINUTE, "the node is tainted", tainted).await;
        let (label, taint) = latencies(&fleet, began);
        labels.extend(label);
        taints.extend(taint);
        fleet.hosts.links([0], true);
    }
    fleet.until(MINUTE, "the node is ready", ready).await;
    assert_eq!((labels.len(), taints.len()), (FAULTS, FAULTS));
    let first = median(labels.clone());
    fleet
        .table
        .row("fault seen to label, seen by a watch", spread(labels));
    fleet
        .table
        .row("fault seen to taint, seen by a watch", spread(taints));
    fleet.table.print();
    // Twice the promise: the machine that tests run on may be busy.
    assert!(first < Duration::from_millis(200), "{first:?}");
}
