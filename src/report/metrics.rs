//! Report to Prometheus text. Every series is made from the report at hand: nothing is remembered,
//! so what is gone from the node is gone from the next scrape.

use super::{ClusterStatus, Detail, PortView, Report, State, port_view};
use crate::check::{gpudirect::Path, xid_codes};
use crate::observe::{AER_SEVERITIES, MODULES_OF_INTEREST, PcieLink};
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet};

mod exposition;
pub(crate) mod nccl;
mod pfc;
mod port;

pub(crate) use exposition::{Exposition, series};

/// Most series of `selvage_finding`: what stands beyond the worst ones is in the counts.
const MAX_FINDINGS: usize = 64;

/// Most series of Xids and of kernel events each: their labels come from the kernel log.
const MAX_EVENTS: usize = 128;

/// Facts of the agent's own process at the scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentStats {
    /// Now, on the clock of [`crate::observe::Snapshot::at`].
    pub now: Option<Millis>,
    /// The process's use of the machine: the standard metric's name, and its value where it is known.
    pub process: Vec<(&'static str, Option<f64>)>,
    /// First end of validity in the served certificate chain, in seconds of Unix time.
    pub certificate_expires: Option<i64>,
    /// Failed reloads of TLS and token files; `None` where no such file is set.
    pub reload_failures: Option<u64>,
    /// Long-lived tasks: name, whether it runs and makes progress, number of panics.
    pub tasks: Vec<(&'static str, bool, u64)>,
    /// A task that makes no progress and that a restart of the process may help.
    pub hangs: Option<&'static str>,
}

/// The whole exposition in Prometheus text format 0.0.4: the report, what the writer of the Node did
/// (`None` where no Node is written) and the agent's own process.
pub fn encode(
    report: &Report,
    cluster: Option<&ClusterStatus>,
    stats: &AgentStats,
    detail: Detail,
) -> String {
    let mut out = Exposition::new(detail);
    of_report(&mut out, report, cluster);
    of_scrape(&mut out, report, stats);
    out.into_text()
}

/// The part that is the same until there is another report.
pub fn encode_report(report: &Report, cluster: Option<&ClusterStatus>, detail: Detail) -> String {
    let mut out = Exposition::new(detail);
    of_report(&mut out, report, cluster);
    out.into_text()
}

/// The part that changes with every scrape.
pub fn encode_scrape(report: &Report, stats: &AgentStats, detail: Detail) -> String {
    let mut out = Exposition::new(detail);
    of_scrape(&mut out, report, stats);
    out.into_text()
}

fn of_report(out: &mut Exposition, report: &Report, cluster: Option<&ClusterStatus>) {
    verdict(out, report);
    findings(out, report);
    platform(out, report);
    let ports = port_view::ports(report);
    port::families(out, report, &ports);
    pfc::families(out, report);
    pci(out, report, &ports);
    kernel_log(out, report);
    gpudirect(out, report);
    sources(out, report);
    nccl::families(out, &report.jobs);
    if let Some(status) = cluster {
        self::cluster(out, status);
    }
}

/// The age of the report and the agent's own process.
fn of_scrape(out: &mut Exposition, report: &Report, stats: &AgentStats) {
    let age = stats.now.map(|now| now.since(report.snapshot.at));
    series! { out "selvage_report_age_seconds" [] age.map(|age| age.as_secs_f64()); }
    agent(out, stats);
}

/// The agent's own process.
pub(crate) fn agent(out: &mut Exposition, stats: &AgentStats) {
    series! { out
        "selvage_tls_certificate_expiry_timestamp_seconds" [] stats.certificate_expires;
        "selvage_serve_reload_failures_total" [] stats.reload_failures;
    }
    (stats.process.iter()).for_each(|(name, value)| out.push(name, &[], *value));
    for (name, up, panics) in &stats.tasks {
        series! { out
            "selvage_task_up" [name] *up;
            "selvage_task_panics_total" [name] *panics;
        }
    }
}

fn verdict(out: &mut Exposition, report: &Report) {
    let since = port_view::wall_at(report, report.since).map(|at| at.as_second());
    series! { out
        "selvage_build_info" [crate::units::VERSION, crate::units::REVISION] true;
        "selvage_fabric_ready" [] report.state == State::Ready;
        "selvage_fabric_state_since_timestamp_seconds" [] since;
        "selvage_full_window" [] report.full_window;
    }
    for state in State::ALL {
        let name = state.as_str();
        let entered = report.totals.transitions.get(name).copied();
        series! { out
            "selvage_fabric_state" [name] state == report.state;
            "selvage_fabric_state_transitions_total" [name] entered.unwrap_or(0);
        }
    }
}

fn findings(out: &mut Exposition, report: &Report) {
    let mut counts: BTreeMap<[&str; 2], u32> = BTreeMap::new();
    for (number, finding) in report.findings.iter().enumerate() {
        let status = port_view::status(finding.weight, finding.status);
        *counts.entry([finding.check, status]).or_default() += 1;
        if number < MAX_FINDINGS {
            // Two keys may have one subject: a device that came back under its old name.
            // Alerts leave out what has a cause: so only one that is as bad counts.
            let cause = (report.cause(finding))
                .filter(|cause| (cause.weight, cause.status) >= (finding.weight, finding.status))
                .map_or("", |cause| cause.reason);
            series! { out
                "selvage_finding" [finding.check, &finding.subject, finding.reason, status, cause] true;
            }
        }
    }
    for (labels, count) in counts {
        out.push("selvage_check_findings", &labels, count);
    }
}

/// The machine's shape, and what the Node promises.
fn platform(out: &mut Exposition, report: &Report) {
    let profile = &report.profile;
    // Before the first enumeration the profile is not known.
    if report.snapshot.devices.is_some() || profile.shape.is_some() {
        series! { out "selvage_profile_info" [profile.name(), profile.source.as_str()] true; }
    }
    for resource in &report.resources {
        let name = resource.name.as_str();
        series! { out
            "selvage_resource_allocatable" [name] resource.allocatable;
            "selvage_resource_capacity" [name] resource.capacity;
            "selvage_resource_devices" [name] resource.devices;
        }
    }
}

/// GPUs and RDMA functions on the PCI bus.
fn pci(out: &mut Exposition, report: &Report, ports: &[PortView<'_>]) {
    let pci = report.snapshot.pci.as_ref();
    let Some(pci) = pci.filter(|pci| report.is_fresh(pci.at, ("pci", ""))) else {
        return;
    };
    let pci = &pci.value;
    out.push("selvage_gpus", &[], pci.gpus.len());
    // Bridges are among the functions too; their ends say the same of the link.
    let nics = ports.iter().filter_map(PortView::address);
    let gpus = pci.gpus.iter().map(ToString::to_string);
    for address in gpus.chain(nics).collect::<BTreeSet<String>>() {
        let Some(function) = pci.functions.get(&address) else {
            continue;
        };
        let (current, max) = (function.current.value(), function.max.value());
        series! { out
            "selvage_pcie_link_bytes_per_second" [&address] current.map(bandwidth);
            "selvage_pcie_link_max_bytes_per_second" [&address] max.map(bandwidth);
            "selvage_pcie_link_width" [&address] current.map(|link| link.width);
        }
        for severity in AER_SEVERITIES {
            let count = function.aer.get(severity).copied();
            series! { out "selvage_pcie_aer_errors_total" [&address, severity] count; }
        }
    }
}

/// Bytes a second one way, line coding not taken off.
fn bandwidth(link: &PcieLink) -> f64 {
    f64::from(link.megatransfers) * 1e6 * f64::from(link.width) / 8.0
}

fn kernel_log(out: &mut Exposition, report: &Report) {
    // The totals outlive the bounded list of Xids, whose counts outlive the agent.
    let mut counts: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for xid in &report.xids {
        counts.insert((xid.pci.as_deref().unwrap_or(""), xid.xid), xid.count);
    }
    for (pci, codes) in &report.totals.xids {
        for (code, count) in codes {
            let listed = counts.entry((pci, *code)).or_default();
            *listed = (*listed).max(*count);
        }
    }
    for ((pci, code), count) in counts.into_iter().take(MAX_EVENTS) {
        let class = xid_codes::class(code);
        series! { out "selvage_gpu_xid_total" [pci, &code.to_string(), class] count; }
    }
    let events = report.totals.nic_events.iter();
    let events = events.flat_map(|(pci, events)| events.iter().map(move |event| (pci, event)));
    for (pci, (event, count)) in events.take(MAX_EVENTS) {
        out.push("selvage_nic_kernel_events_total", &[pci, event], *count);
    }
}

fn gpudirect(out: &mut Exposition, report: &Report) {
    if let Some(modules) = port_view::modules(report) {
        for name in MODULES_OF_INTEREST.split(' ') {
            series! { out "selvage_kernel_module_loaded" [name] modules.contains_key(name); }
        }
    }
    for path in Path::ALL {
        series! { out "selvage_gpudirect_path" [path.as_str()] path == report.gpudirect.path; }
    }
    out.push("selvage_gds_ready", &[], port_view::gds_ready(report));
    let facts = port_view::gpudirect(report);
    if let Some(driver) = facts.and_then(|facts| facts.driver.value()) {
        out.push("selvage_gpu_driver_info", &[&driver.version], true);
    }
    let storage = facts.and_then(|facts| facts.nvidia_fs.value());
    let errors = storage.into_iter().flat_map(|facts| &facts.errors);
    for (name, count) in errors.take(MAX_EVENTS) {
        out.push("selvage_gds_errors_total", &[name], *count);
    }
}

fn sources(out: &mut Exposition, report: &Report) {
    let sources = port_view::sources(report).into_iter();
    for (name, source) in sources.filter(|(_, source)| !source.is_absent()) {
        series! { out
            "selvage_source_up" [name] source.is_up();
            "selvage_source_duration_seconds" [name] source.micros as f64 / 1e6;
            "selvage_source_stalled" [name] source.stalled;
        }
    }
    series! { out
        "selvage_kmsg_records_lost_total" [] report.totals.kmsg_records_lost;
        "selvage_report_generations_total" [] report.generation;
    }
}

/// What the writer of the Node did.
fn cluster(out: &mut Exposition, status: &ClusterStatus) {
    for (result, count) in &status.results {
        out.push("selvage_node_writes_total", &[result], *count);
    }
    out.push("selvage_node_api_up", &[], status.api_up);
    for (kind, value) in &status.places {
        out.push("selvage_node_topology_info", &[kind, value], true);
    }
    for what in &status.pending {
        out.push("selvage_node_pending", &[what], true);
    }
    out.push("selvage_node_taint_applied", &[], status.taint_applied);
    if let Some(reason) = status.withheld {
        out.push("selvage_node_taint_withheld", &[reason], true);
    }
    if let Some(budget) = &status.budget {
        series! { out
            "selvage_node_taint_budget" ["claimed"] budget.claimed;
            "selvage_node_taint_budget" ["limit"] budget.limit;
            "selvage_node_taint_budget" ["nodes"] budget.nodes;
        }
    }
}

#[cfg(test)]
mod tests;
