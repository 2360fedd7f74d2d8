//! The verdict on one log, as JSON shows it.

use super::causes;
use super::job::{Hang, complete};
use super::network::{Fallback, Network, Used};
use super::span::Job;
use crate::observe::nccl::log::{DeviceErrors, EvidenceKind};
use crate::observe::nccl::process::Process;
use crate::observe::nccl::{EvidenceLine, Failure, NcclLog, Net, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most lines of evidence in a verdict.
const MAX_EVIDENCE: usize = 12;

/// The verdict on one log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NcclVerdict {
    /// NCCL's version, such as `2.21.5`.
    pub nccl_version: Option<String>,
    /// What carries data between nodes.
    pub network: Network,
    /// Number of connections in the log, by transport.
    pub channels: BTreeMap<String, u64>,
    /// Whether any connection uses GPUDirect RDMA. `None` if the log does not show it.
    pub gdrdma: Option<bool>,
    /// Whether the job spans nodes.
    pub multi_node: Option<bool>,
    /// Whether NCCL's init completed.
    pub init_complete: Option<bool>,
    /// Whether TCP carries what RDMA should.
    pub tcp_fallback: Fallback,
    /// Causes, the likeliest first.
    pub causes: Vec<Failure>,
    /// Lines that the verdict rests on.
    pub evidence: Vec<EvidenceLine>,
    /// One sentence for people.
    pub summary: String,
    /// What to do, one text for each of the first causes.
    pub remedies: Vec<String>,
    /// Number of ranks of the widest communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nranks: Option<u32>,
    /// Number of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Duration of the longest init in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_seconds: Option<f64>,
    /// Start of an init that takes too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_hangs_since: Option<jiff::Timestamp>,
    /// Errors of RDMA operations by device: its name, or its GID where the log has no name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_errors: BTreeMap<String, DeviceErrors>,
    /// Number of warnings by cause.
    #[serde(default)]
    pub warnings: BTreeMap<Failure, u64>,
    /// Number of lines of NCCL's.
    #[serde(default)]
    pub nccl_lines: u64,
    /// NCCL lines that no parser rule recognised.
    #[serde(default)]
    pub unknown_lines: u64,
}

impl NcclVerdict {
    /// Bytes of memory that it holds, roughly.
    pub fn held(&self) -> usize {
        let errors = self.device_errors.values().map(|errors| &errors.first);
        let texts = self.evidence.iter().map(|line| &line.text);
        let texts = texts.chain(&self.remedies).chain(errors);
        let texts: usize = texts.map(|text| text.capacity() + 64).sum();
        let numbers = 64 * (self.channels.len() + self.warnings.len() + self.causes.len());
        size_of::<Self>() + texts + numbers + self.summary.capacity()
    }

    /// Whether the log proves that TCP carries data between nodes.
    pub fn proves_tcp(&self) -> bool {
        matches!(self.tcp_fallback, Fallback::Yes | Fallback::Configured)
            || self.network == Network::Socket
    }
}

pub(super) fn verdict(job: &Job<'_>, used: Used, hang: Option<Hang>) -> NcclVerdict {
    let (log, (network, fallback)) = (job.log, used);
    let widest = log.groups.iter().max_by_key(|(key, _)| key.nranks);
    let mut verdict = NcclVerdict {
        nccl_version: log.version.clone(),
        network,
        channels: channels(log),
        gdrdma: gdrdma(log, network),
        // Less than proof is shown only where the verdict rests on it.
        multi_node: (job.multi)
            .filter(|_| job.firm || matches!(fallback, Fallback::Yes | Fallback::No)),
        init_complete: complete(log),
        tcp_fallback: fallback,
        evidence: Vec::new(),
        summary: String::new(),
        remedies: Vec::new(),
        causes: Vec::new(),
        nranks: widest.map(|(key, _)| key.nranks),
        nodes: widest.and_then(|(_, group)| group.nodes),
        init_seconds: log.init_seconds,
        init_hangs_since: hang.map(|hang| hang.since),
        device_errors: log.device_errors.clone(),
        warnings: log.failures.clone(),
        nccl_lines: log.records,
        unknown_lines: log.unknown,
    };
    verdict.causes = causes::causes(job, &verdict);
    verdict.evidence = evidence(log, &verdict);
    verdict.summary = summary(log, &verdict, hang);
    verdict.remedies = remedies(log, &verdict);
    verdict
}

/// Every transport with its name in JSON and metrics.
const NAMES: [(Transport, &str); 12] = [
    (Transport::Net(Net::Ib), "net_ib"),
    (Transport::Net(Net::Socket), "net_socket"),
    (Transport::Net(Net::Ofi), "net_ofi"),
    (Transport::Net(Net::FasTrak), "net_fastrak"),
    (Transport::Net(Net::Tcpx), "net_tcpx"),
    (Transport::Net(Net::Ucx), "net_ucx"),
    (Transport::Net(Net::FastSocket), "net_fastsocket"),
    (Transport::Net(Net::Other), "net_other"),
    (Transport::P2p, "p2p"),
    (Transport::Mnnvl, "mnnvl"),
    (Transport::Shm, "shm"),
    (Transport::CollNet, "collnet"),
];

/// Whether a text is the name of a transport in JSON and metrics.
pub fn is_transport(name: &str) -> bool {
    NAMES.iter().any(|(_, known)| *known == name)
}

/// Connections by transport; the usual transports are present even without any.
fn channels(log: &NcclLog) -> BTreeMap<String, u64> {
    let usual = ["net_ib", "net_socket", "net_ofi", "p2p", "shm"];
    let counts = NAMES.iter().filter_map(|(transport, name)| {
        let count = log.channels.over.get(transport).copied();
        let count = count.or(usual.contains(name).then_some(0))?;
        Some(((*name).to_string(), count))
    });
    counts.collect()
}

