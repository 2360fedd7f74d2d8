//! The page at `/`: one document that a browser shows without asking for anything else, and without
//! scripts. It comes again by the answer's `Refresh` header; `/paused` is the same page standing
//! still, for whoever reads, selects or goes by keyboard.
//!
//! Everything that was read somewhere goes through `html.rs` and stays text there.

mod drawing;
mod events;
mod findings;
mod html;
mod jobs;
mod markdown;
mod node;
mod runbook;
mod severity_icon;
mod tables;
mod topology_layout;
mod verdict;

use super::{ClusterStatus, Report, Role, port_view};
use html::Html;
pub use runbook::encode as runbook;
use severity_icon::{Severity, SeverityIndex};
use std::time::Duration;
use topology_layout::Layout;

/// What the page may do: show itself. No script, no request, no frame around it.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether the page comes again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// At `/`.
    On,
    /// At `/paused`.
    Off,
}

/// How long after a change of the verdict somebody is likely to be watching.
const FRESH: Duration = Duration::from_secs(120);

/// Seconds after which the page comes again: sooner while things change.
pub fn refresh_seconds(report: &Report) -> u8 {
    let lately = report.snapshot.at.since(report.since) < FRESH;
    match lately || !report.full_window {
        true => 5,
        false => 10,
    }
}

/// Bytes that text may take in each part; markup around it is bounded by the numbers of things shown.
mod room {
    pub(super) const TOP: usize = 12 * 1024;
    pub(super) const FABRIC: usize = 24 * 1024;
    pub(super) const FINDINGS: usize = 40 * 1024;
    pub(super) const EVENTS: usize = 12 * 1024;
    pub(super) const PORTS: usize = 24 * 1024;
    pub(super) const JOBS: usize = 24 * 1024;
    pub(super) const NODE: usize = 24 * 1024;
}

/// HTML of the page.
pub fn encode(report: &Report, cluster: Option<&ClusterStatus>, refresh: Refresh) -> String {
    let found = SeverityIndex::of(report);
    let plan = topology_layout::of(report, &found);
    let mut html = Html::new();
    html.part(room::TOP);
    let mark = Severity::of_state(report.state);
    let titles = [report.state.as_str(), &report.node, "selvage"];
    open(&mut html, mark, &titles);
    header(&mut html, report, cluster.is_some(), &plan, refresh);
    html.raw("<main id=\"main\">\n");
    verdict::banner(&mut html, report, &found);
    verdict::tiles(&mut html, report, cluster, &plan);
    html.part(room::FABRIC);
    fabric(&mut html, report, &plan);
    html.part(room::FINDINGS);
    html.raw("<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>\n");
    findings::write(&mut html, report);
    html.raw("</section>\n");
    html.part(room::EVENTS);
    html.raw("<section aria-labelledby=\"events\"><h2 id=\"events\">Last changes</h2>\n");
    events::write(&mut html, report);
    html.raw("</section>\n");
    if jobs::any(report) {
        html.part(room::JOBS);
        html.raw("<section aria-labelledby=\"jobs\"><h2 id=\"jobs\">NCCL jobs</h2>\n");
        jobs::write(&mut html, report);
        html.raw("</section>\n");
    }
    if !plan.ports.is_empty() {
        html.part(room::PORTS);
        html.raw("<section aria-labelledby=\"ports\"><h2 id=\"ports\">Ports</h2>\n");
        tables::ports(&mut html, &plan);
        html.raw("</section>\n");
    }
    html.part(room::NODE);
    html.raw("<section aria-labelledby=\"gpus\"><h2 id=\"gpus\">GPUs and GPUDirect</h2>\n");
    node::gpudirect(&mut html, report);
    tables::gpus(&mut html, report, &plan);
    html.raw("</section>\n<section aria-labelledby=\"xids\"><h2 id=\"xids\">Xids</h2>\n");
    node::xids(&mut html, report);
    html.raw("</section>\n");
    if let Some(status) = cluster {
        node::cluster(&mut html, report, status);
    }
    html.raw("<section aria-labelledby=\"sources\"><h2 id=\"sources\">Sources</h2>\n");
    html.part(room::NODE);
    node::sources(&mut html, report);
    html.raw("</section>\n</main>\n");
    html.part(room::TOP);
    footer(&mut html, report);
    close(&mut html);
    html.into_string()
}

