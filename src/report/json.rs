//! The report as JSON, `selvage.dev/report/v1`: `/report` and `selvage check -o json`. Fields are
//! added, never renamed.

mod events;
mod nccl;
mod platform;

use super::cluster::ClusterView;
use super::default_counters;
use super::port_view::{self, ReportedPort};
use super::{ClusterStatus, Report, State};
use crate::check::{Finding, Status, Weight};
use crate::observe::dot1x::Dot1xFacts;
use crate::observe::gpudirect::{MODULES_OF_INTEREST, NvidiaGpu};
use crate::observe::pci::PcieLink;
use crate::observe::rdma::{Function, GidKind};
use crate::observe::reading::{FaultKind, Reading};
use crate::readiness;
use crate::units::Millis;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the form.
pub const SCHEMA: &str = "selvage.dev/report/v1";

/// GIDs told a port: more only repeat addresses of the same network devices.
const MAX_GIDS: usize = 16;

/// The report as one JSON object, on one line.
pub fn encode(report: &Report, cluster: Option<&ClusterStatus>) -> String {
    serde_json::to_string(&Document::new(report, cluster)).unwrap_or_else(failed)
}

/// The same over several lines, for people.
pub fn encode_pretty(report: &Report) -> String {
    serde_json::to_string_pretty(&Document::new(report, None)).unwrap_or_else(failed)
}

fn failed(error: serde_json::Error) -> String {
    // Nothing in the document can fail to serialise; should it ever, say so in the form's own terms.
    tracing::error!(%error, "report could not be encoded");
    format!(r#"{{"schema":"{SCHEMA}","state":"unknown","reasons":["ReportNotEncoded"]}}"#)
}

/// The document that `/report` and `selvage check -o json` print.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    node: &'a str,
    time: Option<String>,
    boot_id: Option<&'a str>,
    state: State,
    reasons: &'a [String],
    since: Option<String>,
    generation: u64,
    full_window: bool,
    /// Reasons that no finding explains.
    notes: Vec<Note>,
    /// Checks that the policy leaves out.
    muted: &'a [String],
    platform: platform::Platform<'a>,
    ports: Vec<Port<'a>>,
    findings: Vec<FindingOut<'a>>,
    gpus: Option<usize>,
    gpudirect: GpuDirect<'a>,
    gds: Gds<'a>,
    modules: BTreeMap<&'static str, ModuleOut<'a>>,
    xid: Vec<Xid<'a>>,
    sources: Vec<Source<'a>>,
    nccl: nccl::Nccl<'a>,
    /// What changed of late, newest last.
    events: Vec<events::Event<'a>>,
    /// `None` where no Node is written.
    cluster: Option<ClusterView<'a>>,
}

#[derive(Debug, Serialize)]
struct Note {
    reason: &'static str,
    message: &'static str,
    remedy: &'static str,
}

#[derive(Debug, Serialize)]
struct Port<'a> {
    device: &'a str,
    port: u32,
    pci: Option<String>,
    driver: &'a str,
    netdev: Option<&'a str>,
    link_layer: &'static str,
    state: &'static str,
    phys_state: &'static str,
    rate_bits_per_second: Option<u64>,
    rail: bool,
    role_reason: Option<&'a str>,
    key: String,
    function: Function,
    firmware: Option<&'a str>,
    board_id: Option<&'a str>,
    numa_node: Option<u32>,
    pcie: Option<Pcie>,
    ethernet: Option<Netdev<'a>>,
    /// Only where a supplicant answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    dot1x: Option<&'a Dot1xFacts>,
    /// RoCE v2 slots; none on InfiniBand and where the table was not read.
    gids: Option<Vec<GidOut<'a>>>,
    link_transitions: u64,
    /// Error counters that are not zero: totals since reset, no verdict.
    counters: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Pcie {
    current: Option<PcieLink>,
    max: Option<PcieLink>,
}

#[derive(Debug, Serialize)]
struct Netdev<'a> {
    carrier: Option<bool>,
    operstate: Option<&'a str>,
    speed_bits_per_second: Option<u64>,
    mtu: Option<u32>,
    carrier_changes: Option<u64>,
    master: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct GidOut<'a> {
    index: u32,
    #[serde(rename = "type")]
    kind: Option<GidKind>,
    gid: &'a str,
    netdev: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct FindingOut<'a> {
    check: &'a str,
    subject: &'a str,
    status: Status,
    reason: &'a str,
    since: Option<String>,
    message: &'a str,
    remedy: &'a str,
    evidence: &'a BTreeMap<String, serde_json::Value>,
    weight: Weight,
    key: &'a str,
}

