//! The report as JSON, `selvage.dev/report/v1`: `/report` and `selvage check -o json`. Fields are
//! added, never renamed.

use super::select;
use super::view::{self, PortView};
use super::{Report, State};
use crate::check::{Finding, Status, Weight};
use crate::observe::gpudirect::{MODULES_OF_INTEREST, NvidiaGpu};
use crate::observe::pci::PcieLink;
use crate::observe::rdma::{Function, GidKind};
use crate::observe::reading::{FaultKind, Reading};
use crate::units::Millis;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the form.
pub const SCHEMA: &str = "selvage.dev/report/v1";

/// GIDs told a port: more only repeat addresses of the same network devices.
const MAX_GIDS: usize = 16;

/// The report as one JSON object, on one line.
pub fn encode(report: &Report) -> String {
    serde_json::to_string(&Document::new(report)).unwrap_or_else(failed)
}

/// The same over several lines, for people.
pub fn encode_pretty(report: &Report) -> String {
    serde_json::to_string_pretty(&Document::new(report)).unwrap_or_else(failed)
}

fn failed(error: serde_json::Error) -> String {
    // Nothing in the document can fail to serialise; should it ever, say so in the form's own terms.
    tracing::error!(%error, "report could not be encoded");
    format!(r#"{{"schema":"{SCHEMA}","state":"unknown","reasons":["ReportNotEncoded"]}}"#)
}

/// The whole document.
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
    ports: Vec<Port<'a>>,
    findings: Vec<FindingOut<'a>>,
    gpus: Option<usize>,
    gpudirect: GpuDirect<'a>,
    gds: Gds<'a>,
    modules: BTreeMap<&'static str, ModuleOut<'a>>,
    xid: Vec<Xid<'a>>,
    sources: Vec<Source<'a>>,
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
}

impl<'a> Document<'a> {
    /// Takes the report apart.
    pub fn new(report: &'a Report) -> Self {
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
            ports: view::ports(report)
                .into_iter()
                .map(|view| port(report, &view))
                .collect(),
            findings: report
                .findings
                .iter()
                .map(|found| finding(report, found))
                .collect(),
            gpus: view::gpu_count(report),
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
        }
    }
}

fn time(report: &Report, at: Millis) -> Option<String> {
    view::wall_at(report, at).map(|wall| wall.to_string())
}

fn read<T: Clone>(reading: &Reading<T>) -> Option<T> {
    reading.value().cloned()
}

