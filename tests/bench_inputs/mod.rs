//! Inputs that are cut, torn, absurd, or no files.

use super::{DGX, bench, data, json};
use crate::support;
use serde_json::Value;
use std::os::unix::fs::{FileTypeExt, symlink};

/// A run of 2 × 8 ranks with these rows, judged: exit status, and the run.
fn judged(head: &str, rows: &str, lose: &[u32]) -> (i32, Value) {
    let dir = support::scratch();
    let file = dir.path().join("run.log");
    let ranks = (0..16).filter(|rank| !lose.contains(rank)).map(|rank| {
        let node = rank / 8;
        format!("#  Rank {rank:2} Group  0 Pid {rank} on n{node} device  0 [0000:11:00] X\n")
    });
    let text = format!(
        "{head}# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) validation: 1\n{}\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n{rows}\
# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 300.0\n",
        ranks.collect::<String>()
    );
    std::fs::write(&file, text).unwrap();
    let (status, value) = json(&[&DGX[..], &["--gpus", "8", file.to_str().unwrap()]].concat());
    (status, value["inputs"][0]["runs"][0].clone())
}

const ROW: &str = "  8589934592    2147483648     float     sum      -1    43000  199.76  374.56      0    43000  199.76  374.56      0\n";

#[test]
fn torn_and_absurd_outputs() {
    let half = ROW.replace("43000  199.76  374.56", "80530  106.67  200.00");
    let joined = ROW.replacen(
        "374.56",
        "374.n1:7:8 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] via NET/IB/0\n56",
        1,
    );
    let cut = ROW.replacen("374.56", "374.\n56", 1);
    let falls = format!(
        "{}{}",
        "    67108864     16777216     float     sum      -1    335.5  200.00  375.00      0    335.5  200.00  375.00      0\n",
        ROW.replace("43000  199.76  374.56", "5368709  1.60   3.00")
    );
    let absurd = "n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 4000000000 nNodes 4000000000 localRanks 1 localRank 0 MNNVL 0\n";
    let all: Vec<u32> = (0..16).collect();
    for (head, rows, lose, status, reason) in [
        ("", ROW, &[][..], 0, "LineRate"),
        ("", &half, &[], 1, "BelowLineRate"),
        ("", &half, &[10, 11, 12, 13], 3, "RanksUnclear"),
        ("", &half, &[7, 8], 3, "RanksUnclear"),
        ("", &half, &[12, 13, 14, 15], 3, "RanksUnclear"),
        ("", &joined, &[], 0, "LineRate"),
        ("", &cut, &[], 3, "NoRows"),
        ("", &falls, &[], 1, "FallsWithSize"),
        (
            "",
            &ROW.replacen("56      0", "56     -3", 1),
            &[],
            3,
            "ResultsUnclear",
        ),
        (
            "",
            &ROW.replacen("56      0", "56    nan", 1),
            &[],
            3,
            "ResultsUnclear",
        ),
        (absurd, ROW, &all, 3, "NodesNotShown"),
    ] {
        let (code, run) = judged(head, rows, lose);
        assert_eq!(
            (code, run["reason"].as_str()),
            (status, Some(reason)),
            "{run}"
        );
    }
}

/// Nothing that a file of `-J` holds is kept more than it is worth, and nothing is read twice.
#[test]
fn large_files_of_j_and_cut_ones() {
    let dir = support::scratch();
    let file = dir.path().join("j.json");
    let name = file.to_str().unwrap();
    let device = format!(r#"{{"rank":0,"hostname":"{}"}},"#, "h".repeat(250));
    let text = format!(
        r#"{{"results":[{{"size":8589934592,"count":1,"type":"float","redop":"sum","root":"-1","out_of_place":{{"time":43000,"alg_bw":199.76,"bus_bw":374.56,"nwrong":0}}}}],"args":[{}0],"config":{{"nthreads":64,"ngpus":64}},"devices":[{}{{}}]}}"#,
        "[0],".repeat(1 << 20),
        device.repeat(70_000)
    );
    std::fs::write(&file, &text).unwrap();
    // A tree of these values is larger by far.
    let limited = std::process::Command::new("sh")
        .args([
            "-c",
            r#"ulimit -v 400000; exec "$0" nccl --bench --rails 8 --rate-gbps 400 "$1""#,
        ])
        .args([env!("CARGO_BIN_EXE_selvage"), name])
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(3), "{limited:?}");
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let output = bench(&[&DGX[..], &[name]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert!(error.contains("file of -J and is cut"), "{error}");
    // Blanks before it: looked at once.
    std::fs::write(&file, vec![b' '; 60 << 20]).unwrap();
    let limited = std::process::Command::new("sh")
        .args([
            "-c",
            r#"ulimit -t 8; exec "$0" nccl --bench --rails 8 --rate-gbps 400 "$1""#,
        ])
        .args([env!("CARGO_BIN_EXE_selvage"), name])
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(3), "{limited:?}");
}

#[test]
fn a_report_from_a_pipe_or_from_standard_input() {
    let dir = support::scratch();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let log = data("tcp.log");
    for path in [
        fifo.to_str().unwrap(),
        "/dev/zero",
        dir.path().to_str().unwrap(),
    ] {
        let output = bench(&["--node-report", path, &log]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{path}");
        assert!(error.contains("not a regular file"), "{path}: {error}");
    }
    // Standard input is one thing or the other.
    let output = bench(&["--node-report", "-"]);
    assert_eq!(output.status.code(), Some(64));
    let output = bench(&["--node-report", "-", &log]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("not a report"), "{error}");
}

#[test]
fn a_text_file_takes_the_place_of_files_alone() {
    let dir = support::scratch();
    let (target, link) = (dir.path().join("target"), dir.path().join("link.prom"));
    let pipe = dir.path().join("pipe.prom");
    std::fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [&link, &pipe] {
        let name = path.to_str().unwrap();
        let output = bench(&[&DGX[..], &["--textfile", name, &data("two.log")]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{error}");
        assert!(error.contains("not a regular file"), "{error}");
    }
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!(std::fs::read_to_string(target).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
}
