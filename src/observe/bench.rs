//! What a run of nccl-tests printed: its table, who took part, and how it ended. Plain facts;
//! bandwidths in bytes a second (the table's GB/s are 1e9: `1.0E9` in nccl-tests' `*GetBw`).

use crate::units::BitsPerSec;
use serde::{Deserialize, Serialize};

/// What a benchmark of nccl-tests runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// `all_reduce_perf`.
    AllReduce,
    /// `all_gather_perf`.
    AllGather,
    /// `reduce_scatter_perf`.
    ReduceScatter,
    /// `broadcast_perf`.
    Broadcast,
    /// `reduce_perf`.
    Reduce,
    /// `alltoall_perf`.
    Alltoall,
    /// `alltoallv_perf`.
    Alltoallv,
    /// `sendrecv_perf`.
    Sendrecv,
    /// `gather_perf`.
    Gather,
    /// `scatter_perf`.
    Scatter,
    /// `hypercube_perf`.
    Hypercube,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 11] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Alltoall,
        Collective::Alltoallv,
        Collective::Sendrecv,
        Collective::Gather,
        Collective::Scatter,
        Collective::Hypercube,
    ];

    /// As in JSON and metrics: the program's name without `_perf`.
    pub fn as_str(self) -> &'static str {
        match self {
            Collective::AllReduce => "all_reduce",
            Collective::AllGather => "all_gather",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::Alltoall => "alltoall",
            Collective::Alltoallv => "alltoallv",
            Collective::Sendrecv => "sendrecv",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Hypercube => "hypercube",
        }
    }

    /// By the name of its program: `./build/all_reduce_perf`, `all_reduce_perf_mpi`, `all_reduce`.
    pub fn of(program: &str) -> Option<Self> {
        let name = program.rsplit('/').next()?;
        let name = name.split_once("_perf").map_or(name, |(name, _)| name);
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

/// One measurement of a row: out of place, or in place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Microseconds of one operation.
    pub micros: f64,
    /// Algorithm bandwidth, bytes a second.
    pub alg: f64,
    /// Bus bandwidth, bytes a second.
    pub bus: f64,
    /// Elements that were wrong; none: not checked, or the layout of before 2022-08, whose column
    /// is a difference and no count.
    pub wrong: Option<u64>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of the operation.
    pub size: u64,
    /// Elements a rank.
    pub count: u64,
    /// `float`, `bfloat16` ….
    pub dtype: String,
    /// `sum` …; none where it is `none` or not printed.
    pub redop: Option<String>,
    /// The root's rank; none where it is -1 or not printed.
    pub root: Option<u32>,
    /// Into another buffer.
    pub out_of_place: Option<Measure>,
    /// Into the same.
    pub in_place: Option<Measure>,
    /// Number of its line, from 1; 0 in a JSON file.
    pub line: u64,
}

/// One rank, as the head of the output names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Rank.
    pub rank: u32,
    /// Communicator it belongs to (`NCCL_TESTS_SPLIT`).
    pub group: u32,
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
}

/// One run of one benchmark.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    /// What its own lines, or the command before it, say that it runs.
    pub collective: Option<Collective>,
    /// nccl-tests' version, where told (2.17 and later).
    pub version: Option<String>,
    /// Ranks, in the order printed.
    pub seats: Vec<Seat>,
    /// A rank was named twice: processes that do not know of each other.
    pub apart: bool,
    /// Rows, in the order printed.
    pub rows: Vec<Row>,
    /// Rows with out-of-bounds results, as its end says.
    pub out_of_bounds: Option<u64>,
    /// Average over all rows, small ones too, bytes a second.
    pub average: Option<f64>,
    /// The first line about its failing: number and text.
    pub failure: Option<(u64, String)>,
    /// It came to its end: the lines below the table are there.
    pub ended: bool,
    /// Whether results were checked: by its first line (`validation: 1`), else by the table; none:
    /// neither tells.
    pub checked: Option<bool>,
    /// Its first line was seen: a run that died there is one.
    pub started: bool,
    /// Measurements without a count of wrong elements where one should be: `-3`, `nan`.
    pub uncounted: u64,
    /// Rows, or sides of one, left out: cut inside a number, or figures that do not belong together.
    pub torn_rows: u64,
    /// A rank's line was cut.
    pub torn_ranks: bool,
}

impl Run {
    /// Nothing is known of it yet.
    pub fn is_empty(&self) -> bool {
        *self == Run::default()
    }

    /// A line of its end was seen, at least the first of them.
    pub fn is_over(&self) -> bool {
        self.ended || self.out_of_bounds.is_some()
    }

    /// Wrong elements in all rows; none: nothing was checked, or not all counts are ones.
    pub fn wrong(&self) -> Option<u64> {
        let counts = self.rows.iter().flat_map(|row| {
            let measures = [row.out_of_place, row.in_place];
            measures.into_iter().flatten().filter_map(|m| m.wrong)
        });
        // `Out of bounds values : 0 OK` stands below a table that nothing checked (`-c 0`) too.
        let told = |bad: &u64| *bad > 0 || self.checked == Some(true);
        let out_of_bounds = self.out_of_bounds.filter(told);
        let sum = counts.chain(out_of_bounds).reduce(u64::saturating_add);
        sum.filter(|sum| *sum > 0 || self.uncounted == 0)
    }
}

/// The runs of one input.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BenchLog {
    /// In the order printed.
    pub runs: Vec<Run>,
    /// Runs that were one too many to keep.
    pub dropped: u64,
}

/// Who carries data over a node's rails: settings and remedies differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RailKind {
    /// InfiniBand or RoCE, by NCCL's own transport.
    Verbs,
    /// AWS' EFA, by a libfabric plugin.
    Efa,
    /// Google's gVNIC, by GPUDirect-TCPX(O).
    Gvnic,
}

/// A node's rails, for what it can do at best.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rails {
    /// How many.
    pub count: u32,
    /// Rate of the slowest, in bits a second.
    #[serde(rename = "rate_bits_per_second")]
    pub rate: BitsPerSec,
    /// They differ: the fastest.
    #[serde(rename = "fastest_bits_per_second")]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fastest: Option<BitsPerSec>,
    /// GPUs of the node, where known.
    pub gpus: Option<u32>,
    /// What they are, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<RailKind>,
    /// Where this comes from, in a few words.
    pub from: String,
    /// State and reasons that the node's own report gives, if not ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trouble: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs() {
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
        for one in Collective::ALL {
            let json = serde_json::to_value(one).unwrap();
            assert_eq!(json, one.as_str());
        }
    }
}
