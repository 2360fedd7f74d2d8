//! The life of a fleet, phase after phase, and its history at the end.

use crate::costs;
use crate::fleet::{Fleet, name};
use crate::history;
use crate::kubelet::Kubelets;
use crate::seen::{Nodes, Now};
use crate::table::{seconds, spread};
use selvage::cluster::budget::lease_name;
use selvage::report::State;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What takes half a minute on two idle cores; a machine that is busy may need longer.
pub const BOUND: Duration = Duration::from_secs(300);

fn env(name: &str, default: usize) -> usize {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

fn is_ready(now: &Now) -> bool {
    now.fabric == "ready" && now.status == "True" && !now.tainted
}

fn is_unready(now: &Now) -> bool {
    now.fabric == "unready" && now.status == "False"
}

pub async fn all() {
    let count = env("SELVAGE_TEST_FLEET", 300);
    let still = Duration::from_secs(env("SELVAGE_TEST_STEADY", 60) as u64);
    let mut fleet = Fleet::new(count, None).await;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    fleet.table.row("nodes", format!("{count}"));
    fleet.table.row("load of the machine before", load.trim());
    let from = fleet.revision().await;
    let limit = (count / 10).max(1);
    join(&mut fleet).await;
    steady(&mut fleet, still).await;
    costs::heartbeat(&mut fleet).await;
    let mut marks = Vec::new();
    spine(&mut fleet, limit, "spine dies").await;
    marks.push(("spine dies", fleet.revision().await));
    frees(&mut fleet, limit).await;
    marks.push(("budget frees", fleet.revision().await));
    unwritable(&mut fleet, limit).await;
    marks.push(("ledger unwritable", fleet.revision().await));
    recover(&mut fleet).await;
    marks.push(("all recover", fleet.revision().await));
    chaos(&mut fleet, limit).await;
    marks.push(("chaos", fleet.revision().await));
    recover(&mut fleet).await;
    // The agents end before history is read: what came after would not be in it.
    fleet.crash_all();
    let steps = history::since(&fleet.cluster, &from, "").await;
    let most = history::hold(&steps, |_| limit);
    let most = most[&lease_name("")].clone();
    fleet.table.row(
        "changes in the API server's history",
        format!("{}", steps.len()),
    );
    fleet.table.row(
        "most at any instant",
        format!(
            "{} tainted, {} entries; limit {limit}; {} times a taint was put",
            most.tainted, most.claims, most.taintings
        ),
    );
    let mut before = from.parse().unwrap_or(0);
    for (phase, revision) in marks {
        let revision: u64 = revision.parse().unwrap_or(0);
        let of = steps
            .iter()
            .filter(|s| s.revision > before && s.revision <= revision);
        fleet.table.row(
            format!("changes in history, {phase}"),
            format!("{}", of.count()),
        );
        before = revision;
    }
    assert_eq!(most.tainted, limit, "the budget was used");
    costs::requests(&mut fleet).await;
    fleet.table.print();
}

async fn join(fleet: &mut Fleet) {
    let count = fleet.count;
    let before = fleet.cluster.usage().await;
    fleet.start_all();
    let joined = |nodes: &Nodes| nodes.count(is_ready) == count;
    let took = fleet
        .until(BOUND, "all nodes are labelled ready", joined)
        .await;
    let after = fleet.cluster.usage().await;
    let spent = after.since(&before);
    fleet
        .table
        .row("join: all labelled, conditions set", seconds(took));
    fleet.table.row("join: requests", spent.words());
    fleet.table.row("join: API server", spent.cores());
    let conflicts = fleet.agents.with(|told| told.result("conflict"));
    fleet.table.row("join: conflicts", format!("{conflicts}"));
    // The first verdict's event comes last; one that a busy server refused waits before it is sent again.
    let written = || fleet.agents.with(|told| told.writes());
    let (mut writes, mut since) = (written(), Instant::now());
    let end = Instant::now() + BOUND;
    while since.elapsed() < Duration::from_secs(20) {
        assert!(Instant::now() < end, "writes go on: {writes}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = written();
        if now != writes {
            (writes, since) = (now, Instant::now());
        }
    }
}

async fn steady(fleet: &mut Fleet, still: Duration) {
    let before = fleet.cluster.usage().await;
    let writes = fleet.agents.with(|told| told.writes());
    let reports = fleet.agents.with(|told| told.reports());
    let cpu = || {
        let stats = selvage::clock::process_stats().process;
        let mut cpu = stats
            .into_iter()
            .filter(|(name, _)| *name == "process_cpu_seconds_total");
        cpu.next().and_then(|(_, seconds)| seconds).unwrap_or(0.0)
    };
    let own = cpu();
    tokio::time::sleep(still).await;
    let after = fleet.cluster.usage().await;
    let spent = after.since(&before);
    let own = cpu() - own;
    let wrote = fleet.agents.with(|told| told.writes()) - writes;
    let reports = fleet.agents.with(|told| told.reports()) - reports;
    fleet.table.row("steady state: requests", spent.words());
    fleet.table.row("steady state: API server", spent.cores());
    fleet.table.row(
        "steady state: watches of Nodes",
        format!("{}", after.watches),
    );
    fleet.table.row(
        "steady state: API server's memory",
        format!("{:.0} MiB", after.memory / 1048576.0),
    );
    fleet.table.row(
        "steady state: all agents",
        format!(
            "{:.1} % of a core, {:.1} reports a second",
            own / still.as_secs_f64() * 100.0,
            reports as f64 / still.as_secs_f64()
        ),
    );
    fleet.table.row(
        "steady state: writes",
        format!(
            "{} by the server's count, {wrote} by the agents'",
            spent.writes()
        ),
    );
    let errors = fleet.agents.with(|told| {
        let errors = told.status.values().filter_map(|s| s.error.clone());
        errors.collect::<BTreeSet<_>>()
    });
    assert_eq!(
        (spent.writes(), wrote),
        (0, 0),
        "{}; {errors:#?}",
        spent.words()
    );
}

/// All rails of all nodes fall in the same second.
async fn spine(fleet: &mut Fleet, limit: usize, phase: &str) {
    let count = fleet.count;
    let _kubelets = Kubelets::start(fleet.cluster.admin(), count, Duration::from_secs(10));
    let before = fleet.cluster.usage().await;
    let conflicts = fleet.agents.with(|told| told.result("conflict"));
    let began = Instant::now();
    fleet.hosts.links(0..count, false);
    fleet.table.row(
        format!("{phase}: the rails fell within"),
        seconds(began.elapsed()),
    );
    let full = |nodes: &Nodes| nodes.tainted().len() == limit;
    fleet.until(BOUND, "the budget is full", full).await;
    fleet.table.row(
        format!("{phase}: budget full after"),
        seconds(began.elapsed()),
    );
    let labelled = |nodes: &Nodes| nodes.count(|now| now.fabric == "unready") == count;
    fleet.until(BOUND, "all labels say unready", labelled).await;
    fleet.table.row(
        format!("{phase}: all labels unready after"),
        seconds(began.elapsed()),
    );
    settle(fleet, limit).await;
    fleet.table.row(
        format!("{phase}: settled (conditions say who is withheld) after"),
        seconds(began.elapsed()),
    );
    let spent = fleet.cluster.usage().await.since(&before);
    fleet.table.row(format!("{phase}: requests"), spent.words());
    fleet
        .table
        .row(format!("{phase}: API server"), spent.cores());
    let conflicts = fleet.agents.with(|told| told.result("conflict")) - conflicts;
    fleet.table.row(
        format!("{phase}: writes that met a conflict, by the agents"),
        format!("{conflicts}"),
    );
    let (labels, taints) = latencies(fleet, began);
    fleet
        .table
        .row(format!("{phase}: fault seen to label seen"), spread(labels));
    fleet
        .table
        .row(format!("{phase}: fault seen to taint seen"), spread(taints));
}

/// Waits until all is told: `limit` tainted, the rest withheld, in words and in numbers.
async fn settle(fleet: &Fleet, limit: usize) {
    let count = fleet.count;
    let told = |nodes: &Nodes| {
        nodes.count(is_unready) == count
            && nodes.tainted().len() == limit
            && nodes.count(|now| !now.tainted && now.says_withheld()) == count - limit
            && fleet.agents.with(|told| told.withheld()) == count - limit
    };
    fleet
        .until(BOUND, "the taint is withheld on the rest", told)
        .await;
}

/// From the report with the verdict to the first change that the API server tells.
pub fn latencies(fleet: &Fleet, began: Instant) -> (Vec<Duration>, Vec<Duration>) {
    let seen: Vec<_> = fleet.agents.with(|told| {
        let unready = |v: &&crate::agents::Verdict| v.at > began && v.state == State::Unready;
        told.verdicts.iter().filter(unready).copied().collect()
    });
    fleet.seen.with(|nodes| {
        let after = |is: fn(&Now) -> bool| {
            let first = seen.iter().filter_map(|verdict| {
                let at = nodes.first(&name(verdict.node), verdict.at, is)?;
                Some(at - verdict.at)
            });
            first.collect()
        };
        (
            after(|now| now.fabric == "unready"),
            after(|now| now.tainted),
        )
    })
}

fn indices(names: &BTreeSet<String>, count: usize) -> Vec<usize> {
    (0..count)
        .filter(|index| names.contains(&name(*index)))
        .collect()
}

/// Some of the tainted recover: the others take up the room.
async fn frees(fleet: &mut Fleet, limit: usize) {
    let tainted = fleet.seen.with(Nodes::tainted);
    let some: Vec<usize> = indices(&tainted, fleet.count)
        .into_iter()
        .take(limit.div_ceil(2))
        .collect();
    let began = Instant::now();
    fleet.hosts.links(some.iter().copied(), true);
    let names: Vec<String> = some.iter().map(|index| name(*index)).collect();
    let better = |nodes: &Nodes| names.iter().all(|name| is_ready(&nodes.now[name]));
    fleet
        .until(BOUND, "the recovered lose the taint", better)
        .await;
    fleet.table.row(
        format!("budget frees: {} recovered, taints gone after", some.len()),
        seconds(began.elapsed()),
    );
    let full = |nodes: &Nodes| nodes.tainted().len() == limit;
    fleet.until(BOUND, "others take up the room", full).await;
    fleet.table.row(
        "budget frees: taken up by others after",
        seconds(began.elapsed()),
    );
}

/// Without the right to the ledger nobody is tainted any more, and recovery goes on: also of agents
/// that have just been started anew.
async fn unwritable(fleet: &mut Fleet, limit: usize) {
    let rights = ["delete", "rolebinding", "selvage-budget", "-n", "selvage"];
    fleet.cluster.kubectl(&rights);
    let tainted = indices(&fleet.seen.with(Nodes::tainted), fleet.count);
    let some: Vec<usize> = tainted.into_iter().take((limit / 3).max(1)).collect();
    for index in some.iter().step_by(2) {
        fleet.agents.crash(*index);
        fleet.start(*index);
    }
    let began = Instant::now();
    fleet.hosts.links(some.iter().copied(), true);
    let names: Vec<String> = some.iter().map(|index| name(*index)).collect();
    let better = |nodes: &Nodes| names.iter().all(|name| is_ready(&nodes.now[name]));
    fleet
        .until(BOUND, "they recover without the ledger", better)
        .await;
    fleet.table.row(
        format!(
            "ledger unwritable: {} recovered, taints gone after",
            some.len()
        ),
        seconds(began.elapsed()),
    );
    fleet.cluster.give_rights();
    let began = Instant::now();
    let full = |nodes: &Nodes| nodes.tainted().len() == limit;
    fleet.until(BOUND, "the room is taken up again", full).await;
    fleet.table.row(
        "ledger writable again: taken up after",
        seconds(began.elapsed()),
    );
}

async fn recover(fleet: &mut Fleet) {
    let began = Instant::now();
    let before = fleet.cluster.usage().await;
    // Not by what is seen: an agent that has just begun may not have told yet.
    let down = fleet.hosts.down();
    fleet.hosts.links(down, true);
    let count = fleet.count;
    let well = |nodes: &Nodes| nodes.count(is_ready) == count;
    fleet
        .until(BOUND, "all are ready and untainted", well)
        .await;
    fleet.table.row(
        "all recover: ready and untainted after",
        seconds(began.elapsed()),
    );
    let end = Instant::now() + BOUND;
    loop {
        let ledger = fleet.claims(&lease_name("")).await;
        if ledger.claims.is_empty() {
            break;
        }
        assert!(
            Instant::now() < end,
            "the ledger still holds {:?}",
            ledger.claims
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    fleet
        .table
        .row("all recover: ledger empty after", seconds(began.elapsed()));
    let spent = fleet.cluster.usage().await.since(&before);
    fleet.table.row("all recover: requests", spent.words());
}

/// The same fall, while the API server dies and a third of the agents with it, over entries that
/// nobody will use.
async fn chaos(fleet: &mut Fleet, limit: usize) {
    let count = fleet.count;
    let _kubelets = Kubelets::start(fleet.cluster.admin(), count, Duration::from_secs(10));
    let lease = lease_name("");
    let dead: Vec<usize> = (0..(limit / 6).max(1)).map(|n| n * 7 % count).collect();
    for index in &dead {
        fleet.agents.crash(*index);
    }
    fleet.enter_dead(&lease, dead.iter().copied()).await;
    let began = Instant::now();
    fleet.hosts.links(0..count, false);
    let some = |nodes: &Nodes| nodes.tainted().len() > limit / 4;
    fleet.until(BOUND, "some are tainted", some).await;
    fleet.cluster.ctl(&["apiserver", "kill"]);
    let third: Vec<usize> = (0..count)
        .filter(|n| n % 3 == 0 && !dead.contains(n))
        .collect();
    third.iter().for_each(|index| fleet.agents.crash(*index));
    fleet.cluster.ctl(&["apiserver", "start"]);
    let up = Instant::now();
    third.iter().for_each(|index| fleet.start(*index));
    // Those that are being tainted just now, once more.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        for index in (0..count).filter(|n| n % 5 == 1 && !dead.contains(n)) {
            fleet.agents.crash(index);
            fleet.start(index);
        }
    }
    let alive: Vec<String> = (0..count).filter(|n| !dead.contains(n)).map(name).collect();
    let told = |nodes: &Nodes| {
        alive.iter().all(|name| is_unready(&nodes.now[name]))
            && nodes.tainted().len() >= limit - dead.len()
    };
    fleet.until(BOUND, "all that live say unready", told).await;
    fleet
        .table
        .row("chaos: fault to all told", seconds(began.elapsed()));
    fleet
        .table
        .row("chaos: API server up to all told", seconds(up.elapsed()));
    let full = |nodes: &Nodes| nodes.tainted().len() == limit;
    fleet
        .until(
            BOUND,
            "dead entries are swept and their room is taken",
            full,
        )
        .await;
    fleet.table.row(
        format!(
            "chaos: {} dead entries swept, budget full after",
            dead.len()
        ),
        seconds(began.elapsed()),
    );
    let ledger = fleet.claims(&lease).await;
    assert!(
        dead.iter()
            .all(|index| !ledger.claims.contains_key(&name(*index)))
    );
    let conflicts = fleet.agents.with(|told| told.result("conflict"));
    fleet.table.row(
        "chaos: writes that met a conflict so far",
        format!("{conflicts}"),
    );
    dead.iter().for_each(|index| fleet.start(*index));
}
