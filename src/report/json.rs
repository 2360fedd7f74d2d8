//! The report as JSON, `selvage.dev/report/v1`: `/report` and `selvage check -o json`. Fields are
//! added, never renamed.

use super::port_view::{self, wall_at as time};
use super::{ClusterStatus, PortView, Report, default_counters};
use crate::check::Finding;
use crate::observe::{MODULES_OF_INTEREST, Module, PhysState, PortCounters, PortState};
use crate::readiness;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the form.
pub const SCHEMA: &str = "selvage.dev/report/v1";

/// GIDs listed for a port: more only repeat addresses of the same network devices.
const MAX_GIDS: usize = 16;

mod platform;

/// The report as one JSON object, on one line.
pub fn encode(report: &Report, cluster: Option<&ClusterStatus>) -> String {
    serde_json::to_string(&document(report, cluster)).unwrap_or_else(failed)
}

/// The same over several lines, for people.
pub fn encode_pretty(report: &Report) -> String {
    serde_json::to_string_pretty(&document(report, None)).unwrap_or_else(failed)
}

fn failed(error: serde_json::Error) -> String {
    // Nothing in the document can fail to serialise; should it ever, say so in the form's own terms.
    tracing::error!(%error, "report could not be encoded");
    format!(r#"{{"schema":"{SCHEMA}","state":"unknown","reasons":["ReportNotEncoded"]}}"#)
}

fn document<'a>(report: &'a Report, cluster: Option<&'a ClusterStatus>) -> impl Serialize {
    let snapshot = &report.snapshot;
    let notes = readiness::explained(&report.reasons).map(|doc| {
        object! {
            reason: &doc.reason,
            message: &doc.meaning,
            remedy: doc.remedy(),
            action: doc.action,
        }
    });
    let ports = port_view::ports(report).into_iter();
    let events = report.history.iter().map(|entry| {
        object! {
            time: time(report, entry.at),
            #[serde(flatten)]
            change: &entry.change,
        }
    });
    object! {
        schema: SCHEMA,
        node: &report.node,
        time: snapshot.wall,
        boot_id: &snapshot.boot_id,
        state: report.state,
        reasons: &report.reasons,
        since: time(report, report.since),
        generation: report.generation,
        full_window: report.full_window,
        // Reasons that no finding explains.
        notes: notes.collect::<Vec<_>>(),
        // Checks that the policy leaves out.
        muted: &report.muted,
        platform: platform::platform(report),
        ports: ports.map(|view| port(report, view)).collect::<Vec<_>>(),
        findings: report.findings.iter().map(|of| finding(report, of)).collect::<Vec<_>>(),
        gpus: port_view::gpu_count(report),
        gpudirect: gpudirect(report),
        gds: gds(report),
        modules: modules(report),
        xid: xids(report),
        sources: sources(report),
        nccl: nccl(report),
        // What changed of late, newest last.
        events: events.collect::<Vec<_>>(),
        // Null where no Node is written.
        cluster: cluster.map(|status| {
            object! {
                // What the verdict over time wants of the taint: keep, want, clear.
                tainting: report.tainting,
                taint_muted: report.taint_muted,
                #[serde(flatten)]
                status: status,
            }
        }),
    }
}

fn port<'a>(report: &'a Report, view: PortView<'a>) -> impl Serialize + use<'a> {
    let device = view.device;
    let pci = report.snapshot.pci.as_ref();
    let function = view
        .address()
        .and_then(|address| pci?.value.functions.get(&address));
    let edges = report.totals.link_edges.get(&view.key);
    let counters = report.snapshot.counters.get(&view.key);
    let errors = |of: &PortCounters| default_counters::nonzero_errors(&device.driver, of);
    let counters = counters.map(|counters| errors(&counters.value));
    object! {
        device: &device.name,
        port: view.port.number,
        pci: view.address(),
        driver: &device.driver,
        netdev: &view.port.netdev,
        link_layer: view.port.link_layer,
        state: view.state().unwrap_or(PortState::Unknown),
        phys_state: view.phys_state().unwrap_or(PhysState::Unknown),
        rate_bits_per_second: view.rate().map(|rate| rate.0),
        rail: view.rail,
        role_reason: view.role.map(|role| &role.why),
        key: view.key.to_string(),
        function: device.function,
        firmware: &device.firmware,
        board_id: &device.board_id,
        numa_node: device.numa_node,
        pcie: function.map(|function| {
            object! { current: function.current.value(), max: function.max.value(), }
        }),
        ethernet: view.netdev.map(|netdev| {
            let speed = netdev.speed_mbps.value();
            object! {
                carrier: netdev.carrier.value(),
                operstate: &netdev.operstate,
                speed_bits_per_second: speed.map(|mbps| mbps.saturating_mul(1_000_000)),
                mtu: netdev.mtu,
                carrier_changes: netdev.carrier_changes.value(),
                master: &netdev.master,
            }
        }),
        // Only where a supplicant answers.
        #[serde(flatten)]
        supplicant: view.dot1x.map(|dot1x| object! { dot1x: dot1x, }),
        // Only where LLDP is received, and the port of a switch is known.
        #[serde(flatten)]
        neighbor: view.neighbor.map(|neighbor| object! { neighbor: neighbor, }),
        // RoCE v2 slots; null on InfiniBand and where the table was not read.
        gids: gids(report, &view),
        link_transitions: edges.copied().unwrap_or(0),
        // Error counters that are not zero: totals since reset, no verdict.
        counters: counters.unwrap_or_default(),
    }
}

