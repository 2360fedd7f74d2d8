//! `selvage nccl --bench`: outputs of nccl-tests, and logs beside them, to verdicts.

use super::complain;
use super::nccl::{self, Scanned};
use super::run::{
    FAILED, USAGE, files_of, host_name, init_log, on_tree, output_form, print_out, style,
};
use super::runtime::on_runtime;
use crate::check::bench::{LogFacts, Verdict, judge, nothing};
use crate::check::nccl::{self as judging, Beside};
use crate::config;
use crate::observe::bench::{BenchLog, Collective, Rails};
use crate::report::bench::{Bench, Input, textfile};
use crate::source::nccl_tests::{Reader, parse_json};
use crate::source::node_report;
use crate::units::BitsPerSec;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a file of `-J` that are read: results of thousands of sizes are some MiB.
const MAX_JSON: usize = 64 << 20;

/// Bytes of a node's report: one is some hundred KiB.
const MAX_REPORT: u64 = 16 << 20;

/// Adds the flags of `--bench` to the command `nccl`.
pub fn add_args(command: Command) -> Command {
    let of_bench = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help(help)
            .help_heading("Benchmarks")
            .requires("bench")
    };
    let paths = clap::value_parser!(PathBuf);
    command
        .arg(
            Arg::new("bench")
                .long("bench")
                .action(ArgAction::SetTrue)
                .help_heading("Benchmarks")
                .help("Read what nccl-tests printed and compare its bus bandwidth with the node's rails; exit 0 line rate, 1 below, 2 TCP's number or wrong results, 3 cannot tell"),
        )
        .arg(
            of_bench("rails", "N", "Rails of each node; else of --node-report, else of this node")
                .value_parser(clap::value_parser!(u32).range(1..=1024))
                .requires("rate-gbps"),
        )
        .arg(
            of_bench("rate-gbps", "G", "Rate of a rail in Gb/s")
                .value_parser(rate)
                .requires("rails"),
        )
        .arg(
            of_bench("gpus", "N", "GPUs of each node, where fewer ranks than that run on it")
                .value_parser(clap::value_parser!(u32).range(1..=1024)),
        )
        .arg(
            of_bench("node-report", "FILE", "/report of one of the nodes, saved (selvage check -o json); - is standard input")
                .alias("report")
                .value_parser(paths.clone())
                .conflicts_with("rails"),
        )
        .arg(
            of_bench("collective", "NAME", "What ran, where the output does not name it")
                .value_parser(|name: &str| {
                    Collective::of(name).ok_or("no benchmark of nccl-tests: all_reduce, all_gather, …")
                }),
        )
        .arg(
            of_bench("textfile", "FILE", "Also write the results as Prometheus text")
                .value_parser(paths),
        )
        .arg(
            Arg::new("agent.host_root")
                .long("host-root")
                .value_name("DIR")
                .help("Where this node's sys, proc and dev are [default: /] [env: SELVAGE_HOST_ROOT]")
                .help_heading("Benchmarks")
                .requires("bench"),
        )
}

/// A rate in Gb/s as bits a second.
fn rate(text: &str) -> Result<BitsPerSec, String> {
    let gbps: f64 = text.parse().map_err(|_| "no number")?;
    if !(0.1..=100_000.0).contains(&gbps) {
        return Err("a rate in Gb/s, such as 400".into());
    }
    Ok(BitsPerSec((gbps * 1e9).round() as u64))
}

