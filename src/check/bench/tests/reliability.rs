//! Numbers that look good and are not known to be.

use super::*;
use crate::check::nccl::{Fallback, Network};
use crate::observe::bench::{Collective as C, Measurement, Run};

#[test]
fn a_log_of_absurd_numbers_costs_nothing() {
    let mut bare = run(C::AllReduce, &[8, 8], 374.56, 374.56);
    bare.ranks.clear();
    for (nranks, nodes) in [(4_000_000_000, 4_000_000_000), (u32::MAX, 1), (2 << 20, 2)] {
        let mut nccl = log(Network::Ib, Fallback::No);
        (nccl.nranks, nccl.nodes) = (Some(nranks), Some(nodes));
        assert_eq!(topology(&bare, Some(&nccl)), None, "{nranks} {nodes}");
        let dgx = rails(8, 400, Some(8));
        let got = judge(&bare, Some(&dgx), Some(&nccl), &LogFacts::default(), None);
        assert_eq!(got.reason, "NodesNotShown");
    }
}

/// A table without a list of ranks may be of any number of nodes: it is never guessed.
#[test]
fn a_table_without_a_list_of_ranks() {
    for (nodes, busbw) in [(&[8, 8][..], 390.0), (&[8, 8], 3.17), (&[4, 4], 390.0)] {
        let mut run = run(C::AllReduce, nodes, busbw, busbw);
        run.ranks.clear();
        let got = judged(&run, &rails(8, 400, Some(8)));
        let want = (Grade::Unknown, "NodesNotShown", None);
        assert_eq!((got.verdict, got.reason, got.ratio), want, "{got:?}");
    }
}

/// A benchmark that nothing names is never guessed from its figures.
#[test]
fn a_benchmark_without_a_name() {
    for collective in [C::AllReduce, C::AllGather, C::Alltoall, C::Sendrecv] {
        let mut run = run(collective, &[8, 8], 390.0, 390.0);
        run.collective = None;
        let got = judged(&run, &rails(8, 400, Some(8)));
        assert_eq!((got.reason, got.collective), ("CollectiveNotNamed", None));
        assert!(!got.collective_inferred && got.ratio.is_none(), "{got:?}");
    }
}

/// NCCL's log gives ranks and nodes if the list of ranks is missing.
#[test]
fn ranks_and_nodes_by_the_log() {
    let mut bare = run(C::AllReduce, &[8, 8], 390.0, 390.0);
    bare.ranks.clear();
    let mut nccl = log(Network::Ib, Fallback::No);
    for (nranks, verdict, reason) in [
        (16, Grade::LineRate, "LineRate"),
        (15, Grade::Unknown, "NodesNotShown"),
        // The factor is that of 16 ranks.
        (32, Grade::Unknown, "RanksUnclear"),
    ] {
        (nccl.nranks, nccl.nodes) = (Some(nranks), Some(2));
        let rails = rails(8, 400, None);
        let got = judge(&bare, Some(&rails), Some(&nccl), &LogFacts::default(), None);
        assert_eq!(
            (got.verdict, got.reason),
            (verdict, reason),
            "{nranks}: {got:?}"
        );
    }
}

