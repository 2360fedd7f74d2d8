//! What NCCL prints about a job: the ranks of a gang on one node.

use askama::Template;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One node's part of a gang.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gang {
    /// NCCL version that the log prints.
    pub(super) version: String,
    /// Ranks on each node, at least one.
    pub(super) ranks: u32,
    /// Number of nodes, at least one.
    pub(super) nodes: u32,
    /// The network, as `templates/nccl.txt` calls it.
    pub(super) network: String,
    /// Initialisation never ends: another node of the gang does not start.
    #[serde(default)]
    pub(super) hangs: bool,
}

/// What one rank prints.
#[derive(Template)]
#[template(path = "nccl.txt", whitespace = "preserve")]
struct RankLog<'a> {
    gang: &'a Gang,
    job: &'a str,
    /// The node's place in the gang.
    index: u32,
    rank: u32,
}

impl Gang {
    /// What the processes of a pod print, by seconds since they began. `index` is the node's place in
    /// the gang.
    pub(super) fn output(&self, job: &str, pod: &str, index: u32) -> Vec<(f64, Vec<String>)> {
        let mut output: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for rank in 0..self.ranks {
            let (gang, process, thread) = (self, 112 + rank, 340 + rank * 3);
            let log = RankLog {
                gang,
                job,
                index,
                rank,
            };
            let log = log.render().unwrap_or_default();
            for (seconds, line) in log.lines().filter_map(|line| line.split_once(' ')) {
                let line = format!("{pod}:{process}:{thread} [{rank}] NCCL INFO {line}");
                output.entry(seconds.to_string()).or_default().push(line);
            }
        }
        let timed = output.into_iter();
        let timed = timed.filter_map(|(seconds, lines)| Some((seconds.parse().ok()?, lines)));
        timed.collect()
    }
}

impl RankLog<'_> {
    /// The first rank of the node that is so many behind this one.
    fn base(&self, behind: u32) -> u32 {
        (self.index + behind) % self.gang.nodes * self.gang.ranks
    }

    fn global(&self) -> u32 {
        self.base(0) + self.rank
    }

    fn id(&self) -> u64 {
        self.job.bytes().fold(0x5eed, |sum: u64, byte| {
            sum.wrapping_mul(131) + u64::from(byte)
        })
    }

    fn seconds(&self) -> f64 {
        1.9 + f64::from(self.rank) * 0.03 + f64::from(self.gang.nodes) * 0.2
    }
}
