//! The top of the page: what is so, since when, why, and what to do where no finding says it.

use super::html::Html;
use super::severity_icon::{self, Severity, SeverityIndex};
use super::topology_layout::Layout;
use crate::check::gpudirect::Path;
use crate::check::nccl::Fallback;
use crate::readiness;
use crate::report::cluster::ClusterStatus;
use crate::report::{Report, State, Tainting, port_view, runbooks};
use crate::units::Millis;

/// Reasons, muted checks and notes shown.
const MAX_REASONS: usize = 16;

/// `<time>` of a moment, in whole seconds of UTC; nothing where there is no wall time.
pub(super) fn time(html: &mut Html, report: &Report, at: Millis) {
    if let Some(wall) = port_view::wall_at(report, at) {
        stamp(html, wall);
    }
}

/// `<time>` of a wall time.
pub(super) fn stamp(html: &mut Html, wall: jiff::Timestamp) {
    let rounded = wall.round(
        jiff::TimestampRound::new()
            .smallest(jiff::Unit::Second)
            .mode(jiff::RoundMode::Trunc),
    );
    let text = rounded.unwrap_or(wall).to_string();
    html.leaf("time", &[("datetime", &text)], &text);
}

/// The banner.
pub(super) fn banner(html: &mut Html, report: &Report, found: &SeverityIndex<'_>) {
    let mark = Severity::of_state(report.state);
    html.open(
        "section",
        &[
            ("class", &format!("banner v-{}", mark.class())),
            ("aria-label", "Verdict"),
        ],
    );
    mark.draw(html);
    html.raw("<div><h1><span class=\"host\">");
    html.text(&report.node);
    html.raw("</span> is ");
    html.leaf("em", &[("class", mark.class())], report.state.as_str());
    html.raw("</h1>\n<p class=\"since\">");
    html.raw("for ");
    html.text(&port_view::ago(report, report.since));
    if port_view::wall_at(report, report.since).is_some() {
        html.raw(", since ");
        time(html, report, report.since);
    }
    html.raw("</p>\n");
    reasons(html, report, found);
    for doc in readiness::explained(&report.reasons) {
        html.raw("<p>");
        html.prose(doc.meaning);
        html.raw("</p>\n");
        html.raw("<p><b>Fix</b> ");
        html.prose(doc.remedy);
        if let Some(page) = runbooks::page_of(doc.reason) {
            html.raw(" ");
            let address = format!("/runbooks/{page}");
            html.leaf("a", &[("href", &address)], &format!("Runbook {page}"));
        }
        html.raw("</p>\n");
    }
    if !report.full_window && !report.reasons.iter().any(|r| r == readiness::STARTING) {
        html.raw("<p>The first window is not complete: the verdict may still change.</p>\n");
    }
    if report.full_window && report.state == State::Ready && report.findings.is_empty() {
        html.raw("<p>Every rail works as it should, and nothing was found.</p>\n");
    }
    muted(html, report);
    html.raw("</div></section>\n");
}

fn reasons(html: &mut Html, report: &Report, found: &SeverityIndex<'_>) {
    if report.reasons.is_empty() {
        return;
    }
    html.raw("<ul class=\"chips\" aria-label=\"Reasons\">");
    for reason in report.reasons.iter().take(MAX_REASONS) {
        html.raw("<li>");
        match found.of_reason(reason) {
            Some(number) => severity_icon::link(html, number, reason),
            None => html.leaf("span", &[], reason),
        }
        html.raw("</li>");
    }
    let more = report.reasons.len().saturating_sub(MAX_REASONS);
    if more > 0 {
        html.leaf("li", &[], &format!("and {more} more"));
    }
    html.raw("</ul>\n");
}

fn muted(html: &mut Html, report: &Report) {
    if report.muted.is_empty() {
        return;
    }
    html.raw("<p class=\"dim\">Muted checks: ");
    let shown: Vec<&str> = report
        .muted
        .iter()
        .take(MAX_REASONS)
        .map(String::as_str)
        .collect();
    html.text(&shown.join(", "));
    let more = report.muted.len().saturating_sub(MAX_REASONS);
    if more > 0 {
        html.text(&format!(" and {more} more"));
    }
    html.raw("</p>\n");
}

/// The strip of figures below the banner.
pub(super) fn tiles(
    html: &mut Html,
    report: &Report,
    cluster: Option<&ClusterStatus>,
    plan: &Layout<'_>,
) {
    html.raw("<dl class=\"tiles\">\n");
    rails(html, report, plan);
    gpus(html, report, plan);
    let path = port_view::path_name(report.gpudirect.path);
    let mark = match report.gpudirect.path {
        Path::None if !plan.gpus.is_empty() && !plan.ports.is_empty() => Some(Severity::Degraded),
        _ => None,
    };
    tile(html, "GPUDirect RDMA", path, mark, "");
    findings(html, report);
    jobs(html, report);
    if let Some(status) = cluster {
        let (word, mark, more) = taint(report, status);
        tile(html, "Taint", word, mark, &more);
    }
    html.raw("</dl>\n");
}

fn tile(html: &mut Html, name: &'static str, value: &str, mark: Option<Severity>, more: &str) {
    html.raw("<div><dt>");
    html.raw(name);
    html.raw("</dt><dd><b>");
    if let Some(mark) = mark {
        mark.draw(html);
    }
    html.text(value);
    html.raw("</b>");
    if !more.is_empty() {
        html.leaf("small", &[], more);
    }
    html.raw("</dd></div>\n");
}

