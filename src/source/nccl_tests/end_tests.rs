//! How runs end, and how they do not. Launchers' lines in the shapes of Open MPI 4 and 5, MPICH, Slurm.

use super::Reader;
use crate::observe::bench::Run;

const START: &str = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n";
const ROW: &str = "  8589934592    2147483648     float     sum      -1   158070   54.34   95.10      0   158561   54.17   94.80      0\n";
const END: &str = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 95.3009\n";

fn runs(text: &str) -> Vec<Run> {
    let mut reader = Reader::default();
    reader.feed(text.as_bytes());
    reader.finish().runs
}

#[test]
fn ends_of_all_layouts() {
    for (end, over) in [
        (END, true),
        // Before 2019.
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
    let old = "#       size         count      type   redop    root     time   algbw   busbw  error     time   algbw   busbw  error\n";
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
        (
            format!("{old}{}{END}", row("N/A", "N/A")),
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
        // A difference counts nothing; the line below the table does.
        (
            format!("{START}{old}{}{END}", row("4e-07", "0e+00")),
            Some(true),
            Some(0),
        ),
        (format!("{old}{}", row("4e-07", "0e+00")), Some(true), None),
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
