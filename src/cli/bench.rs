//! `selvage nccl --bench`: reads outputs of nccl-tests, with NCCL's log in them, and judges each run.

use super::nccl::{self, ScannedLog};
use super::run::{init_log, load_on_tree};
use super::{ArgInputs, Exit, complain, fail, on_runtime, print, refuse_all};
use crate::check::bench::{Grade, LogFacts, judge, no_output};
use crate::check::nccl::{self as judging, JobContext};
use crate::files::{self, check_replaceable, replace};
use crate::observe::bench::{BenchLog, Collective, Rails};
use crate::report::AgentReport;
use crate::report::bench::{Bench, BenchInput, textfile};
use crate::source::bench_output::{BenchReader, parse_json};
use crate::units::BitsPerSec;
use clap::{ArgMatches, Args, value_parser};
use std::io;
use std::path::{Path, PathBuf};

/// Largest `-J` file that is read: results of thousands of sizes take some MiB.
const MAX_JSON: usize = 64 << 20;

/// Largest node report that is read; one is some hundred KiB.
const MAX_REPORT: u64 = 16 << 20;

#[derive(Debug, Args)]
#[command(next_help_heading = "Benchmarks")]
pub(super) struct BenchArgs {
    /// Read nccl-tests output: does its bus bandwidth reach what the rails can carry?
    ///
    /// Exit status: 0 line rate, 1 below, 2 TCP in the log or wrong results, 3 cannot tell.
    #[arg(long)]
    pub bench: bool,
    /// Rails of each node; else of --node-report, else of this node
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    #[arg(requires_all = ["bench", "rate_gbps"])]
    rails: Option<u32>,
    /// Rate of a rail in Gb/s
    #[arg(long, value_name = "G", value_parser = rate, requires_all = ["bench", "rails"])]
    rate_gbps: Option<BitsPerSec>,
    /// GPUs of each node, if fewer ranks than that run on it
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    #[arg(requires = "bench")]
    gpus: Option<u32>,
    /// Saved /report of one of the nodes (selvage check -o json); - is standard input
    #[arg(long, value_name = "FILE", alias = "report", conflicts_with = "rails")]
    #[arg(requires = "bench")]
    node_report: Option<PathBuf>,
    /// What ran, if the output does not name it
    #[arg(long, value_name = "NAME", value_parser = collective, requires = "bench")]
    collective: Option<Collective>,
    /// Also write the results as Prometheus text
    #[arg(long, value_name = "FILE", requires = "bench")]
    textfile: Option<PathBuf>,
    /// Where this node's sys, proc and dev are [default: /] [env: SELVAGE_HOST_ROOT]
    #[arg(id = "agent.host_root", long = "host-root", value_name = "DIR")]
    #[arg(requires = "bench")]
    _host_root: Option<String>,
}

fn collective(name: &str) -> Result<Collective, &'static str> {
    Collective::of(name).ok_or("not a benchmark of nccl-tests: all_reduce, all_gather, …")
}

fn rate(text: &str) -> Result<BitsPerSec, &'static str> {
    let gbps: f64 = text.parse().map_err(|_| "not a number")?;
    match (0.1..=100_000.0).contains(&gbps) {
        true => Ok(BitsPerSec((gbps * 1e9).round() as u64)),
        false => Err("not a rate in Gb/s, such as 400"),
    }
}

/// Runs `selvage nccl --bench`.
pub(super) fn command(inputs: &ArgInputs, args: &BenchArgs, matches: &ArgMatches) -> Exit {
    let files = &inputs.files;
    let rails = rails(args, files, matches).map_err(refuse_all)?;
    let (bench, errors) = run(files, rails, args.collective);
    errors.iter().for_each(complain);
    let printed = print(&match inputs.output.style() {
        None => crate::report::bench::json(&bench),
        Some(style) => crate::report::bench::text(&bench, style),
    });
    if let Some(path) = &args.textfile {
        let text = textfile::encode(&bench, jiff::Timestamp::now().as_second());
        let written = check_replaceable(path).and_then(|()| replace(path, text.as_bytes(), None));
        written.map_err(|error| fail(format_args!("{}: {error}", path.display())))?;
    }
    printed?;
    Ok(match bench.verdict {
        Grade::WrongResults | Grade::Tcp => 2,
        Grade::Below => 1,
        Grade::LineRate if errors.is_empty() => 0,
        Grade::LineRate | Grade::Unknown => 3,
    })
}

