//! Figures marked "real" are typed from outputs that people posted; the others are made up.

mod reliability;

use super::*;
use crate::check::nccl::{Fallback, JobContext, NcclVerdict, Network};
use crate::observe::bench::{Collective, Measurement, RailKind, Rails, Rank, Run, SizeRow};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::log::LogLimits;
use crate::units::BitsPerSec;

pub(super) fn rails(count: u32, gbps: u64, gpus: Option<u32>) -> Rails {
    Rails {
        count,
        rate: BitsPerSec::from_gbps(gbps),
        fastest: None,
        gpus,
        kind: None,
        from: "test".into(),
        trouble: None,
        is_less: false,
    }
}

/// Ranks by node: `[8, 8]`.
fn rank_list(nodes: &[u32]) -> Vec<Rank> {
    let hosts = nodes.iter().enumerate();
    let hosts = hosts.flat_map(|(node, ranks)| vec![format!("n{node}"); *ranks as usize]);
    (0..)
        .zip(hosts)
        .map(|(rank, host)| Rank {
            rank,
            group: 0,
            host,
        })
        .collect()
}

/// A run with one row of 8 GiB: GB/s out of place and in place.
pub(super) fn run(collective: Collective, nodes: &[u32], out: f64, inside: f64) -> Run {
    let n = f64::from(nodes.iter().sum::<u32>());
    let factor = match collective {
        Collective::AllReduce => 2.0 * (n - 1.0) / n,
        Collective::AllGather | Collective::ReduceScatter | Collective::Alltoall => (n - 1.0) / n,
        _ => 1.0,
    };
    let measure = |gb: f64| Measurement {
        algbw: if factor > 0.0 { gb * 1e9 / factor } else { 0.0 },
        busbw: gb * 1e9,
        wrong: Some(0),
    };
    Run {
        collective: Some(collective),
        ranks: rank_list(nodes),
        rows: vec![SizeRow {
            size: 8 << 30,
            out_of_place: Some(measure(out)),
            in_place: Some(measure(inside)),
            line: 7,
        }],
        ended: true,
        ..Run::default()
    }
}

pub(super) fn log(network: Network, fallback: Fallback) -> NcclVerdict {
    let mut verdict =
        crate::check::nccl::judge(&NcclLog::new(LogLimits::FILE), &JobContext::default());
    verdict.network = network;
    verdict.tcp_fallback = fallback;
    verdict
}

pub(super) fn judged(run: &Run, rails: &Rails) -> BenchVerdict {
    judge(run, Some(rails), None, &LogFacts::default(), None)
}

#[test]
fn bandwidths_have_three_digits() {
    for (gb, text) in [
        (2.104, " 2.10 GB/s"),
        (45.67, " 45.7 GB/s"),
        (300.4, " 300 GB/s"),
    ] {
        let run = run(Collective::AllReduce, &[8, 8], gb, gb);
        let got = judged(&run, &rails(8, 400, Some(8)));
        assert!(got.summary.contains(text), "{got:?}");
    }
}