fn gids<'a>(report: &'a Report, view: &PortView<'_>) -> Option<Vec<impl Serialize + use<'a>>> {
    let gids = port_view::roce_v2_gids(report, view)?.into_iter();
    let listed = gids.take(MAX_GIDS).map(|gid| {
        object! {
            index: gid.index,
            r#type: gid.kind,
            gid: &gid.gid,
            netdev: &gid.netdev,
        }
    });
    Some(listed.collect())
}

fn finding<'a>(report: &Report, found: &'a Finding) -> impl Serialize + use<'a> {
    object! {
        id: found.id(),
        since: time(report, found.since),
        #[serde(flatten)]
        found: found,
    }
}

fn gpudirect(report: &Report) -> impl Serialize {
    let facts = port_view::gpudirect(report);
    let driver = facts.and_then(|facts| facts.driver.value());
    object! {
        path: report.gpudirect.path,
        why: &report.gpudirect.why,
        driver_version: driver.map(|driver| &driver.version),
        open_kernel_module: driver.and_then(|driver| driver.open),
        kernel_release: facts.and_then(|facts| facts.kernel_release.as_ref()),
        memory_peers: facts.and_then(|facts| facts.memory_peers.value()),
        iommu_active: facts.and_then(|facts| facts.iommu_active.value()),
        iommu_cmdline: facts.map_or(&[][..], |facts| &facts.iommu_cmdline),
        ofed_version: facts.and_then(|facts| facts.ofed_version.as_ref()),
        gpus: facts.map_or(&[][..], |facts| &facts.gpus),
    }
}

fn gds(report: &Report) -> impl Serialize {
    let facts = port_view::gpudirect(report);
    let nvidia_fs = facts.and_then(|facts| facts.nvidia_fs.value());
    let errors = nvidia_fs.into_iter().flat_map(|fs| &fs.errors);
    let errors: BTreeMap<_, _> = errors.filter(|(_, count)| **count > 0).collect();
    object! {
        state: port_view::gds_name(port_view::gds_ready(report)),
        version: nvidia_fs.and_then(|fs| fs.version.as_ref()),
        errors: errors,
    }
}

fn modules(report: &Report) -> BTreeMap<&'static str, impl Serialize> {
    let row = |name: &'static str, module: Option<&Module>| {
        let version = module.and_then(|module| module.version.clone());
        let loaded = module.is_some();
        (name, object! { loaded: loaded, version: version, })
    };
    // An unreadable list says nothing about any module.
    let loaded = port_view::modules(report).into_iter();
    let rows = loaded.flat_map(|loaded| {
        let names = MODULES_OF_INTEREST.split(' ');
        names.map(move |name| row(name, loaded.get(name)))
    });
    rows.collect()
}

fn xids(report: &Report) -> Vec<impl Serialize> {
    let seen = report.xids.iter().map(|seen| {
        object! {
            first: time(report, seen.first),
            last: time(report, seen.last),
            #[serde(flatten)]
            seen: seen,
        }
    });
    seen.collect()
}

fn sources(report: &Report) -> Vec<impl Serialize> {
    let sources = report.snapshot.sources.values().map(|health| {
        let fault = health.fault.as_ref();
        object! {
            source: &health.source,
            subject: &health.subject,
            up: port_view::source_up(health),
            absent: health.absent,
            last_ok: health.last_ok.and_then(|at| time(report, at)),
            duration_seconds: health.micros as f64 / 1e6,
            stalled_since: health.stalled_since.and_then(|at| time(report, at)),
            fault: fault.map(|fault| fault.kind),
            detail: fault.map(|fault| &fault.detail),
            #[serde(flatten)]
            transport: health.via.as_ref().map(|via| object! { via: via, }),
        }
    });
    sources.collect()
}

/// This node's jobs.
fn nccl(report: &Report) -> impl Serialize {
    let jobs = &report.jobs;
    let containers = jobs.containers.iter().map(|container| {
        object! {
            namespace: &container.key.namespace,
            pod: &container.key.pod,
            uid: &container.key.uid,
            container: &container.key.container,
            job: &container.job,
            since: time(report, container.since),
            via: container.via,
            #[serde(flatten)]
            verdict: &container.verdict,
        }
    });
    let suspects = jobs.suspects.values().map(|suspect| {
        object! {
            namespace: &suspect.pod.namespace,
            pod: &suspect.pod.name,
            job: &suspect.pod.job,
            gpus: suspect.pod.gpus,
            since: time(report, suspect.since),
            #[serde(flatten)]
            suspect: suspect,
        }
    });
    object! {
        containers: containers.collect::<Vec<_>>(),
        fallbacks_in_a_row: jobs.fallbacks_in_a_row,
        no_rdma: &jobs.no_rdma,
        // Pods whose GPUDirect-TCPX(O) daemon is missing or down.
        daemon_troubles: &jobs.daemon_troubles,
        suspects: suspects.collect::<Vec<_>>(),
        // Null where logs are not read.
        logs: &jobs.logs,
        // Only there where pods are left out, as nothing proves who asks.
        #[serde(flatten)]
        withheld: jobs.withheld.then(|| object! { withheld: true, }),
    }
}

#[cfg(test)]
mod tests;
