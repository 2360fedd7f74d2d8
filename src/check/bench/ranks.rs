//! Whether the list of ranks is whole. A lost line makes a node smaller, and what its rails are
//! expected to carry with it: half speed would read as line rate.

use super::shape::Shape;
use crate::check::nccl::NcclVerdict;
use crate::observe::bench::{Collective, Measure, Run};

/// The factor between the two bandwidths with n ranks (nccl-tests' doc/PERFORMANCE.md); none: it does
/// not depend on them.
fn factor(collective: Collective, nranks: u32) -> Option<f64> {
    let n = f64::from(nranks.max(1));
    match collective {
        Collective::AllReduce => Some(2.0 * (n - 1.0) / n),
        Collective::AllGather | Collective::ReduceScatter | Collective::Alltoall => {
            Some((n - 1.0) / n)
        }
        _ => None,
    }
}

/// The side whose figures tell the factor best.
fn best(run: &Run) -> Option<Measure> {
    let rows = run.rows.iter();
    let sides = rows.flat_map(|row| [row.out_of_place, row.in_place].into_iter().flatten());
    sides
        .filter(|side| side.alg > 0.0)
        .max_by(|a, b| a.alg.total_cmp(&b.alg))
}

/// Whether figures of two decimals can have the factor.
fn has(side: &Measure, factor: f64) -> bool {
    let (alg, bus) = (side.alg / 1e9, side.bus / 1e9);
    // Wider figures lose decimals.
    let wide = if bus.max(alg) < 1000.0 {
        0.0
    } else {
        1e-3 * bus
    };
    (bus - factor * alg).abs() <= 0.0051 * (1.0 + factor) + wide
}

/// Why it is not known how many ranks took part and where; none: it is.
pub(super) fn unclear(
    run: &Run,
    shape: &Shape,
    nccl: Option<&NcclVerdict>,
    collective: Option<Collective>,
) -> Option<String> {
    let n = shape.nranks;
    let logged = nccl.and_then(|nccl| nccl.nranks);
    if shape.holes {
        return Some("ranks are missing from the list of ranks".into());
    }
    if let Some(logged) = logged.filter(|logged| *logged > n && shape.groups == 1) {
        return Some(format!(
            "NCCL's log tells of {logged} ranks, the list of ranks of {n}"
        ));
    }
    let confirmed = logged == Some(n) && shape.groups == 1;
    let (told, side) = (collective.and_then(|c| factor(c, n)), best(run));
    // Before 2018-12 all_gather and reduce_scatter printed one bandwidth twice.
    let old = |side: &Measure| {
        let both = [Collective::AllGather, Collective::ReduceScatter];
        collective.is_some_and(|c| both.contains(&c)) && side.alg == side.bus
    };
    let side = side.filter(|side| !old(side));
    if let (Some(told), Some(side), Some(collective)) = (told, side, collective)
        && !has(&side, told)
    {
        return Some(format!(
            "busbw is {:.4} times algbw, and {n} ranks of {} make that {told:.4}",
            side.bus / side.alg,
            collective.as_str()
        ));
    }
    if confirmed {
        return None;
    }
    let most = shape.nodes.iter().map(|node| node.ranks).max()?;
    let whole = u64::from(most) * shape.nodes.len() as u64;
    let whole = u32::try_from(whole).ok().filter(|whole| *whole > n);
    // The figures exclude it, where they are fine enough.
    let may_be_whole = |whole: u32| match (collective.and_then(|c| factor(c, whole)), side) {
        (Some(factor), Some(side)) => has(&side, factor),
        _ => true,
    };
    if whole.is_some_and(may_be_whole) {
        return Some("nodes have unequal numbers of ranks, and nothing but the list tells that none is missing from it".into());
    }
    let more = collective.and_then(|c| factor(c, n.saturating_add(1)));
    let sure = more.zip(side).is_some_and(|(more, side)| !has(&side, more));
    (run.torn_ranks && !sure).then(|| "lines of the list of ranks were cut".into())
}
