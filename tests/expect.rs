//! What an expert says of nodes, held against the program: the judged examples of a node at one moment,
//! with and without memory, and of nodes over time (`expect/timelines.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]

#[path = "expect/nodes.rs"]
mod nodes;
#[path = "expect/spoilt.rs"]
mod spoilt;
#[path = "expect/timelines.rs"]
mod timelines;

use selvage::check::debounce::Hysteresis;
use selvage::check::policy::Policy;
use selvage::check::profile::PlatformSettings;
use selvage::check::roles::{Role, RoleOverrides};
use selvage::config::Config;
use selvage::evaluator::{Evaluator, SamplingMode};
use selvage::observe::{Memory, Snapshot};
use selvage::report::Report;
use selvage::simulate::{Node, NodeFiles, by_name, preset, shape_names};
use selvage::units::Millis;
use std::cell::RefCell;
use std::sync::Arc;
use tempfile::TempDir;

/// A machine that is well, what is read of it, and the names of its rails.
pub struct Machine {
    pub profile: String,
    pub spec: NodeFiles,
    pub well: Snapshot,
    pub rails: Vec<String>,
}

impl Machine {
    /// A preset, or the machine of a known shape, whose name the Node's label then says.
    pub fn new(name: &str) -> Self {
        let profile = if shape_names().contains(&name) {
            name
        } else {
            "auto"
        };
        let (name, nameless) = match name.split_once(", of no known make") {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        let mut spec = preset(name).or_else(|| by_name(name)).unwrap();
        if nameless {
            spec.dmi = ("Acme".into(), "Server".into());
        }
        let well = snapshot(&spec, Millis::from_secs(3600));
        let report =
            evaluator(profile, Memory::default(), |_| ()).evaluate(&well, SamplingMode::Once);
        let rails = report
            .roles
            .iter()
            .filter(|(_, facts)| facts.role == Role::Rail);
        let devices = &report.snapshot.devices.as_ref().unwrap().value;
        let name = |key| {
            devices
                .iter()
                .find(|device| device.key == key)
                .unwrap()
                .name
                .clone()
        };
        let rails = rails.map(|(port, _)| name(port.device.clone())).collect();
        Machine {
            profile: profile.to_string(),
            spec,
            well,
            rails,
        }
    }

    /// What an agent remembers over a restart that saw this node for an hour.
    pub fn remembered(&self, seen: &Snapshot) -> Memory {
        let mut watcher = evaluator(&self.profile, Memory::default(), |_| ());
        for hour in [1, 2] {
            watcher.evaluate(
                &at(seen, Millis::from_secs(hour * 3600)),
                SamplingMode::Once,
            );
        }
        Memory {
            remembered: watcher.history.memory().remembered,
            ..Memory::default()
        }
    }
}

pub fn evaluator(profile: &str, memory: Memory, policy: impl Fn(&mut Policy)) -> Evaluator {
    let mut settings = Policy::default();
    policy(&mut settings);
    let platform = PlatformSettings {
        profile: profile.to_string(),
        ..PlatformSettings::default()
    };
    let (overrides, hysteresis) = (RoleOverrides::default(), Hysteresis::default());
    Evaluator::new(
        "node".into(),
        settings,
        overrides,
        memory,
        hysteresis,
        platform,
    )
}

/// What the agent reads of a node, by the files that a kernel would show.
pub fn snapshot(spec: &NodeFiles, now: Millis) -> Snapshot {
    // Of the next node only what differs is written.
    thread_local!(static TREE: RefCell<Option<(TempDir, Node)>> = const { RefCell::new(None) });
    let root = TREE.with_borrow_mut(|tree| {
        let (_, node) = tree.get_or_insert_with(|| {
            let dir = tempfile::tempdir().unwrap();
            let node = Node::write(spec.clone(), dir.path()).unwrap();
            (dir, node)
        });
        node.become_another(spec.clone()).unwrap();
        node.root().to_path_buf()
    });
    let mut config = Config::default();
    config.agent.host_root = root;
    config.agent.state_dir = None;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    at(
        &runtime
            .block_on(selvage::agent::sample_once(&config))
            .snapshot,
        now,
    )
}

/// The same read at another moment.
pub fn at(snapshot: &Snapshot, now: Millis) -> Snapshot {
    let mut snapshot = snapshot.clone();
    snapshot.at = now;
    macro_rules! stamp {
        ($($maps:ident)*; $($parts:ident)*) => {
            $(snapshot.$maps.values_mut().for_each(|part| Arc::make_mut(part).at = now);)*
            $(snapshot.$parts.iter_mut().for_each(|part| Arc::make_mut(part).at = now);)*
        };
    }
    stamp!(links counters gids netdevs ethtool dcb dot1x lldp umad vf_links; pci gpudirect);
    if let Some(devices) = &mut snapshot.devices {
        devices.at = now;
    }
    for health in snapshot.sources.values_mut() {
        health.last_ok = health.last_ok.map(|_| now);
    }
    snapshot
}

/// State and findings: `degraded: RateBelowPeers`, notices in brackets.
pub fn said(report: &Report) -> String {
    let mut words: Vec<String> = (report.findings.iter())
        .map(|found| match found.weight {
            selvage::check::Weight::Verdict => found.reason.to_string(),
            selvage::check::Weight::Notice => format!("({})", found.reason),
        })
        .chain(report.reasons.iter().cloned())
        .collect();
    words.sort();
    words.dedup();
    let state = report.state.as_str();
    match words.is_empty() {
        true => state.to_string(),
        false => format!("{state}: {}", words.join(" ")),
    }
}
