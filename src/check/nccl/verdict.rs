//! What is told of one log.

use super::job::{self, Hang};
use super::network::{Network, Used};
use super::span::Span;
use super::{JobContext, causes};
use crate::observe::nccl::event::Transport;
use crate::observe::nccl::log::Shows;
use crate::observe::nccl::{NcclLog, Net, Trouble};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lines of evidence, at most.
const MAX_EVIDENCE: usize = 12;

/// Whether TCP carries what RDMA should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// TCP carries data between nodes and nothing in view asks for it.
    Yes,
    /// It does not.
    No,
    /// It does, or would, and a setting asks for it.
    Configured,
    /// The lines do not tell.
    Unknown,
}

impl Fallback {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Fallback::Yes => "yes",
            Fallback::No => "no",
            Fallback::Configured => "configured",
            Fallback::Unknown => "unknown",
        }
    }
}

/// A line that the verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceLine {
    /// Its number in the log, from 1.
    pub line: u64,
    /// What it says, from NCCL's message on; cut.
    pub text: String,
}

/// The verdict on one log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NcclVerdict {
    /// NCCL's version.
    pub nccl_version: Option<String>,
    /// What data between nodes goes over.
    pub network: Network,
    /// Connections in view, by transport.
    pub channels: BTreeMap<String, u64>,
    /// GPUDirect RDMA is used: by some connection, by none; none: not shown.
    pub gdrdma: Option<bool>,
    /// The job spans nodes.
    pub multi_node: Option<bool>,
    /// Init came to its end.
    pub init_complete: Option<bool>,
    /// Whether TCP is a fallback.
    pub tcp_fallback: Fallback,
    /// What led to it, the likeliest first.
    pub causes: Vec<Trouble>,
    /// Lines that it rests on.
    pub evidence: Vec<EvidenceLine>,
    /// One sentence.
    pub summary: String,
    /// What to do, a sentence for each cause that matters.
    pub remedies: Vec<String>,
    /// Ranks of the widest communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nranks: Option<u32>,
    /// Its nodes, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The longest init, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_seconds: Option<f64>,
    /// Init does not end: since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_hangs_since: Option<jiff::Timestamp>,
    /// Warnings by cause.
    #[serde(default)]
    pub warnings: BTreeMap<Trouble, u64>,
    /// Lines of NCCL's.
    #[serde(default)]
    pub nccl_lines: u64,
    /// … that are not in selvage's grammar.
    #[serde(default)]
    pub unknown_lines: u64,
}

impl NcclVerdict {
    /// Whether the log proves that TCP carries data between nodes.
    pub fn proves_tcp(&self) -> bool {
        matches!(self.tcp_fallback, Fallback::Yes | Fallback::Configured)
            || self.network == Network::Socket
    }
}

pub(super) fn verdict(
    log: &NcclLog,
    beside: &JobContext<'_>,
    span: &Span,
    used: Used,
    hang: Option<Hang>,
) -> NcclVerdict {
    let gdrdma = gdrdma(log, used.network);
    let causes = causes::causes(log, beside, span, used.fallback, gdrdma, hang.is_some());
    let widest = log.groups.iter().max_by_key(|(key, _)| key.nranks);
    let mut verdict = NcclVerdict {
        nccl_version: log.version.clone(),
        network: used.network,
        channels: channels(log),
        gdrdma,
        multi_node: multi_node(span, used),
        init_complete: job::complete(log),
        tcp_fallback: used.fallback,
        evidence: evidence(log, used, &causes),
        summary: String::new(),
        remedies: Vec::new(),
        causes,
        nranks: widest.map(|(key, _)| key.nranks),
        nodes: widest.and_then(|(_, group)| group.nodes),
        init_seconds: log.init_seconds,
        init_hangs_since: hang.map(|hang| hang.since),
        warnings: log
            .troubles
            .iter()
            .map(|(trouble, count)| (*trouble, *count))
            .collect(),
        nccl_lines: log.records,
        unknown_lines: log.unknown,
    };
    verdict.summary = summary(log, &verdict, hang);
    verdict.remedies = remedies(&verdict);
    verdict
}

/// That the interface is loopback says little where sockets were asked for.
fn multi_node(span: &Span, used: Used) -> Option<bool> {
    span.multi
        .filter(|_| span.firm || used.fallback != Fallback::Configured)
}

fn channels(log: &NcclLog) -> BTreeMap<String, u64> {
    let mut channels: BTreeMap<String, u64> = ["net_ib", "net_socket", "net_ofi", "p2p", "shm"]
        .iter()
        .map(|name| ((*name).to_string(), 0))
        .collect();
    for (over, count) in &log.whole.over {
        *channels.entry(transport(*over).to_string()).or_default() += count;
    }
    channels
}

/// Names of all transports in JSON and metrics.
pub const TRANSPORTS: [&str; 12] = [
    "net_ib",
    "net_socket",
    "net_ofi",
    "net_fastrak",
    "net_tcpx",
    "net_ucx",
    "net_fastsocket",
    "net_other",
    "p2p",
    "mnnvl",
    "shm",
    "collnet",
];