/// `selvage nccl --bench …`; the exit status.
pub fn command(matches: &ArgMatches) -> u8 {
    let rails = match rails(matches) {
        Ok(Some(rails)) => Ok(Some(rails)),
        Ok(None) => look_here(matches),
        Err(complaint) => Err(vec![complaint]),
    };
    let rails = match rails {
        Ok(rails) => rails,
        Err(complaints) => {
            complaints.iter().for_each(complain);
            return USAGE;
        }
    };
    let named = matches.get_one("collective").copied();
    let outcome = run(&files_of(matches), rails, named);
    for trouble in &outcome.troubles {
        complain(crate::report::text::clean(trouble));
    }
    let told = print_out(&match output_form(matches) {
        "json" => crate::report::bench::json(&outcome.bench),
        _ => crate::report::bench::text(&outcome.bench, style()),
    });
    if let Some(path) = matches.get_one::<PathBuf>("textfile") {
        let now = jiff::Timestamp::now().as_second();
        if let Err(error) = write_textfile(path, &outcome.bench, now) {
            complain(format_args!("{}: {error}", path.display()));
            return FAILED;
        }
    }
    if told == 0 { outcome.status() } else { told }
}

/// The rails of this node, if it is one with GPUs.
fn look_here(matches: &ArgMatches) -> Result<Option<Rails>, Vec<String>> {
    let config = config::load(matches, host_name).map_err(|complaints| {
        complaints
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    })?;
    let config = on_tree(config).map_err(|complaint| vec![complaint])?;
    init_log(&config, true);
    let report =
        on_runtime(crate::agent::sample_once(&config)).map_err(|error| vec![error.to_string()])?;
    Ok(rails_here(
        &crate::report::json::encode(&report, None),
        matches,
    ))
}

/// What a run of the command came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Verdicts.
    pub bench: Bench,
    /// Inputs that could not be read.
    pub troubles: Vec<String>,
}

impl Outcome {
    /// 2 wrong results or TCP's number, 1 below line rate, 3 it cannot be told, 0 line rate.
    pub fn status(&self) -> u8 {
        match self.bench.verdict() {
            Verdict::WrongResults | Verdict::Tcp => 2,
            Verdict::Below => 1,
            Verdict::Unknown => 3,
            Verdict::LineRate if !self.troubles.is_empty() => 3,
            Verdict::LineRate => 0,
        }
    }
}

/// The rails that flags and files name. None: they name none.
pub fn rails(matches: &ArgMatches) -> Result<Option<Rails>, String> {
    let gpus = matches.get_one::<u32>("gpus").copied();
    let told = matches
        .get_one::<u32>("rails")
        .zip(matches.get_one::<BitsPerSec>("rate-gbps"));
    if let Some((count, rate)) = told {
        return Ok(Some(Rails {
            count: *count,
            rate: *rate,
            fastest: None,
            gpus,
            kind: None,
            from: "--rails".into(),
            trouble: None,
        }));
    }
    let Some(path) = matches.get_one::<PathBuf>("node-report") else {
        return Ok(None);
    };
    let stdin = Path::new("-");
    let files = files_of(matches);
    if path == stdin && (files.is_empty() || files.iter().any(|file| file == stdin)) {
        return Err("standard input cannot be both the report and the output of nccl-tests".into());
    }
    let name = path.display();
    let text = report_text(path).map_err(|error| format!("{name}: {error}"))?;
    let rails = node_report::rails(&text, "the report of");
    let rails = rails.map_err(|error| format!("{name}: {error}"))?;
    Ok(Some(with_gpus(rails, gpus)))
}

/// A node's report: a regular file, or standard input (`-`). A pipe that nobody writes to would hang
/// for ever, and so is refused.
fn report_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().take(MAX_REPORT + 1).read_to_string(&mut text)
    } else {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| error.to_string())?;
        let kind = file.metadata().map_err(|error| error.to_string())?;
        if !kind.is_file() {
            return Err("is no regular file: save the report to one, or give - to read it from standard input".into());
        }
        file.take(MAX_REPORT + 1).read_to_string(&mut text)
    };
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_REPORT {
        return Err("is no report: larger than 16 MiB".into());
    }
    Ok(text)
}

/// The rails of this node, out of its report; none unless it has GPUs: a launcher's NIC is no rail.
pub fn rails_here(report: &str, matches: &ArgMatches) -> Option<Rails> {
    let rails = node_report::rails(report, "this node,").ok()?;
    rails.gpus?;
    Some(with_gpus(rails, matches.get_one::<u32>("gpus").copied()))
}

