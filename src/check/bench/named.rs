//! Which benchmark a table is of, where nothing names it; and whether it can be the one that is named.

use crate::observe::bench::{Collective, Row, Run};

/// What the columns of wrong elements tell. In place alltoall, alltoallv and sendrecv are not checked
/// (`reportErrors = in_place ? 0 : 1` in their sources, since there is that column) and print `N/A`
/// there beside a count out of place; the others print two counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// Both sides have counts.
    Both,
    /// Out of place alone.
    OutOfPlace,
    /// It cannot be told: `-c 0`, layouts of before 2022-08, rows of either kind.
    Unclear,
}

/// Of a run.
pub(super) fn checks(run: &Run) -> Checks {
    let of_row = |row: &Row| Some((row.out_of_place?.wrong?, row.in_place?.wrong));
    let mut all = run.rows.iter().filter_map(of_row);
    let Some((_, first)) = all.next() else {
        return Checks::Unclear;
    };
    match (run.uncounted, first) {
        (0, Some(_)) if all.all(|(_, inside)| inside.is_some()) => Checks::Both,
        (0, None) if all.all(|(_, inside)| inside.is_none()) => Checks::OutOfPlace,
        _ => Checks::Unclear,
    }
}

/// What ran, by the factor between its bandwidths (doc/PERFORMANCE.md of nccl-tests), its reduction,
/// its root and what it checks, where only one benchmark can print them so.
pub(super) fn inferred(run: &Run, nranks: u32) -> Option<Collective> {
    let row = run.rows.iter().max_by_key(|row| row.size)?;
    let measure = row.out_of_place.or(row.in_place)?;
    if measure.alg <= 0.0 || nranks < 2 {
        return None;
    }
    let n = f64::from(nranks);
    let is = |factor: f64| (measure.bus / measure.alg / factor - 1.0).abs() < 0.02;
    let (checks, part) = (checks(run), (n - 1.0) / n);
    match (row.redop.is_some(), row.root) {
        (true, None) if checks == Checks::OutOfPlace => is(1.0).then_some(Collective::Sendrecv),
        // Of two ranks all_reduce and sendrecv have the same factor.
        (true, None) if is(1.0) && nranks == 2 => {
            (checks == Checks::Both).then_some(Collective::AllReduce)
        }
        (true, None) if is(2.0 * part) => Some(Collective::AllReduce),
        (true, None) if is(part) => Some(Collective::ReduceScatter),
        (true, None) if is(1.0) && checks == Checks::Unclear => Some(Collective::Sendrecv),
        (true, Some(_)) if is(1.0) => Some(Collective::Reduce),
        (false, Some(_)) if is(1.0) => Some(Collective::Broadcast),
        (false, None) if is(part) => match checks {
            Checks::Both => Some(Collective::AllGather),
            Checks::OutOfPlace => Some(Collective::Alltoall),
            Checks::Unclear => None,
        },
        _ => None,
    }
}

/// Whether the table cannot be of this benchmark.
pub(super) fn excluded(run: &Run, collective: Collective) -> bool {
    use Collective::{Alltoall, Alltoallv, Sendrecv};
    checks(run) == Checks::OutOfPlace && !matches!(collective, Alltoall | Alltoallv | Sendrecv)
}