#[derive(Debug, Serialize)]
struct GpuDirect<'a> {
    path: &'static str,
    why: &'a [String],
    driver_version: Option<&'a str>,
    open_kernel_module: Option<bool>,
    kernel_release: Option<&'a str>,
    memory_peers: Option<&'a [String]>,
    iommu_active: Option<bool>,
    iommu_cmdline: &'a [String],
    ofed_version: Option<&'a str>,
    gpus: &'a [NvidiaGpu],
}

#[derive(Debug, Serialize)]
struct Gds<'a> {
    state: &'static str,
    version: Option<&'a str>,
    errors: BTreeMap<&'a str, u64>,
}

#[derive(Debug, Serialize)]
struct ModuleOut<'a> {
    loaded: bool,
    version: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Xid<'a> {
    pci: Option<&'a str>,
    xid: u32,
    class: &'a str,
    count: u64,
    first: Option<String>,
    last: Option<String>,
    message: &'a str,
    process: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Source<'a> {
    source: &'a str,
    subject: &'a str,
    up: bool,
    absent: bool,
    last_ok: Option<String>,
    duration_seconds: f64,
    stalled_since: Option<String>,
    fault: Option<FaultKind>,
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'a str>,
}

impl<'a> Document<'a> {
    /// Takes the report apart.
    pub fn new(report: &'a Report, cluster: Option<&'a ClusterStatus>) -> Self {
        let snapshot = &report.snapshot;
        Document {
            schema: SCHEMA,
            node: &report.node,
            time: snapshot.wall.map(|wall| wall.to_string()),
            boot_id: snapshot.boot_id.as_deref(),
            state: report.state,
            reasons: &report.reasons,
            since: time(report, report.since),
            generation: report.generation,
            full_window: report.full_window,
            notes: readiness::explained(&report.reasons)
                .map(|doc| Note {
                    reason: doc.reason,
                    message: doc.meaning,
                    remedy: doc.remedy,
                })
                .collect(),
            muted: &report.muted,
            platform: platform::Platform::of(report),
            ports: port_view::ports(report)
                .into_iter()
                .map(|view| port(report, &view))
                .collect(),
            findings: report
                .findings
                .iter()
                .map(|found| finding(report, found))
                .collect(),
            gpus: port_view::gpu_count(report),
            gpudirect: gpudirect(report),
            gds: gds(report),
            modules: modules(report),
            xid: report
                .xids
                .iter()
                .map(|seen| Xid {
                    pci: seen.pci.as_deref(),
                    xid: seen.xid,
                    class: &seen.class,
                    count: seen.count,
                    first: time(report, seen.first),
                    last: time(report, seen.last),
                    message: &seen.message,
                    process: seen.process.as_deref(),
                })
                .collect(),
            sources: sources(report),
            nccl: nccl::Nccl::of(report),
            events: events::of(report),
            cluster: cluster.map(|status| ClusterView::new(report, status)),
        }
    }
}

fn time(report: &Report, at: Millis) -> Option<String> {
    port_view::wall_at(report, at).map(|wall| wall.to_string())
}

fn read<T: Clone>(reading: &Reading<T>) -> Option<T> {
    reading.value().cloned()
}