fn with_gpus(mut rails: Rails, gpus: Option<u32>) -> Rails {
    rails.gpus = gpus.or(rails.gpus);
    rails
}

/// Reads the inputs, `-` or none being standard input, and judges their runs.
pub fn run(paths: &[PathBuf], rails: Option<Rails>, named: Option<Collective>) -> Outcome {
    let stdin = [PathBuf::from("-")];
    let paths = if paths.is_empty() { &stdin } else { paths };
    let mut outcome = Outcome::default();
    for path in paths {
        match read(path) {
            Ok(((log, trouble), bench)) => {
                outcome.troubles.extend(trouble);
                let facts = LogFacts::of(&log);
                let verdict = judging::judge(&log, &Beside::default());
                let nccl = log.is_nccl().then_some(verdict);
                let runs = bench.runs.iter();
                let mut runs: Vec<_> = runs
                    .map(|run| judge(run, rails.as_ref(), nccl.as_ref(), &facts, named))
                    .collect();
                if runs.is_empty() {
                    runs.push(nothing());
                }
                if bench.dropped > 0 {
                    let name = path.display();
                    let more = format!("{name}: {} more runs are left out", bench.dropped);
                    outcome.troubles.push(more);
                }
                outcome.bench.inputs.push(Input {
                    name: path.display().to_string(),
                    runs,
                    nccl,
                });
            }
            Err(error) => outcome
                .troubles
                .push(format!("{}: {error}", path.display())),
        }
    }
    outcome.bench.rails = rails;
    outcome
}

/// One input by both readers at once.
fn read(path: &Path) -> io::Result<(Scanned, BenchLog)> {
    let mut reader = Reader::default();
    // A file of `-J` is one object; anything else is known by its first byte.
    let mut json: Option<Vec<u8>> = Some(Vec::new());
    let scanned = nccl::read_path(path, &mut |piece| {
        reader.feed(piece);
        let Some(text) = &mut json else { return };
        // Blanks before it are not kept, so that each piece is looked at once.
        let piece = match text.is_empty() {
            true => piece.trim_ascii_start(),
            false => piece,
        };
        let other = text.is_empty() && piece.first().is_some_and(|byte| *byte != b'{');
        if other || text.len() + piece.len() > MAX_JSON {
            json = None;
        } else {
            text.extend_from_slice(piece);
        }
    })?;
    let ((log, trouble), text) = (scanned, json.unwrap_or_default());
    let text = std::str::from_utf8(&text).unwrap_or_default();
    let bench = match parse_json(text) {
        Ok(bench) => bench,
        Err(cut) => {
            let bench = reader.finish();
            // NCCL and launchers begin no file with a brace.
            if cut && bench.runs.is_empty() && trouble.is_none() {
                let name = path.display();
                let cut = format!(
                    "{name}: begins as a file of -J and is cut before its end: give it whole, or what nccl-tests printed"
                );
                return Ok(((log, Some(cut)), bench));
            }
            bench
        }
    };
    Ok(((log, trouble), bench))
}

/// Writes the results as metrics: whole or not at all, since others read the file at any time.
pub fn write_textfile(path: &Path, bench: &Bench, seconds: i64) -> io::Result<()> {
    let text = textfile::encode(bench, seconds);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("names no file"))?;
    // A rename puts a file in the place of whatever is there: a device, a link, a pipe.
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            return Err(io::Error::other(
                "is there and is no regular file: not replaced",
            ));
        }
        _ => {}
    }
    // In the same directory, since a rename does not leave its file system; the collector reads
    // only what ends in .prom.
    let mut scratch = name.to_os_string();
    scratch.push(format!(".{}.tmp", std::process::id()));
    let scratch = path.with_file_name(scratch);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .open(&scratch)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&scratch, path)
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&scratch);
    })
}
