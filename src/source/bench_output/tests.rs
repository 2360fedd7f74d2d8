//! Lines marked "real" are typed from outputs that people posted (the thread is named), the others
//! are made up after the program's formats.

use super::{BenchReader, parse_json};
use crate::observe::bench::{BenchLog, Collective, Run};
use proptest::prelude::*;

fn read(text: &str) -> BenchLog {
    let mut reader = BenchReader::default();
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
            row.out_of_place.map(|m| gb(m.busbw)),
            row.in_place.map(|m| gb(m.busbw)),
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
    assert!(run.ended && !run.separate && run.failure.is_none());
    let hosts: Vec<&str> = run.ranks.iter().map(|rank| rank.host.as_str()).collect();
    assert_eq!(hosts, ["worker-1", "worker-0"]);
    assert_eq!(
        buses(&run),
        [
            (536870912, Some(93.46), Some(97.09)),
            (8589934592, Some(95.10), Some(94.80))
        ]
    );
    let row = &run.rows[0];
    assert_eq!(row.out_of_place.unwrap().wrong, Some(0));
    assert_eq!(row.line, 11);
    assert_eq!((run.out_of_bounds, run.wrong()), (Some(0), Some(0)));
}

#[test]
fn layouts_of_rows() {
    let iterations = "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp\n";
    for (head, row, out, inside, wrong) in [
        (
            NEW_HEAD,
            "   134217728      33554432     float    none       0    16059    8.36    7.31    N/A    16111    8.33    7.29    N/A",
            Some(7.31),
            Some(7.29),
            None,
        ),
        (
            NEW_HEAD,
            "   134217728       1048576  bfloat16    none      -1    16059    8.36    7.31      0    16111    8.33    7.29    N/A",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "   134217728      33554432      half     max      -1    16059    8.36    7.31  1e+06    16111    8.33    7.29      2",
            Some(7.31),
            Some(7.29),
            Some(1_000_000),
        ),
        // Without a head.
        (
            "",
            "   134217728       1048576     float    none      -1    16059    8.36    7.31      3    16111    8.33    7.29      0",
            Some(7.31),
            Some(7.29),
            Some(3),
        ),
        (
            NEW_HEAD,
            "   134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0 2025-10-28 10:11:12",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            iterations,
            "   134217728      33554432     float     sum      -1  16059    8.36    7.31       0  15000.0  17000.0  16900.0      1.2    16111    8.33    7.29       0  15000.0  17000.0  16900.0      1.2  2026-07-01 10:11:12",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        // 2.17: figures too wide for their columns lose decimals.
        (
            NEW_HEAD,
            "   134217728      33554432     float     sum      -1    133.1  1008.3  2007.3      0    13.42  10001.0  2e+04      0",
            Some(2007.3),
            Some(20000.0),
            Some(0),
        ),
        // What was too fast to measure.
        (
            NEW_HEAD,
            "           0             0     float     sum      -1     0.10     nan     nan      0     0.10    0.00    0.00      0",
            None,
            Some(0.0),
            None,
        ),
        // In turns of launchers, shippers and people.
        (
            NEW_HEAD,
            "[1,0]<stdout>:   134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "[1,0]<stdout>:137438953472   34359738368     float     sum      -1 16440000    8.36    7.31      0 16490000    8.33    7.29      0",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "2024-05-01T12:00:00.123456789Z stdout F    134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        (
            NEW_HEAD,
            "worker-0: 134217728      33554432     float     sum      -1    16059    8.36    7.31      0    16111    8.33    7.29      0\r",
            Some(7.31),
            Some(7.29),
            Some(0),
        ),
        // Real: NVIDIA/nccl issue 1453: hydra tags each piece.
        (
            NEW_HEAD,
            "[0]    134217728      33554432     float     sum      -1[0]     49264    2.72    5.22      0[0]     48558    2.76    5.30      0",
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
        assert_eq!(got.out_of_place.and_then(|m| m.wrong), wrong, "{row}");
    }
}

/// Rows of before 2022-08, which have no root: their figures are of no known column.
#[test]
fn old_rows_are_left_out() {
    for (row, torn) in [
        // Real: NVIDIA/nccl issue 527, 2021.
        (
            "  1073741824     268435456     float     sum    35215   30.49   57.17  4e-07    35198   30.51   57.20  4e-07",
            1,
        ),
        // Real: NVIDIA/nccl issue 644.
        (
            "   134217728       4194304     float    16059    8.36    7.31  0e+00    16111    8.33    7.29  0e+00",
            0,
        ),
    ] {
        let log = read(&format!("{NEW_HEAD}{row}\n# Avg bus bandwidth    : 95.3\n"));
        let run = &log.runs[0];
        assert_eq!((run.rows.len(), run.torn_rows), (0, torn), "{row}");
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
#  Rank  0 Group  0 Pid   1320 on ip-172-31-20-228 device  0 [0x00] Tesla V100-SXM2-16GB
#  Rank  0 Group  0 Pid   2066 on ip-172-31-22-230 device  0 [0x00] Tesla V100-SXM2-16GB
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  1310720000     327680000     float     sum      -1   3300.0  397.19    0.00      0   3276.8  400.00    0.00      0
# Avg bus bandwidth    : 0
  1310720000     327680000     float     sum      -1   3300.0  397.19    0.00      0   3276.8  400.00    0.00      0
# Avg bus bandwidth    : 0
");
    assert!(run.separate);
    assert_eq!(run.rows.len(), 2);
}

#[test]
fn ranks() {
    for (line, number, group, host) in [
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
        // nccl-tests before 2.13.5, rccl-tests.
        (
            "#   Rank  3 Pid   1000 on    node0 device  3 [0000:c9:00] AMD Instinct MI300X",
            3,
            0,
            "node0",
        ),
    ] {
        let run = one(line);
        let rank = &run.ranks[0];
        assert_eq!(
            (rank.rank, rank.group, rank.host.as_str()),
            (number, group, host),
            "{line}"
        );
    }
    for line in [
        "# Rank",
        "Rank x on y",
        "Rank 0 Group 0 Pid 5 at h device 0",
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
    let measured = run.rows[0].out_of_place.unwrap();
    assert_eq!((measured.algbw, measured.wrong), (2e9, Some(0)));
    // Of each process the first rank alone is in the file.
    let ranks: Vec<_> = run
        .ranks
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
    let too_low = text.replace("\"unchecked\"", "\"false\"");
    let (_, failure) = parse_json(&too_low).unwrap().runs[0]
        .failure
        .clone()
        .unwrap();
    assert!(failure.contains("NCCL_TESTS_MIN_BW"), "{failure}");
    for other in ["{}", "[]", "1", "{\"results\":[]}", "{\"results\":{}}"] {
        assert_eq!(parse_json(other), Err(false), "{other}");
    }
    // A file cut anywhere differs from what was never JSON.
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
        let mut reader = BenchReader::default();
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

/// How runs end, and how they do not. Launchers' lines in the shapes of Open MPI 4 and 5, MPICH, Slurm.
mod ends {
    use super::*;

    const START: &str = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n";
    const ROW: &str = "  8589934592    2147483648     float     sum      -1   158070   54.34   95.10      0   158561   54.17   94.80      0\n";
    const END: &str = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 95.3009\n";

    fn runs(text: &str) -> Vec<Run> {
        let mut reader = BenchReader::default();
        reader.feed(text.as_bytes());
        reader.finish().runs
    }

    #[test]
    fn ends_of_all_layouts() {
        for (end, over) in [
            (END, true),
            // The marks lost on the way.
            (
                " Out of bounds values : 0 OK\n Avg bus bandwidth    : 95.3\n",
                true,
            ),
            ("[1,0]<stdout>:# Out of bounds values : 0 OK\n", true),
            ("# Avg bus bandwidth    : -nan\n", true),
            (
                "# Out of bounds values : 0 OK\r\n# Avg bus bandwidth    : 1 FAILED\r\n",
                true,
            ),
            // Cut into, as a row is.
            (
                "# Out of bounds values : 0 OKn1:7:8 [0] NCCL INFO comm 0x1 - Abort COMPLETE\n",
                true,
            ),
            ("", false),
            ("#\n", false),
            ("# Out of bounds\n", false),
            ("n1:7:8 [0] NCCL INFO Avg bus bandwidth    : 95\n", false),
        ] {
            let all = runs(&format!("{START}{ROW}{end}"));
            let over_all: Vec<bool> = all.iter().map(Run::is_over).collect();
            assert_eq!(over_all, [over], "{end}");
        }
    }

    #[test]
    fn deaths_told_by_launchers() {
        for line in [
            "mpirun noticed that process rank 9 with PID 0 on node n2 exited on signal 9 (Killed).",
            "prterun noticed that process rank 9 with PID 812 on node n2 exited on signal 9 (Killed).",
            "mpirun detected that one or more processes exited with non-zero status, thus causing",
            "Primary job  terminated normally, but 1 process returned",
            "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
            "srun: error: n2: task 9: Killed",
            "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-07-01T10:00:00 DUE TO TIME LIMIT ***",
            "command terminated with exit code 137",
        ] {
            let all = runs(&format!("{START}{ROW}-----\n{line}\n-----\n"));
            let failure = all[0]
                .failure
                .as_ref()
                .map(|(at, text)| (*at, text.as_str()));
            assert_eq!((all.len(), failure), (1, Some((4, line))));
            assert!(!all[0].is_over());
            // After an end too: it is the run's.
            let all = runs(&format!("{START}{ROW}{END}{line}\n{START}{ROW}{END}"));
            let failed: Vec<bool> = all.iter().map(|run| run.failure.is_some()).collect();
            assert_eq!(failed, [true, false], "{line}");
            // Where nothing runs it is about something else.
            let all = runs(&format!("{line}\n{START}{ROW}{END}"));
            let failed: Vec<bool> = all.iter().map(|run| run.failure.is_some()).collect();
            assert_eq!(failed, [false], "{line}");
        }
    }

    #[test]
    fn of_several_runs_each_has_its_end() {
        for (text, over) in [
            (format!("{START}{ROW}{END}{START}{ROW}"), &[true, false][..]),
            (format!("{START}{ROW}{START}{ROW}{END}"), &[false, true]),
            // Tables alone.
            (format!("{ROW}{END}{ROW}{END}"), &[true, true]),
            (
                format!("{ROW}# Out of bounds values : 0 OK\n{ROW}"),
                &[true, false],
            ),
            // Died at its first line.
            (format!("{START}{ROW}{END}{START}"), &[true, false]),
        ] {
            let all: Vec<bool> = runs(&text).iter().map(Run::is_over).collect();
            assert_eq!(all, over, "{text}");
        }
    }

    #[test]
    fn what_was_not_checked_is_not_zero() {
        let row = |wrong: &str, inside: &str| {
            format!(
                "  8589934592    2147483648     float     sum      -1   158070   54.34   95.10    {wrong}   158561   54.17   94.80    {inside}\n"
            )
        };
        let unchecked = START.replace("validation: 1", "validation: 0");
        let head = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
        for (text, checked, wrong) in [
            (
                format!("{START}{head}{}{END}", row("0", "0")),
                Some(true),
                Some(0),
            ),
            (
                format!("{unchecked}{head}{}{END}", row("N/A", "N/A")),
                Some(false),
                None,
            ),
            // Its first line is gone.
            (
                format!("{head}{}{END}", row("N/A", "N/A")),
                Some(false),
                None,
            ),
            // alltoall in place.
            (
                format!("{START}{head}{}{END}", row("0", "N/A")),
                Some(true),
                Some(0),
            ),
            (
                format!("{head}{}{}{END}", row("N/A", "N/A"), row("0", "N/A")),
                Some(true),
                Some(0),
            ),
            // What was found wrong is never lost.
            (
                format!(
                    "{unchecked}{head}{}# Out of bounds values : 2 FAILED\n",
                    row("N/A", "N/A")
                ),
                Some(false),
                Some(2),
            ),
            (END.to_string(), None, None),
            // No number, and yet a failure.
            (
                "# Out of bounds values : -1 FAILED\n".to_string(),
                None,
                Some(1),
            ),
        ] {
            let run = runs(&text).remove(0);
            assert_eq!((run.checked, run.wrong()), (checked, wrong), "{text}");
        }
    }
}

/// Rows cut inside a number, and figures that disagree.
mod torn_rows {
    use super::*;
    use crate::observe::bench::Measurement;

    const START: &str = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n";
    const HEAD: &str = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
    const ROW: &str = "  8589934592    2147483648     float     sum      -1    43000  199.76  374.56      0    43010  199.72  374.47      0\n";
    const INFO: &str = "n1:7:8 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0";

    fn run(text: &str) -> Run {
        let mut reader = BenchReader::default();
        reader.feed(format!("{START}{HEAD}{text}# Out of bounds values : 0 OK\n").as_bytes());
        let mut log = reader.finish();
        assert_eq!(log.runs.len(), 1, "{text}");
        log.runs.remove(0)
    }

    /// Wherever NCCL's line comes in between, on the same line or on one of its own: no other figures
    /// come of it, and no wrong elements.
    #[test]
    fn a_row_cut_anywhere_is_itself_or_nothing() {
        let whole = run(ROW).rows.remove(0);
        let (mut kept, mut lost) = (0, 0);
        for at in 1..ROW.len() - 1 {
            let (head, tail) = ROW.split_at(at);
            for between in [format!("{INFO}\n"), format!("\n{INFO}\n"), "\n".into()] {
                for rest in [ROW, ""] {
                    let run = run(&format!("{rest}{head}{between}{tail}"));
                    assert!(run.wrong().unwrap_or(0) == 0, "{head}|{tail} {run:?}");
                    for row in &run.rows {
                        let size = row.size == whole.size;
                        // Decimals may be lost at the very end of a side.
                        let near = |got: Option<Measurement>, want: f64| {
                            got.is_none_or(|got| (got.busbw / 1e9 / want - 1.0).abs() < 0.0025)
                        };
                        let sides = near(row.out_of_place, 374.56) && near(row.in_place, 374.47);
                        assert!(size && sides, "{head}|{between}|{tail} {row:?}");
                    }
                    match run.rows.len() == 1 + usize::from(!rest.is_empty()) {
                        true => kept += 1,
                        false => lost += 1,
                    }
                }
            }
        }
        // Between the pieces that the program writes it is put together again.
        assert!(kept > 50 && lost > 50, "{kept} {lost}");
    }

    #[test]
    fn a_row_cut_inside_a_number_is_joined_again_or_left_out_and_counted() {
        let cut = ROW.split_at(ROW.find("56      0").unwrap());
        for (between, kept) in [(format!("{INFO}\n"), 1), (format!("\n{INFO}\n"), 0)] {
            let got = run(&format!("{}{between}{}", cut.0, cut.1));
            assert_eq!(
                (got.rows.len(), got.torn_rows),
                (kept, 1 - kept as u64),
                "{got:?}"
            );
            assert_ne!(got.wrong(), Some(199));
        }
    }

    #[test]
    fn figures_that_do_not_belong_together_are_left_out() {
        for (row, torn) in [
        // The time belongs to another size.
        (ROW.replace("8589934592", "589934592 "), 1),
        (ROW.replace("199.76", "  2.00"), 1),
        (ROW.to_string(), 0),
        // `-C 1`.
        (
            format!(
                "{}{}",
                HEAD.replace(" time", " cputime"),
                ROW.replace("43000", "  300")
            ),
            0,
        ),
        // hypercube: (n-1)/n of the size, once and again.
        (
            "  8589934592    2147483648     float    none      -1    43000  187.28  187.28      0    43000  187.28  187.28      0\n".to_string(),
            0,
        ),
        // Small ones are zeros.
        (
            "           8             2     float     sum      -1    45.82    0.00    0.00      0    38.17    0.00    0.00      0\n".to_string() + ROW,
            0,
        ),
        // Too fast to measure, and ended after the root.
        ("           8             2     float     sum      -1      nan     nan     nan    N/A      nan     nan     nan    N/A\n".to_string(), 0),
        ("           8             2     float     sum      -1\n".to_string(), 0),
        ("           8             2     float     sum      -1    45.82    0.00\n".to_string(), 1),
    ] {
        assert_eq!(run(&row).torn_rows, torn, "{row}");
    }
    }

    #[test]
    fn what_is_no_count_of_wrong_elements() {
        for (cell, uncounted, wrong) in [
            ("     -3", 1, None),
            ("    nan", 1, None),
            // A difference, as before 2022-08.
            ("  4e-07", 1, None),
            ("    inf", 1, None),
            ("    N/A", 0, Some(0)),
            ("      0", 0, Some(0)),
        ] {
            let row = ROW.replace("374.56      0", &format!("374.56{cell}"));
            let got = run(&row);
            assert_eq!((got.uncounted, got.wrong()), (uncounted, wrong), "{cell}");
        }
        // What was found wrong elsewhere stays.
        let both = ROW
            .replace("374.56      0", "374.56    nan")
            .replace("374.47      0", "374.47      7");
        assert_eq!(run(&both).wrong(), Some(7));
    }

    /// From ten seconds on the time's column holds two digits.
    #[test]
    fn long_times_are_rounded_more() {
        const SLOW: &str = "17179869184    2147483648    double     sum      -1  1.6e+07    1.09    1.09      0  1.7e+07    1.03    1.03    N/A\n";
        for (text, kept) in [
            (SLOW.to_string(), true),
            (SLOW.replace("1.6e+07", "16400000"), false),
            (SLOW.replace("1.09    1.09", "1.20    1.20"), false),
        ] {
            let got = run(&text);
            assert_eq!(got.rows.len(), usize::from(kept), "{text}{got:?}");
            assert_eq!(got.torn_rows, u64::from(!kept), "{text}");
        }
    }

    /// Rows in lists of strings, in objects, in colours.
    #[test]
    fn what_closes_a_quotation_is_no_part_of_a_figure() {
        let row = ROW.trim_end();
        let whole = run(ROW).rows;
        for text in [
            format!("    \"{row}\",\n"),
            format!("'{row}',\n"),
            format!("{{\"message\":\"{row}\"}}\n"),
            format!("\"{row}\\n\"]\n"),
            format!("\u{1b}[32m{row}\u{1b}[0m\n"),
        ] {
            let got = run(&text);
            assert_eq!((got.rows.len(), got.torn_rows), (1, 0), "{text}");
            assert_eq!(got.rows[0].in_place, whole[0].in_place, "{text}");
            let text = text.replace("374.47      0", "374.47    N/A");
            let got = run(&text);
            assert_eq!(got.rows[0].in_place.unwrap().wrong, None, "{text}");
        }
        let end = "\"# Avg bus bandwidth    : 123.4\",\n";
        assert!(run(&format!("{ROW}{end}")).ended);
    }
}

#[test]
fn the_program_is_a_word_of_a_command() {
    for (text, want) in [
        ("$ 'all_gather_perf' -b 8", Some(Collective::AllGather)),
        (
            "exec \"/opt/nccl-tests/reduce_scatter_perf\", 8 tasks",
            Some(Collective::ReduceScatter),
        ),
        ("perf of all_reduce", None),
    ] {
        assert_eq!(super::table::program(text), want, "{text}");
    }
}
