//! The node's other facts: driver and GPUDirect, Xids, the cluster, the sources.

use super::html::Html;
use super::severity_icon::Severity;
use super::tables::{cell, head, more, table};
use super::verdict::{taint, time};
use crate::observe::gpudirect::MODULES_OF_INTEREST;
use crate::observe::snapshot::SourceHealth;
use crate::report::cluster::ClusterStatus;
use crate::report::{Report, port_view};
use crate::units::Millis;
use std::collections::BTreeMap;

/// Reasons for the GPUDirect path, memory peers and the like.
const MAX_WORDS: usize = 12;

/// Xids shown.
const MAX_XIDS: usize = 32;

/// Sources shown; there are some twenty.
const MAX_SOURCES: usize = 40;

/// A row of a list of facts.
fn fact(html: &mut Html, name: &'static str, value: Option<&str>) {
    html.raw("<div><dt>");
    html.raw(name);
    html.raw("</dt>");
    html.leaf(
        "dd",
        &[],
        value.filter(|value| !value.is_empty()).unwrap_or("–"),
    );
    html.raw("</div>\n");
}

fn joined(words: &[String]) -> String {
    let shown: Vec<&str> = words.iter().take(MAX_WORDS).map(String::as_str).collect();
    match words.len().saturating_sub(shown.len()) {
        0 => shown.join("; "),
        more => format!("{} and {more} more", shown.join("; ")),
    }
}

/// Driver, GPUDirect RDMA and Storage, modules.
pub(super) fn gpudirect(html: &mut Html, report: &Report) {
    let facts = port_view::gpudirect(report);
    html.raw("<dl class=\"facts\">\n");
    let driver = facts.and_then(|facts| facts.driver.value()).map(|driver| {
        let kind = match driver.open {
            Some(true) => ", open kernel module",
            Some(false) => ", proprietary kernel module",
            None => "",
        };
        format!("{}{kind}", driver.version)
    });
    fact(html, "NVIDIA driver", driver.as_deref());
    fact(
        html,
        "Kernel",
        facts.and_then(|facts| facts.kernel_release.as_deref()),
    );
    fact(
        html,
        "GPUDirect RDMA",
        Some(port_view::path_name(report.gpudirect.path)),
    );
    fact(html, "… because", Some(&joined(&report.gpudirect.why)));
    fact(
        html,
        "GPUDirect Storage",
        Some(port_view::gds_name(port_view::gds_ready(report))),
    );
    let peers = facts.and_then(|facts| facts.memory_peers.value());
    fact(
        html,
        "Memory peers",
        peers.map(|peers| joined(peers)).as_deref(),
    );
    let iommu = facts
        .and_then(|facts| facts.iommu_active.value())
        .map(|active| match active {
            true => "active",
            false => "not active",
        });
    fact(html, "IOMMU", iommu);
    if let Some(version) = facts.and_then(|facts| facts.ofed_version.as_deref()) {
        fact(html, "DOCA-OFED", Some(version));
    }
    html.raw("</dl>\n");
    modules(html, report);
}

fn modules(html: &mut Html, report: &Report) {
    let Some(loaded) = port_view::modules(report) else {
        html.raw("<p class=\"dim\">The list of kernel modules could not be read.</p>\n");
        return;
    };
    let (on, off): (Vec<&str>, Vec<&str>) = MODULES_OF_INTEREST
        .iter()
        .copied()
        .partition(|name| loaded.contains_key(*name));
    html.raw("<p class=\"dim\">Modules loaded: ");
    let on = on.into_iter().map(|name| {
        let version = loaded
            .get(name)
            .and_then(|module| module.version.as_deref());
        version.map_or(name.to_string(), |version| format!("{name} {version}"))
    });
    let on: Vec<String> = on.collect();
    match on.is_empty() {
        true => html.raw("none"),
        false => html.text(&on.join(", ")),
    }
    if !off.is_empty() {
        html.raw(". Not loaded: ");
        html.text(&off.join(", "));
    }
    html.raw(".</p>\n");
}

/// Xids of this boot, newest first.
pub(super) fn xids(html: &mut Html, report: &Report) {
    if report.xids.is_empty() {
        html.raw("<p class=\"dim\">No Xid in this boot's kernel log.</p>\n");
        return;
    }
    let heads = ["Last", "GPU", "Xid", "Class", "Count", "Message", "Process"];
    table(html, "xid-table", "Xids of this boot", &heads, |html| {
        for xid in report.xids.iter().rev().take(MAX_XIDS) {
            html.raw("<tr><td class=\"num\">");
            time(html, report, xid.last);
            html.raw("</td>");
            cell(html, "id", xid.pci.as_deref());
            head(html, &xid.xid.to_string());
            cell(html, "", Some(&xid.class));
            cell(html, "num", Some(&xid.count.to_string()));
            cell(html, "wide", Some(&xid.message));
            cell(html, "", xid.process.as_deref());
            html.raw("</tr>\n");
        }
    });
    more(html, report.xids.len(), MAX_XIDS, "Xids");
}

