//! The nodes of a cluster by verdict, reason and cause: what `selvage fleet` shows.
//!
//! [`FleetNode`] is one node's row, of its Node object alone ([`FleetNode::of`]) or of its agent's report
//! ([`targets`]); [`summarise`] makes a [`Fleet`] of them and [`text`] a screen, all pure. [`api`] and
//! [`targets`] ask.

pub mod agent_client;
pub mod api;
pub mod causes;
pub mod mute;
pub mod targets;
pub mod text;
pub mod watched;

use crate::cluster::{ClusterSettings, Mutes, NodeGroup, NodeView, WITHHELD, names, topology};
use crate::report::{State, port_view};
use crate::settings_macro::words;
use causes::SharedCause;
use jiff::Timestamp;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Name and version of the JSON form.
const SCHEMA: &str = "selvage.dev/fleet/v1";

/// Reason of a node whose agent no longer renews the condition, or does not answer.
pub const AGENT_SILENT: &str = "AgentSilent";
/// Reason of a node that waits for its agent's first verdict, with the startup taint.
const AGENT_NOT_READY: &str = "AgentNotReady";

/// Verdicts, worst first.
const ORDER: [State; 5] = [
    State::Unready,
    State::Unknown,
    State::Degraded,
    State::Ready,
    State::NoFabric,
];

words! {
    /// Where our taint stands.
    #[derive(Default)]
    Taint {
        /// Neither there nor wanted.
        #[default]
        None = "none",
        /// On the node.
        Applied = "applied",
        /// Wanted, and held back by the budget.
        Withheld = "withheld",
        /// Muted by an operator.
        Muted = "muted",
        /// The one that a node joins with: its agent has proven nothing yet.
        Startup = "startup",
        /// Not known: the agent was asked and not the Node object.
        Unknown = "unknown",
    }
}

/// Something that nodes may have in common: a leaf, a zone, a driver's version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NodeAttribute {
    /// What it is: `leaf`, `driver`.
    pub kind: &'static str,
    /// Which one it is.
    pub value: String,
}

/// One node of the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FleetNode {
    /// Name of the Node.
    pub node: String,
    /// The verdict; `None` where no agent has given one.
    pub state: Option<State>,
    /// Why it is not ready; empty where it is.
    pub reason: String,
    /// Subjects and remedy, by the condition.
    pub message: String,
    /// Since when the condition has its status; `None` for a degraded node, whose condition is True as
    /// that of a ready one.
    pub since: Option<Timestamp>,
    /// When the agent last confirmed its verdict.
    pub heartbeat: Option<Timestamp>,
    /// Whether that is too long ago.
    pub silent: bool,
    /// Number of rails, as the label has it.
    pub rails: String,
    /// Rate of the slowest rail in Gbit/s, as the label has it.
    pub rail_gbps: String,
    /// Kind of network, as the label has it.
    pub fabric_kind: String,
    /// Path of GPUDirect RDMA, as the label has it.
    pub gpudirect: String,
    /// GPUDirect Storage, as the label has it.
    pub gds: String,
    /// Where our taint stands.
    pub taint: Taint,
    /// Whether the node is cordoned.
    pub cordoned: bool,
    /// Muted checks, or `taint`, and until when.
    pub muted: BTreeMap<String, Timestamp>,
    /// What it may have in common with others.
    pub attributes: Vec<NodeAttribute>,
    /// Lease of the budget that counts it; `None` where none does.
    #[serde(skip)]
    pub budget: Option<String>,
}

/// Labels and fields that nodes may have in common, other than places in the network.
const VERSIONS: &[(&str, &str)] = &[
    // NVIDIA's GPU feature discovery: new name, then old one.
    ("nvidia.com/cuda.driver-version.full", "driver"),
    ("nvidia.com/gpu.product", "GPU"),
    ("node.kubernetes.io/instance-type", "instance type"),
];

/// What a node may have in common with others.
fn attributes(node: &NodeView) -> Vec<NodeAttribute> {
    let value = |(key, kind): &(&str, _)| Some((*kind, node.labels.get(*key)?.clone()));
    let versions = VERSIONS.iter().filter_map(value);
    let programs = ["kernel", "image"].into_iter().zip(node.versions.clone());
    let places = topology::places(&node.labels).into_iter();
    let all = places.chain(versions).chain(programs);
    all.filter(|(_, value)| !value.is_empty())
        .map(|(kind, value)| NodeAttribute { kind, value })
        .collect()
}

