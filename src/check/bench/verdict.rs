//! The verdict on one run.

use super::decide::Ask;
use super::shape::{Shape, shape};
use super::{LARGE, causes, limit, named, ranks};
use crate::check::nccl::{EvidenceLine, NcclVerdict};
use crate::observe::bench::{Collective, Rails, Row, Run};
use crate::observe::nccl::NcclLog;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a run's numbers come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// What the rails can do.
    LineRate,
    /// It cannot be told.
    Unknown,
    /// A part of it.
    Below,
    /// What TCP gives.
    Tcp,
    /// The results are wrong.
    WrongResults,
}

impl Verdict {
    /// All of them, the worst last.
    pub const ALL: [Verdict; 5] = [
        Verdict::LineRate,
        Verdict::Unknown,
        Verdict::Below,
        Verdict::Tcp,
        Verdict::WrongResults,
    ];

    /// As in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::LineRate => "line_rate",
            Verdict::Unknown => "unknown",
            Verdict::Below => "below",
            Verdict::Tcp => "tcp",
            Verdict::WrongResults => "wrong_results",
        }
    }
}

/// The best of large sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Peak {
    /// Bus bandwidth.
    pub bytes_per_second: f64,
    /// Bytes of the operation.
    pub size_bytes: u64,
    /// Its line.
    pub line: u64,
}

/// What NCCL's log tells beside its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LogFacts {
    /// NICs that connections go over, of IB and RoCE.
    pub nics: Option<u32>,
    /// NICs that NCCL found, of IB and RoCE.
    pub listed: Option<u32>,
    /// NVLink joins nodes.
    pub mnnvl: bool,
    /// Connections to a reduction in the network (SHARP).
    pub in_network: bool,
    /// `NCCL_ALGO=Ring`.
    pub ring: bool,
    /// Settings that can cost bandwidth.
    pub settings: Vec<(String, String)>,
}