#[test]
fn limits_of_collectives() {
    use Collective as C;
    let dgx = rails(8, 400, Some(8));
    for (collective, nodes, rails, expected, ceiling) in [
        (C::AllReduce, &[8, 8][..], &dgx, 400.0, 750.0),
        (C::AllReduce, &[8; 4], &dgx, 400.0, 400.0 * 31.0 / 24.0),
        (C::AllGather, &[8, 8], &dgx, 400.0, 750.0),
        (C::ReduceScatter, &[8, 8], &dgx, 400.0, 750.0),
        // One rank a node, its GPU's rail: nothing to save.
        (C::AllReduce, &[1, 1], &dgx, 50.0, 50.0),
        (C::AllReduce, &[4, 4], &dgx, 200.0, 200.0 * 7.0 / 4.0),
        // The node with fewer ranks is the slow one.
        (C::AllReduce, &[8, 4], &dgx, 200.0, 200.0 * 11.0 / 8.0),
        (C::Broadcast, &[8, 8], &dgx, 400.0, 400.0),
        (C::Reduce, &[8, 8], &dgx, 400.0, 400.0),
        // Real rule (NVIDIA/nccl-tests issue 130): twice a NIC on two nodes, less (n-1)/n of it.
        (C::Alltoall, &[8, 8], &dgx, 93.75, 93.75),
        (C::Alltoall, &[1, 1], &dgx, 50.0, 50.0),
        (
            C::Alltoall,
            &[8; 16],
            &dgx,
            50.0 * 127.0 / 120.0,
            50.0 * 127.0 / 120.0,
        ),
        (C::Sendrecv, &[8, 8], &dgx, 50.0, 50.0),
        // p5: four rails of 100 Gb/s for each GPU.
        (
            C::AllReduce,
            &[8, 8],
            &rails(32, 100, Some(8)),
            400.0,
            750.0,
        ),
        (C::Sendrecv, &[8, 8], &rails(32, 100, None), 50.0, 50.0),
        (C::AllReduce, &[1, 1], &rails(32, 100, Some(8)), 50.0, 50.0),
        // Four rails for eight GPUs: a pair has one, and it is at least one.
        (C::AllReduce, &[8, 8], &rails(4, 200, Some(8)), 100.0, 187.5),
        (C::Sendrecv, &[8, 8], &rails(4, 200, Some(8)), 25.0, 25.0),
        (C::AllReduce, &[1, 1], &rails(4, 200, Some(8)), 25.0, 25.0),
        // Ranks as many as rails, GPUs not told: all of them.
        (C::AllReduce, &[4, 4], &rails(4, 400, None), 200.0, 350.0),
    ] {
        let run = run(collective, nodes, 1.0, 1.0);
        let topology = topology(&run, None).unwrap();
        let limit = limit(collective, &topology, rails).unwrap();
        let close = |got: f64, want: f64| (got / 1e9 - want).abs() < 0.01;
        let row = format!("{collective:?} {nodes:?} {rails:?}: {limit:?}");
        assert!(close(limit.expected, expected), "{row}");
        assert!(close(limit.ceiling, ceiling), "{row}");
        assert!(!limit.least, "{row}");
    }
    // Ranks that go round the nodes: every pair leaves, and eight share eight rails.
    let mut round = run(Collective::Sendrecv, &[4, 4], 1.0, 1.0);
    for rank in &mut round.ranks {
        rank.host = format!("n{}", rank.rank % 2);
    }
    let of = |run: &Run, rails: &Rails| {
        let topology = topology(run, None).unwrap();
        limit(Collective::Sendrecv, &topology, rails)
            .unwrap()
            .expected
            / 1e9
    };
    assert_eq!(of(&round, &rails(2, 400, Some(4))), 25.0);
    assert_eq!(of(&round, &rails(4, 400, Some(4))), 50.0);
    for unjudged in [C::Gather, C::Scatter, C::Alltoallv, C::Hypercube] {
        let run = run(unjudged, &[8, 8], 100.0, 100.0);
        assert_eq!(judged(&run, &dgx).reason, "NotJudged");
    }
}

/// `NCCL_TESTS_SPLIT="MOD 8"`: eight communicators at once, each has its part of the rails.
#[test]
fn communicators_that_run_at_once_share_the_rails() {
    let mut split = run(Collective::AllReduce, &[8, 8], 48.0, 48.0);
    for rank in &mut split.ranks {
        rank.group = rank.rank % 8;
    }
    // Two ranks each.
    let row = &mut split.rows[0];
    for side in [&mut row.out_of_place, &mut row.in_place] {
        *side = side.map(|side| Measurement {
            algbw: side.busbw,
            ..side
        });
    }
    let got = judged(&split, &rails(8, 400, Some(8)));
    assert_eq!(got.expected_bytes_per_second, Some(50e9));
    assert_eq!((got.nranks, got.nodes), (Some(2), Some(2)));
    assert_eq!(got.verdict, Grade::LineRate);
    // `DIV 8`: one inside each node.
    for rank in &mut split.ranks {
        rank.group = rank.rank / 8;
    }
    let row = &mut split.rows[0];
    for side in [&mut row.out_of_place, &mut row.in_place] {
        *side = side.map(|side| Measurement {
            algbw: side.busbw / 1.75,
            ..side
        });
    }
    assert_eq!(judged(&split, &rails(8, 400, Some(8))).reason, "OneNode");
}

