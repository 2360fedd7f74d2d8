//! The verdict on one run.

use super::{LARGE, SpeedLimit, topology::Topology};
use crate::check::nccl::EvidenceLine;
use crate::observe::bench::{Collective, Measurement, Run, SizeRow};
use crate::settings_macro::words;
use serde::Serialize;
use std::collections::BTreeMap;

words! {
    /// What a run shows, from the best to the worst.
    #[derive(Default)]
    Grade {
        /// The run reaches what the rails can carry.
        LineRate = "line_rate",
        /// The output does not show whether it does.
        #[default]
        Unknown = "unknown",
        /// The run is slower than the rails.
        Below = "below",
        /// NCCL's log proves TCP between nodes.
        Tcp = "tcp",
        /// The results are wrong.
        WrongResults = "wrong_results",
    }
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

/// The verdict on a run, as in JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BenchVerdict {
    /// The benchmark. `None` if nothing names it.
    pub collective: Option<Collective>,
    /// Always false, kept for readers of the schema: names are not inferred from figures any more.
    pub collective_inferred: bool,
    /// What the benchmark shows about the fabric.
    pub verdict: Grade,
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

fn large(run: &Run) -> impl Iterator<Item = &SizeRow> {
    run.rows.iter().filter(|row| row.size >= LARGE)
}

fn peak(row: &SizeRow, bytes_per_second: f64) -> Peak {
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
    // A size may be measured several times (`-N`): its best counts.
    let mut sizes: BTreeMap<u64, Peak> = BTreeMap::new();
    for row in large(run) {
        let better = row.sides().map(|side| peak(row, side.busbw));
        let known = sizes.get(&row.size).copied();
        sizes.extend(highest(better.chain(known)).map(|peak| (row.size, peak)));
    }
    let best = highest(sizes.values().copied())?.size_bytes;
    let beyond = sizes.into_values().filter(|peak| peak.size_bytes > best);
    beyond.min_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
}

/// The verdict on an input without any output of nccl-tests.
pub fn no_output() -> BenchVerdict {
    BenchVerdict {
        reason: "NoTable",
        summary: "no output of nccl-tests found".into(),
        remedies: vec!["Give it what all_reduce_perf (or another of nccl-tests) printed.".into()],
        ..BenchVerdict::default()
    }
}

/// What was measured, before it is judged.
pub(super) fn measured(
    run: &Run,
    collective: Option<Collective>,
    topology: Option<&Topology>,
    limit: Option<SpeedLimit>,
) -> BenchVerdict {
    let best_side = |side: fn(&SizeRow) -> Option<Measurement>| {
        highest(large(run).filter_map(|row| Some(peak(row, side(row)?.busbw))))
    };
    let out_of_place = best_side(|row| row.out_of_place);
    let in_place = best_side(|row| row.in_place);
    let best = highest([out_of_place, in_place].into_iter().flatten());
    let best = best.map(|peak| peak.bytes_per_second);
    BenchVerdict {
        collective,
        nranks: topology.map(|topology| topology.nranks),
        nodes: topology.map(|topology| topology.nodes.len() as u32),
        rows: run.rows.len(),
        out_of_place,
        in_place,
        bus_bandwidth_bytes_per_second: best,
        expected_bytes_per_second: limit.map(|limit| limit.expected),
        ceiling_bytes_per_second: limit.map(|limit| limit.ceiling),
        ratio: best.zip(limit).map(|(best, limit)| best / limit.expected),
        wrong: run.wrong(),
        ..BenchVerdict::default()
    }
}
