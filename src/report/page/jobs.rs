//! This node's jobs: what their NCCL uses between nodes.

use super::findings::account;
use super::html::Html;
use super::severity_icon::Severity;
use super::tables::more;
use super::verdict::{stamp, time};
use crate::check::nccl::{Fallback, NcclVerdict, Network};
use crate::check::nccl_daemon::DaemonTrouble;
use crate::check::nccl_jobs::{ContainerVerdict, Via};
use crate::check::nccl_pods::NoRdma;
use crate::check::nccl_suspect::{State, Suspect};
use crate::observe::pod::Job;
use crate::report::{Report, port_view};

/// Jobs, suspects and pods shown of each kind.
const MAX_JOBS: usize = 24;

/// Lines of a log shown.
const MAX_LINES: usize = 4;

/// Remedies shown.
const MAX_REMEDIES: usize = 3;

/// Whether there is anything to tell.
pub(super) fn any(report: &Report) -> bool {
    let jobs = &report.jobs;
    !jobs.containers.is_empty()
        || jobs.logs.is_some()
        || !jobs.no_rdma.is_empty()
        || !jobs.daemon_troubles.is_empty()
        || !jobs.suspects.is_empty()
}

/// The section's inside.
pub(super) fn write(html: &mut Html, report: &Report) {
    let jobs = &report.jobs;
    if jobs.fallbacks_in_a_row > 1 {
        html.leaf(
            "p",
            &[],
            &format!(
                "The last {} jobs that spanned nodes fell back to TCP here.",
                jobs.fallbacks_in_a_row
            ),
        );
    }
    if jobs.containers.is_empty() {
        html.raw("<p class=\"dim\">No log of this node's pods has lines of NCCL's.</p>\n");
    }
    let mut shown = 0;
    html.raw("<div class=\"items\">\n");
    for job in jobs.containers.iter().take(MAX_JOBS) {
        if html.is_full() {
            break;
        }
        one(html, report, job);
        shown += 1;
    }
    for pod in jobs.no_rdma.iter().take(MAX_JOBS) {
        no_rdma(html, pod);
    }
    for pod in jobs.daemon_troubles.iter().take(MAX_JOBS) {
        daemon(html, pod);
    }
    let suspects: Vec<&Suspect> = jobs
        .suspects
        .values()
        .filter(|suspect| suspect.state == State::Suspect)
        .collect();
    for pod in suspects.iter().take(MAX_JOBS) {
        suspect(html, report, pod);
    }
    html.raw("</div>\n");
    more(html, jobs.containers.len(), shown, "jobs");
    more(
        html,
        jobs.no_rdma.len(),
        MAX_JOBS,
        "pods without an RDMA device",
    );
    let daemons = jobs.daemon_troubles.len();
    more(html, daemons, MAX_JOBS, "pods without their daemon");
    more(html, suspects.len(), MAX_JOBS, "suspects");
}

/// How a job does, in a word and a mark.
fn verdict(verdict: &NcclVerdict) -> (Severity, String) {
    if verdict.init_hangs_since.is_some() {
        return (Severity::Degraded, "init hangs".into());
    }
    match verdict.tcp_fallback {
        Fallback::Yes => (Severity::Degraded, "fell back to TCP".into()),
        Fallback::Configured => (Severity::Notice, "TCP, as configured".into()),
        Fallback::Unknown => (Severity::Unknown, "network not known".into()),
        Fallback::No => {
            let network = network(verdict.network);
            match verdict.remedies.is_empty() {
                true => (Severity::Ok, network.into()),
                false => (Severity::Notice, network.into()),
            }
        }
    }
}

/// A network in words.
fn network(network: Network) -> &'static str {
    match network {
        Network::Ib => "InfiniBand",
        Network::Roce => "RoCE",
        Network::IbOrRoce => "InfiniBand or RoCE",
        Network::Socket => "TCP",
        Network::Ofi => "libfabric",
        Network::Fastrak => "GPUDirect-TCPXO",
        Network::Tcpx => "GPUDirect-TCPX",
        Network::Ucx => "UCX",
        Network::None => "none: within the node",
        Network::Unknown => "unknown",
    }
}

fn title(html: &mut Html, (mark, word): (Severity, &str), subject: &str, job: Option<&Job>) {
    html.open("article", &[("class", &format!("item i-{}", mark.class()))]);
    html.raw("<h3>");
    mark.badge(html, word);
    html.raw(" ");
    html.leaf("span", &[("class", "subject")], subject);
    if let Some(job) = job {
        html.raw(" ");
        html.leaf(
            "span",
            &[("class", "reason")],
            &format!("{} {}", job.kind, job.name),
        );
    }
    html.raw("</h3>\n");
}

