//! Findings, worst first: what is so, what was seen, what to do.

use super::html::Html;
use super::severity_icon::{MAX_FINDINGS, Severity};
use super::tables::more;
use super::verdict::time;
use crate::check::Finding;
use crate::report::{Report, port_view, runbooks};
use crate::units::Millis;
use serde_json::Value;
use std::collections::BTreeMap;

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
    let mark = Severity::of(finding);
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
    html.raw(" · ");
    account(
        html,
        (report, finding.since),
        &finding.message,
        &finding.evidence,
        &finding.remedy,
    );
    if let Some(page) = runbooks::page_of(&finding.reason) {
        html.raw("<p class=\"more\">");
        let address = format!("/runbooks/{page}");
        html.leaf("a", &[("href", &address)], &format!("Runbook {page}"));
        html.raw("</p>\n");
    }
    html.raw("</article>\n");
}

/// Since when something is so (the end of a paragraph that the caller began), what is so, what was
/// seen and what to do: the same of a finding and of a suspect.
pub(super) fn account(
    html: &mut Html,
    (report, since): (&Report, Millis),
    message: &str,
    seen: &BTreeMap<String, Value>,
    remedy: &str,
) {
    html.raw("for ");
    html.text(&port_view::ago(report, since));
    html.raw(", since ");
    time(html, report, since);
    html.raw("</p>\n<p>");
    html.prose(message);
    html.raw("</p>\n");
    evidence(html, seen);
    if !remedy.is_empty() {
        html.raw("<p class=\"fix\"><b>Fix</b> ");
        html.prose(remedy);
        html.raw("</p>\n");
    }
}

/// What was seen, as names and values.
fn evidence(html: &mut Html, evidence: &BTreeMap<String, Value>) {
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