fn port<'a>(report: &'a Report, view: &PortView<'a>) -> Port<'a> {
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
        link_layer: view::link_layer(view.port.link_layer),
        state: view::state_name(view.state()),
        phys_state: view::phys_state_name(view.phys_state()),
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
        gids: view::roce_v2_gids(report, view).map(|gids| {
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
        counters: select::nonzero_errors(view),
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
    let facts = view::gpudirect(report);
    let driver = facts.and_then(|facts| facts.driver.value());
    GpuDirect {
        path: view::path_name(report.gpudirect.path),
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
    let nvidia_fs = view::gpudirect(report).and_then(|facts| facts.nvidia_fs.value());
    Gds {
        state: view::gds_name(view::gds_ready(report)),
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
    let Some(loaded) = view::modules(report) else {
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
            up: view::source_up(health),
            absent: health.absent,
            last_ok: health.last_ok.and_then(|at| time(report, at)),
            duration_seconds: health.micros as f64 / 1e6,
            stalled_since: health.stalled_since.and_then(|at| time(report, at)),
            fault: health.fault.as_ref().map(|fault| fault.kind),
            detail: health.fault.as_ref().map(|fault| fault.detail.as_str()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::rdma::{LinkLayer, PhysState, PortState};
    use crate::report::testing::{broken, device, empty, link, node};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn parsed(report: &Report) -> Value {
        serde_json::from_str(&encode(report)).unwrap()
    }

    #[test]
    fn the_contract_s_fields() {
        let mut report = broken();
        let key = device(3, LinkLayer::Infiniband).port_key(1);
        let counters = report.snapshot.counters.get_mut(&key).unwrap();
        let counters = &mut Arc::make_mut(counters).value;
        for (name, value) in [("link_downed", 2), ("port_xmit_wait", 99)] {
            counters.pma.insert(name.into(), Reading::Value(value));
        }
        let json = parsed(&report);
        assert_eq!(json["schema"], "selvage.dev/report/v1");
        assert_eq!(json["node"], "gpu-17");
        assert_eq!(json["time"], "2026-01-02T03:04:05Z");
        assert_eq!(json["boot_id"], "b0071d00-0000-4000-8000-000000000000");
        assert_eq!(json["state"], "unready");
        assert_eq!(json["reasons"], json!(["GpuLost", "LinkDown"]));
        let down = &json["ports"][3];
        for (field, want) in [
            ("device", json!("mlx5_3")),
            ("port", json!(1)),
            ("pci", json!("0000:13:00.0")),
            ("driver", json!("mlx5_core")),
            ("netdev", json!("eth3")),
            ("link_layer", json!("infiniband")),
            ("state", json!("down")),
            ("phys_state", json!("polling")),
            ("rate_bits_per_second", Value::Null),
            ("rail", json!(true)),
            ("gids", Value::Null),
            ("link_transitions", json!(1)),
            ("counters", json!({"link_downed": 2})),
        ] {
            assert_eq!(down[field], want, "{field}");
        }
        assert_eq!(json["ports"][2]["rate_bits_per_second"], 400_000_000_000u64);
        let found = &json["findings"][1];
        for (field, want) in [
            ("check", json!("link_state")),
            ("subject", json!("mlx5_3/1")),
            ("status", json!("failing")),
            ("reason", json!("LinkDown")),
            // Two minutes before the report's time.
            ("since", json!("2026-01-02T03:02:05Z")),
            ("evidence", json!({"peers_up": 7, "phys_state": "polling"})),
        ] {
            assert_eq!(found[field], want, "{field}");
        }
        assert_eq!(json["gpudirect"]["path"], "peermem");
        assert_eq!(json["gds"]["state"], "absent");
        assert_eq!(json["modules"]["nvidia_fs"]["loaded"], false);
        assert_eq!(json["modules"]["nvidia"]["version"], "535.129.03");
        assert_eq!(json["xid"][0]["xid"], 79);
        assert_eq!(json["xid"][0]["pci"], "0000:83:00");
        assert_eq!(json["sources"].as_array().unwrap().len(), 10);
    }

    #[test]
    fn what_was_not_read_is_unknown_or_null() {
        let json = parsed(&empty());
        assert_eq!(json["state"], "unknown");
        assert_eq!(json["ports"], json!([]));
        assert_eq!(json["gpudirect"]["path"], "unknown");
        assert_eq!(json["gds"]["state"], "unknown");
        assert_eq!(json["modules"], json!({}));
        assert_eq!(json["gpus"], Value::Null);

        let mut report = node(1, LinkLayer::Ethernet);
        report.snapshot.links.clear();
        report.snapshot.wall = None;
        let json = parsed(&report);
        assert_eq!(json["time"], Value::Null);
        let port = &json["ports"][0];
        assert_eq!(port["state"], "unknown");
        assert_eq!(port["phys_state"], "unknown");
        assert_eq!(port["rate_bits_per_second"], Value::Null);
        let indexes: Vec<_> = port["gids"].as_array().unwrap().iter().collect();
        assert_eq!(indexes.len(), 1, "RoCE v1 is not listed");
        assert_eq!(indexes[0]["index"], 3);
        assert_eq!(indexes[0]["type"], "roce_v2");
    }

    #[test]
    fn names_of_every_state() {
        let mut report = node(1, LinkLayer::Infiniband);
        let key = device(0, LinkLayer::Infiniband).port_key(1);
        let states = ["unknown", "down", "init", "armed", "active", "active_defer"];
        for (id, want) in states.iter().enumerate() {
            let state = link(PortState::from_id(id as u32), PhysState::LinkUp);
            report.snapshot.links.insert(key.clone(), state);
            let json = parsed(&report);
            assert_eq!(json["ports"][0]["state"], *want);
            let rate = json["ports"][0]["rate_bits_per_second"].is_u64();
            assert_eq!(rate, *want == "active");
        }
        let states = [
            "unknown",
            "sleep",
            "polling",
            "disabled",
            "training",
            "link_up",
            "error_recovery",
            "phy_test",
        ];
        for (id, want) in states.iter().enumerate() {
            let state = link(PortState::Active, PhysState::from_id(id as u32));
            report.snapshot.links.insert(key.clone(), state);
            assert_eq!(parsed(&report)["ports"][0]["phys_state"], *want);
        }
    }

    #[test]
    fn ports_come_in_the_order_of_their_numbers() {
        let json = parsed(&node(12, LinkLayer::Infiniband));
        let names: Vec<_> = json["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| port["device"].as_str().unwrap().to_string())
            .collect();
        let want: Vec<_> = (0..12).map(|i| format!("mlx5_{i}")).collect();
        assert_eq!(names, want);
    }
}