/// A transport's name in JSON and metrics.
fn transport(over: Transport) -> &'static str {
    match over {
        Transport::Net(Net::Ib) => "net_ib",
        Transport::Net(Net::Socket) => "net_socket",
        Transport::Net(Net::Ofi) => "net_ofi",
        Transport::Net(Net::FasTrak) => "net_fastrak",
        Transport::Net(Net::Tcpx) => "net_tcpx",
        Transport::Net(Net::Ucx) => "net_ucx",
        Transport::Net(Net::FastSocket) => "net_fastsocket",
        Transport::Net(Net::Other) => "net_other",
        Transport::P2p => "p2p",
        Transport::Mnnvl => "mnnvl",
        Transport::Shm => "shm",
        Transport::CollNet => "collnet",
    }
}

/// Connections prove it; then the ring line; words about single NICs tell only what is off.
fn gdrdma(log: &NcclLog, network: Network) -> Option<bool> {
    if log.whole.gdr > 0 {
        return Some(true);
    }
    if log.whole.nets().next().is_some() {
        return Some(false);
    }
    // Of TCP it is always off and means nothing.
    if matches!(network, Network::Socket | Network::None) {
        return None;
    }
    // Each process by its last word; one that uses it is enough.
    let said = log
        .processes
        .values()
        .filter_map(|process| process.rings_gdr);
    said.max()
        .or((log.gdr_off > 0 && log.gdr_on == 0).then_some(false))
}

fn evidence(log: &NcclLog, used: Used, causes: &[Trouble]) -> Vec<EvidenceLine> {
    // The proof first, then what explains it, then the rest.
    let weight = |shows: &Shows| match shows {
        Shows::Over(Transport::Net(_), _) => 0,
        Shows::Choice(_) => 1,
        Shows::Span => 2,
        Shows::Trouble(trouble) if causes.contains(trouble) => 3,
        Shows::Env(_) | Shows::Plugin(_) | Shows::Devices => 4,
        Shows::Gdr(_) => 5,
        Shows::Complete => 6,
        Shows::Over(..) => 7,
        Shows::Trouble(_) => 8,
    };
    let mut lines: Vec<_> = log.evidence().iter().collect();
    // What no fallback is about explains nothing of a job inside one node.
    if used.network == Network::None {
        lines.retain(|(shows, _)| weight(shows) != 1);
    }
    lines.sort_by_key(|(shows, line)| (weight(shows), line.number));
    lines.truncate(MAX_EVIDENCE);
    let mut lines: Vec<EvidenceLine> = lines
        .into_iter()
        .map(|(_, line)| EvidenceLine {
            line: line.number,
            text: line.text.clone(),
        })
        .collect();
    lines.sort_by_key(|line| line.line);
    lines.dedup();
    lines
}

fn summary(log: &NcclLog, verdict: &NcclVerdict, hang: Option<Hang>) -> String {
    if !log.is_nccl() && log.test_ranks.is_empty() && log.troubles.is_empty() {
        return "no line of NCCL's; it logs with NCCL_DEBUG=INFO".into();
    }
    let what = match (verdict.tcp_fallback, verdict.network) {
        (Fallback::Yes, Network::Ofi) => {
            "libfabric moves data between nodes by TCP, and nothing asks for that".to_string()
        }
        (Fallback::Yes, _) => {
            "data between nodes goes by TCP, and nothing asks for that: a silent fallback".into()
        }
        (Fallback::Configured, _) => "TCP between nodes, as a setting asks".into(),
        (Fallback::Unknown, Network::Socket) => {
            "TCP is chosen, which is normal within a node; whether the job spans nodes is not in view".into()
        }
        (Fallback::Unknown, _) if both(log) => {
            "TCP and another network are both in view, and the lines do not tell which serves the job".into()
        }
        (Fallback::Unknown, _) => "the lines do not tell which network is used".into(),
        (Fallback::No, Network::None) => "the job stays in one node: no network is needed".into(),
        (Fallback::No, Network::Unknown) => "a network other than TCP is used".into(),
        (Fallback::No, network) => format!("{} is used", name(network)),
    };
    let gdr = match (verdict.network, verdict.gdrdma) {
        (Network::Socket | Network::None | Network::Unknown, _) | (_, None) => "",
        (_, Some(true)) => ", with GPUDirect RDMA",
        (_, Some(false)) => ", without GPUDirect RDMA",
    };
    let hang = hang.map_or(String::new(), |hang| {
        format!(
            "; init of {} ranks does not end, {} wait here; the last step told of: {}",
            hang.nranks,
            hang.waiting,
            hang.stage.as_str()
        )
    });
    format!("{what}{gdr}{hang}")
}

/// Connections over TCP, and over something else.
fn both(log: &NcclLog) -> bool {
    let tcp = |net: Net| matches!(net, Net::Socket | Net::FastSocket);
    log.whole.nets().any(|(net, _)| tcp(net)) && log.whole.nets().any(|(net, _)| !tcp(net))
}

fn name(network: Network) -> &'static str {
    match network {
        Network::Ib => "InfiniBand",
        Network::Roce => "RoCE",
        Network::IbOrRoce => "RDMA (InfiniBand or RoCE)",
        Network::Ofi => "libfabric",
        Network::Fastrak => "GPUDirect-TCPXO",
        Network::Tcpx => "GPUDirect-TCPX",
        Network::Ucx => "UCX",
        Network::Socket => "TCP",
        Network::None => "no network",
        Network::Unknown => "an unknown network",
    }
}

fn remedies(verdict: &NcclVerdict) -> Vec<String> {
    verdict
        .causes
        .iter()
        .filter(|cause| !matches!(cause, Trouble::Other | Trouble::Secondary))
        .take(4)
        .map(|cause| {
            let (meaning, action) = causes::remedy(*cause);
            format!("{meaning}. {action}.")
        })
        .collect()
}
