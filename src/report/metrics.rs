//! Report to Prometheus text. Every series is made from the report at hand: nothing is remembered,
//! so what is gone from the node is gone from the next scrape.

use super::catalogue::{self as cat, Detail};
use super::port_view::{self, ReportedPort};
use super::{ClusterStatus, Report, State};
use crate::check::gpudirect::Path;
use crate::check::{Finding, Status, Weight};
use crate::observe::gpudirect::MODULES_OF_INTEREST;
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet};

mod exposition;
pub(crate) mod nccl;
mod pci;
mod pfc;
mod platform;
mod port;

pub(crate) use exposition::Exposition;

/// Most series of [`cat::FINDING`]: what stands beyond the worst ones is in the counts.
const MAX_FINDINGS: usize = 64;

/// Most series of Xids and of kernel events each: their labels come from the kernel log.
const MAX_EVENTS: usize = 128;

/// Facts of the agent's own process at the scrape.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AgentStats {
    /// Now, on the clock of [`crate::observe::snapshot::Snapshot::at`].
    pub now: Option<Millis>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// CPU time in seconds, user and system.
    pub cpu_seconds: Option<f64>,
    /// First end of validity in the served certificate chain, in seconds of Unix time.
    pub certificate_expires: Option<i64>,
    /// Failed reloads of TLS and token files; `None` where no such file is set.
    pub reload_failures: Option<u64>,
}

/// Choices of the exposition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// How much is exported.
    pub detail: Detail,
}

/// The whole exposition in Prometheus text format 0.0.4: the report, what the writer of the Node did
/// (`None` where no Node is written) and the agent's own process.
pub fn encode(
    report: &Report,
    cluster: Option<&ClusterStatus>,
    stats: &AgentStats,
    options: Options,
) -> String {
    let mut exposition = Exposition::new(options.detail);
    verdict(&mut exposition, report);
    platform::families(&mut exposition, report);
    let ports = port_view::ports(report);
    port::families(&mut exposition, report, &ports);
    pfc::families(&mut exposition, report);
    pci::families(&mut exposition, report, &ports);
    kernel_log(&mut exposition, report);
    gpudirect(&mut exposition, report);
    sources(&mut exposition, report);
    nccl::families(&mut exposition, &report.jobs);
    if let Some(status) = cluster {
        self::cluster(&mut exposition, status);
    }
    agent(&mut exposition, stats, report);
    exposition.into_text()
}

/// What changes with every scrape.
fn agent(exposition: &mut Exposition, stats: &AgentStats, report: &Report) {
    let age = stats.now.map(|now| now.since(report.snapshot.at));
    exposition.one(&cat::REPORT_AGE, age.map(|age| age.as_secs_f64()));
    encode_process(exposition, stats);
    let expires = stats.certificate_expires.map(|at| at as f64);
    exposition.one(&cat::TLS_CERTIFICATE_EXPIRY, expires);
    let failures = stats.reload_failures.map(|count| count as f64);
    exposition.one(&cat::SERVE_RELOAD_FAILURES, failures);
}

/// Memory and CPU time of the process.
pub(crate) fn encode_process(exposition: &mut Exposition, stats: &AgentStats) {
    exposition.one(
        &cat::PROCESS_RESIDENT,
        stats.resident_bytes.map(|bytes| bytes as f64),
    );
    exposition.one(&cat::PROCESS_CPU, stats.cpu_seconds);
}

/// 1 or 0.
pub(crate) fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// An alert on `failing` must not fire for what does not move the verdict.
fn status_name(finding: &Finding) -> &'static str {
    match (finding.weight, finding.status) {
        (Weight::Notice, _) => "notice",
        (_, Status::Unknown) => "unknown",
        (_, Status::Degraded) => "degraded",
        (_, Status::Failing) => "failing",
    }
}

fn verdict(exposition: &mut Exposition, report: &Report) {
    exposition.add(&cat::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1.0)]);
    exposition.one(&cat::FABRIC_READY, Some(flag(report.state == State::Ready)));
    exposition.add(
        &cat::FABRIC_STATE,
        State::ALL.map(|state| ([state.as_str()], flag(state == report.state))),
    );
    exposition.add(
        &cat::FABRIC_STATE_TRANSITIONS,
        State::ALL.map(|state| {
            let count = report.totals.transitions.get(state.as_str());
            ([state.as_str()], count.copied().unwrap_or(0) as f64)
        }),
    );
    let since = port_view::wall_at(report, report.since);
    exposition.one(
        &cat::FABRIC_STATE_SINCE,
        since.map(|at| at.as_second() as f64),
    );
    exposition.one(&cat::FULL_WINDOW, Some(flag(report.full_window)));

    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for finding in &report.findings {
        *counts
            .entry((finding.check.as_str(), status_name(finding)))
            .or_default() += 1;
    }
    exposition.add(
        &cat::CHECK_FINDINGS,
        counts.into_iter().map(|((check, status), count)| {
            ([check.to_string(), status.to_string()], f64::from(count))
        }),
    );
    // Two keys may show under one subject (a device that came back under its old name): a series
    // twice would spoil the whole scrape.
    let mut shown = BTreeSet::new();
    exposition.add(
        &cat::FINDING,
        report
            .findings
            .iter()
            .map(|finding| {
                [
                    finding.check.clone(),
                    finding.subject.clone(),
                    finding.reason.clone(),
                    status_name(finding).to_string(),
                ]
            })
            .filter(|labels| shown.insert(labels.clone()))
            .take(MAX_FINDINGS)
            .map(|labels| (labels, 1.0)),
    );
}

