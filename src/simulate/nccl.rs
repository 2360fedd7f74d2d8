//! What NCCL prints about a job, from `data/nccl.toml`: the ranks of a gang on one node.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    prefix: String,
    bootstrap: Vec<String>,
    start: Vec<String>,
    end: Vec<String>,
    comm: String,
    networks: BTreeMap<String, Network>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    lines: Vec<String>,
    via: String,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| super::embedded(include_str!("data/nccl.toml")));

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
    /// Key of the network in `data/nccl.toml`.
    pub(super) network: String,
    /// Initialisation never ends: another node of the gang does not start.
    #[serde(default)]
    pub(super) hangs: bool,
}

impl Gang {
    /// What the processes of a pod print, by seconds since they began. `index` is the node's place in
    /// the gang.
    pub(super) fn output(&self, job: &str, pod: &str, index: u32) -> Vec<(f64, Vec<String>)> {
        let rank_lines = |lines: &dyn Fn(u32) -> Vec<String>| -> Vec<String> {
            let ranks = 0..self.ranks;
            ranks
                .flat_map(|rank| {
                    let lines = lines(rank).into_iter();
                    let lines = lines.map(|line| TEXTS.prefix.clone() + &line);
                    lines.map(move |line| self.fill(&line, job, pod, index, rank))
                })
                .collect()
        };
        let network = TEXTS.networks.get(&self.network);
        let bootstrap = |_| {
            let lines = network.into_iter().flat_map(|network| &network.lines);
            TEXTS.bootstrap.iter().chain(lines).cloned().collect()
        };
        let mut output = vec![
            (0.0, rank_lines(&bootstrap)),
            (0.6, rank_lines(&|_| TEXTS.start.clone())),
        ];
        if !self.hangs {
            let via = network.map_or("", |network| network.via.as_str());
            output.push((1.5, rank_lines(&|rank| self.channels(via, index, rank))));
            output.push((2.3, rank_lines(&|_| TEXTS.end.clone())));
        }
        output
    }

    fn fill(&self, line: &str, job: &str, pod: &str, index: u32, rank: u32) -> String {
        let id = job.bytes().fold(0x5eed_u64, |sum, byte| {
            sum.wrapping_mul(131) + u64::from(byte)
        });
        let seconds = 1.9 + f64::from(rank) * 0.03 + f64::from(self.nodes) * 0.2;
        let mut line = line.replace("{comm}", &TEXTS.comm);
        for (key, value) in [
            ("{pod}", pod.to_string()),
            ("{pid}", (112 + rank).to_string()),
            ("{thread}", (340 + rank * 3).to_string()),
            ("{rank}", rank.to_string()),
            ("{ranks}", self.ranks.to_string()),
            ("{global}", (index * self.ranks + rank).to_string()),
            ("{total}", (self.nodes * self.ranks).to_string()),
            ("{nodes}", self.nodes.to_string()),
            ("{address}", format!("10.0.1.{}", 10 + index)),
            ("{version}", self.version.clone()),
            ("{pointer}", format!("0x55d0{rank:x}a40")),
            ("{bus}", format!("{:x}", 0x1b + rank * 0x10)),
            ("{id}", format!("{id:x}")),
            ("{seconds}", format!("{seconds:.2}")),
        ] {
            line = line.replace(key, &value);
        }
        line
    }

    /// One ring for each rank, each of which leaves the node next to another GPU.
    fn channels(&self, via: &str, index: u32, rank: u32) -> Vec<String> {
        let base = index * self.ranks;
        let other = |step: u32| (index + step) % self.nodes * self.ranks;
        let mut lines = Vec::new();
        for ring in 0..self.ranks {
            let (first, last) = (ring, (ring + self.ranks - 1) % self.ranks);
            let via = via.replace("{ring}", &ring.to_string());
            // Node's first rank and number on the node, of both ends.
            let mut channel = |from: (u32, u32), to: (u32, u32), how: &str| {
                let (a, b) = (from.0 + from.1, to.0 + to.1);
                let ends = format!("{a}[{}] -> {b}[{}]", from.1, to.1);
                lines.push(format!("Channel {ring:02}/0 : {ends} {how}"));
            };
            if rank == first {
                let before = other(self.nodes - 1);
                let how = format!("[receive] via {via}");
                channel((before, last), (base, first), &how);
            }
            if rank == last {
                let how = format!("[send] via {via}");
                channel((base, last), (other(1), first), &how);
            } else {
                let next = (base, (rank + 1) % self.ranks);
                channel((base, rank), next, "via P2P/CUMEM/read");
            }
        }
        lines
    }
}
