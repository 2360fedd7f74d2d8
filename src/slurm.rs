//! Whether Slurm is to drain or resume this node. Pure: the programs are run in `cli/slurm.rs`.
//!
//! Three rules keep selvage from interfering with other tools and admins. A node is drained only while
//! nothing else has taken it out of service; it is resumed only where the reason says that selvage drained
//! it; and selvage's own drains are bounded in each partition. Slurm has no compare-and-swap, so the node
//! that drains holds a lock that all nodes share, and reads the nodes again under it.

use crate::cluster::BudgetMax;
use crate::config::SlurmSettings;
use crate::report::{AgentReport, State};
use serde::Deserialize;

/// Begins the reason of each drain that selvage made.
pub const MARK: &str = "selvage: ";

/// How the states begin in which somebody else, or Slurm itself, has taken a node out of service.
const OUT: [&str; 6] = ["DOWN", "ERROR", "FAIL", "FUTURE", "POWER", "REBOOT"];

/// What the verdict asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlurmAction {
    /// Leave the node as it is.
    Nothing,
    /// Drain it, with this reason.
    Drain(String),
    /// Take back a drain of ours.
    Resume,
}

/// What the verdict asks for, and why. Degraded, unknown and no fabric ask for nothing: a drain of ours
/// stays until the node is ready.
pub fn wanted(verdict: &AgentReport, settings: &SlurmSettings) -> (SlurmAction, String) {
    let stood = verdict.stood();
    let hold = settings.hold.duration().max(verdict.passes_within());
    let clear = settings.clear.duration();
    let state = verdict.state.as_str();
    let (action, wait) = match verdict.state {
        State::Unready => {
            let cause = verdict.cause().unwrap_or_else(|| state.to_string());
            (SlurmAction::Drain(format!("{MARK}{cause}")), hold)
        }
        State::Ready => (SlurmAction::Resume, clear),
        State::Degraded | State::Unknown | State::NoFabric => {
            return (SlurmAction::Nothing, format!("the node is {state}"));
        }
    };
    let stands = format!("the node has been {state} for {} s", stood.as_secs());
    match stood >= wait {
        true => (action, stands),
        false => {
            let waits = format!("{stands}, of {} s", wait.as_secs());
            (SlurmAction::Nothing, waits)
        }
    }
}

/// The nodes as `scontrol --json` or, before Slurm 23.02, `sinfo --json` lists them.
#[derive(Debug, Deserialize)]
struct NodeList {
    nodes: Vec<SlurmNode>,
}

/// A node of Slurm.
#[derive(Debug, Clone, Deserialize)]
pub struct SlurmNode {
    name: String,
    #[serde(default)]
    partitions: Vec<String>,
    reason: Option<String>,
    state: StateWords,
    /// Until Slurm 22.05; later versions list them with the state.
    #[serde(default)]
    state_flags: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum StateWords {
    One(String),
    Many(Vec<String>),
}

impl SlurmNode {
    fn is_any(&self, prefixes: &[&str]) -> bool {
        let base = match &self.state {
            StateWords::One(word) => std::slice::from_ref(word),
            StateWords::Many(words) => words,
        };
        let mut words = base.iter().chain(&self.state_flags);
        words.any(|word| {
            let word = word.to_uppercase();
            prefixes.iter().any(|prefix| word.starts_with(prefix))
        })
    }

    fn is_drained(&self) -> bool {
        self.is_any(&["DRAIN"])
    }

    fn is_drained_by_us(&self) -> bool {
        self.is_drained() && self.reason().starts_with(MARK)
    }

    fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }
}

/// Reads the list of nodes, among which this one must be.
///
/// # Errors
/// Why it is not such a list.
pub fn parse_nodes(json: &[u8], name: &str) -> Result<Vec<SlurmNode>, String> {
    let list: Result<NodeList, _> = serde_json::from_slice(json);
    let list = list.map_err(|error| format!("Slurm's list of nodes cannot be read: {error}"))?;
    match list.nodes.iter().any(|node| node.name == name) {
        true => Ok(list.nodes),
        false => Err(
            "slurmctld lists no node of this name: SLURMD_NODENAME is a NodeName of slurm.conf"
                .into(),
        ),
    }
}

/// Whether Slurm's nodes allow what is wanted of one of them.
///
/// # Errors
/// Why not.
pub fn allowed(
    action: &SlurmAction,
    name: &str,
    nodes: &[SlurmNode],
    most: BudgetMax,
) -> Result<(), String> {
    let node = nodes.iter().find(|node| node.name == name);
    let node = node.ok_or("slurmctld does not list it")?;
    let other = || Err(format!("drained by someone else: {:?}", node.reason()));
    match action {
        SlurmAction::Nothing => Err("nothing is wanted".into()),
        _ if node.is_any(&OUT) => Err(format!(
            "it is down, failed, rebooting or powered off: {:?}",
            node.reason()
        )),
        SlurmAction::Drain(_) if node.is_drained_by_us() => Err("selvage has drained it".into()),
        SlurmAction::Resume if node.is_drained_by_us() => Ok(()),
        SlurmAction::Resume if !node.is_drained() => Err("it is not drained".into()),
        _ if node.is_drained() => other(),
        _ => within_budget(node, nodes, most),
    }
}

/// Whether each partition of the node may lose one more.
fn within_budget(node: &SlurmNode, nodes: &[SlurmNode], most: BudgetMax) -> Result<(), String> {
    for partition in &node.partitions {
        let members = nodes.iter().filter(|of| of.partitions.contains(partition));
        let drained = members.clone().filter(|of| of.is_drained_by_us()).count();
        let most = most.of(members.count());
        if drained >= most {
            return Err(format!(
                "the budget of partition {partition} is spent: selvage keeps {drained} drained, of {most} at most"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