/// The rails by the flags, by a node's report, or else of this node if it has GPUs: a launcher's NIC
/// is not a rail.
fn rails(
    args: &BenchArgs,
    files: &[PathBuf],
    matches: &ArgMatches,
) -> Result<Option<Rails>, Vec<String>> {
    let mut rails = if let (Some(count), Some(rate)) = (args.rails, args.rate_gbps) {
        let from = "--rails".into();
        Rails {
            count,
            rate,
            from,
            ..Rails::default()
        }
    } else if let Some(path) = &args.node_report {
        let stdin = Path::new("-");
        if path == stdin && files.contains(path) {
            let both = "standard input cannot be both the report and the output of nccl-tests";
            return Err(vec![both.into()]);
        }
        let read = report_text(path).map_err(|error| error.to_string());
        let rails =
            read.and_then(|text| AgentReport::read(text.as_bytes())?.bench_rails("the report of"));
        rails.map_err(|error| vec![format!("{}: {error}", path.display())])?
    } else {
        let report = check_this_node(matches)?;
        match AgentReport::read(report.as_bytes()).and_then(|of| of.bench_rails("this node,")) {
            Ok(rails) if rails.gpus.is_some() => rails,
            _ => return Ok(None),
        }
    };
    rails.gpus = args.gpus.or(rails.gpus);
    Ok(Some(rails))
}

/// The report of this node.
fn check_this_node(matches: &ArgMatches) -> Result<String, Vec<String>> {
    let config = load_on_tree(matches)?.config;
    init_log(&config, true);
    let report = on_runtime(crate::agent::sample_once(&config));
    let report = report.map_err(|error| vec![error.to_string()])?;
    Ok(crate::report::json::encode(&report, None))
}

/// Reads a report from a regular file or standard input (`-`).
fn report_text(path: &Path) -> io::Result<String> {
    let bytes = match path == Path::new("-") {
        true => files::read_all(io::stdin(), MAX_REPORT)?,
        false => files::read_regular(path, MAX_REPORT)?,
    };
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Judges all runs in the inputs, and says which inputs could not be read; `-` is standard input.
fn run(paths: &[PathBuf], rails: Option<Rails>, named: Option<Collective>) -> (Bench, Vec<String>) {
    let (mut inputs, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        let ((log, error), bench) = match read(path) {
            Ok(read) => read,
            Err(error) => {
                errors.push(format!("{name}: {error}"));
                continue;
            }
        };
        errors.extend(error);
        let facts = LogFacts::of(&log);
        let of_log = || judging::judge(&log, &JobContext::default());
        let nccl = log.is_nccl().then(of_log);
        let judged = |run| judge(run, rails.as_ref(), nccl.as_ref(), &facts, named);
        let mut runs: Vec<_> = bench.runs.iter().map(judged).collect();
        if runs.is_empty() {
            runs.push(no_output());
        }
        if bench.dropped > 0 {
            errors.push(format!("{name}: {} more runs are left out", bench.dropped));
        }
        inputs.push(BenchInput { name, runs, nccl });
    }
    (Bench::new(rails, inputs), errors)
}

/// Reads one input as NCCL's log, as printed output and as a `-J` file at the same time.
fn read(path: &Path) -> io::Result<(ScannedLog, BenchLog)> {
    let mut reader = BenchReader::default();
    // `None` as soon as the input cannot be a `-J` file, which is one JSON object.
    let mut json: Option<Vec<u8>> = Some(Vec::new());
    let (log, mut error) = nccl::read_path(path, &mut |piece| {
        reader.feed(piece);
        let Some(text) = &mut json else { return };
        let is_start = text.is_empty();
        let piece = match is_start {
            true => piece.trim_ascii_start(),
            false => piece,
        };
        let other = is_start && piece.first().is_some_and(|byte| *byte != b'{');
        if other || text.len() + piece.len() > MAX_JSON {
            json = None;
        } else {
            text.extend_from_slice(piece);
        }
    })?;
    let text = json.unwrap_or_default();
    let cut = match parse_json(std::str::from_utf8(&text).unwrap_or_default()) {
        Ok(bench) => return Ok(((log, error), bench)),
        Err(cut) => cut,
    };
    let bench = reader.finish();
    // NCCL and launchers do not begin a file with a brace.
    if cut && bench.runs.is_empty() && error.is_none() {
        let name = path.display();
        error = Some(format!(
            "{name}: begins as a file of -J and is cut before its end: give the whole file, or what nccl-tests printed"
        ));
    }
    Ok(((log, error), bench))
}