impl LogFacts {
    /// Of a log.
    pub fn of(log: &NcclLog) -> Self {
        causes::facts(log)
    }

    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(set, _)| set == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchVerdict {
    /// What ran; none: nothing tells.
    pub collective: Option<Collective>,
    /// … by the factor between its two bandwidths, not by name.
    pub collective_inferred: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one word.
    pub reason: &'static str,
    /// One sentence.
    pub summary: String,
    /// Ranks of the communicator.
    pub nranks: Option<u32>,
    /// Nodes of it.
    pub nodes: Option<u32>,
    /// Rows read.
    pub rows: usize,
    /// The best of large sizes into another buffer.
    pub out_of_place: Option<Peak>,
    /// … and into the same.
    pub in_place: Option<Peak>,
    /// The better of them.
    pub bus_bandwidth_bytes_per_second: Option<f64>,
    /// What the rails can carry.
    pub expected_bytes_per_second: Option<f64>,
    /// What no algorithm between GPUs gets beyond.
    pub ceiling_bytes_per_second: Option<f64>,
    /// The one by the other; where larger sizes fall far below the best, the lowest of them by what
    /// the rails can carry.
    pub ratio: Option<f64>,
    /// Wrong elements; none: not checked.
    pub wrong: Option<u64>,
    /// What else was seen.
    pub notes: Vec<String>,
    /// What to do.
    pub remedies: Vec<String>,
    /// Lines that it rests on.
    pub evidence: Vec<EvidenceLine>,
}

/// The best of the large rows, by one side's measurement.
fn peak(run: &Run, inside: bool) -> Option<Peak> {
    let side = |row: &Row| {
        if inside {
            row.in_place
        } else {
            row.out_of_place
        }
    };
    let large = run.rows.iter().filter(|row| row.size >= LARGE);
    large
        .filter_map(|row| {
            Some(Peak {
                bytes_per_second: side(row)?.bus,
                size_bytes: row.size,
                line: row.line,
            })
        })
        .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
}

/// The lowest of the sizes beyond the best one, each by the better of its sides.
pub(super) fn lowest_beyond(run: &Run) -> Option<Peak> {
    let mut sizes: BTreeMap<u64, Peak> = BTreeMap::new();
    for row in run.rows.iter().filter(|row| row.size >= LARGE) {
        let sides = [row.out_of_place, row.in_place].into_iter().flatten();
        let Some(bus) = sides.map(|side| side.bus).reduce(f64::max) else {
            continue;
        };
        let this = Peak {
            bytes_per_second: bus,
            size_bytes: row.size,
            line: row.line,
        };
        let kept = sizes.entry(row.size).or_insert(this);
        if kept.bytes_per_second < bus {
            *kept = this;
        }
    }
    let order = |a: &&Peak, b: &&Peak| a.bytes_per_second.total_cmp(&b.bytes_per_second);
    let best = sizes.values().max_by(order)?.size_bytes;
    let beyond = sizes.values().filter(|one| one.size_bytes > best);
    beyond.min_by(order).copied()
}

/// The verdict where no run was found.
pub fn nothing() -> BenchVerdict {
    let mut verdict = blank(&Run::default(), None, None);
    verdict.reason = "NoTable";
    verdict.summary = "no output of nccl-tests in it".into();
    verdict
        .remedies
        .push("Give it what all_reduce_perf (or another of nccl-tests) printed.".into());
    verdict
}

fn blank(run: &Run, collective: Option<Collective>, shape: Option<&Shape>) -> BenchVerdict {
    let (out_of_place, in_place) = (peak(run, false), peak(run, true));
    let best = out_of_place.into_iter().chain(in_place);
    let best = best.map(|peak| peak.bytes_per_second).reduce(f64::max);
    BenchVerdict {
        collective,
        collective_inferred: false,
        verdict: Verdict::Unknown,
        reason: "",
        summary: String::new(),
        nranks: shape.map(|shape| shape.nranks),
        nodes: shape.map(|shape| shape.nodes.len() as u32),
        rows: run.rows.len(),
        out_of_place,
        in_place,
        bus_bandwidth_bytes_per_second: best,
        expected_bytes_per_second: None,
        ceiling_bytes_per_second: None,
        ratio: None,
        wrong: run.wrong(),
        notes: Vec::new(),
        remedies: Vec::new(),
        evidence: Vec::new(),
    }
}

/// Judges a run. `nccl`: the verdict on the log beside it, none where there is no line of NCCL's;
/// `name`: what the user says that it runs.
pub fn judge(
    run: &Run,
    rails: Option<&Rails>,
    nccl: Option<&NcclVerdict>,
    facts: &LogFacts,
    name: Option<Collective>,
) -> BenchVerdict {
    let told = name.or(run.collective);
    let gpus = rails.and_then(|rails| rails.gpus);
    let filled = match nccl.and_then(|nccl| nccl.nranks) {
        None => ranks::filled(run, told, gpus),
        // The log knows better.
        Some(_) => None,
    };
    let shape = shape(filled.as_ref().map_or(run, |filled| &filled.run), nccl);
    let guess = || named::inferred(run, shape.as_ref()?.nranks);
    let collective = told.or_else(guess);
    let mut verdict = blank(run, collective, shape.as_ref());
    verdict.collective_inferred = told.is_none() && collective.is_some();
    let limit = match (collective, &shape, rails) {
        (Some(collective), Some(shape), Some(rails)) if shape.nodes.len() > 1 => {
            limit(collective, shape, rails)
        }
        _ => None,
    };
    if let Some(limit) = limit {
        verdict.expected_bytes_per_second = Some(limit.expected);
        verdict.ceiling_bytes_per_second = Some(limit.ceiling);
        let best = verdict.bus_bandwidth_bytes_per_second;
        verdict.ratio = best.map(|best| best / limit.expected);
    }
    let ask = Ask {
        run,
        rails,
        nccl,
        facts,
        shape: shape.as_ref(),
        collective,
        limit,
        assumed: filled.as_ref().is_some_and(|filled| filled.assumed),
    };
    ask.decide(&mut verdict);
    if let Some(filled) = &filled {
        let (ranks, listed) = (filled.run.seats.len(), run.seats.len());
        verdict.notes.push(match filled.assumed {
            true => format!("no list of ranks: by its figures the run is of {ranks}, and full nodes are taken for granted"),
            false => format!("the list of ranks has {listed} of {ranks}, which the figures are of: the others are taken to sit between them, and so nodes are full"),
        });
    }
    ask.evidence(&mut verdict);
    verdict
}
