//! Rows cut inside a number, and figures that do not belong together.

use super::Reader;
use crate::observe::bench::Run;

const START: &str = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n";
const HEAD: &str = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
const ROW: &str = "  8589934592    2147483648     float     sum      -1    43000  199.76  374.56      0    43010  199.72  374.47      0\n";
const INFO: &str = "n1:7:8 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0";

fn run(text: &str) -> Run {
    let mut reader = Reader::default();
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
                    let size = (row.size, row.count) == (whole.size, whole.count);
                    // Decimals may be lost at the very end of a side.
                    let near = |got: Option<crate::observe::bench::Measure>, want: f64| {
                        got.is_none_or(|got| (got.bus / 1e9 / want - 1.0).abs() < 0.0025)
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
fn a_row_cut_inside_a_number_is_left_out_and_counted() {
    let cut = ROW.split_at(ROW.find("56      0").unwrap());
    for between in [format!("{INFO}\n"), format!("\n{INFO}\n")] {
        let got = run(&format!("{}{between}{}", cut.0, cut.1));
        assert_eq!((got.rows.len(), got.torn_rows), (0, 1), "{got:?}");
        assert_ne!(got.wrong(), Some(199));
    }
}

#[test]
fn figures_that_do_not_belong_together_are_left_out() {
    for (row, torn) in [
        // The time belongs to another size.
        (ROW.replace("8589934592", "589934592 "), 1),
        (ROW.replace("199.76", "  2.00"), 1),
        // The run's factor is another.
        (format!("{ROW}{ROW}{}", ROW.replace("374.56", "474.56")), 1),
        (
            format!("{ROW}{}", ROW.replace("199.76  374.56", "199.76   37.45")),
            1,
        ),
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
        // Old all_gather: (n-1)/n of the size, once and again.
        (
            "  8589934592    2147483648     float    none      -1    43000  187.28  187.28      0    43000  187.28  187.28      0\n".to_string(),
            0,
        ),
        // Small ones are zeros.
        (
            "           8             2     float     sum      -1    45.82    0.00    0.00      0    38.17    0.00    0.00      0\n".to_string() + ROW,
            0,
        ),
    ] {
        assert_eq!(run(&row).torn_rows, torn, "{row}");
    }
}

#[test]
fn what_is_no_count_of_wrong_elements() {
    for (cell, uncounted, wrong) in [
        ("     -3", 1, None),
        ("    nan", 1, None),
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

#[test]
fn cut_lines_of_ranks() {
    let rank = "#  Rank  0 Group  0 Pid 1000 on n0 device  0 [0000:11:00] X\n";
    for (line, torn) in [
        (
            "#  Rank  1 Group  0 Pid 1001 n1:7:8 [3] NCCL INFO x\n",
            true,
        ),
        ("#  Rank  1 Group\n", true),
        ("[1,0]<stdout>:#  Rank  1 Gro\n", true),
        (
            "#  Rank  1 Group  0 Pid 1001 on n0 device  1 [0000n1:7:8 [3] NCCL INFO x\n",
            false,
        ),
        ("[rank0]: Rank 1 is done\n", false),
        ("", false),
    ] {
        let got = run(&format!("{rank}{line}{ROW}"));
        assert_eq!(got.torn_ranks, torn, "{line}");
    }
    // After the table it is somebody's remark.
    assert!(!run(&format!("{rank}{ROW}# Rank 3 looks slow\n")).torn_ranks);
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
    let mut reader = Reader::default();
    let end = "\"# Avg bus bandwidth    : 123.4\",\n";
    reader.feed(format!("{START}{HEAD}{ROW}{end}").as_bytes());
    assert_eq!(reader.finish().runs[0].average, Some(123.4e9));
}
