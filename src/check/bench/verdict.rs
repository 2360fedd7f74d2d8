//! The verdict on one run.

use super::topology::Topology;
use super::{LARGE, Limit, causes};
use crate::check::nccl::EvidenceLine;
use crate::observe::bench::{Collective, Measurement, Row, Run};
use crate::observe::nccl::NcclLog;
use serde::Serialize;

/// What a run shows, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The run reaches what the rails can carry.
    LineRate,
    /// The output does not show whether it does.
    Unknown,
    /// The run is slower than the rails.
    Below,
    /// NCCL's log proves TCP between nodes.
    Tcp,
    /// The results are wrong.
    WrongResults,
}

impl Verdict {
    /// All verdicts and their names in JSON and metrics, the worst last.
    pub const NAMES: [(Verdict, &'static str); 5] = [
        (Verdict::LineRate, "line_rate"),
        (Verdict::Unknown, "unknown"),
        (Verdict::Below, "below"),
        (Verdict::Tcp, "tcp"),
        (Verdict::WrongResults, "wrong_results"),
    ];
}

/// The best bandwidth of large messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peak {
    /// Bus bandwidth in bytes per second, as nccl-tests define it.
    pub bytes_per_second: f64,
    /// Message size in bytes.
    pub size_bytes: u64,
    /// Line number of its row.
    pub line: u64,
}

/// Facts in NCCL's log, apart from the verdict on it, that explain a bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogFacts {
    /// NICs that connections use; InfiniBand and RoCE only.
    pub nics: Option<u32>,
    /// NICs that NCCL found; InfiniBand and RoCE only.
    pub listed: Option<u32>,
    /// NVLink joins the nodes.
    pub mnnvl: bool,
    /// Switches reduce data (SHARP).
    pub in_network: bool,
    /// `NCCL_ALGO=Ring` is set.
    pub ring: bool,
    /// Settings that can cost bandwidth, with their values.
    pub settings: Vec<(String, String)>,
}

impl LogFacts {
    /// Extracts them from a log.
    pub fn of(log: &NcclLog) -> Self {
        causes::facts(log)
    }

    /// The value of a setting that can cost bandwidth.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(set, _)| set == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The verdict on a run, as in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchVerdict {
    /// The benchmark. `None` if nothing names it.
    pub collective: Option<Collective>,
    /// Always false, kept for readers of the schema: names are not inferred from figures any more.
    pub collective_inferred: bool,
    /// What the benchmark shows about the fabric.
    pub verdict: Verdict,
    /// CamelCase reason from the list in docs/bench.md.
    pub reason: &'static str,
    /// One sentence for people.
    pub summary: String,
    /// Ranks of the communicator, if known.
    pub nranks: Option<u32>,
    /// Nodes of the communicator, if known.
    pub nodes: Option<u32>,
    /// Number of table rows.
    pub rows: usize,
    /// Best of large messages, out of place.
    pub out_of_place: Option<Peak>,
    /// Best of large messages, in place.
    pub in_place: Option<Peak>,
    /// The better of the two.
    pub bus_bandwidth_bytes_per_second: Option<f64>,
    /// Line rate of this collective.
    pub expected_bytes_per_second: Option<f64>,
    /// The bandwidth that no algorithm between GPUs exceeds.
    pub ceiling_bytes_per_second: Option<f64>,
    /// Best bandwidth divided by line rate; with `FallsWithSize`, the lowest of the larger messages.
    pub ratio: Option<f64>,
    /// Wrong elements. `None` if results were not checked.
    pub wrong: Option<u64>,
    /// Further observations, one sentence each.
    pub notes: Vec<String>,
    /// What to do, one sentence each.
    pub remedies: Vec<String>,
    /// Lines that the verdict rests on.
    pub evidence: Vec<EvidenceLine>,
}

fn large(run: &Run) -> impl Iterator<Item = &Row> {
    run.rows.iter().filter(|row| row.size >= LARGE)
}

fn peak(row: &Row, bytes_per_second: f64) -> Peak {
    Peak {
        bytes_per_second,
        size_bytes: row.size,
        line: row.line,
    }
}

fn highest(peaks: impl Iterator<Item = Peak>) -> Option<Peak> {
    peaks.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
}

/// The lowest bandwidth among messages larger than the best one, each by its better side.
pub(super) fn lowest_beyond_best(run: &Run) -> Option<Peak> {
    let better = |row: &Row| {
        Some(peak(
            row,
            row.sides().map(|side| side.busbw).reduce(f64::max)?,
        ))
    };
    let best = highest(large(run).filter_map(better))?.size_bytes;
    // A size may be measured several times (`-N`): its best counts.
    let of_size = |size| highest(large(run).filter(|row| row.size == size).filter_map(better));
    let beyond = large(run)
        .filter(|row| row.size > best)
        .filter_map(|row| of_size(row.size));
    beyond.min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
}

/// The verdict on an input without any output of nccl-tests.
pub fn no_output() -> BenchVerdict {
    BenchVerdict {
        reason: "NoTable",
        summary: "no output of nccl-tests found".into(),
        remedies: vec!["Give it what all_reduce_perf (or another of nccl-tests) printed.".into()],
        ..measured(&Run::default(), None, None, None)
    }
}

/// What was measured, before it is judged.
pub(super) fn measured(
    run: &Run,
    collective: Option<Collective>,
    topology: Option<&Topology>,
    limit: Option<Limit>,
) -> BenchVerdict {
    let best_side = |side: fn(&Row) -> Option<Measurement>| {
        highest(large(run).filter_map(|row| Some(peak(row, side(row)?.busbw))))
    };
    let (out_of_place, in_place) = (
        best_side(|row| row.out_of_place),
        best_side(|row| row.in_place),
    );
    let best = highest([out_of_place, in_place].into_iter().flatten());
    let best = best.map(|peak| peak.bytes_per_second);
    let expected = limit.map(|limit| limit.expected);
    BenchVerdict {
        collective,
        collective_inferred: false,
        verdict: Verdict::Unknown,
        reason: "",
        summary: String::new(),
        nranks: topology.map(|topology| topology.nranks),
        nodes: topology.map(|topology| topology.nodes.len() as u32),
        rows: run.rows.len(),
        out_of_place,
        in_place,
        bus_bandwidth_bytes_per_second: best,
        expected_bytes_per_second: expected,
        ceiling_bytes_per_second: limit.map(|limit| limit.ceiling),
        ratio: best.zip(expected).map(|(best, expected)| best / expected),
        wrong: run.wrong(),
        notes: Vec::new(),
        remedies: Vec::new(),
        evidence: Vec::new(),
    }
}
