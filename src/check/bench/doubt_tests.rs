//! Numbers that look good and are not known to be.

use super::tests::{judged, log, rails, run};
use super::*;
use crate::check::nccl::{Fallback, Network};
use crate::observe::bench::{Collective as C, Measure, Run};

#[test]
fn a_log_of_absurd_numbers_costs_nothing() {
    let mut bare = run(C::AllReduce, &[8, 8], 374.56, 374.56);
    bare.seats.clear();
    for (nranks, nodes) in [(4_000_000_000, 4_000_000_000), (u32::MAX, 1), (2 << 20, 2)] {
        let mut nccl = log(Network::Ib, Fallback::No);
        (nccl.nranks, nccl.nodes) = (Some(nranks), Some(nodes));
        assert_eq!(shape(&bare, Some(&nccl)), None, "{nranks} {nodes}");
        let dgx = rails(8, 400, Some(8));
        let got = judge(&bare, Some(&dgx), Some(&nccl), &LogFacts::default(), None);
        assert_eq!(got.reason, "NodesNotShown");
    }
}

/// A table alone, of nodes that are said to have eight GPUs.
#[test]
fn a_table_without_a_list_of_ranks() {
    let dgx = rails(8, 400, Some(8));
    for (nodes, bus, verdict, reason) in [
        (&[8, 8][..], 390.0, Verdict::LineRate, "LineRate"),
        (&[8, 8], 3.17, Verdict::Tcp, "TcpByNumber"),
        // TCP's on full nodes, and a fifth of the one rail that each node might use.
        (&[8, 8], 12.0, Verdict::Below, "BelowLineRate"),
        // Sixteen nodes with a rank each would be at line rate.
        (&[8, 8], 45.0, Verdict::Unknown, "NodesNotShown"),
        // One node, or eight.
        (&[4, 4], 390.0, Verdict::Unknown, "NodesNotShown"),
        (&[8, 4], 390.0, Verdict::Unknown, "NodesNotShown"),
    ] {
        let mut run = run(C::AllReduce, nodes, bus, bus);
        run.seats.clear();
        let got = judged(&run, &dgx);
        assert_eq!((got.verdict, got.reason), (verdict, reason), "{got:?}");
        let got = judged(&run, &rails(8, 400, None));
        assert_eq!(got.reason, "NodesNotShown");
    }
    // Figures too coarse to tell 200 ranks from 208.
    let mut run = run(C::AllReduce, &[8; 25], 390.0, 390.0);
    run.seats.clear();
    let row = &mut run.rows[0];
    for side in [&mut row.out_of_place, &mut row.in_place] {
        *side = side.map(|side| Measure {
            alg: 0.5e9,
            bus: 1e9,
            ..side
        });
    }
    assert_eq!(judged(&run, &dgx).reason, "NodesNotShown");
}

/// Half of what the rails carry must not read as line rate because half of a node's ranks are lost.
#[test]
fn lists_of_ranks_that_are_not_whole() {
    let dgx = rails(8, 400, Some(8));
    let at = |collective, lose: &[u32]| {
        let mut run = run(collective, &[8, 8], 200.0, 200.0);
        run.seats.retain(|seat| !lose.contains(&seat.rank));
        run
    };
    for (collective, lose, reason) in [
        (C::AllReduce, &[][..], "BelowLineRate"),
        (C::AllReduce, &[12, 13, 14, 15], "RanksUnclear"),
        // Between ranks of one host, and the figures and the GPUs of a node say how many.
        (C::AllReduce, &[10, 11, 12, 13], "BelowLineRate"),
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
        assert_eq!(got.verdict == Verdict::Unknown, reason == "RanksUnclear");
        assert_eq!(got.ratio.is_none(), reason == "RanksUnclear", "{got:?}");
    }
    let mid = at(C::AllReduce, &[1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14]);
    let got = judged(&mid, &dgx);
    assert_eq!((got.nranks, got.nodes), (Some(16), Some(2)));
    assert!(got.notes[0].contains("has 4 of 16"), "{got:?}");
    let got = judged(&mid, &rails(8, 400, None));
    assert_eq!(
        (got.reason, got.nranks, got.nodes),
        ("RanksUnclear", None, None)
    );
    // What the log tells counts, either way.
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
    // A cut line, and a factor that fits the list.
    let mut cut = run(C::AllReduce, &[8, 8], 390.0, 390.0);
    cut.torn_ranks = true;
    assert_eq!(judged(&cut, &dgx).reason, "LineRate");
    let mut cut = run(C::Broadcast, &[8, 8], 390.0, 390.0);
    cut.torn_ranks = true;
    assert_eq!(judged(&cut, &dgx).reason, "RanksUnclear");
    // TCP that the log proves stays.
    let nccl = log(Network::Socket, Fallback::Yes);
    let lost = at(C::AllReduce, &[15]);
    let got = judge(&lost, Some(&dgx), Some(&nccl), &LogFacts::default(), None);
    assert_eq!(got.reason, "TcpInLog");
    // Numbered anew in each communicator.
    let mut split = run(C::Broadcast, &[8, 8], 48.0, 48.0);
    for seat in &mut split.seats {
        (seat.group, seat.rank) = (seat.rank % 8, seat.rank / 8);
    }
    assert_eq!(judged(&split, &dgx).reason, "LineRate");
    // Figures that no number of ranks gives.
    let mut odd = run(C::AllReduce, &[8, 8], 374.0, 374.0);
    let row = &mut odd.rows[0];
    for side in [&mut row.out_of_place, &mut row.in_place] {
        *side = side.map(|side| Measure { alg: 2e9, ..side });
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
        assert_eq!((got.verdict, got.reason), (Verdict::Below, "FallsWithSize"));
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
        (Verdict::Unknown, "ResultsUnclear")
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
            .contains("2 of the table's measurements are left out")
    );
    torn.rows.clear();
    let got = judged(&torn, &dgx);
    assert!(
        got.reason == "NoRows" && got.summary.contains("whole"),
        "{got:?}"
    );
}