/// The document's head, and its body's begin.
fn open(html: &mut Html, mark: Severity, titles: &[&str]) {
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    html.raw("<link rel=\"icon\" type=\"image/svg+xml\" href=\"");
    html.raw(mark.icon());
    html.raw("\">\n<title>");
    for (number, title) in titles.iter().enumerate() {
        if number > 0 {
            html.raw(" · ");
        }
        html.text(title);
    }
    html.raw("</title>\n<style>\n");
    html.raw(include_str!("page/style.css"));
    html.raw("</style></head>\n<body>\n");
}

/// The document's end.
fn close(html: &mut Html) {
    html.raw("</body></html>\n");
}

fn header(
    html: &mut Html,
    report: &Report,
    has_cluster: bool,
    plan: &Layout<'_>,
    refresh: Refresh,
) {
    html.raw("<a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n<header><b class=\"brand\">selvage</b>\n");
    html.raw("<nav aria-label=\"Sections\"><ul><li><a href=\"#fabric\">Fabric</a></li><li><a href=\"#findings\">Findings</a></li><li><a href=\"#events\">Changes</a></li>");
    if jobs::any(report) {
        html.raw("<li><a href=\"#jobs\">Jobs</a></li>");
    }
    if !plan.ports.is_empty() {
        html.raw("<li><a href=\"#ports\">Ports</a></li>");
    }
    html.raw("<li><a href=\"#gpus\">GPUs</a></li><li><a href=\"#xids\">Xids</a></li>");
    if has_cluster {
        html.raw("<li><a href=\"#cluster\">Cluster</a></li>");
    }
    html.raw("<li><a href=\"#sources\">Sources</a></li></ul></nav>\n<p class=\"again\">");
    match refresh {
        Refresh::On => {
            html.raw("Refreshes every ");
            html.text(&refresh_seconds(report).to_string());
            html.raw(" s <a href=\"/paused\">Pause</a>");
        }
        Refresh::Off => html.raw("Paused <a href=\"/\">Resume</a>"),
    }
    html.raw("</p></header>\n");
}

fn fabric(html: &mut Html, report: &Report, plan: &Layout<'_>) {
    html.raw("<section aria-labelledby=\"fabric\"><h2 id=\"fabric\">Fabric</h2>\n");
    let sentence = match (&report.snapshot.devices, plan.ports.is_empty()) {
        (None, _) => Some("RDMA devices could not be listed: nothing is known of the fabric."),
        (Some(_), true) => Some("No RDMA device on this node."),
        (Some(_), false) if !report.roles.values().any(|facts| facts.role == Role::Rail) => {
            Some("No port is a rail (compute fabric).")
        }
        _ => None,
    };
    if let Some(sentence) = sentence {
        html.leaf("p", &[], sentence);
    }
    if !plan.groups.is_empty() {
        drawing::groups(html, plan);
    }
    html.raw("</section>\n");
}

fn footer(html: &mut Html, report: &Report) {
    html.raw(
        "<footer><nav aria-label=\"Other addresses\"><ul>\
         <li><a href=\"/metrics\">/metrics</a></li><li><a href=\"/report\">/report</a></li>\
         <li><a href=\"/healthz\">/healthz</a></li><li><a href=\"/readyz\">/readyz</a></li>\
         <li><a href=\"/runbooks\">Runbooks</a></li>\
         </ul></nav>\n<p>selvage ",
    );
    html.raw(env!("CARGO_PKG_VERSION"));
    html.raw(" · generated ");
    match port_view::wall_at(report, report.snapshot.at) {
        Some(wall) => verdict::stamp(html, wall),
        None => html.raw("at an unknown time"),
    }
    html.raw(" · evaluation ");
    html.text(&report.generation.to_string());
    if let Some(boot) = &report.snapshot.boot_id {
        html.raw(" · boot ");
        html.leaf("code", &[], boot);
    }
    html.raw("</p></footer>\n");
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod scan;
#[cfg(test)]
mod tests;
