//! `selvage nccl --bench` as a program: what it says, with which status it ends, and what it leaves
//! for a collector. `UPDATE_GOLDEN=1` writes the expected outputs beside the inputs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod bench_inputs;
mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench_data");
    path.join(name).to_str().unwrap().to_string()
}

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_selvage"))
        .args(["nccl", "--bench"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Exit status, and the JSON.
fn json(args: &[&str]) -> (i32, Value) {
    let output = bench(&[args, &["-o", "json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{error}"));
    (output.status.code().unwrap(), value)
}

const DGX: [&str; 4] = ["--rails", "8", "--rate-gbps", "400"];

#[test]
fn screens_and_json_are_as_kept() {
    for (name, args, status) in [
        ("line_rate", &["--rails", "4", "--rate-gbps", "200"][..], 0),
        ("two", &DGX, 1),
        ("tcp", &DGX, 2),
    ] {
        let file = data(&format!("{name}.log"));
        for form in ["text", "json"] {
            let output = bench(&[args, &["-o", form, &file]].concat());
            assert_eq!(output.status.code(), Some(status), "{name}");
            assert!(output.stderr.is_empty(), "{name}");
            let mut text = String::from_utf8(output.stdout).unwrap();
            text = text.replace(&file, &format!("{name}.log"));
            if form == "json" {
                let value: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(value["schema"], "selvage.dev/bench/v1");
                text = serde_json::to_string_pretty(&value).unwrap() + "\n";
            }
            let kept = data(&format!(
                "{name}.{}",
                if form == "json" { "json" } else { "txt" }
            ));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&kept, &text).unwrap();
            }
            let want = std::fs::read_to_string(&kept).unwrap_or_default();
            assert!(
                text == want,
                "{kept}: UPDATE_GOLDEN=1 cargo test --test bench\n{text}"
            );
        }
    }
}

#[test]
fn the_worst_of_several_counts_and_what_cannot_be_read_is_told() {
    let (good, tcp) = (data("line_rate.log"), data("tcp.log"));
    let a100 = ["--rails", "4", "--rate-gbps", "200"];
    let status = |args: &[&str]| bench(&[&a100, args].concat()).status.code();
    assert_eq!(status(&[&good]), Some(0));
    assert_eq!(status(&[&good, &tcp]), Some(2));
    assert_eq!(status(&[&good, "/nonexistent"]), Some(3));
    assert_eq!(status(&[&tcp, "/nonexistent"]), Some(2));
    assert_eq!(status(&["/dev/null"]), Some(3));
    let (_, value) = json(&["--rails", "1", "--rate-gbps", "400", "/dev/null"]);
    assert_eq!(value["inputs"][0]["runs"][0]["reason"], "NoTable");
}

#[test]
fn a_run_without_its_end_is_no_line_rate() {
    let dir = support::scratch();
    let file = dir.path().join("cut.log");
    let name = file.to_str().unwrap();
    let killed = "--------\nmpirun noticed that process rank 9 with PID 0 on node gpu-a-2 exited on signal 9 (Killed).\n--------\n";
    let head = |log: &str, lines: usize| {
        let text = std::fs::read_to_string(data(log)).unwrap();
        let kept: Vec<&str> = text.lines().take(lines).collect();
        kept.join("\n") + "\n"
    };
    let all = std::fs::read_to_string(data("line_rate.log")).unwrap();
    let last = all
        .lines()
        .position(|l| l.contains("Out of bounds"))
        .unwrap();
    for (text, says) in [
        (
            head("line_rate.log", last - 3) + killed,
            "exited on signal 9 (Killed)",
        ),
        (
            head("line_rate.log", last - 3),
            "its last size is 1073741824 bytes",
        ),
        // Whole to the last row.
        (
            head("line_rate.log", last),
            "its last size is 8589934592 bytes",
        ),
        // `head -c`.
        (
            all[..all.find("# Out of b").unwrap() + 9].to_string(),
            "did not complete",
        ),
    ] {
        std::fs::write(&file, &text).unwrap();
        let (status, value) = json(&["--rails", "4", "--rate-gbps", "200", name]);
        let run = &value["inputs"][0]["runs"][0];
        assert_eq!(
            (status, run["reason"].as_str()),
            (3, Some("Unfinished")),
            "{run}"
        );
        assert_eq!(run["verdict"], "unknown");
        assert!(run["summary"].as_str().unwrap().contains(says), "{run}");
        // What was measured is told.
        assert!(run["ratio"].as_f64().unwrap() > 0.8, "{run}");
    }
    // Its end is there, and a process died all the same.
    std::fs::write(&file, all.clone() + killed).unwrap();
    let (status, value) = json(&["--rails", "4", "--rate-gbps", "200", name]);
    assert_eq!(status, 3);
    assert_eq!(value["inputs"][0]["runs"][0]["reason"], "TestFailed");
    // What the log proves stays proven.
    let rows = std::fs::read_to_string(data("tcp.log")).unwrap();
    let rows = rows
        .lines()
        .position(|l| l.contains("Out of bounds"))
        .unwrap();
    std::fs::write(&file, head("tcp.log", rows) + killed).unwrap();
    let (status, value) = json(&[&DGX[..], &[name]].concat());
    let run = &value["inputs"][0]["runs"][0];
    assert_eq!((status, run["reason"].as_str()), (2, Some("TcpInLog")));
    assert!(
        run["notes"].to_string().contains("did not complete"),
        "{run}"
    );
    // So do wrong results.
    let wrong = all.replace("94.80      0", "94.80      7");
    let wrong = &wrong[..wrong.find("# Out of b").unwrap()];
    std::fs::write(&file, wrong).unwrap();
    let (status, _) = json(&["--rails", "4", "--rate-gbps", "200", name]);
    assert_eq!(status, 2);
}

#[test]
fn results_that_nothing_checked_are_not_right() {
    let dir = support::scratch();
    let (file, prom) = (dir.path().join("c0.log"), dir.path().join("c0.prom"));
    let text = std::fs::read_to_string(data("line_rate.log")).unwrap();
    let text = text.replace("validation: 1", "validation: 0");
    let text = text
        .replace("      0   ", "    N/A   ")
        .replace("      0\n", "    N/A\n");
    std::fs::write(&file, text).unwrap();
    let args = ["--rails", "4", "--rate-gbps", "200", file.to_str().unwrap()];
    let (status, value) = json(&[&args[..], &["--textfile", prom.to_str().unwrap()]].concat());
    let run = &value["inputs"][0]["runs"][0];
    assert_eq!((status, &run["wrong"]), (0, &Value::Null), "{run}");
    let prom = std::fs::read_to_string(prom).unwrap();
    assert!(
        prom.contains("selvage_bench_ratio{") && !prom.contains("selvage_bench_wrong_results{"),
        "{prom}"
    );
    let screen = String::from_utf8(bench(&args).stdout).unwrap();
    assert!(
        screen.contains("results were not checked (-c 0)"),
        "{screen}"
    );
}

#[test]
fn wrong_usage() {
    for args in [
        &["--rails", "8"][..],
        &["--rate-gbps", "400"],
        &["--rails", "0", "--rate-gbps", "400"],
        &["--rails", "8", "--rate-gbps", "-1"],
        &["--rails", "8", "--rate-gbps", "nan"],
        &["--collective", "nonesuch"],
        &["--node-report", "/nonexistent"],
        &["--node-report", "/dev/null"],
        &["--node-report", "/dev/zero"],
        &["--host-root", "/nonexistent"],
    ] {
        let output = bench(&[args, &[&data("tcp.log")]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {error}");
        assert!(!error.is_empty());
    }
    // The flags are the benchmark's.
    let output = Command::new(env!("CARGO_BIN_EXE_selvage"))
        .args(["nccl", "--rails", "8", "--rate-gbps", "400"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn rails_come_from_this_node_or_from_a_report() {
    let (dir, _node) = support::node("h100_ib");
    let root = dir.path().to_str().unwrap();
    let file = data("two.log");
    let (status, here) = json(&["--host-root", root, &file]);
    assert_eq!(status, 1);
    assert_eq!(here["rails"]["count"], 8);
    assert_eq!(here["rails"]["rate_bits_per_second"], 400_000_000_000_u64);
    assert_eq!(here["rails"]["gpus"], 8);
    let (_, report) = support::selvage(dir.path(), &["check", "-o", "json"]);
    let path = dir.path().join("report.json");
    std::fs::write(&path, report).unwrap();
    let (status, told) = json(&["--node-report", path.to_str().unwrap(), &file]);
    assert_eq!(status, 1);
    assert_eq!(told["inputs"], here["inputs"]);
    assert_eq!(told["rails"]["from"], "the report of node-1");
    // What other fabrics are counted and advised by; one rail's number of each.
    for (preset, rails, kind, advice) in [
        ("efa_p5", 32, "efa", "vpc.amazonaws.com/efa"),
        ("gcp_a3_mega", 8, "gvnic", "NCCL_FASTRAK_IFNAME"),
    ] {
        let (dir, _node) = support::node(preset);
        let log = std::fs::read_to_string(data("two.log")).unwrap();
        let slow = dir.path().join("slow.log");
        let one = if rails == 32 {
            "700000   12.27   11.50"
        } else {
            "357914   24.00   22.50"
        };
        let log = log.replace("22700  378.41  354.76", one);
        let log = log.replace("22900  375.11  351.66", one);
        std::fs::write(&slow, log).unwrap();
        let root = dir.path().to_str().unwrap();
        let (status, value) = json(&["--host-root", root, slow.to_str().unwrap()]);
        assert_eq!(status, 1, "{value}");
        assert_eq!(value["rails"]["count"], rails);
        assert_eq!(value["rails"]["kind"], kind);
        let told = value["inputs"][0]["runs"][0]["remedies"].to_string();
        assert!(
            told.contains(advice) && !told.contains("NCCL_IB_HCA"),
            "{told}"
        );
    }
    // A node without GPUs has no rails to measure against.
    let (dir, _node) = support::node("empty");
    let (status, none) = json(&["--host-root", dir.path().to_str().unwrap(), &file]);
    assert_eq!(status, 3);
    assert_eq!(none["rails"], Value::Null);
    assert_eq!(none["inputs"][0]["runs"][0]["reason"], "RailsNotKnown");
}

#[test]
fn packed_files_and_files_of_j() {
    let dir = support::scratch();
    let packed = dir.path().join("tcp.log.gz");
    let mut packer = flate2::write::GzEncoder::new(
        std::fs::File::create(&packed).unwrap(),
        flate2::Compression::fast(),
    );
    let text = std::fs::read(data("tcp.log")).unwrap();
    std::io::Write::write_all(&mut packer, &text).unwrap();
    packer.finish().unwrap();
    let output = bench(&[&DGX[..], &[packed.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(2));
    let file = dir.path().join("result.json");
    std::fs::write(
        &file,
        r#"{"version":3,"args":["all_reduce_perf"],"config":{"nthreads":1,"ngpus":8,"devices":[{"rank":0,"group":0,"pid":1,"hostname":"a"},{"rank":8,"group":0,"pid":1,"hostname":"b"}]},
"results":[{"size":8589934592,"count":1,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":1.0,"alg_bw":200.0,"bus_bw":375.0,"nwrong":0},"in_place":{"time":1.0,"alg_bw":200.0,"bus_bw":370.0,"nwrong":2}}]}"#,
    )
    .unwrap();
    let (status, value) = json(&[&DGX[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(status, 2);
    let run = &value["inputs"][0]["runs"][0];
    assert_eq!(
        (&run["reason"], &run["nranks"]),
        (&"WrongResults".into(), &16.into())
    );
}

#[test]
fn the_text_file_is_whole_and_what_prometheus_takes() {
    let dir = support::scratch();
    let path: PathBuf = dir.path().join("selvage_bench.prom");
    let name = path.to_str().unwrap();
    std::fs::write(&path, "old").unwrap();
    let output = bench(
        &[
            &DGX[..],
            &["--textfile", name, &data("two.log"), &data("tcp.log")],
        ]
        .concat(),
    );
    assert_eq!(output.status.code(), Some(2));
    let text = std::fs::read_to_string(&path).unwrap();
    let series = support::parse(&text);
    let value = |family: &str, labels: &[(&str, &str)]| {
        let found: Vec<f64> = series
            .iter()
            .filter(|series| {
                series.family == format!("selvage_bench_{family}")
                    && labels
                        .iter()
                        .all(|(k, v)| series.labels.get(*k).is_some_and(|l| l == v))
            })
            .map(|series| series.value)
            .collect();
        assert_eq!(found.len(), 1, "{family} {labels:?}: {text}");
        found[0]
    };
    let out = |collective| [("collective", collective), ("placement", "out_of_place")];
    assert_eq!(
        value("bus_bandwidth_bytes_per_second", &out("all_gather")),
        354.76e9
    );
    assert_eq!(
        value("bus_bandwidth_bytes_per_second", &out("all_reduce")),
        2.1e9
    );
    assert_eq!(
        value("expected_bytes_per_second", &[("collective", "alltoall")]),
        93.75e9
    );
    assert!((value("ratio", &[("collective", "all_reduce")]) - 0.00525).abs() < 1e-9);
    assert_eq!(
        value(
            "verdict",
            &[("collective", "all_reduce"), ("verdict", "tcp")]
        ),
        1.0
    );
    assert_eq!(
        value(
            "verdict",
            &[("collective", "all_gather"), ("verdict", "tcp")]
        ),
        0.0
    );
    assert_eq!(value("wrong_results", &[("collective", "alltoall")]), 0.0);
    assert!(value("timestamp_seconds", &[]) > 1.7e9);
    // Nothing of the way there is left.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    // A run that shows nothing leaves no old numbers behind.
    let output = bench(&[&DGX[..], &["--textfile", name, "/dev/null"]].concat());
    assert_eq!(output.status.code(), Some(3));
    let nothing = std::fs::read_to_string(&path).unwrap();
    assert!(
        !nothing.contains("ratio") && nothing.contains("timestamp"),
        "{nothing}"
    );
    let output = bench(&[&DGX[..], &["--textfile", "/nonexistent/x", "/dev/null"]].concat());
    assert_eq!(output.status.code(), Some(70));
    promtool(&text);
    promtool(&nothing);
}

/// As Prometheus' own tool sees it, where it is installed.
fn promtool(text: &str) {
    let mut tool = Command::new("promtool");
    let tool = tool.args(["check", "metrics"]).stdin(Stdio::piped());
    let child = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("no promtool: not compared");
        return;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}