fn rails(html: &mut Html, report: &Report, plan: &Layout<'_>) {
    let rails: Vec<_> = plan
        .ports
        .iter()
        .filter(|port| port.view.is_rail())
        .collect();
    let up = rails.iter().filter(|port| port.view.is_up()).count();
    let worst = rails.iter().map(|port| port.link).max();
    let others = plan.ports.len().saturating_sub(rails.len());
    let more = match others {
        0 => String::new(),
        1 => "and 1 other port".into(),
        others => format!("and {others} other ports"),
    };
    let value = match (report.snapshot.devices.is_some(), rails.len()) {
        (false, _) => "unknown".into(),
        (true, 0) => "none".into(),
        (true, all) => format!("{up} of {all} up"),
    };
    let mark = worst.filter(|mark| *mark > Severity::Notice);
    tile(html, "Rails", &value, mark, &more);
}

fn gpus(html: &mut Html, report: &Report, plan: &Layout<'_>) {
    let value = port_view::gpu_count(report)
        .filter(|count| *count > 0 || report.snapshot.pci.is_some())
        .map_or("unknown".into(), |count| count.to_string());
    let worst = plan.gpus.iter().map(|gpu| gpu.mark).max();
    let bad = plan
        .gpus
        .iter()
        .filter(|gpu| gpu.mark > Severity::Notice)
        .count();
    let more = match bad {
        0 => String::new(),
        bad => format!("{bad} with findings"),
    };
    tile(
        html,
        "GPUs",
        &value,
        worst.filter(|mark| *mark > Severity::Notice),
        &more,
    );
}

fn findings(html: &mut Html, report: &Report) {
    let count = |mark: Severity| {
        let found = report
            .findings
            .iter()
            .filter(|f| Severity::of(f) == mark)
            .count();
        (found > 0).then(|| format!("{found} {}", mark.word()))
    };
    let all = [
        Severity::Failing,
        Severity::Degraded,
        Severity::Unknown,
        Severity::Notice,
    ];
    let words: Vec<String> = all.into_iter().filter_map(count).collect();
    let worst = report.findings.iter().map(Severity::of).max();
    let value = match report.findings.len() {
        0 => "none".to_string(),
        all => all.to_string(),
    };
    tile(
        html,
        "Findings",
        &value,
        worst.filter(|mark| *mark > Severity::Notice),
        &words.join(", "),
    );
}

fn jobs(html: &mut Html, report: &Report) {
    let jobs = &report.jobs.containers;
    if jobs.is_empty() && report.jobs.logs.is_none() {
        return;
    }
    let fallen = jobs
        .iter()
        .filter(|job| job.verdict.tcp_fallback == Fallback::Yes)
        .count();
    let (mark, more) = match fallen {
        0 => (None, String::new()),
        fallen => (
            Some(Severity::Degraded),
            format!("{fallen} fell back to TCP"),
        ),
    };
    tile(html, "NCCL jobs", &jobs.len().to_string(), mark, &more);
}

/// What the taint does, and why it is not put where it is wanted.
pub(super) fn taint(
    report: &Report,
    status: &ClusterStatus,
) -> (&'static str, Option<Severity>, String) {
    let budget = status.budget.as_ref().map_or(String::new(), |budget| {
        format!(
            ", {} of {} nodes that may be tainted are",
            budget.claimed, budget.limit
        )
    });
    let muted = if report.taint_muted {
        "muted by an operator"
    } else {
        ""
    };
    match (status.taint_applied, status.withheld) {
        (Some(true), _) => {
            let more = [
                leaving(report, status),
                muted,
                budget.trim_start_matches(", "),
            ];
            let more: Vec<&str> = more.into_iter().filter(|part| !part.is_empty()).collect();
            let mark = match report.state {
                State::Ready | State::Degraded => Severity::Degraded,
                State::Unready | State::Unknown => Severity::Failing,
            };
            ("applied", Some(mark), more.join("; "))
        }
        (_, Some(why)) => (
            "withheld",
            Some(Severity::Degraded),
            format!("{}{budget}", withheld(why)),
        ),
        (_, None) if report.tainting == Tainting::Want => {
            ("wanted", Some(Severity::Degraded), muted.into())
        }
        (Some(false), None) => ("none", None, muted.into()),
        (None, None) => ("unknown", None, "the Node was not seen yet".into()),
    }
}

/// When a taint goes that the node carries though it is better, in words.
fn leaving(report: &Report, status: &ClusterStatus) -> &'static str {
    match (report.state, report.tainting) {
        (State::Unready, _) => "",
        _ if status.dry_run => "a dry run takes nothing off",
        (_, Tainting::Clear) if status.api_up == Some(false) => "goes once the API server answers",
        (_, Tainting::Clear) => "is being taken off",
        (State::Unknown, _) => "stays while the verdict is unknown",
        (_, Tainting::Keep) => "stays until the first window is complete",
        // How long that is, the report does not tell; flaps make it longer.
        (_, Tainting::Want) => "goes after cluster.clear of better",
    }
}

/// Why a wanted taint is not put, in words.
fn withheld(why: &'static str) -> &'static str {
    match why {
        "budget" => "by the budget",
        "not_in_group" => "this node is in no group",
        "muted" => "muted by an operator",
        "mode" => "the mode writes no taint",
        "dry_run" => "a dry run writes nothing",
        "api" => "the API server does not answer",
        other => other,
    }
}