/// How telling the cluster goes.
pub(super) fn cluster(html: &mut Html, report: &Report, status: &ClusterStatus) {
    let (word, _, why) = taint(report, status);
    html.raw("<section aria-labelledby=\"cluster\"><h2 id=\"cluster\">Cluster</h2>\n<dl class=\"facts\">\n");
    fact(html, "Mode", Some(status.mode));
    if status.dry_run {
        fact(html, "Dry run", Some("yes: nothing is written"));
    }
    let api = match status.api_up {
        Some(true) => "answers",
        Some(false) => "does not answer",
        None => "not asked yet",
    };
    fact(html, "API server", Some(api));
    if let Some(error) = &status.error {
        fact(html, "Last failure", Some(error));
    }
    let taint = match why.is_empty() {
        true => word.to_string(),
        false => format!("{word}: {why}"),
    };
    fact(html, "Taint", Some(&taint));
    if let Some(budget) = &status.budget {
        let text = format!(
            "{} of {} claimed, {} nodes, {}",
            budget.claimed, budget.limit, budget.nodes, budget.lease
        );
        fact(html, "Budget", Some(&text));
    }
    fact(html, "Still to write", Some(&pending(status)));
    html.raw("</dl></section>\n");
}

/// What the Node does not carry yet. That something is on its way is the usual case, and no alarm.
fn pending(status: &ClusterStatus) -> String {
    if status.pending.is_empty() {
        return "nothing".into();
    }
    let what = status.pending.join(", ");
    let how = match status.withheld {
        _ if status.dry_run => "not in a dry run",
        _ if status.api_up == Some(false) => "once the API server answers",
        _ if status.error.is_some() => "tried again after the last failure",
        Some(_) if status.pending == ["taint"] => "withheld",
        _ => "being written",
    };
    format!("{what}: {how}")
}

/// All subjects of one source.
#[derive(Default)]
struct Source<'a> {
    subjects: usize,
    absent: usize,
    stalled: usize,
    failing: usize,
    micros: u64,
    last_ok: Option<Millis>,
    never: bool,
    detail: Option<&'a str>,
}

impl<'a> Source<'a> {
    fn add(&mut self, health: &'a SourceHealth) {
        self.subjects += 1;
        if health.absent {
            self.absent += 1;
            return;
        }
        self.stalled += usize::from(health.stalled_since.is_some());
        let fails = !port_view::source_up(health) && health.stalled_since.is_none();
        self.failing += usize::from(fails);
        self.micros = self.micros.max(health.micros);
        self.never |= health.last_ok.is_none();
        // The one that is behind most.
        self.last_ok = match (self.last_ok, health.last_ok) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let (None, Some(fault)) = (self.detail, &health.fault) {
            self.detail = Some(&fault.detail);
        }
    }

    fn told(&self) -> (Severity, &'static str) {
        match (self.stalled, self.failing) {
            (1.., _) => (Severity::Failing, "stalled"),
            (0, 1..) if self.detail.is_none() => (Severity::Unknown, "not read yet"),
            (0, 1..) => (Severity::Degraded, "failing"),
            (0, 0) if self.absent == self.subjects => (Severity::Off, "absent"),
            (0, 0) => (Severity::Ok, "up"),
        }
    }
}

/// Every source and how reading it goes, worst first.
pub(super) fn sources(html: &mut Html, report: &Report) {
    let mut sources: BTreeMap<&str, Source<'_>> = BTreeMap::new();
    for health in report.snapshot.sources.values() {
        sources.entry(&health.source).or_default().add(health);
    }
    if sources.is_empty() {
        html.raw("<p class=\"dim\">Nothing was read yet.</p>\n");
        return;
    }
    let mut sources: Vec<(&str, Source<'_>)> = sources.into_iter().collect();
    sources.sort_by_key(|(_, source)| std::cmp::Reverse(source.told().0.attention()));
    let heads = [
        "Source",
        "State",
        "Subjects",
        "Slowest read",
        "Oldest value",
        "Why",
    ];
    table(
        html,
        "source-table",
        "Every source, worst first",
        &heads,
        |html| {
            for (name, source) in sources.iter().take(MAX_SOURCES) {
                source_row(html, report, name, source);
            }
        },
    );
    more(html, sources.len(), MAX_SOURCES, "sources");
}

fn source_row(html: &mut Html, report: &Report, name: &str, source: &Source<'_>) {
    let (mark, word) = source.told();
    html.raw("<tr>");
    head(html, name);
    html.raw("<td>");
    let word = match (source.stalled, source.failing) {
        (0, 0) => word.to_string(),
        (0, some) | (some, _) if some < source.subjects => format!("{some} {word}"),
        _ => word.to_string(),
    };
    mark.badge(html, &word);
    html.raw("</td>");
    cell(html, "num", Some(&source.subjects.to_string()));
    let read = source.subjects > source.absent;
    let millis = format!("{:.1} ms", source.micros as f64 / 1000.0);
    cell(html, "num", read.then_some(millis.as_str()));
    let age = match (source.never, source.last_ok) {
        (true, _) if read => Some("never read".to_string()),
        (_, at) => at.map(|at| port_view::ago(report, at)),
    };
    cell(html, "num", age.as_deref());
    cell(html, "wide", source.detail);
    html.raw("</tr>\n");
}
