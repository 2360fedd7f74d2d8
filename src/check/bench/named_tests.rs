//! Tables without a name, or with a wrong one.

use super::tests::{judged, log, rails, run};
use super::*;
use crate::check::nccl::{Fallback, Network};
use crate::observe::bench::{Collective, Measure};

#[test]
fn a_benchmark_that_nothing_names() {
    use Collective as C;
    // What the columns of wrong elements hold, out of place and in place.
    let (none, both, one) = ([None; 2], [Some(0); 2], [Some(0), None]);
    for (nranks, redop, root, factor, wrong, want) in [
        (16, true, None, 1.875, both, Some(C::AllReduce)),
        (16, true, None, 1.875, none, Some(C::AllReduce)),
        (16, true, None, 1.875, one, None),
        (2, true, None, 1.0, both, Some(C::AllReduce)),
        (2, true, None, 1.0, one, Some(C::Sendrecv)),
        (2, true, None, 1.0, none, None),
        (16, true, None, 0.9375, both, Some(C::ReduceScatter)),
        (16, true, None, 1.0, one, Some(C::Sendrecv)),
        (16, true, None, 1.0, none, Some(C::Sendrecv)),
        (16, true, None, 1.0, both, None),
        (16, true, Some(0), 1.0, both, Some(C::Reduce)),
        (16, false, Some(0), 1.0, both, Some(C::Broadcast)),
        // Unchecked, all_gather prints what alltoall does, gather what scatter does.
        (16, false, None, 0.9375, both, Some(C::AllGather)),
        (16, false, None, 0.9375, one, Some(C::Alltoall)),
        (16, false, None, 0.9375, none, None),
        (16, false, Some(0), 0.9375, both, None),
        (16, true, None, 1.5, both, None),
    ] {
        let mut run = run(C::AllReduce, &[nranks / 2, nranks / 2], 0.0, 0.0);
        run.collective = None;
        let row = &mut run.rows[0];
        row.redop = redop.then(|| "sum".to_string());
        row.root = root;
        let side = |wrong| Measure {
            micros: 1.0,
            alg: 1e9,
            bus: factor * 1e9,
            wrong,
        };
        let [outside, inside] = wrong.map(side);
        (row.out_of_place, row.in_place) = (Some(outside), Some(inside));
        let got = judged(&run, &rails(8, 400, Some(8)));
        assert_eq!(
            got.collective, want,
            "{nranks} {redop} {root:?} {factor} {wrong:?}"
        );
        assert_eq!(got.collective_inferred, want.is_some());
    }
    // A name that the table rules out.
    let mut other = run(C::AllGather, &[8, 8], 39.0, 39.0);
    other.rows[0].in_place = other.rows[0].in_place.map(|side| Measure {
        wrong: None,
        ..side
    });
    let got = judged(&other, &rails(8, 400, Some(8)));
    assert_eq!((got.reason, got.ratio), ("OtherCollective", None));
    other.collective = Some(C::Alltoall);
    assert_eq!(
        judged(&other, &rails(8, 400, Some(8))).verdict,
        Verdict::Below
    );
    // NCCL's log knows ranks and nodes where the head of the output is gone.
    let mut run = run(C::AllReduce, &[8, 8], 390.0, 390.0);
    run.seats.clear();
    let mut nccl = log(Network::Ib, Fallback::No);
    let mut of = |nranks| {
        (nccl.nranks, nccl.nodes) = (Some(nranks), Some(2));
        let rails = rails(8, 400, None);
        judge(&run, Some(&rails), Some(&nccl), &LogFacts::default(), None)
    };
    assert_eq!(of(16).verdict, Verdict::LineRate);
    assert_eq!(of(15).reason, "NodesNotShown");
}
