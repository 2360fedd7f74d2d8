//! What a benchmark's numbers say of the rails: line rate, some part of it, or what TCP gives.
//!
//! The rule, in this order. Wrong results fail whatever the speed. A run inside one node says
//! nothing of rails. What NCCL's log proves to be TCP is TCP's number. Everything else is the best
//! bus bandwidth of large sizes against what the node's rails can carry ([`limit`]); without a log a
//! very small part of it looks like TCP, and is said to *look* like it.

mod causes;
mod decide;
mod limit;
mod named;
mod ranks;
mod shape;
mod tell;
mod verdict;

pub use limit::{Limit, limit};
pub use shape::{Shape, shape};
pub use verdict::{BenchVerdict, LogFacts, Peak, Verdict, judge, nothing};

/// From this part of the expected bandwidth on a run is at line rate. What NCCL's makers name as
/// good is 46 to 49 GB/s of a 400 Gb/s rail, 92 % and more, and 24 of a 200 Gb/s one (NVIDIA/nccl-tests
/// issues 252, 267, 290); 80 % leaves room for EFA, for encapsulation and for a busy fabric.
/// Heuristic.
pub const LINE_RATE: f64 = 0.8;

/// Below this part, and without a log, a number may be TCP's. Heuristic: of eight rails one alone is
/// 12.5 %, and that has a name of its own.
pub const TCP_BELOW: f64 = 0.2;

/// … if it is also no more than this, in bytes a second: 200 Gb/s, the widest front-end network of
/// the known shapes (10 to 25 Gb/s is usual). Over it, TCP would have to spread over several NICs.
/// Heuristic.
pub const TCP_AT_MOST: f64 = 25e9;

/// Sizes from here on are large, in bytes: below it latency counts, and protocols (LL, LL128) and
/// algorithms are others. Bandwidth is flat from 64 MiB to some GiB on, depending on ranks.
/// Heuristic.
pub const LARGE: u64 = 64 << 20;

/// A larger size below this part of the best number is a fall, if it is also below line rate. Between
/// algorithms that NCCL takes by size (Tree, NVLSTree, Ring) a step of a fifth is usual. Heuristic.
pub const FALL: f64 = 0.7;

/// A number this much over what is possible is measured against the wrong rails.
pub const TOLERANCE: f64 = 1.05;

#[cfg(test)]
mod doubt_tests;
#[cfg(test)]
mod named_tests;
#[cfg(test)]
mod tests;
