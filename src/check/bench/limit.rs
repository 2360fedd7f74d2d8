//! What the rails of a node let a collective reach, in the table's own measure.
//!
//! nccl-tests' bus bandwidth already holds the factor of the collective (its doc/PERFORMANCE.md:
//! all_reduce 2(n-1)/n, all_gather, reduce_scatter and alltoall (n-1)/n, broadcast and reduce 1), so
//! that it "can be compared with the hardware's peak". Here S is the size, t the time, n ranks on N
//! nodes, l of them on a node, U what a node's rails carry each way, in bytes a second.
//!
//! - **all_reduce, all_gather, reduce_scatter** by rings: each of the rings that leave a node carries
//!   its part of S by 2(n-1)/n (or (n-1)/n) over one rail, so busbw = U at most. Algorithms that know
//!   of nodes (Tree, NVLSTree, PAT) send less: a node must receive what others have, (n-l)/n of S,
//!   which gives the *ceiling* U (n-1)/(n-l): 1.875 U for 2 × 8 ranks, U for many nodes.
//!   With reduction in the network (SHARP) each node sends and receives S once: 2 U (n-1)/n.
//! - **broadcast, reduce**: S leaves the root's node (or enters it) once: U, and no algorithm saves.
//! - **alltoall**: each of l ranks sends S (n-l)/n out of its node, l S (n-l)/n over U; busbw is
//!   S (n-1)/(n t), so U (n-1)/(l (n-l)): N/(N-1) rails of one GPU, as NCCL's makers put it
//!   (NVIDIA/nccl-tests issue 130).
//! - **sendrecv**: rank r sends to r+1; busbw = S/t of the slowest pair. A pair has the rails of its
//!   GPU, and what its node's pairs that leave must share.
//!
//! gather, scatter, alltoallv and hypercube are told and not judged: root's rails or all rails
//! (PXN), and amounts that differ by rank, are nothing that the table shows.

use super::shape::{Node, Shape};
use crate::observe::bench::{Collective, Rails};

/// What can be expected of a collective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Bus bandwidth at line rate, bytes a second.
    pub expected: f64,
    /// What no algorithm between GPUs gets beyond.
    pub ceiling: f64,
    /// What a node's rails carry at that, bytes a second: where it is a part of the node's, such as
    /// one GPU's, the whole.
    pub node: f64,
    /// The ranks of a node are fewer than its rails and nobody says how many rails a GPU has: this
    /// is the least that they can be.
    pub least: bool,
}

/// What a node's rails carry for some of its GPUs: bytes a second, and whether that is a lower bound.
///
/// NCCL gives each GPU the NICs nearest to it: of 8 GPUs with 8 rails one GPU alone reaches one.
/// `all`: ranks at work on the node. Eight are a whole node of every known shape but DGX-2.
fn usable(rails: &Rails, gpus: u32, all: u32) -> (f64, bool) {
    let rate = rails.rate.bytes_per_sec();
    let count = f64::from(rails.count);
    let known = rails.gpus.filter(|gpus| *gpus > 0);
    match known.or((all >= 8).then_some(all)) {
        Some(whole) => {
            let share = count * f64::from(gpus) / f64::from(whole);
            (rate * share.clamp(count.min(1.0), count), false)
        }
        None if gpus >= rails.count => (rate * count, false),
        // At least the one that is nearest.
        None => (rate, rails.count > 1),
    }
}

/// A node as the limit sees it.
struct Side {
    node: Node,
    /// What its rails carry for the communicator, bytes a second.
    all: f64,
    /// What they carry for one of its GPUs.
    one: f64,
    /// Ranks elsewhere.
    outside: f64,
}

/// The limit of a collective over a shape; none: not judged.
pub fn limit(collective: Collective, shape: &Shape, rails: &Rails) -> Option<Limit> {
    let n = f64::from(shape.nranks);
    let sides: Vec<(Side, bool)> = shape
        .nodes
        .iter()
        .map(|node| {
            // All its ranks share the rails; the communicator has its part.
            let (all, least) = usable(rails, node.all, node.all);
            let (one, least_one) = usable(rails, 1, node.all);
            let side = Side {
                node: *node,
                all: all * f64::from(node.ranks) / f64::from(node.all.max(1)),
                one,
                outside: n - f64::from(node.ranks),
            };
            let pair = collective == Collective::Sendrecv;
            // A GPU whose node has no more rails than ranks has one, or a share of one.
            let least = if pair {
                least_one && rails.count > node.all
            } else {
                least
            };
            (side, least)
        })
        .collect();
    let slowest = |of: &dyn Fn(&Side) -> f64| {
        let each = sides.iter().map(|(side, _)| of(side));
        each.fold(f64::INFINITY, f64::min)
    };
    let (expected, ceiling) = match collective {
        Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter => (
            slowest(&|side| side.all),
            slowest(&|side| side.all * (n - 1.0) / side.outside),
        ),
        Collective::Broadcast | Collective::Reduce => {
            let expected = slowest(&|side| side.all);
            (expected, expected)
        }
        Collective::Alltoall => {
            let expected =
                slowest(&|side| side.all * (n - 1.0) / (f64::from(side.node.ranks) * side.outside));
            (expected, expected)
        }
        Collective::Sendrecv => {
            // A node that no rank leaves limits nothing.
            let expected = slowest(&|side| match side.node.leaving {
                0 => f64::INFINITY,
                leaving => side.one.min(side.all / f64::from(leaving)),
            });
            (expected, expected)
        }
        _ => return None,
    };
    let node = match collective {
        Collective::Sendrecv => expected,
        _ => slowest(&|side| side.all),
    };
    let least = sides.iter().any(|(_, least)| *least);
    (expected.is_finite() && expected > 0.0).then_some(Limit {
        expected,
        ceiling,
        node,
        least,
    })
}
