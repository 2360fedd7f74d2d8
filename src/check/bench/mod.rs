//! Judges a benchmark's bandwidth against what the rails can carry.
//!
//! In this order: wrong results fail at any speed; a run inside one node says nothing about rails; TCP
//! is reported only if NCCL's log proves it; everything else is the best bus bandwidth of large
//! messages compared with the [`limit`] that the node's rails set.

mod causes;
mod decide;
mod limit;
mod topology;
mod verdict;

pub use causes::LogFacts;
pub use limit::{SpeedLimit, limit};
pub use topology::{Topology, topology};
pub use verdict::{BenchVerdict, Grade, Peak, no_output};

use crate::check::nccl::NcclVerdict;
use crate::data_files::line_of;
use crate::observe::bench::{Collective, Rails, Run};

/// Line rate begins at this part of the expected bandwidth. NCCL's developers call 46 to 49 GB/s good
/// for a 400 Gb/s rail, 92 % and more, and 24 for a 200 Gb/s one (NVIDIA/nccl-tests issues 252, 267,
/// 290); 80 % leaves room for EFA, encapsulation and a busy fabric. Heuristic.
pub const LINE_RATE: f64 = 0.8;

/// Smallest message size that counts as large, in bytes. Below it latency and other protocols (LL,
/// LL128) matter; bandwidth is flat from 64 MiB to some GiB on, depending on the ranks. Heuristic.
pub const LARGE: u64 = 64 << 20;

/// Bandwidth falls with size if a larger message stays below this part of the best. Steps of a fifth
/// are usual between the algorithms that NCCL selects by size (Tree, NVLSTree, Ring). Heuristic.
pub const FALL: f64 = 0.7;

/// Above this multiple of what is possible, the rails given are not those of the nodes.
pub const TOLERANCE: f64 = 1.05;

/// What to do, by reason code: `REASON: TEXT`.
const REMEDIES: &str = include_str!("remedies.txt");

fn remedy(reason: &str) -> Option<&'static str> {
    line_of(REMEDIES, reason)
}

/// Judges a run. `nccl` is the verdict on NCCL's log in the same input, if there are lines of NCCL's;
/// `name` is the benchmark that the user names, for output that names none.
pub fn judge(
    run: &Run,
    rails: Option<&Rails>,
    nccl: Option<&NcclVerdict>,
    facts: &LogFacts,
    name: Option<Collective>,
) -> BenchVerdict {
    let collective = run.collective.or(name);
    let topology = topology(run, nccl);
    let tcp = nccl.filter(|nccl| nccl.proves_tcp());
    let doubted = topology.as_ref().filter(|_| tcp.is_none());
    let unclear = doubted.and_then(|topology| topology.unclear(run, nccl, collective));
    let is_spread = |of: &&Topology| of.nodes.len() > 1 && unclear.is_none();
    let spread = topology.as_ref().filter(is_spread);
    let limit = spread.and_then(|topology| limit(collective?, topology, rails?));
    let is_known = |of: &&Topology| !of.holes || unclear.is_none();
    let known = topology.as_ref().filter(is_known);
    let case = decide::Case {
        run,
        rails,
        nccl,
        tcp,
        facts,
        measured: verdict::measured(run, collective, known, limit),
        topology: topology.as_ref(),
        unclear,
        limit,
    };
    case.judge()
}

#[cfg(test)]
mod tests;