impl FleetNode {
    /// What a Node object says.
    pub fn of(node: NodeView, settings: &ClusterSettings) -> Self {
        let own = |name: &str| node.labels.get(&settings.own(name)).cloned();
        let label = |name: &str| own(name).unwrap_or_default();
        let condition = node.condition.clone().unwrap_or_default();
        let mute = node.annotations.get(&settings.own(names::MUTE));
        let muted = Mutes::parse(mute.map_or("", String::as_str), |_| true).until;
        // A word of a later version is at least a verdict.
        let state = own(names::FABRIC).filter(|word| !word.is_empty());
        let known = |word: String| State::ALL.into_iter().find(|state| state.as_str() == word);
        let state = state.map(|word| known(word).unwrap_or(State::Unknown));
        let taint = match () {
            () if node.is_tainted(settings) => Taint::Applied,
            () if node.is_joining(settings) => Taint::Startup,
            () if condition.message.contains(WITHHELD) => Taint::Withheld,
            () => Taint::None,
        };
        let group = NodeGroup::new(settings, &node.labels);
        let since = condition.last_transition_time;
        FleetNode {
            attributes: attributes(&node),
            node: node.name,
            reason: match (state, taint) {
                (Some(State::Ready | State::NoFabric), _) => String::new(),
                (None, Taint::Startup) => AGENT_NOT_READY.into(),
                _ => condition.reason,
            },
            message: condition.message,
            since: since.filter(|_| state != Some(State::Degraded)),
            heartbeat: condition.last_heartbeat_time,
            silent: false,
            rails: label(names::RAILS),
            rail_gbps: label(names::RAIL_GBPS),
            fabric_kind: label(names::FABRIC_KIND),
            gpudirect: label(names::GPUDIRECT),
            gds: label(names::GDS),
            state: state.or((taint != Taint::None).then_some(State::Unknown)),
            taint,
            cordoned: node.cordoned,
            muted,
            budget: group.holds(&node.labels).then_some(group.lease),
        }
    }

    /// Whether something is wrong with it, or may be.
    pub fn is_faulty(&self) -> bool {
        let fine = |state| matches!(state, State::Ready | State::NoFabric);
        self.state.is_some_and(|state| !fine(state))
    }

    /// Judges by the clock what the Node object leaves to it: mutes that ended, and an agent that has been
    /// silent for too long, whose verdict proves nothing any more. Only that of an unready node stands.
    fn at(mut self, now: Timestamp, silent_after: Option<Duration>) -> Self {
        self.muted.retain(|_, until| now < *until);
        if self.taint == Taint::None && self.muted.contains_key(crate::cluster::silence::TAINT) {
            self.taint = Taint::Muted;
        }
        // None where the heartbeat lies ahead of this clock.
        let age = |seen| Duration::try_from(now.duration_since(seen)).ok();
        let age = self.heartbeat.and_then(age);
        if let (Some(age), Some(limit)) = (age, silent_after)
            && age > limit
        {
            self.silent = true;
            if !matches!(self.state, Some(State::Unready) | None) {
                self.state = Some(State::Unknown);
                self.reason = AGENT_SILENT.into();
                self.since = self.heartbeat;
            }
        }
        self
    }

    /// Worst first, then by name.
    fn rank(&self) -> (usize, String) {
        let place = |state| ORDER.iter().position(|of| *of == state);
        let at = self.state.and_then(place);
        (at.unwrap_or(ORDER.len()), port_view::natural(&self.node))
    }
}

/// Nodes by verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeCounts {
    /// All of the list.
    pub nodes: usize,
    /// By verdict; those that no node has are missing.
    pub by_state: BTreeMap<&'static str, usize>,
    /// Those without a verdict: no agent runs there, or none ever did.
    pub without_agent: usize,
}

/// The taints of all groups and how many their budgets allow, by the settings in force here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// Nodes with our taint.
    pub taints: usize,
    /// Most nodes that may have it.
    pub allowed: usize,
    /// Nodes whose taint is held back.
    pub withheld: usize,
}

/// All nodes at a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fleet {
    schema: &'static str,
    /// The moment.
    pub time: Timestamp,
    /// Nodes by verdict.
    pub counts: NodeCounts,
    /// Taints and their budget; `None` where no Node was read.
    pub budget: Option<Budget>,
    /// What the nodes that are not ready have in common, most nodes first.
    pub causes: Vec<SharedCause>,
    /// All nodes, worst first.
    pub nodes: Vec<FleetNode>,
}

impl Fleet {
    /// Whether a node is unready.
    pub fn has_unready(&self) -> bool {
        (self.counts.by_state).contains_key(State::Unready.as_str())
    }
}

/// What the nodes are together. An agent is silent after two heartbeats without one.
pub fn summarise(nodes: Vec<FleetNode>, settings: &ClusterSettings, now: Timestamp) -> Fleet {
    let heartbeat = settings.heartbeat.duration();
    let silent_after = (!heartbeat.is_zero()).then(|| heartbeat * 2);
    let nodes = nodes.into_iter().map(|node| node.at(now, silent_after));
    let mut nodes: Vec<FleetNode> = nodes.collect();
    nodes.sort_by_cached_key(FleetNode::rank);
    let mut counts = NodeCounts {
        nodes: nodes.len(),
        ..NodeCounts::default()
    };
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &nodes {
        match node.state {
            Some(state) => *counts.by_state.entry(state.as_str()).or_default() += 1,
            None => counts.without_agent += 1,
        }
        if let Some(lease) = &node.budget {
            *groups.entry(lease).or_default() += 1;
        }
    }
    let with = |taint| nodes.iter().filter(|node| node.taint == taint).count();
    let limits = groups.values().map(|nodes| settings.budget_max.of(*nodes));
    let budget = Budget {
        taints: with(Taint::Applied),
        allowed: limits.sum(),
        withheld: with(Taint::Withheld),
    };
    Fleet {
        schema: SCHEMA,
        time: now,
        counts,
        budget: Some(budget),
        causes: causes::causes(&nodes),
        nodes,
    }
}

#[cfg(test)]
mod tests;