#[test]
fn verdicts_by_number() {
    use Grade as V;
    let dgx = rails(8, 400, Some(8));
    for (what, run, rails, verdict, reason) in [
        (
            "the boundary",
            run(Collective::AllReduce, &[8, 8], 320.0, 100.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
        (
            "just below it",
            run(Collective::AllReduce, &[8, 8], 319.9, 100.0),
            &dgx,
            V::Below,
            "BelowLineRate",
        ),
        (
            "the better of both sides",
            run(Collective::AllReduce, &[8, 8], 100.0, 390.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
        // Real: NVIDIA/nccl-tests issue 252, four NICs of 200 Gb/s.
        (
            "A100",
            run(Collective::AllReduce, &[4, 4], 97.37, 97.54),
            &rails(4, 200, Some(4)),
            V::LineRate,
            "LineRate",
        ),
        // Real: NVIDIA/nccl-tests issue 309: NVLink SHARP inside two nodes.
        (
            "two HGX",
            run(Collective::AllReduce, &[8, 8], 470.0, 470.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
        (
            "four HGX",
            run(Collective::AllReduce, &[8; 4], 365.84, 360.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
        // Real: NVIDIA/nccl issue 527, p4d by rings: 2, then 4 nodes.
        (
            "two p4d",
            run(Collective::AllReduce, &[8, 8], 57.17, 57.2),
            &rails(4, 100, Some(8)),
            V::LineRate,
            "LineRate",
        ),
        (
            "four p4d",
            run(Collective::AllReduce, &[8; 4], 29.61, 29.63),
            &rails(4, 100, Some(8)),
            V::Below,
            "BelowLineRate",
        ),
        // Real: NVIDIA/nccl issue 1453.
        (
            "TCP-like",
            run(Collective::AllReduce, &[8, 8], 5.31, 5.33),
            &dgx,
            V::Below,
            "BelowLineRate",
        ),
        (
            "the widest TCP",
            run(Collective::AllReduce, &[8, 8], 25.0, 1.0),
            &dgx,
            V::Below,
            "BelowLineRate",
        ),
        (
            "more than TCP",
            run(Collective::AllReduce, &[8, 8], 25.1, 1.0),
            &dgx,
            V::Below,
            "BelowLineRate",
        ),
        (
            "a fifth of it",
            run(Collective::AllReduce, &[8, 8], 20.0, 1.0),
            &rails(8, 100, Some(8)),
            V::Below,
            "BelowLineRate",
        ),
        // One of eight rails of 200 Gb/s gives what TCP at its best would.
        (
            "one rail of eight",
            run(Collective::AllReduce, &[8, 8], 23.5, 23.0),
            &rails(8, 200, Some(8)),
            V::Below,
            "BelowLineRate",
        ),
        (
            "SHARP",
            run(Collective::AllReduce, &[8; 16], 780.0, 780.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
        (
            "more than SHARP",
            run(Collective::AllReduce, &[8; 16], 850.0, 850.0),
            &dgx,
            V::Unknown,
            "MoreThanTheRails",
        ),
        (
            "more than a broadcast",
            run(Collective::Broadcast, &[8, 8], 450.0, 400.0),
            &dgx,
            V::Unknown,
            "MoreThanTheRails",
        ),
        (
            "alltoall on two",
            run(Collective::Alltoall, &[8, 8], 80.0, 0.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
        (
            "one node",
            run(Collective::AllReduce, &[8], 470.0, 470.0),
            &dgx,
            V::Unknown,
            "OneNode",
        ),
        // A GPU may have one rail or several.
        (
            "few ranks",
            run(Collective::AllReduce, &[1, 1], 48.0, 48.0),
            &rails(8, 400, None),
            V::Unknown,
            "RailsOfAGpuNotKnown",
        ),
        (
            "few ranks, slow",
            run(Collective::AllReduce, &[1, 1], 30.0, 30.0),
            &rails(8, 400, None),
            V::Below,
            "BelowLineRate",
        ),
        (
            "few ranks, told",
            run(Collective::AllReduce, &[1, 1], 48.0, 48.0),
            &dgx,
            V::LineRate,
            "LineRate",
        ),
    ] {
        let got = judged(&run, rails);
        assert_eq!(
            (got.verdict, got.reason),
            (verdict, reason),
            "{what}: {got:?}"
        );
        assert_eq!(
            got.remedies.is_empty(),
            got.verdict == V::LineRate,
            "{what}: {got:?}"
        );
    }
    let two = judged(&run(Collective::AllReduce, &[8, 8], 390.0, 390.0), &dgx);
    assert!(two.notes[0].contains("52 % of the rails"), "{two:?}");
    let one = judged(
        &run(Collective::AllReduce, &[8, 8], 23.5, 23.0),
        &rails(8, 200, Some(8)),
    );
    assert!(one.remedies[0].contains("which NICs NCCL uses"), "{one:?}");
    // A ring proves all rails.
    let ring = LogFacts {
        ring: true,
        ..LogFacts::default()
    };
    let run = run(Collective::AllReduce, &[8, 8], 390.0, 390.0);
    assert!(judge(&run, Some(&dgx), None, &ring, None).notes.is_empty());
}

#[test]
fn what_the_log_says_comes_first() {
    use Grade as V;
    let dgx = rails(8, 400, Some(8));
    for (network, fallback, gb, verdict) in [
        (Network::Socket, Fallback::Yes, 5.0, V::Tcp),
        (Network::Socket, Fallback::Configured, 5.0, V::Tcp),
        (Network::Socket, Fallback::Unknown, 5.0, V::Tcp),
        // libfabric over TCP.
        (Network::Ofi, Fallback::Yes, 5.0, V::Tcp),
        // However fast: RDMA is not in use.
        (Network::Socket, Fallback::Yes, 350.0, V::Tcp),
        // RDMA that is as slow as TCP is RDMA.
        (Network::Ib, Fallback::No, 5.0, V::Below),
        (Network::Ofi, Fallback::No, 5.0, V::Below),
        (Network::Unknown, Fallback::Unknown, 5.0, V::Below),
        (Network::Ib, Fallback::No, 390.0, V::LineRate),
    ] {
        let run = run(Collective::AllReduce, &[8, 8], gb, gb);
        let nccl = log(network, fallback);
        let got = judge(&run, Some(&dgx), Some(&nccl), &LogFacts::default(), None);
        assert_eq!(
            got.verdict, verdict,
            "{network:?} {fallback:?} {gb}: {got:?}"
        );
        assert_eq!(got.reason == "TcpInLog", verdict == V::Tcp, "{network:?}");
    }
    // Inside one node a socket is nothing.
    let run_inside = run(Collective::AllReduce, &[8], 5.0, 5.0);
    let nccl = log(Network::Socket, Fallback::Unknown);
    let got = judge(
        &run_inside,
        Some(&dgx),
        Some(&nccl),
        &LogFacts::default(),
        None,
    );
    assert_eq!(got.reason, "OneNode");
    // Without rails known TCP is still TCP.
    let run_two = run(Collective::AllReduce, &[8, 8], 5.0, 5.0);
    let got = judge(&run_two, None, Some(&nccl), &LogFacts::default(), None);
    assert_eq!(got.reason, "TcpInLog");
    assert_eq!(
        judge(&run_two, None, None, &LogFacts::default(), None).reason,
        "RailsNotKnown"
    );
    // What a node in trouble can carry is not what it should.
    let fast = run(Collective::AllReduce, &[8, 8], 390.0, 390.0);
    for (is_less, want) in [
        (true, (V::Unknown, "NodeNotReady")),
        (false, (V::LineRate, "LineRate")),
    ] {
        let ill = Rails {
            trouble: Some("degraded: LaneWidthReduced".into()),
            is_less,
            ..dgx.clone()
        };
        let got = judge(&fast, Some(&ill), None, &LogFacts::default(), None);
        assert_eq!((got.verdict, got.reason), want);
    }
    // The output's own name counts.
    let named = Some(Collective::Sendrecv);
    let got = judge(&fast, Some(&dgx), None, &LogFacts::default(), named);
    assert_eq!(got.collective, Some(Collective::AllReduce));
    // NVLink between nodes.
    let facts = LogFacts {
        mnnvl: true,
        ..LogFacts::default()
    };
    assert_eq!(
        judge(&run_two, Some(&dgx), None, &facts, None).reason,
        "NvlinkBetweenNodes"
    );
    // Advice is of the fabric: by the log, else by what the rails are.
    for (network, kind, says) in [
        (Network::Unknown, None, "NCCL_IB_HCA"),
        (Network::Unknown, Some(RailKind::Verbs), "NCCL_IB_HCA"),
        (
            Network::Unknown,
            Some(RailKind::Efa),
            "vpc.amazonaws.com/efa",
        ),
        (
            Network::Unknown,
            Some(RailKind::Gvnic),
            "NCCL_FASTRAK_IFNAME",
        ),
        (Network::Ofi, None, "vpc.amazonaws.com/efa"),
        (Network::Ofi, Some(RailKind::Verbs), "libfabric"),
        (Network::Fastrak, None, "NCCL_FASTRAK_IFNAME"),
        (Network::Ib, Some(RailKind::Efa), "NCCL_IB_HCA"),
    ] {
        let mut rails = rails(8, 400, Some(8));
        rails.kind = kind;
        let nccl = log(network, Fallback::No);
        let facts = LogFacts {
            settings: vec![("NCCL_IB_DISABLE".into(), "1".into())],
            ..LogFacts::default()
        };
        // One rail's bandwidth, and one that no number of rails explains.
        for gb in [48.0, 280.0] {
            let slow = run(Collective::AllReduce, &[8, 8], gb, gb);
            let got = judge(&slow, Some(&rails), Some(&nccl), &facts, None);
            let told = [got.notes.join(" "), got.remedies.join(" ")].concat();
            let verbs = says == "NCCL_IB_HCA";
            assert_eq!(got.verdict, V::Below);
            assert_eq!(told.contains("NCCL_IB_DISABLE=1"), verbs, "{says}: {told}");
            if gb < 100.0 {
                assert!(told.contains(says), "{network:?} {kind:?}: {told}");
            }
            if !verbs {
                assert!(!told.contains("NCCL_IB") && !told.contains("PFC"), "{told}");
            }
        }
    }
    // One of eight: the log lists it, and the setting that did it.
    let facts = LogFacts {
        listed: Some(1),
        nics: Some(1),
        settings: vec![("NCCL_IB_HCA".into(), "mlx5_0".into())],
        ..LogFacts::default()
    };
    let nccl = log(Network::Ib, Fallback::No);
    let slow = run(Collective::AllReduce, &[8, 8], 48.0, 48.0);
    let got = judge(&slow, Some(&dgx), Some(&nccl), &facts, None);
    assert!(got.notes[0].contains("found 1 NICs"), "{got:?}");
    assert!(got.remedies[0].contains("NCCL_IB_HCA is mlx5_0"), "{got:?}");
}

#[test]
fn what_cannot_be_told() {
    let dgx = rails(8, 400, Some(8));
    let good = || run(Collective::AllReduce, &[8, 8], 390.0, 390.0);
    let with = |change: fn(&mut Run)| {
        let mut run = good();
        change(&mut run);
        judged(&run, &dgx)
    };
    for (reason, change) in [
        (
            "OnlySmallSizes",
            (|run: &mut Run| run.rows[0].size = LARGE - 1) as fn(&mut Run),
        ),
        ("NoRows", |run| run.rows.clear()),
        ("SeparateRuns", |run| run.separate = true),
        ("NodesNotShown", |run| {
            run.ranks.clear();
            run.collective = Some(Collective::Broadcast);
        }),
        ("TestFailed", |run| run.failure = Some((9, "x".into()))),
        ("TestFailed", |run| {
            run.rows.clear();
            run.ranks.clear();
            run.failure = Some((9, "x".into()));
        }),
        ("Unfinished", |run| run.ended = false),
        ("Unfinished", |run| {
            run.ended = false;
            run.failure = Some((9, "x".into()));
        }),
        ("WrongResults", |run| run.out_of_bounds = Some(2)),
        ("WrongResults", |run| {
            run.separate = true;
            run.rows[0].in_place = run.rows[0].in_place.map(|m| Measurement {
                wrong: Some(1),
                ..m
            });
        }),
        ("LineRate", |run| run.rows[0].size = LARGE),
    ] {
        let got = with(change);
        assert_eq!(got.reason, reason, "{got:?}");
        assert_eq!(got.verdict == Grade::WrongResults, reason == "WrongResults");
    }
    let mut cut = run(Collective::AllReduce, &[8, 8], 5.0, 5.0);
    cut.ended = false;
    let got = judged(&cut, &dgx);
    assert_eq!(got.reason, "BelowLineRate");
    assert!(got.notes[0].contains("did not complete"), "{got:?}");
    // A failure excuses nothing of what was measured before.
    let mut slow = run(Collective::AllReduce, &[8, 8], 100.0, 100.0);
    slow.failure = Some((9, "x".into()));
    assert_eq!(judged(&slow, &dgx).verdict, Grade::Below);
    assert_eq!(no_output().verdict, Grade::Unknown);
}