/// Whether GPUDirect RDMA is used, by the connections. Ring lines and lines about single NICs only prove
/// that it is off.
fn gdrdma(log: &NcclLog, network: Network) -> Option<bool> {
    let nets = log.nets();
    if !nets.is_empty() {
        return Some(nets.iter().any(|(_, gdr)| *gdr));
    }
    // For TCP it is always off and means nothing.
    if matches!(network, Network::Socket | Network::None) {
        return None;
    }
    // Rings inside a node print `GDR 1`, too: only a connection over the net without it clears that.
    let rings = || log.live().any(|process| process.rings_lack_gdr);
    let off = log.gdr_off > 0 && log.gdr_on == 0;
    (rings() || off).then_some(false)
}

fn evidence(log: &NcclLog, verdict: &NcclVerdict) -> Vec<EvidenceLine> {
    // Proof first, then what explains it, then the rest.
    let weight = |kind: &EvidenceKind| match kind {
        EvidenceKind::Over(Transport::Net(_), _) => 0,
        EvidenceKind::Choice(_) => 1,
        EvidenceKind::Span => 2,
        EvidenceKind::Failure(failure) if verdict.causes.contains(failure) => 3,
        EvidenceKind::Env(_) | EvidenceKind::Plugin(_) | EvidenceKind::Devices => 4,
        EvidenceKind::Gdr(_) => 5,
        EvidenceKind::Complete => 6,
        EvidenceKind::Over(..) => 7,
        EvidenceKind::Failure(_) => 8,
    };
    let mut lines: Vec<_> = log.evidence.iter().collect();
    // The choice of a network explains nothing about a job inside one node.
    if verdict.network == Network::None {
        lines.retain(|(kind, _)| weight(kind) != 1);
    }
    lines.sort_by_key(|(kind, line)| (weight(kind), line.line));
    lines.truncate(MAX_EVIDENCE);
    let mut lines: Vec<EvidenceLine> = lines.into_iter().map(|(_, line)| line.clone()).collect();
    lines.sort_by_key(|line| line.line);
    lines.dedup();
    lines
}

fn summary(log: &NcclLog, verdict: &NcclVerdict, hang: Option<Hang>) -> String {
    if !log.is_nccl() && log.test_ranks.is_empty() && log.failures.is_empty() {
        return "no NCCL lines found; NCCL logs with NCCL_DEBUG=INFO".into();
    }
    let by_libfabric = "libfabric moves data between nodes by TCP, and nothing asks for that";
    let silent = "data between nodes goes by TCP, and nothing asks for that: a silent fallback";
    let by_nvlink = "TCP is chosen; NVLink between nodes may carry the data instead";
    let within = "TCP is chosen, which is normal within a node; the log does not show whether the job spans nodes";
    let mixed = "the log shows TCP and another network, and not which one serves the job";
    let is_wide = verdict.multi_node == Some(true);
    let what = match (verdict.tcp_fallback, verdict.network) {
        (Fallback::Yes, Network::Ofi) => by_libfabric,
        (Fallback::Yes, _) => silent,
        (Fallback::Configured, _) => "TCP between nodes, as a setting asks",
        (Fallback::Unknown, Network::Socket) if is_wide => by_nvlink,
        (Fallback::Unknown, Network::Socket) => within,
        (Fallback::Unknown, _) if both(log) => mixed,
        (Fallback::Unknown, _) => "the log does not show which network is used",
        (Fallback::No, Network::None) => "the job stays in one node: no network is needed",
        (Fallback::No, Network::Unknown) => "a network other than TCP is used",
        (Fallback::No, network) => &format!("{} is used", network.title()),
    };
    let gdr = match (verdict.network, verdict.gdrdma) {
        (Network::Socket | Network::None | Network::Unknown, _) | (_, None) => "",
        (_, Some(true)) => ", with GPUDirect RDMA",
        (_, Some(false)) => ", without GPUDirect RDMA",
    };
    let hang = hang.map_or(String::new(), |hang| {
        let (ranks, waiting, step) = (hang.nranks, hang.waiting, hang.stage.as_str());
        format!(
            "; init of {ranks} ranks does not end, {waiting} wait here; last step in the log: {step}"
        )
    });
    let devices: Vec<&str> = verdict.device_errors.keys().map(String::as_str).collect();
    let errors = match devices.as_slice() {
        [] => String::new(),
        devices => format!("; RDMA errors on {}", devices.join(", ")),
    };
    format!("{what}{gdr}{hang}{errors}")
}

/// Whether there are connections over TCP and over another net, or processes that chose so.
fn both(log: &NcclLog) -> bool {
    let connected = log.nets().into_iter().map(|(net, _)| net);
    let nets: Vec<Net> = (connected.chain(log.live().filter_map(Process::net))).collect();
    let any = |tcp| nets.iter().any(|net| net.is_tcp() == tcp);
    any(true) && any(false)
}

fn remedies(log: &NcclLog, verdict: &NcclVerdict) -> Vec<String> {
    let specific = |cause: &&Failure| !matches!(cause, Failure::Other | Failure::Secondary);
    let causes = verdict.causes.iter().filter(specific).take(4);
    let remedy = |cause: &Failure| match (cause, causes::gdr_setting(log)) {
        (Failure::GdrDisabled, Some((name, value))) => {
            let rest = causes::remedy(*cause);
            format!("{name}={value} can turn GPUDirect RDMA off: unset it first. {rest}")
        }
        _ => causes::remedy(*cause).into(),
    };
    causes.map(remedy).collect()
}
