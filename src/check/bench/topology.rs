//! Which ranks of a run share a node, and whether the list of ranks is complete.

use crate::check::nccl::NcclVerdict;
use crate::observe::bench::{Collective, Rank, Run, SizeRow};
use std::collections::{BTreeMap, BTreeSet};

/// The communicator that the figures belong to, and how its ranks are spread over nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Number of ranks that the run had.
    pub nranks: u32,
    /// The nodes that have ranks in it.
    pub nodes: Vec<BenchNode>,
    /// Number of communicators that run at the same time (`NCCL_TESTS_SPLIT`).
    pub groups: usize,
    /// Rank numbers are missing from the list.
    pub holes: bool,
}

/// The ranks of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BenchNode {
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

/// The topology by the list of ranks, or else by NCCL's log. `None` if neither shows it.
pub fn topology(run: &Run, nccl: Option<&NcclVerdict>) -> Option<Topology> {
    // The figures are those of rank 0 and so of its communicator.
    match run.ranks.iter().min_by_key(|rank| rank.rank) {
        _ if run.separate => None,
        Some(first) => Some(listed(&run.ranks, first.group)),
        None => logged(nccl?.nranks?, nccl?.nodes?),
    }
}

/// A log gives numbers only: which rank is where is known if the ranks divide evenly.
fn logged(nranks: u32, nodes: u32) -> Option<Topology> {
    if nodes == 0 || nranks > MAX_RANKS || !nranks.is_multiple_of(nodes) {
        return None;
    }
    let node = BenchNode {
        ranks: nranks / nodes,
        all: nranks / nodes,
        leaving: u32::from(nodes > 1),
    };
    Some(Topology {
        nranks,
        nodes: vec![node; nodes as usize],
        groups: 1,
        holes: false,
    })
}

fn listed(ranks: &[Rank], group: u32) -> Topology {
    let mut nodes: BTreeMap<&str, BenchNode> = BTreeMap::new();
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

impl Topology {
    /// Fewest ranks on a node.
    pub fn fewest_ranks(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks).min().unwrap_or(0)
    }

    /// Why the number of ranks on each node is in doubt; `None` if it is not. A lost entry of the list
    /// makes a node smaller and so lowers what its rails are expected to carry: half speed would pass
    /// as line rate.
    pub(super) fn unclear(
        &self,
        run: &Run,
        nccl: Option<&NcclVerdict>,
        collective: Option<Collective>,
    ) -> Option<String> {
        let n = self.nranks;
        let logged = nccl.and_then(|nccl| nccl.nranks);
        let logged = logged.filter(|_| self.groups == 1);
        if self.holes {
            return Some("ranks are missing from the list of ranks".into());
        }
        if let Some(logged) = logged.filter(|logged| *logged > n) {
            return Some(format!(
                "NCCL's log names {logged} ranks, the list of ranks {n}"
            ));
        }
        // Unknown if the figures do not depend on the number of ranks.
        let fits = |ranks| has_factor(run, collective?, ranks);
        if fits(n) == Some(false) {
            return Some(format!(
                "busbw is not the multiple of algbw that {n} ranks give"
            ));
        }
        let most = self.nodes.iter().map(|node| node.ranks).max().unwrap_or(0);
        let full = most.saturating_mul(self.nodes.len() as u32);
        (full > n && logged != Some(n) && fits(full) != Some(false))
            .then(|| "nodes have unequal numbers of ranks, which nothing but the list shows".into())
    }
}

/// Whether the ratio of bus to algorithm bandwidth is that of this number of ranks (nccl-tests'
/// doc/PERFORMANCE.md). `None` if it does not depend on their number, or nothing was measured.
fn has_factor(run: &Run, collective: Collective, nranks: u32) -> Option<bool> {
    let part = 1.0 - 1.0 / f64::from(nranks.max(1));
    let factor = match collective {
        Collective::AllReduce => 2.0 * part,
        Collective::AllGather | Collective::ReduceScatter | Collective::Alltoall => part,
        _ => return None,
    };
    // The largest figures are the most precise ones.
    let sides = run.rows.iter().flat_map(SizeRow::sides);
    let side = sides.max_by(|a, b| a.algbw.total_cmp(&b.algbw))?;
    let (algbw, busbw) = (side.algbw / 1e9, side.busbw / 1e9);
    if algbw <= 0.0 {
        return None;
    }
    // Two decimals are printed, fewer of wide figures.
    let is_wide = algbw.max(busbw) >= 1000.0;
    let wide = if is_wide { busbw / 1e3 } else { 0.0 };
    Some((busbw - factor * algbw).abs() <= 0.0051 * (1.0 + factor) + wide)
}