/// Half of what the rails carry must not read as line rate because half of a node's ranks are lost.
#[test]
fn lists_of_ranks_that_are_not_whole() {
    let dgx = rails(8, 400, Some(8));
    let at = |collective, lose: &[u32]| {
        let mut run = run(collective, &[8, 8], 200.0, 200.0);
        run.ranks.retain(|rank| !lose.contains(&rank.rank));
        run
    };
    for (collective, lose, reason) in [
        (C::AllReduce, &[][..], "BelowLineRate"),
        (C::AllReduce, &[12, 13, 14, 15], "RanksUnclear"),
        (C::AllReduce, &[10, 11, 12, 13], "RanksUnclear"),
        (C::AllReduce, &[7, 8], "RanksUnclear"),
        (C::AllReduce, &[15], "RanksUnclear"),
        (C::AllReduce, &[0], "RanksUnclear"),
        (C::AllGather, &[12, 13, 14, 15], "RanksUnclear"),
        (C::Alltoall, &[4, 5, 6, 7, 12, 13, 14, 15], "RanksUnclear"),
        // Nothing in its figures tells, but unequal nodes are seldom.
        (C::Broadcast, &[12, 13, 14, 15], "RanksUnclear"),
        (C::Broadcast, &[], "BelowLineRate"),
    ] {
        let got = judged(&at(collective, lose), &dgx);
        assert_eq!(got.reason, reason, "{collective:?} {lose:?}: {got:?}");
        assert_eq!(got.verdict == Grade::Unknown, reason == "RanksUnclear");
        assert_eq!(got.ratio.is_none(), reason == "RanksUnclear", "{got:?}");
    }
    let mid = at(C::AllReduce, &[1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14]);
    let got = judged(&mid, &dgx);
    assert_eq!(
        (got.reason, got.nranks, got.nodes),
        ("RanksUnclear", None, None)
    );
    // NCCL's log confirms or contradicts the list.
    let with = |run: &Run, nranks| {
        let mut nccl = log(Network::Ib, Fallback::No);
        nccl.nranks = Some(nranks);
        judge(run, Some(&dgx), Some(&nccl), &LogFacts::default(), None).reason
    };
    let lost = at(C::Broadcast, &[12, 13, 14, 15]);
    assert_eq!(with(&lost, 16), "RanksUnclear");
    assert_eq!(with(&lost, 12), "LineRate");
    // Unequal nodes whose figures fit no more ranks than are listed.
    let uneven = run(C::AllReduce, &[8, 4], 190.0, 190.0);
    assert_eq!(judged(&uneven, &dgx).reason, "LineRate");
    // TCP that the log proves stays.
    let nccl = log(Network::Socket, Fallback::Yes);
    let lost = at(C::AllReduce, &[15]);
    let got = judge(&lost, Some(&dgx), Some(&nccl), &LogFacts::default(), None);
    assert_eq!(got.reason, "TcpInLog");
    // Each communicator numbers its ranks from zero.
    let mut split = run(C::Broadcast, &[8, 8], 48.0, 48.0);
    for rank in &mut split.ranks {
        (rank.group, rank.rank) = (rank.rank % 8, rank.rank / 8);
    }
    assert_eq!(judged(&split, &dgx).reason, "LineRate");
    // Figures that no number of ranks gives.
    let mut odd = run(C::AllReduce, &[8, 8], 374.0, 374.0);
    let row = &mut odd.rows[0];
    for side in [&mut row.out_of_place, &mut row.in_place] {
        *side = side.map(|side| Measurement { algbw: 2e9, ..side });
    }
    assert_eq!(judged(&odd, &dgx).reason, "RanksUnclear");
}

/// A run of sizes from 64 MiB on, doubling.
fn sizes(gb: &[f64]) -> Run {
    let mut all = run(C::AllReduce, &[8, 8], 1.0, 1.0);
    let rows = gb.iter().enumerate().map(|(at, gb)| {
        let mut row = run(C::AllReduce, &[8, 8], *gb, gb * 0.9).rows.remove(0);
        (row.size, row.line) = (LARGE << at, 10 + at as u64);
        row
    });
    all.rows = rows.collect();
    all
}

#[test]
fn larger_sizes_must_hold_what_the_best_shows() {
    for (gb, low) in [
        (
            &[375.0, 374.0, 200.0, 60.0, 20.0, 8.0, 4.0, 3.0][..],
            Some((3.0, 17)),
        ),
        (&[300.0, 375.0, 376.0, 377.0, 100.0], Some((100.0, 14))),
        (&[375.0, 100.0, 376.0], None),
        (&[100.0, 200.0, 375.0], None),
        // From one algorithm to the next.
        (&[480.0, 480.0, 385.0, 380.0], None),
        (&[600.0, 380.0], None),
        (&[375.0, 300.0], None),
    ] {
        let got = judged(&sizes(gb), &rails(8, 400, Some(8)));
        let Some((low, line)) = low else {
            assert_eq!(got.reason, "LineRate", "{gb:?}: {got:?}");
            continue;
        };
        assert_eq!((got.verdict, got.reason), (Grade::Below, "FallsWithSize"));
        assert_eq!(got.ratio, Some(low * 1e9 / 400e9), "{got:?}");
        assert!(got.summary.contains("but it falls to"), "{got:?}");
        assert!(got.evidence.iter().any(|seen| seen.line == line), "{got:?}");
        assert!(!got.remedies.is_empty());
    }
}

#[test]
fn counts_that_are_none_and_rows_left_out() {
    let dgx = rails(8, 400, Some(8));
    let mut odd = run(C::AllReduce, &[8, 8], 390.0, 390.0);
    odd.uncounted = 1;
    let got = judged(&odd, &dgx);
    assert_eq!(
        (got.verdict, got.reason),
        (Grade::Unknown, "ResultsUnclear")
    );
    assert_eq!(got.wrong, None);
    // A slow one stays slow; it is noted.
    let mut slow = run(C::AllReduce, &[8, 8], 190.0, 190.0);
    slow.uncounted = 1;
    let got = judged(&slow, &dgx);
    assert_eq!(got.reason, "BelowLineRate");
    assert!(got.notes.join(" ").contains("#wrong"), "{got:?}");
    let mut torn = run(C::AllReduce, &[8, 8], 390.0, 390.0);
    torn.torn_rows = 2;
    let got = judged(&torn, &dgx);
    assert_eq!(got.reason, "LineRate");
    assert!(
        got.notes
            .join(" ")
            .contains("2 of the table's rows are left out")
    );
    torn.rows.clear();
    let got = judged(&torn, &dgx);
    assert!(
        got.reason == "NoRows" && got.summary.contains("whole"),
        "{got:?}"
    );
}
