//! Who took part in a run: ranks on nodes.

use crate::check::nccl::NcclVerdict;
use crate::observe::bench::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks of the communicator that the figures are of, and where they sit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// Its ranks.
    pub nranks: u32,
    /// Of each node: its ranks in the communicator, all ranks of the run, and the ranks whose next
    /// one is on another node.
    pub nodes: Vec<Node>,
    /// Communicators that run at once (`NCCL_TESTS_SPLIT`).
    pub groups: u32,
    /// Numbers of ranks are missing.
    pub holes: bool,
}

/// More ranks than this are not believed of a log: the largest jobs have some hundred thousand GPUs.
const MAX_RANKS: u32 = 1 << 20;

/// One node of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Ranks in the communicator.
    pub ranks: u32,
    /// Ranks in all communicators that run at once.
    pub all: u32,
    /// Ranks that send to another node in a ring of ranks by number (`sendrecv_perf`).
    pub leaving: u32,
}

impl Shape {
    /// Fewest ranks that a node has.
    pub fn least(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks).min().unwrap_or(0)
    }
}

/// The shape of a run: from its list of ranks, else from NCCL's log. None: neither tells.
pub fn shape(run: &Run, nccl: Option<&NcclVerdict>) -> Option<Shape> {
    if run.apart {
        return None;
    }
    if run.seats.is_empty() {
        let nccl = nccl?;
        let (nranks, nodes) = (nccl.nranks?, nccl.nodes?);
        // Only where it comes out even is it known who sits where.
        if nodes == 0 || nranks > MAX_RANKS || nranks % nodes != 0 {
            return None;
        }
        let ranks = nranks / nodes;
        let node = Node {
            ranks,
            all: ranks,
            leaving: u32::from(nodes > 1),
        };
        return Some(Shape {
            nranks,
            nodes: vec![node; nodes as usize],
            groups: 1,
            holes: false,
        });
    }
    // The figures are of rank 0, and so of its communicator.
    let group = run.seats.iter().min_by_key(|seat| seat.rank)?.group;
    let mut nodes: BTreeMap<&str, Node> = BTreeMap::new();
    for seat in &run.seats {
        let node = nodes.entry(&seat.host).or_insert(Node {
            ranks: 0,
            all: 0,
            leaving: 0,
        });
        node.all += 1;
        node.ranks += u32::from(seat.group == group);
    }
    let mut ring: Vec<_> = run
        .seats
        .iter()
        .filter(|seat| seat.group == group)
        .collect();
    ring.sort_by_key(|seat| seat.rank);
    let next = ring.iter().cycle().skip(1);
    for (seat, next) in ring.iter().zip(next) {
        if seat.host != next.host
            && let Some(node) = nodes.get_mut(seat.host.as_str())
        {
            node.leaving += 1;
        }
    }
    let groups: BTreeSet<u32> = run.seats.iter().map(|seat| seat.group).collect();
    // Numbered over all communicators, or within each.
    let whole = |ranks: BTreeSet<u32>| (0..).zip(&ranks).all(|(at, rank)| at == *rank);
    let all = run.seats.iter().map(|seat| seat.rank).collect();
    let own = ring.iter().map(|seat| seat.rank).collect();
    Some(Shape {
        nranks: ring.len() as u32,
        nodes: nodes.into_values().filter(|node| node.ranks > 0).collect(),
        groups: groups.len() as u32,
        holes: !(whole(all) || groups.len() > 1 && whole(own)),
    })
}
