//! Whether the list of ranks is complete. A lost entry makes a node smaller and so lowers what its
//! rails are expected to carry: half speed would pass as line rate.

use super::topology::Topology;
use crate::check::nccl::NcclVerdict;
use crate::observe::bench::{Collective, Measurement, Row, Run};

/// Bus bandwidth divided by algorithm bandwidth (nccl-tests' doc/PERFORMANCE.md). `None` if it does
/// not depend on the number of ranks.
fn factor(collective: Collective, nranks: u32) -> Option<f64> {
    let part = 1.0 - 1.0 / f64::from(nranks.max(1));
    match collective {
        Collective::AllReduce => Some(2.0 * part),
        Collective::AllGather | Collective::ReduceScatter | Collective::Alltoall => Some(part),
        _ => None,
    }
}

/// Whether the figures, printed with two decimals, can have this factor.
fn has_factor(side: &Measurement, factor: f64) -> bool {
    let (algbw, busbw) = (side.algbw / 1e9, side.busbw / 1e9);
    // Wider figures lose decimals.
    let wide = if algbw.max(busbw) < 1000.0 {
        0.0
    } else {
        busbw / 1e3
    };
    (busbw - factor * algbw).abs() <= 0.0051 * (1.0 + factor) + wide
}

/// Why the number of ranks on each node is in doubt; `None` if it is not.
pub(super) fn unclear(
    run: &Run,
    topology: &Topology,
    nccl: Option<&NcclVerdict>,
    collective: Option<Collective>,
) -> Option<String> {
    let n = topology.nranks;
    let logged = nccl
        .and_then(|nccl| nccl.nranks)
        .filter(|_| topology.groups == 1);
    if topology.holes {
        return Some("ranks are missing from the list of ranks".into());
    }
    if let Some(logged) = logged.filter(|logged| *logged > n) {
        return Some(format!(
            "NCCL's log names {logged} ranks, the list of ranks {n}"
        ));
    }
    // The largest figures are the most precise ones.
    let sides = run
        .rows
        .iter()
        .flat_map(Row::sides)
        .filter(|side| side.algbw > 0.0);
    let side = sides.max_by(|a, b| a.algbw.total_cmp(&b.algbw));
    // Before 2018-12 all_gather and reduce_scatter printed one bandwidth twice.
    let old = [Collective::AllGather, Collective::ReduceScatter]
        .map(Some)
        .contains(&collective);
    let side = side.filter(|side| !(old && side.algbw == side.busbw));
    // Unknown if the figures do not depend on the number of ranks.
    let fits = |ranks| Some(has_factor(&side?, factor(collective?, ranks)?));
    if let (Some(false), Some(side)) = (fits(n), side) {
        let factor = side.busbw / side.algbw;
        return Some(format!(
            "busbw is {factor:.4} times algbw, which {n} ranks do not give"
        ));
    }
    if logged == Some(n) {
        return None;
    }
    let most = topology
        .nodes
        .iter()
        .map(|node| node.ranks)
        .max()
        .unwrap_or(0);
    let full = most.saturating_mul(topology.nodes.len() as u32);
    if full > n && fits(full) != Some(false) {
        return Some(
            "nodes have unequal numbers of ranks, which nothing but the list shows".into(),
        );
    }
    let cut = run.torn_ranks && fits(n.saturating_add(1)) != Some(false);
    cut.then(|| "lines of the list of ranks were cut".into())
}