fn one(html: &mut Html, report: &Report, job: &ContainerVerdict) {
    let judged = &*job.verdict;
    let (mark, word) = verdict(judged);
    title(html, (mark, &word), &job.subject(), job.job.as_ref());
    html.raw("<p class=\"meta\">");
    html.raw(match job.via {
        Via::Log => "from its log",
        Via::Sidecar => "from its sidecar",
        Via::Remembered => "from lines that are gone",
    });
    html.raw(" · for ");
    html.text(&port_view::ago(report, job.since));
    html.raw(", since ");
    time(html, report, job.since);
    html.raw("</p>\n");
    html.leaf("p", &[], &judged.summary);
    html.raw("<dl class=\"seen\">");
    for (name, value) in facts(judged) {
        html.raw("<div>");
        html.leaf("dt", &[], name);
        html.leaf("dd", &[], &value);
        html.raw("</div>");
    }
    if let Some(since) = judged.init_hangs_since {
        html.raw("<div><dt>init hangs since</dt><dd>");
        stamp(html, since);
        html.raw("</dd></div>");
    }
    html.raw("</dl>\n");
    lines(html, judged);
    for remedy in judged.remedies.iter().take(MAX_REMEDIES) {
        html.raw("<p class=\"fix\"><b>Fix</b> ");
        html.prose(remedy);
        html.raw("</p>\n");
    }
    html.raw("</article>\n");
}

fn facts(verdict: &NcclVerdict) -> Vec<(&'static str, String)> {
    let mut facts = vec![("network", network(verdict.network).to_string())];
    let gpudirect = match verdict.gdrdma {
        Some(true) => "used",
        Some(false) => "not used",
        None => "not shown",
    };
    facts.push(("GPUDirect RDMA", gpudirect.into()));
    let used = verdict.channels.iter().filter(|(_, count)| **count > 0);
    let used: Vec<String> = used
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !used.is_empty() {
        facts.push(("connections", used.join(", ")));
    }
    if let Some(ranks) = verdict.nranks {
        facts.push(("ranks", ranks.to_string()));
    }
    if let Some(nodes) = verdict.nodes {
        facts.push(("nodes", nodes.to_string()));
    }
    match (verdict.init_complete, verdict.init_seconds) {
        (_, Some(seconds)) => facts.push(("init", format!("{seconds:.1} s"))),
        (Some(true), None) => facts.push(("init", "complete".into())),
        (Some(false), None) => facts.push(("init", "failed".into())),
        (None, None) => {}
    }
    if let Some(version) = &verdict.nccl_version {
        facts.push(("NCCL", version.clone()));
    }
    facts
}

fn lines(html: &mut Html, verdict: &NcclVerdict) {
    if verdict.evidence.is_empty() {
        return;
    }
    html.raw("<ul class=\"lines\" aria-label=\"Lines of the log\">");
    for line in verdict.evidence.iter().take(MAX_LINES) {
        html.raw("<li><span class=\"dim\">");
        html.text(&line.line.to_string());
        html.raw("</span> ");
        html.leaf("code", &[], &line.text);
        html.raw("</li>");
    }
    html.raw("</ul>\n");
}

fn no_rdma(html: &mut Html, pod: &NoRdma) {
    notice(
        html,
        "no RDMA device",
        [&pod.subject, &pod.message, &pod.remedy],
    );
}

fn daemon(html: &mut Html, pod: &DaemonTrouble) {
    let what = match pod.daemon {
        None => "no daemon",
        Some(_) => "daemon down",
    };
    notice(html, what, [&pod.subject, &pod.message, &pod.remedy]);
}

fn notice(html: &mut Html, what: &'static str, [subject, message, remedy]: [&str; 3]) {
    if html.is_full() {
        return;
    }
    title(html, (Severity::Notice, what), subject, None);
    html.raw("<p>");
    html.prose(message);
    html.raw("</p>\n");
    html.raw("<p class=\"fix\"><b>Fix</b> ");
    html.prose(remedy);
    html.raw("</p>\n</article>\n");
}

fn suspect(html: &mut Html, report: &Report, pod: &Suspect) {
    if html.is_full() {
        return;
    }
    title(
        html,
        (Severity::Notice, "suspect"),
        &pod.subject(),
        pod.pod.job.as_ref(),
    );
    html.raw("<p class=\"meta\">");
    account(
        html,
        (report, pod.since),
        &pod.message,
        &pod.evidence,
        &pod.remedy,
    );
    html.raw("</article>\n");
}
