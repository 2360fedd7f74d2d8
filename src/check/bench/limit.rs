//! The bus bandwidth that the rails of the nodes allow a collective.
//!
//! nccl-tests' bus bandwidth already contains the factor of the collective (its doc/PERFORMANCE.md:
//! all_reduce 2(n-1)/n; all_gather, reduce_scatter and alltoall (n-1)/n; broadcast and reduce 1), so
//! that it can be compared with the hardware's peak. Here S is the size, t the time, n the number of
//! ranks on N nodes, l the ranks of one node, and U what a node's rails carry each way.
//!
//! - **all_reduce, all_gather, reduce_scatter** by rings: every ring that leaves a node sends its part
//!   of S 2(n-1)/n (or (n-1)/n) times over one rail, so busbw is U at most. Algorithms that know nodes
//!   (Tree, NVLSTree, PAT) send less: a node must receive what the others have, (n-l)/n of S, which
//!   gives the *ceiling* U (n-1)/(n-l): 1.875 U for 2 × 8 ranks, U for many nodes. With reduction in
//!   the switches (SHARP) every node sends and receives S once: 2 U (n-1)/n.
//! - **broadcast, reduce**: S leaves or enters the root's node once: U with any algorithm.
//! - **alltoall**: each of l ranks sends S (n-l)/n out of its node, l S (n-l)/n over U; busbw is
//!   S (n-1)/(n t), so U (n-1)/(l (n-l)) (NVIDIA/nccl-tests issue 130).
//! - **sendrecv**: rank r sends to r+1; busbw is S/t of the slowest pair. A pair has the rails of its
//!   GPU, and shares its node's with the other pairs that leave.
//!
//! gather, scatter, alltoallv and hypercube are not judged: whether one GPU's rails or all of them
//! (PXN) limit them, and how amounts differ by rank, is not in the table.

use super::topology::Topology;
use crate::observe::bench::{Collective, Rails};

/// What to expect from a collective, in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedLimit {
    /// Bus bandwidth at line rate.
    pub expected: f64,
    /// Bus bandwidth that no algorithm between GPUs exceeds.
    pub ceiling: f64,
    /// The values are lower bounds: a node has fewer ranks than rails, and how many rails a GPU has
    /// is unknown.
    pub least: bool,
}

/// What the rails carry for some GPUs of a node with `all` ranks, and whether that is a lower bound.
/// NCCL gives each GPU the NICs closest to it: of 8 GPUs with 8 rails, one GPU alone uses one.
fn usable(rails: &Rails, gpus: u32, all: u32) -> (f64, bool) {
    let rate = rails.rate.bytes_per_sec();
    let count = f64::from(rails.count);
    // Eight ranks fill a node of every known machine but the DGX-2.
    let given = rails.gpus.filter(|gpus| *gpus > 0);
    match given.or((all >= 8).then_some(all)) {
        Some(node_gpus) => {
            let share = count * f64::from(gpus) / f64::from(node_gpus);
            (rate * share.clamp(count.min(1.0), count), false)
        }
        None if gpus >= rails.count => (rate * count, false),
        None => (rate, rails.count > 1),
    }
}

/// The limit of a collective, which the slowest node sets. `None` if the collective is not judged.
pub fn limit(collective: Collective, topology: &Topology, rails: &Rails) -> Option<SpeedLimit> {
    let (nranks, nowhere) = (f64::from(topology.nranks), f64::INFINITY);
    let mut limit = SpeedLimit {
        expected: nowhere,
        ceiling: nowhere,
        least: false,
    };
    for node in &topology.nodes {
        let ranks = f64::from(node.ranks);
        let (outside, others) = (nranks - ranks, nranks - 1.0);
        let (all, least) = usable(rails, node.all, node.all);
        let (one, least_one) = usable(rails, 1, node.all);
        // Communicators that run at the same time share the rails.
        let all = all * ranks / f64::from(node.all.max(1));
        let (expected, ceiling) = match collective {
            Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter => {
                (all, all * others / outside)
            }
            Collective::Broadcast | Collective::Reduce => (all, all),
            Collective::Alltoall => {
                let each = all * others / (ranks * outside);
                (each, each)
            }
            // A node that no pair leaves limits nothing.
            Collective::Sendrecv if node.leaving == 0 => (nowhere, nowhere),
            Collective::Sendrecv => {
                let pair = one.min(all / f64::from(node.leaving));
                (pair, pair)
            }
            _ => return None,
        };
        limit.expected = limit.expected.min(expected);
        limit.ceiling = limit.ceiling.min(ceiling);
        limit.least |= match collective {
            // A GPU of a node with no more rails than ranks has one rail, or a share of one.
            Collective::Sendrecv => least_one && rails.count > node.all,
            _ => least,
        };
    }
    (limit.expected.is_finite() && limit.expected > 0.0).then_some(limit)
}
