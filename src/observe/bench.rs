//! What one run of nccl-tests printed: its table, its ranks and how it ended. Bandwidths are in bytes
//! a second; the table's GB/s are 1e9 bytes (`*GetBw` of nccl-tests divides by `1.0E9`).

use crate::settings_macro::words;
use crate::units::BitsPerSec;
use serde::Serialize;

words! {
    /// A benchmark of nccl-tests, named after its program: `all_reduce_perf` is [`Self::AllReduce`].
    #[allow(missing_docs, reason = "each is the name of its program")]
    Collective {
        AllReduce = "all_reduce",
        AllGather = "all_gather",
        ReduceScatter = "reduce_scatter",
        Broadcast = "broadcast",
        Reduce = "reduce",
        Alltoall = "alltoall",
        Alltoallv = "alltoallv",
        Sendrecv = "sendrecv",
        Gather = "gather",
        Scatter = "scatter",
        Hypercube = "hypercube",
    }

    /// What carries data over a node's rails; settings and remedies differ.
    RailKind {
        /// InfiniBand or RoCE, by NCCL's own transport.
        Verbs = "verbs",
        /// AWS EFA, by a libfabric plugin.
        Efa = "efa",
        /// Google gVNIC, by GPUDirect-TCPX or -TCPXO.
        Gvnic = "gvnic",
    }
}

impl Collective {
    /// By program name: `./build/all_reduce_perf`, `all_reduce_perf_mpi`, `all_reduce`.
    pub fn of(program: &str) -> Option<Self> {
        let file = program.rsplit('/').next()?;
        let name = file.split_once("_perf").map_or(file, |(name, _)| name);
        serde_json::from_value(name.into()).ok()
    }
}

/// One side of a table row: out of place (separate send and receive buffers) or in place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// Algorithm bandwidth: size divided by time.
    pub algbw: f64,
    /// Bus bandwidth: algorithm bandwidth times the collective's factor.
    pub busbw: f64,
    /// Wrong elements. `None` if results were not checked, or the column does not hold a count.
    pub wrong: Option<u64>,
}

/// A table row: one message size, with at least one of its sides measured.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeRow {
    /// Message size in bytes.
    pub size: u64,
    /// The out-of-place measurement.
    pub out_of_place: Option<Measurement>,
    /// The in-place measurement.
    pub in_place: Option<Measurement>,
    /// Line number from 1; 0 for a row of a `-J` file.
    pub line: u64,
}

impl SizeRow {
    /// The measurements that are present.
    pub fn sides(&self) -> impl Iterator<Item = Measurement> {
        [self.out_of_place, self.in_place].into_iter().flatten()
    }
}

/// A rank, as the list above the table names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Its number, in its group or over all groups.
    pub rank: u32,
    /// The communicator that it belongs to; more than one with `NCCL_TESTS_SPLIT`.
    pub group: u32,
    /// The host that it runs on.
    pub host: String,
}

/// One run of one benchmark.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// The benchmark that the output, or the command line before it, names.
    pub collective: Option<Collective>,
    /// The list of ranks, in the order printed.
    pub ranks: Vec<Rank>,
    /// A rank was listed twice: the processes did not join into one communicator.
    pub separate: bool,
    /// Table rows, in the order printed.
    pub rows: Vec<SizeRow>,
    /// Number of wrong values given by the line `Out of bounds values`.
    pub out_of_bounds: Option<u64>,
    /// Line number and text of the first error message.
    pub failure: Option<(u64, String)>,
    /// The line `Avg bus bandwidth` was printed: the run completed.
    pub ended: bool,
    /// Results were checked, by the header (`validation: 1`) or else by the table. `None` if neither
    /// shows it.
    pub checked: Option<bool>,
    /// The first header line was printed, so that a run that died right after it is still reported.
    pub started: bool,
    /// Measurements whose `#wrong` column is not a count (`-3`, `nan`).
    pub uncounted: u64,
    /// Rows left out: cut inside a number, or size, time and bandwidth disagree.
    pub torn_rows: u64,
}

impl Run {
    /// Whether nothing of a run has been read yet.
    pub fn is_empty(&self) -> bool {
        *self == Run::default()
    }

    /// Whether at least the first of the lines below the table was printed.
    pub fn is_over(&self) -> bool {
        self.ended || self.out_of_bounds.is_some()
    }

    /// Wrong elements of all rows. `None` if results were not checked or some counts are unreadable.
    pub fn wrong(&self) -> Option<u64> {
        let counts = self.rows.iter().flat_map(SizeRow::sides);
        let counts = counts.filter_map(|side| side.wrong);
        // `Out of bounds values : 0 OK` is printed for unchecked results (`-c 0`) too.
        let counts_for = |wrong: &u64| *wrong > 0 || self.checked == Some(true);
        let below_table = self.out_of_bounds.filter(counts_for);
        let sum = counts.chain(below_table).reduce(u64::saturating_add);
        sum.filter(|sum| *sum > 0 || self.uncounted == 0)
    }
}

/// The runs found in one input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchLog {
    /// In the order printed.
    pub runs: Vec<Run>,
    /// Runs beyond the number that is kept.
    pub dropped: u64,
}

/// A node's rails, which set the bandwidth that a benchmark can reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Rails {
    /// Number of rails, including those that are down.
    pub count: u32,
    /// Rate of the slowest, in bits a second.
    #[serde(rename = "rate_bits_per_second")]
    pub rate: BitsPerSec,
    /// Rate of the fastest, if the rates differ.
    #[serde(rename = "fastest_bits_per_second")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastest: Option<BitsPerSec>,
    /// Number of GPUs of the node.
    pub gpus: Option<u32>,
    /// Kind of the rails, if all are of one known kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RailKind>,
    /// Where these facts come from, for people: `--rails`, `the report of node-1`.
    pub from: String,
    /// State and reasons in the node's report, if it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// By that report they are fewer or slower than they should be.
    #[serde(skip)]
    pub is_less: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_names() {
        for (name, want) in [
            ("all_reduce_perf", Some(Collective::AllReduce)),
            ("./build/all_gather_perf", Some(Collective::AllGather)),
            ("/opt/all_reduce_perf_mpi", Some(Collective::AllReduce)),
            ("alltoallv_perf", Some(Collective::Alltoallv)),
            ("alltoall", Some(Collective::Alltoall)),
            ("reduce_perf", Some(Collective::Reduce)),
            ("p2p_perf", None),
            ("", None),
        ] {
            assert_eq!(Collective::of(name), want, "{name}");
        }
    }
}
