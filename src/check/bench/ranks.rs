//! Whether the list of ranks is whole. A lost line makes a node smaller, and what its rails are
//! expected to carry with it: half speed would read as line rate.

use super::shape::Shape;
use crate::check::nccl::NcclVerdict;
use crate::observe::bench::{Collective, Measure, Run, Seat};
use std::collections::BTreeMap;

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

/// The two decimals of the figures tell far fewer nodes apart.
const MOST_NODES: u32 = 512;

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

/// How many ranks on full nodes of so many GPUs the figures are of, where no other number of such
/// nodes has them so.
fn by_figures(run: &Run, collective: Collective, gpus: u32) -> Option<u32> {
    let side = best(run)?;
    let sizes = (2..=MOST_NODES).map(|nodes| gpus.saturating_mul(nodes));
    let mut fit = sizes.filter(|n| factor(collective, *n).is_some_and(|told| has(&side, told)));
    let n = fit.next()?;
    fit.next().is_none().then_some(n)
}

/// A list of ranks that nobody printed whole, as far as the figures and the GPUs of a node tell it.
pub(super) struct Filled {
    /// The run with the list.
    pub run: Run,
    /// Nothing of it was printed: that nodes are full is taken for granted.
    pub assumed: bool,
}

/// The list of ranks made whole, where a page shortened it (`…`) or left it out and little is left to
/// guess: the figures tell how many ranks there are, `--gpus` how many a node has, and all nodes are
/// full. Who is missing sits between two ranks of one host. None: the list is whole, or does not do.
pub(super) fn filled(
    run: &Run,
    collective: Option<Collective>,
    gpus: Option<u32>,
) -> Option<Filled> {
    let gpus = gpus.filter(|gpus| *gpus > 0)?;
    let n = by_figures(run, collective?, gpus)?;
    if run.apart || run.seats.len() as u64 >= u64::from(n) {
        return None;
    }
    let mut listed: Vec<&Seat> = run.seats.iter().collect();
    listed.sort_by_key(|seat| seat.rank);
    let host = |rank: u32| {
        if listed.is_empty() {
            return Some(format!("node {}", rank / gpus));
        }
        let next = listed.partition_point(|seat| seat.rank < rank);
        let after = listed.get(next)?;
        let same = || {
            listed
                .get(next.checked_sub(1)?)
                .map(|before| before.host == after.host)
        };
        (after.rank == rank || same() == Some(true)).then(|| after.host.clone())
    };
    let group = listed.first().map_or(0, |seat| seat.group);
    let seat = |rank| {
        Some(Seat {
            rank,
            group,
            pid: 0,
            host: host(rank)?,
        })
    };
    let seats: Vec<Seat> = (0..n).map(seat).collect::<Option<_>>()?;
    let mut nodes: BTreeMap<&str, u32> = BTreeMap::new();
    for seat in &seats {
        *nodes.entry(&seat.host).or_default() += 1;
    }
    let full = nodes.values().all(|ranks| *ranks == gpus);
    let one = listed
        .iter()
        .all(|seat| seat.group == group && seat.rank < n);
    (full && one).then(|| Filled {
        assumed: listed.is_empty(),
        run: Run {
            seats,
            torn_ranks: false,
            ..run.clone()
        },
    })
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
