//! Lines marked "real" are typed from outputs that people posted (the thread is named), the others
//! are made up after the program's formats.

use super::{Reader, parse_json};
use crate::observe::bench::{BenchLog, Collective, Run};
use proptest::prelude::*;

fn read(text: &str) -> BenchLog {
    let mut reader = Reader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

fn one(text: &str) -> Run {
    let mut log = read(text);
    assert_eq!(log.runs.len(), 1, "{log:?}");
    log.runs.remove(0)
}

/// Bus bandwidths of the rows in GB/s: out of place, in place.
fn buses(run: &Run) -> Vec<(u64, Option<f64>, Option<f64>)> {
    let gb = |bus: f64| (bus / 1e7).round() / 100.0;
    let rows = run.rows.iter();
    rows.map(|row| {
        (
            row.size,
            row.out_of_place.map(|m| gb(m.bus)),
            row.in_place.map(|m| gb(m.bus)),
        )
    })
    .collect()
}

const NEW_HEAD: &str = "\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
";

#[test]
fn a_whole_output_of_2024() {
    // Figures real (NVIDIA/nccl-tests issue 252), the head made up.
    let run = one(&format!(
        "$ mpirun -np 8 ./build/all_reduce_perf -b 512M -e 8G -f 2 -g 1
# nThread 1 nGpus 1 minBytes 536870912 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA A100
#  Rank  1 Group  0 Pid   1888 on   worker-0 device  1 [0000:11:00] NVIDIA A100
#
{NEW_HEAD}   536870912     134217728     float     sum      -1    10052   53.41   93.46      0   9676.9   55.48   97.09      0
  8589934592    2147483648     float     sum      -1   158070   54.34   95.10      0   158561   54.17   94.80      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 95.3009
#
"
    ));
    assert_eq!(run.collective, Some(Collective::AllReduce));
    assert!(run.ended && !run.apart && run.failure.is_none());
    let hosts: Vec<&str> = run.seats.iter().map(|seat| seat.host.as_str()).collect();
    assert_eq!(hosts, ["worker-1", "worker-0"]);
    assert_eq!(
        buses(&run),
        [
            (536870912, Some(93.46), Some(97.09)),
            (8589934592, Some(95.10), Some(94.80))
        ]
    );
    let row = &run.rows[0];
    assert_eq!((row.redop.as_deref(), row.root), (Some("sum"), None));
    assert_eq!(row.out_of_place.unwrap().wrong, Some(0));
    assert_eq!((row.count, row.line), (134217728, 11));
    assert_eq!((run.out_of_bounds, run.wrong()), (Some(0), Some(0)));
    assert_eq!(run.average.map(|a| (a / 1e5).round()), Some(953009.0));
}

#[test]
fn layouts_of_rows() {
    let old = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n";
    let old_root = "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error\n";
    let iterations = "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp\n";
    for (head, row, redop, root, out, inside, wrong) in [
        // Real: NVIDIA/nccl issue 527, 2021.
        (
            old,
            "  1073741824     268435456     float     sum    35215   30.49   57.17  4e-07    35198   30.51   57.20  4e-07",
            Some("sum"),
            None,
            Some(57.17),
            Some(57.2),
            None,
        ),
        // Real: NVIDIA/nccl-tests issue 78: the reduction's column is there and empty.
        (
            old,
            "   536870912       2097152     float          1041974    0.52    0.51  0e+00  1041299    0.52    0.51  1e+00",
            None,
            None,
            Some(0.51),
            Some(0.51),
            None,
        ),
        // Real: NVIDIA/nccl issue 644, without any head in view.
        (
            "",
            "   134217728       4194304     float    16059    8.36    7.31  0e+00    16111    8.33    7.29  0e+00",
            None,
            None,
            Some(7.31),
            Some(7.29),
            None,
        ),
        // Real figures: NVIDIA/nccl-tests issue 82, `-c 0`.
        (
            old_root,
            "           8             2   float       0    45.82    0.00    0.00    N/A    38.17    0.00    0.00    N/A",
            None,
            Some(0),
            Some(0.0),
            Some(0.0),
            None,
        ),
        (
            NEW_HEAD,
            "   134217728      33554432     float    none       0    16059    8.36    7.31    N/A    16111    8.33    7.29    N/A",
            None,
            Some(0),
            Some(7.31),
            Some(7.29),
            None,
        ),
        (
            NEW_HEAD,
            "   134217728       1048576  bfloat16    none      -1    16059    8.36    7.31      0    16111    8.33    7.29    N/A",
            None,
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "   134217728      33554432      half     max      -1    16059    8.36    7.31  1e+06    16111    8.33    7.29      2",
            Some("max"),
            None,
            Some(7.31),
            Some(7.29),
            Some(1_000_000),
        ),
        // Without a head: a root makes the cells odd.
        (
            "",
            "   134217728      33554432     float     sum      -1    16059    8.36    7.31      3    16111    8.33    7.29      0",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            None,
        ),
        (
            "",
            "   134217728       1048576     float    none      -1    16059    8.36    7.31      3    16111    8.33    7.29      0",
            None,
            None,
            Some(7.31),
            Some(7.29),
            Some(3),
        ),
        (
            NEW_HEAD,
            "   134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0 2025-10-28 10:11:12",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            iterations,
            "   134217728      33554432     float     sum      -1  16059    8.36    7.31       0  15000.0  17000.0  16900.0      1.2    16111    8.33    7.29       0  15000.0  17000.0  16900.0      1.2  2026-07-01 10:11:12",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        // 2.17: figures too wide for their columns lose decimals.
        (
            NEW_HEAD,
            "   134217728      33554432     float     sum      -1    133.1  1008.3  2007.3      0    13.42  10001.0  2e+04      0",
            Some("sum"),
            None,
            Some(2007.3),
            Some(20000.0),
            Some(0),
        ),
        // What was too fast to measure.
        (
            NEW_HEAD,
            "           0             0     float     sum      -1     0.10     nan     nan      0     0.10    0.00    0.00      0",
            Some("sum"),
            None,
            None,
            Some(0.0),
            None,
        ),
        // In turns of launchers, shippers and people.
        (
            NEW_HEAD,
            "[1,0]<stdout>:   134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "[1,0]<stdout>:137438953472   34359738368     float     sum      -1 16440000    8.36    7.31      0 16490000    8.33    7.29      0",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "2024-05-01T12:00:00.123456789Z stdout F    134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "worker-0: 134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0\r",
            Some("sum"),
            None,
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        // Real: NVIDIA/nccl issue 1453: hydra tags each piece.
        (
            NEW_HEAD,
            "[0]    134217728      33554432     float     sum      -1[0]     49264    2.72    5.22      0[0]     48558    2.76    5.30      0",
            Some("sum"),
            None,
            Some(5.22),
            Some(5.3),
            Some(0),
        ),
    ] {
        let run = one(&format!("{head}{row}\n"));
        assert_eq!(run.rows.len(), 1, "{row}");
        let got = &run.rows[0];
        assert_eq!(buses(&run)[0].1, out, "{row}");
        assert_eq!(buses(&run)[0].2, inside, "{row}");
        assert_eq!((got.redop.as_deref(), got.root), (redop, root), "{row}");
        assert_eq!(got.out_of_place.and_then(|m| m.wrong), wrong, "{row}");
    }
}

#[test]
fn rows_torn_by_nccl_s_own_lines() {
    // Shapes real: NVIDIA/nccl-tests issue 284.
    let run = one(&format!(
        "{NEW_HEAD}   134217728      33554432     float     sum      -1n1:7:8 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
n2:7:8 [0] NCCL INFO Connected all trees
      62650    2.14    4.11      0      62800    2.14    4.10      0
   268435456      67108864     float     sum      -1n1:7:8 [0] NCCL INFO Connected all rings
  125807    2.13    4.09      0n1:7:8 [0] NCCL INFO one
n1:7:8 [0] NCCL INFO two 1 2 3 4
  121575    2.21    4.23      0
   536870912     134217728     float     sum      -1   193909    2.77    5.31      0
"
    ));
    assert_eq!(
        buses(&run),
        [
            (134217728, Some(4.11), Some(4.1)),
            (268435456, Some(4.09), Some(4.23)),
            (536870912, Some(5.31), None),
        ]
    );
}

#[test]
fn runs_of_one_input() {
    let text = format!(
        "# nccl-tests version 2.17.6 nccl-headers=22805 nccl-library=22805
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
{NEW_HEAD}           8             2     float    none      -1    1.00    0.01    0.01      0    1.00    0.01    0.01      0
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 0.1
# Collective test concluded: all_gather_perf
#
./build/reduce_perf -b 8
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
{NEW_HEAD}           8             2     float     sum       0    1.00    0.01    0.01      0    1.00    0.01    0.01      0
n1: Test NCCL failure common.cu:958 'unhandled system error / '
 .. n1 pid 37: Test failure common.cu:844
"
    );
    let log = read(&text);
    let seen: Vec<_> = log
        .runs
        .iter()
        .map(|run| (run.collective, run.rows.len(), run.ended))
        .collect();
    assert_eq!(
        seen,
        [
            (Some(Collective::AllGather), 1, true),
            (Some(Collective::Reduce), 1, false)
        ]
    );
    assert_eq!(log.runs[0].out_of_bounds, Some(1));
    assert_eq!(log.runs[0].version.as_deref(), Some("2.17.6"));
    let failure = log.runs[1].failure.as_ref().unwrap();
    assert!(failure.1.contains("unhandled system error"), "{failure:?}");
    assert_eq!(failure.0, 18);
}

#[test]
fn processes_that_do_not_know_of_each_other() {
    // Shape real: NVIDIA/nccl-tests issue 107, built without MPI.
    let run = one("\
# nThread 1 nGpus 1 minBytes 1310720000 maxBytes 1310720000 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1
# nThread 1 nGpus 1 minBytes 1310720000 maxBytes 1310720000 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid   1320 on ip-172-31-20-228 device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  0 Pid   2066 on ip-172-31-22-230 device  0 [0x00] Tesla V100-SXM2-16GB
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
  1310720000     327680000     float     sum   3300.0  397.19    0.00  0e+00   3276.8  400.00    0.00  0e+00
# Avg bus bandwidth    : 0
  1310720000     327680000     float     sum   3300.0  397.19    0.00  0e+00   3276.8  400.00    0.00  0e+00
# Avg bus bandwidth    : 0
");
    assert!(run.apart);
    assert_eq!(run.rows.len(), 2);
}

#[test]
fn ranks_of_all_layouts() {
    for (line, rank, group, host) in [
        (
            "#   Rank  0 on       dgx-1 device  0 [0x06] Tesla V100",
            0,
            0,
            "dgx-1",
        ),
        (
            "#   Rank  1 Pid  25383 on nccl-tests device  1 [0xc2] NVIDIA RTX A6000",
            1,
            0,
            "nccl-tests",
        ),
        (
            "#  Rank 11 Group  3 Pid 739789 on     h100-4 device  3 [0002:00:04] NVIDIA H100",
            11,
            3,
            "h100-4",
        ),
        // Real: the mark lost on the way (NVIDIA/nccl-tests issue 249).
        (
            "  Rank  0 Group  0 Pid    127 on nccl-worker-0 device  0 [0x00] NVIDIA A10G",
            0,
            0,
            "nccl-worker-0",
        ),
        (
            "[1,0]<stdout>:#  Rank  2 Group  0 Pid 5 on n1 device  0 [0x00] X",
            2,
            0,
            "n1",
        ),
    ] {
        let run = one(line);
        let seat = &run.seats[0];
        assert_eq!(
            (seat.rank, seat.group, seat.host.as_str()),
            (rank, group, host),
            "{line}"
        );
    }
    for line in [
        "# Rank",
        "Rank x on y",
        "Rank 0 Pid 5 at h device 0",
        "[rank0]: Rank 0 done",
    ] {
        assert!(read(line).runs.is_empty(), "{line}");
    }
}

#[test]
fn words_that_are_no_table() {
    for text in [
        "loss 3.4 float 2 5",
        "12 float 3",
        "using 8 gpus float sum",
        "n1:1:2 [0] NCCL INFO 8 2 float sum -1 1 2 3 4",
        "we ran for 3 h",
        "",
    ] {
        let log = read(text);
        assert!(
            log.runs.iter().all(|run| run.rows.is_empty()),
            "{text}: {log:?}"
        );
    }
}

#[test]
fn the_json_file() {
    // Made up after util.cu.
    let text = r#"{"version":3,"start_time":"2026-07-01 10:00:00","args":["./build/all_reduce_perf","-J","x"],"env":[],"nccl_version":23007,
"config":{"nthreads":1,"ngpus":4,"minimum_bytes":8,"validation":1,"devices":[{"rank":0,"group":0,"pid":7,"hostname":"n1","device":0,"device_hex":"0000:11:00","device_info":"X"},{"rank":4,"group":0,"pid":9,"hostname":"n2","device":0,"device_hex":"0000:11:00","device_info":"X"}]},
"results":[{"size":134217728,"count":33554432,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":1.5,"alg_bw":2.0,"bus_bw":3.5,"nwrong":0.000000},"in_place":{"time":1.5,"alg_bw":"nan","bus_bw":"nan","nwrong":null},"actual_iterations":20,"experiment_name":""}],
"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":3.5,"okay":"unchecked"},"errors":[""],"end_time":"x"}"#;
    let mut log = parse_json(text).unwrap();
    let run = log.runs.remove(0);
    assert_eq!(run.collective, Some(Collective::AllReduce));
    assert_eq!(buses(&run), [(134217728, Some(3.5), None)]);
    assert_eq!(run.rows[0].out_of_place.unwrap().wrong, Some(0));
    assert_eq!(run.rows[0].root, None);
    // Of each process the first rank alone is in the file.
    let ranks: Vec<_> = run
        .seats
        .iter()
        .map(|s| (s.rank, s.host.as_str()))
        .collect();
    assert_eq!(ranks.len(), 8);
    assert_eq!((ranks[3], ranks[4]), ((3, "n1"), (4, "n2")));
    assert!(run.ended && run.failure.is_none());
    assert_eq!(run.wrong(), Some(0));
    let unchecked = text
        .replace("\"validation\":1", "\"validation\":0")
        .replace("\"nwrong\":0.000000", "\"nwrong\":null");
    assert_eq!(parse_json(&unchecked).unwrap().runs[0].wrong(), None);
    for other in ["{}", "[]", "1", "{\"results\":[]}", "{\"results\":{}}"] {
        assert_eq!(parse_json(other), Err(false), "{other}");
    }
    // Cut anywhere it is told from what was never JSON.
    for end in [1, text.len() / 2, text.len() - 1] {
        assert_eq!(parse_json(&text[..end]), Err(true), "{end}");
    }
    assert_eq!(parse_json(""), Err(false));
    for odd in ["-3", "\"nan\""] {
        let text = text.replace("\"nwrong\":0.000000", &format!("\"nwrong\":{odd}"));
        let run = parse_json(&text).unwrap().runs.remove(0);
        assert_eq!((run.uncounted, run.wrong()), (1, None), "{odd}");
    }
}

/// Any text, and pieces of what the reader looks for.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("# nThread 1 nGpus 1 minBytes 8\n".to_string()),
        Just("#  Rank  0 Group  0 Pid 1 on n1 device  0 [0x00] X\n".to_string()),
        Just(NEW_HEAD.to_string()),
        Just("  134217728   33554432   float   sum   -1".to_string()),
        Just("  134217728   33554432   float ".to_string()),
        Just("  16059  8.36  7.31  0".to_string()),
        Just("n1:7:8 [0] NCCL INFO x\n".to_string()),
        Just("# Avg bus bandwidth    : 1e400\n".to_string()),
        Just("# Out of bounds values : 18446744073709551616 OK\n".to_string()),
        Just("all_reduce_perf".to_string()),
        Just("[1,0]<stdout>:".to_string()),
        Just("\n".to_string()),
        Just("é[".to_string()),
        "[ -~]{0,12}",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// No panic, and the pieces in which it comes make no difference.
    #[test]
    fn any_bytes_in_any_pieces(text in text(), cut in prop::collection::vec(1usize..64, 1..8)) {
        let whole = read(&text);
        let mut reader = Reader::default();
        let (mut rest, mut sizes) = (text.as_bytes(), cut.iter().cycle());
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            reader.feed(head);
            rest = tail;
        }
        prop_assert_eq!(reader.finish(), whole);
        let _ = parse_json(&text);
    }
}
