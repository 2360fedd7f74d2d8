//! Views of a report that several outputs share: ports with all their facts, wall times, GPU and
//! module facts, sources. No formatting, no judging.

use super::Report;
pub use crate::check::PortView;
use crate::check::{Status, Weight};
use crate::observe::{Gid, GidKind, GpuDirectFacts, LinkLayer, Module, SourceHealth};
use crate::units::{Millis, span_text};
use std::collections::{BTreeMap, BTreeSet};

/// Module of GPUDirect Storage.
pub const GDS_MODULE: &str = "nvidia_fs";

/// Ports of the devices that exist now, in the order of their names, numbers compared as numbers.
/// State and counters of a device that is gone are left out, and so is a second device of the same
/// name (another network namespace's), since labels could not tell them apart.
pub fn ports(report: &Report) -> Vec<PortView<'_>> {
    let snapshot = &report.snapshot;
    let mut shown = BTreeSet::new();
    let all = PortView::all(snapshot, &report.roles, (snapshot.at, report.stale_after));
    let mut ports: Vec<PortView<'_>> = all
        .filter(|port| shown.insert((port.device.name.as_str(), port.port.number)))
        .collect();
    ports.sort_by_cached_key(|port| (natural(&port.device.name), port.port.number));
    ports
}

/// Sort key in which `mlx5_2` comes before `mlx5_10`: numbers have leading zeros.
pub fn natural(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let runs = chars.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let padded = runs.map(|run| match run.iter().collect::<String>() {
        number if number.starts_with(|c: char| c.is_ascii_digit()) => format!("{number:0>20}"),
        word => word,
    });
    padded.collect()
}

/// The status of a finding, for labels and people: an alert on `failing` must not fire for what does
/// not move the verdict.
pub fn status(weight: Weight, status: Status) -> &'static str {
    match (weight, status) {
        (Weight::Notice, _) => "notice",
        (_, Status::Unknown) => "unknown",
        (_, Status::Degraded) => "degraded",
        (_, Status::Failing) => "failing",
    }
}

/// GIDs of RoCE v2, which are what `NCCL_IB_GID_INDEX` can name on Ethernet; none until the table
/// was read.
pub fn roce_v2_gids<'a>(report: &'a Report, port: &PortView<'_>) -> Option<Vec<&'a Gid>> {
    if port.port.link_layer != LinkLayer::Ethernet {
        return None;
    }
    let gids = report.snapshot.gids.get(&port.key)?.value.gids.iter();
    let routable = gids.filter(|gid| gid.kind == Some(GidKind::RoceV2));
    Some(routable.collect())
}

/// Wall time of a moment on the monotonic clock; none where the snapshot has no wall time.
pub fn wall_at(report: &Report, at: Millis) -> Option<jiff::Timestamp> {
    let millis = |at: Millis| i64::try_from(at.0).ok();
    let since = millis(at)? - millis(report.snapshot.at)?;
    let since = jiff::SignedDuration::from_millis(since);
    report.snapshot.wall?.checked_add(since).ok()
}

/// How long ago a moment was, in one unit.
pub fn ago(report: &Report, since: Millis) -> String {
    span_text(report.snapshot.at.since(since))
}

/// GPUDirect facts, once read.
pub fn gpudirect(report: &Report) -> Option<&GpuDirectFacts> {
    report.snapshot.gpudirect.as_ref().map(|facts| &facts.value)
}

/// Modules of interest that are loaded; none where the list could not be read.
pub fn modules(report: &Report) -> Option<&BTreeMap<String, Module>> {
    gpudirect(report)?.modules.value()
}

/// Whether the GPUDirect Storage module is in the kernel and running; none where it cannot be told.
pub fn gds_ready(report: &Report) -> Option<bool> {
    let modules = modules(report)?;
    Some(modules.get(GDS_MODULE).is_some_and(Module::is_live))
}

/// Number of GPUs: by PCI scan, else as the NVIDIA driver lists them; none where neither was read.
pub fn gpu_count(report: &Report) -> Option<usize> {
    let scanned = report.snapshot.pci.as_ref();
    let listed = || gpudirect(report).map(|facts| facts.gpus.len());
    scanned.map(|pci| pci.value.gpus.len()).or_else(listed)
}

/// The number of GPUs for people. Without the PCI scan, the driver's list shows only GPUs that are
/// there: an empty one proves nothing.
pub fn gpu_count_text(report: &Report) -> String {
    let count = gpu_count(report).filter(|count| *count > 0 || report.snapshot.pci.is_some());
    count.map_or("unknown".into(), |count| count.to_string())
}

/// Why there is no rail to show, by the number of ports and of rails.
pub fn fabric_note(report: &Report, ports: usize, rails: usize) -> Option<&'static str> {
    match (&report.snapshot.devices, ports, rails) {
        (None, ..) => Some("RDMA devices could not be listed."),
        (_, 0, _) => Some("No RDMA device on this node."),
        (_, _, 0) => Some("No port is a rail (compute fabric)."),
        _ => None,
    }
}

/// All subjects of one source folded into one answer.
#[derive(Debug, Clone, Default)]
pub struct FactSource<'a> {
    /// Number of subjects.
    pub subjects: usize,
    /// Subjects that this kernel does not have.
    pub absent: usize,
    /// Subjects with a read out beyond its deadline.
    pub stalled: usize,
    /// Other subjects whose last read did not end well.
    pub failing: usize,
    /// Duration of the last read in microseconds, of the slowest subject.
    pub micros: u64,
    /// The oldest of all subjects' last good reads.
    pub last_ok: Option<Millis>,
    /// Whether a subject was never read.
    pub never: bool,
    /// Why a subject fails.
    pub detail: Option<&'a str>,
}

impl FactSource<'_> {
    /// Whether this kernel lacks the source: it is then neither up nor down.
    pub fn is_absent(&self) -> bool {
        self.absent == self.subjects
    }

    /// Whether every subject's last read ended well and none is stalled.
    pub fn is_up(&self) -> bool {
        self.stalled + self.failing == 0
    }
}

/// Sources by name.
pub fn sources(report: &Report) -> BTreeMap<&str, FactSource<'_>> {
    let mut sources: BTreeMap<&str, FactSource<'_>> = BTreeMap::new();
    for health in report.snapshot.sources.values() {
        let source = sources.entry(&health.source).or_default();
        source.subjects += 1;
        if health.absent {
            source.absent += 1;
            continue;
        }
        let stalls = health.stalled_since.is_some();
        source.stalled += usize::from(stalls);
        source.failing += usize::from(!source_up(health) && !stalls);
        source.micros = source.micros.max(health.micros);
        source.never |= health.last_ok.is_none();
        source.last_ok = source.last_ok.into_iter().chain(health.last_ok).min();
        let detail = health.fault.as_ref().map(|fault| fault.detail.as_str());
        source.detail = source.detail.or(detail);
    }
    sources
}

/// Whether the last read of this subject ended well.
pub fn source_up(health: &SourceHealth) -> bool {
    health.last_ok.is_some() && health.fault.is_none() && health.stalled_since.is_none()
}

/// Name of a GDS state as in JSON and labels.
pub fn gds_name(ready: Option<bool>) -> &'static str {
    match ready {
        Some(true) => "ready",
        Some(false) => "absent",
        None => "unknown",
    }
}
