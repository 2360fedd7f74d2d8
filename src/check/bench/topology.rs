//! Which ranks of a run share a node.

use crate::check::nccl::NcclVerdict;
use crate::observe::bench::{Rank, Run};
use std::collections::{BTreeMap, BTreeSet};

/// The communicator that the figures belong to, and how its ranks are spread over nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Number of ranks that the run had.
    pub nranks: u32,
    /// The nodes that have ranks in it.
    pub nodes: Vec<Node>,
    /// Number of communicators that run at the same time (`NCCL_TESTS_SPLIT`).
    pub groups: usize,
    /// Rank numbers are missing from the list.
    pub holes: bool,
}

/// The ranks of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Node {
    /// Ranks in the communicator.
    pub ranks: u32,
    /// Ranks in all communicators that run at the same time.
    pub all: u32,
    /// Ranks whose successor by number, to which `sendrecv_perf` sends, is on another node.
    pub leaving: u32,
}

/// Larger numbers of ranks in a log are not believed: the largest jobs have some hundred thousand
/// GPUs.
const MAX_RANKS: u32 = 1 << 20;

impl Topology {
    /// Fewest ranks on a node.
    pub fn fewest_ranks(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks).min().unwrap_or(0)
    }
}

/// The topology by the list of ranks, or else by NCCL's log. `None` if neither shows it.
pub fn topology(run: &Run, nccl: Option<&NcclVerdict>) -> Option<Topology> {
    // The figures are those of rank 0 and so of its communicator.
    let group = run
        .ranks
        .iter()
        .min_by_key(|rank| rank.rank)
        .map(|rank| rank.group);
    match group {
        _ if run.separate => None,
        Some(group) => Some(listed(&run.ranks, group)),
        None => logged(nccl?.nranks?, nccl?.nodes?),
    }
}

/// A log gives numbers only: which rank is where is known if the ranks divide evenly.
fn logged(nranks: u32, nodes: u32) -> Option<Topology> {
    if nodes == 0 || nranks > MAX_RANKS || !nranks.is_multiple_of(nodes) {
        return None;
    }
    let (ranks, leaving) = (nranks / nodes, u32::from(nodes > 1));
    let node = Node {
        ranks,
        all: ranks,
        leaving,
    };
    Some(Topology {
        nranks,
        nodes: vec![node; nodes as usize],
        groups: 1,
        holes: false,
    })
}

fn listed(ranks: &[Rank], group: u32) -> Topology {
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    for rank in ranks {
        let node = nodes.entry(&rank.host).or_default();
        node.all += 1;
        node.ranks += u32::from(rank.group == group);
    }
    let mut ring: Vec<&Rank> = ranks.iter().filter(|rank| rank.group == group).collect();
    ring.sort_by_key(|rank| rank.rank);
    for (rank, next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        if rank.host != next.host {
            nodes.entry(&rank.host).or_default().leaving += 1;
        }
    }
    let groups: BTreeSet<u32> = ranks.iter().map(|rank| rank.group).collect();
    // Ranks are numbered over all communicators, or within each.
    let whole = |numbers: BTreeSet<u32>| (0..).zip(&numbers).all(|(at, rank)| at == *rank);
    let all = whole(ranks.iter().map(|rank| rank.rank).collect());
    let own = whole(ring.iter().map(|rank| rank.rank).collect());
    Topology {
        nranks: ring.len() as u32,
        nodes: nodes.into_values().filter(|node| node.ranks > 0).collect(),
        groups: groups.len(),
        holes: !(all || groups.len() > 1 && own),
    }
}
