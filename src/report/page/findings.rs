//! Findings, worst first: what is so, what was seen, what to do.

use super::html::Html;
use super::marks::{MAX_FINDINGS, Mark};
use super::tables::more;
use super::verdict::time;
use crate::check::Finding;
use crate::report::{Report, runbooks, view};

/// Entries of evidence shown.
const MAX_EVIDENCE: usize = 12;

/// The section's inside.
pub(super) fn write(html: &mut Html, report: &Report) {
    if report.findings.is_empty() {
        html.raw("<p class=\"dim\">Nothing was found.</p>\n");
        return;
    }
    let mut shown = 0;
    html.raw("<div class=\"items\">\n");
    for (number, finding) in report.findings.iter().take(MAX_FINDINGS).enumerate() {
        if html.is_full() {
            break;
        }
        one(html, report, number, finding);
        shown = number + 1;
    }
    html.raw("</div>\n");
    more(html, report.findings.len(), shown, "findings");
}

fn one(html: &mut Html, report: &Report, number: usize, finding: &Finding) {
    let mark = Mark::of(finding);
    html.open(
        "article",
        &[
            ("class", &format!("item i-{}", mark.class())),
            ("id", &format!("f-{number}")),
        ],
    );
    html.raw("<h3>");
    mark.badge(html, mark.word());
    html.raw(" ");
    html.leaf("span", &[("class", "subject")], &finding.subject);
    html.raw(" ");
    html.leaf("span", &[("class", "reason")], &finding.reason);
    html.raw("</h3>\n<p class=\"meta\">check ");
    html.leaf("code", &[], &finding.check);
    html.raw(" · for ");
    html.text(&view::ago(report, finding.since));
    html.raw(", since ");
    time(html, report, finding.since);
    html.raw("</p>\n");
    html.raw("<p>");
    html.prose(&finding.message);
    html.raw("</p>\n");
    evidence(html, &finding.evidence);
    if !finding.remedy.is_empty() {
        html.raw("<p class=\"fix\"><b>Fix</b> ");
        html.prose(&finding.remedy);
        html.raw("</p>\n");
    }
    if let Some(page) = runbooks::page_of(&finding.reason) {
        html.raw("<p class=\"more\">");
        let address = format!("/runbooks/{page}");
        html.leaf("a", &[("href", &address)], &format!("Runbook {page}"));
        html.raw("</p>\n");
    }
    html.raw("</article>\n");
}

/// What was seen, as names and values.
pub(super) fn evidence(
    html: &mut Html,
    evidence: &std::collections::BTreeMap<String, serde_json::Value>,
) {
    if evidence.is_empty() {
        return;
    }
    html.raw("<dl class=\"seen\">");
    for (name, value) in evidence.iter().take(MAX_EVIDENCE) {
        html.raw("<div>");
        html.leaf("dt", &[], name);
        match value {
            serde_json::Value::String(text) => html.leaf("dd", &[], text),
            value => html.leaf("dd", &[], &value.to_string()),
        }
        html.raw("</div>");
    }
    html.raw("</dl>\n");
    let more = evidence.len().saturating_sub(MAX_EVIDENCE);
    if more > 0 {
        html.leaf("p", &[("class", "dim")], &format!("and {more} more facts"));
    }
}