fn kernel_log(exposition: &mut Exposition, report: &Report) {
    // The totals count and outlive the bounded list of Xids; the list knows the classes.
    let classes: BTreeMap<u32, &str> = report
        .xids
        .iter()
        .map(|xid| (xid.xid, xid.class.as_str()))
        .collect();
    let mut counts: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for xid in &report.xids {
        counts.insert((xid.pci.as_deref().unwrap_or(""), xid.xid), xid.count);
    }
    for (pci, codes) in &report.totals.xids {
        for (code, count) in codes {
            counts.insert((pci.as_str(), *code), *count);
        }
    }
    exposition.add(
        &cat::GPU_XID,
        counts
            .into_iter()
            .take(MAX_EVENTS)
            .map(|((pci, code), count)| {
                let class = classes.get(&code).copied().unwrap_or("unknown");
                (
                    [pci.to_string(), code.to_string(), class.to_string()],
                    count as f64,
                )
            }),
    );
    exposition.add(
        &cat::NIC_KERNEL_EVENTS,
        report
            .totals
            .nic_events
            .iter()
            .flat_map(|(pci, events)| {
                events
                    .iter()
                    .map(|(event, count)| ([pci.clone(), event.clone()], *count as f64))
            })
            .take(MAX_EVENTS),
    );
}

fn gpudirect(exposition: &mut Exposition, report: &Report) {
    exposition.add(
        &cat::KERNEL_MODULE_LOADED,
        port_view::modules(report).into_iter().flat_map(|modules| {
            MODULES_OF_INTEREST
                .iter()
                .map(|name| ([(*name).to_string()], flag(modules.contains_key(*name))))
        }),
    );
    let paths = [Path::Dmabuf, Path::Peermem, Path::None, Path::Unknown];
    exposition.add(
        &cat::GPUDIRECT_PATH,
        paths.map(|path| {
            (
                [port_view::path_name(path).to_string()],
                flag(path == report.gpudirect.path),
            )
        }),
    );
    exposition.one(&cat::GDS_READY, port_view::gds_ready(report).map(flag));
    let errors = port_view::gpudirect(report)
        .and_then(|facts| facts.nvidia_fs.value())
        .map(|nvidia_fs| &nvidia_fs.errors);
    exposition.add(
        &cat::GDS_ERRORS,
        errors
            .into_iter()
            .flatten()
            .take(MAX_EVENTS)
            .map(|(name, count)| ([name.clone()], *count as f64)),
    );
}

fn sources(exposition: &mut Exposition, report: &Report) {
    let sources = port_view::sources(report);
    exposition.add(
        &cat::SOURCE_UP,
        sources
            .iter()
            .map(|(name, source)| ([(*name).to_string()], flag(source.up))),
    );
    exposition.add(
        &cat::SOURCE_DURATION,
        sources
            .iter()
            .map(|(name, source)| ([(*name).to_string()], source.micros as f64 / 1e6)),
    );
    exposition.add(
        &cat::SOURCE_STALLED,
        sources
            .iter()
            .map(|(name, source)| ([(*name).to_string()], source.stalled as f64)),
    );
    exposition.one(
        &cat::KMSG_LOST,
        Some(report.totals.kmsg_records_lost as f64),
    );
    exposition.one(&cat::REPORT_GENERATION, Some(report.generation as f64));
}

/// What the writer of the Node did.
fn cluster(exposition: &mut Exposition, cluster: &ClusterStatus) {
    let results = cluster.results.iter();
    exposition.add(
        &cat::NODE_WRITES,
        results.map(|(result, count)| ([*result], *count as f64)),
    );
    exposition.one(&cat::NODE_API_UP, cluster.api_up.map(flag));
    let pending = cluster.pending.iter();
    exposition.add(&cat::NODE_PENDING, pending.map(|what| ([*what], 1.0)));
    exposition.one(&cat::NODE_TAINT_APPLIED, cluster.taint_applied.map(flag));
    let withheld = cluster.withheld.iter();
    exposition.add(
        &cat::NODE_TAINT_WITHHELD,
        withheld.map(|reason| ([*reason], 1.0)),
    );
    let budget = cluster.budget.iter();
    exposition.add(
        &cat::NODE_BUDGET,
        budget.flat_map(|budget| {
            [
                (["claimed"], budget.claimed as f64),
                (["limit"], budget.limit as f64),
                (["nodes"], budget.nodes as f64),
            ]
        }),
    );
}

/// Labels of a port's series.
pub(crate) fn port_labels<'a>(port: &'a ReportedPort<'_>) -> [&'a str; 2] {
    [&port.device.name, &port.number]
}

#[cfg(test)]
mod tests;