fn port<'a>(report: &'a Report, view: &ReportedPort<'a>) -> Port<'a> {
    let device = view.device;
    let pcie = view.pci().and_then(|address| {
        let pci = report.snapshot.pci.as_ref()?;
        let function = pci.value.functions.get(&address)?;
        Some(Pcie {
            current: read(&function.current),
            max: read(&function.max),
        })
    });
    let edges = report.totals.link_edges.get(&view.key).copied();
    Port {
        device: &device.name,
        port: view.port.number,
        pci: view.pci(),
        driver: &device.driver,
        netdev: view.port.netdev.as_deref(),
        link_layer: port_view::link_layer(view.port.link_layer),
        state: port_view::state_name(view.state()),
        phys_state: port_view::phys_state_name(view.phys_state()),
        rate_bits_per_second: view.rate().map(|rate| rate.0),
        rail: view.is_rail(),
        role_reason: view.role.map(|role| role.why.as_str()),
        key: view.key.to_string(),
        function: device.function,
        firmware: device.firmware.as_deref(),
        board_id: device.board_id.as_deref(),
        numa_node: device.numa_node,
        pcie,
        ethernet: view.netdev.map(|netdev| Netdev {
            carrier: read(&netdev.carrier),
            operstate: netdev.operstate.as_deref(),
            speed_bits_per_second: read(&netdev.speed_mbps)
                .map(|mbps| mbps.saturating_mul(1_000_000)),
            mtu: netdev.mtu,
            carrier_changes: read(&netdev.carrier_changes),
            master: netdev.master.as_deref(),
        }),
        dot1x: view.dot1x,
        gids: port_view::roce_v2_gids(report, view).map(|gids| {
            gids.into_iter()
                .take(MAX_GIDS)
                .map(|gid| GidOut {
                    index: gid.index,
                    kind: gid.kind,
                    gid: &gid.gid,
                    netdev: gid.netdev.as_deref(),
                })
                .collect()
        }),
        link_transitions: edges.unwrap_or(0),
        counters: default_counters::nonzero_errors(view),
    }
}

fn finding<'a>(report: &Report, found: &'a Finding) -> FindingOut<'a> {
    FindingOut {
        check: &found.check,
        subject: &found.subject,
        status: found.status,
        reason: &found.reason,
        since: time(report, found.since),
        message: &found.message,
        remedy: &found.remedy,
        evidence: &found.evidence,
        weight: found.weight,
        key: &found.key,
    }
}

fn gpudirect(report: &Report) -> GpuDirect<'_> {
    let facts = port_view::gpudirect(report);
    let driver = facts.and_then(|facts| facts.driver.value());
    GpuDirect {
        path: port_view::path_name(report.gpudirect.path),
        why: &report.gpudirect.why,
        driver_version: driver.map(|driver| driver.version.as_str()),
        open_kernel_module: driver.and_then(|driver| driver.open),
        kernel_release: facts.and_then(|facts| facts.kernel_release.as_deref()),
        memory_peers: facts
            .and_then(|facts| facts.memory_peers.value())
            .map(Vec::as_slice),
        iommu_active: facts.and_then(|facts| read(&facts.iommu_active)),
        iommu_cmdline: facts.map_or(&[], |facts| &facts.iommu_cmdline),
        ofed_version: facts.and_then(|facts| facts.ofed_version.as_deref()),
        gpus: facts.map_or(&[], |facts| &facts.gpus),
    }
}

fn gds(report: &Report) -> Gds<'_> {
    let nvidia_fs = port_view::gpudirect(report).and_then(|facts| facts.nvidia_fs.value());
    Gds {
        state: port_view::gds_name(port_view::gds_ready(report)),
        version: nvidia_fs.and_then(|fs| fs.version.as_deref()),
        errors: nvidia_fs
            .into_iter()
            .flat_map(|fs| &fs.errors)
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| (name.as_str(), *count))
            .collect(),
    }
}

fn modules(report: &Report) -> BTreeMap<&'static str, ModuleOut<'_>> {
    // A list that was not read says nothing of any module.
    let Some(loaded) = port_view::modules(report) else {
        return BTreeMap::new();
    };
    MODULES_OF_INTEREST
        .iter()
        .map(|name| {
            let module = loaded.get(*name);
            let out = ModuleOut {
                loaded: module.is_some(),
                version: module.and_then(|module| module.version.as_deref()),
            };
            (*name, out)
        })
        .collect()
}

fn sources(report: &Report) -> Vec<Source<'_>> {
    report
        .snapshot
        .sources
        .values()
        .map(|health| Source {
            source: &health.source,
            subject: &health.subject,
            up: port_view::source_up(health),
            absent: health.absent,
            last_ok: health.last_ok.and_then(|at| time(report, at)),
            duration_seconds: health.micros as f64 / 1e6,
            stalled_since: health.stalled_since.and_then(|at| time(report, at)),
            fault: health.fault.as_ref().map(|fault| fault.kind),
            detail: health.fault.as_ref().map(|fault| fault.detail.as_str()),
            via: health.via.as_deref(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
