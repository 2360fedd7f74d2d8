//! What changed lately, newest first.

use super::html::Html;
use super::severity_icon::Severity;
use super::tables::table;
use super::verdict::time;
use crate::readiness::diary::{Change, Entry, What};
use crate::report::{Report, port_view};

/// Changes shown.
const MAX_EVENTS: usize = 24;

/// The section's inside.
pub(super) fn write(html: &mut Html, report: &Report) {
    if report.diary.is_empty() {
        html.raw("<p class=\"dim\">Nothing has changed since the agent began to look.</p>\n");
        return;
    }
    let heads = ["When", "Change", "About", "What"];
    html.raw("<div class=\"events\">");
    table(
        html,
        "event-table",
        "Last changes, newest first",
        &heads,
        |html| {
            for entry in report.diary.iter().rev().take(MAX_EVENTS) {
                one(html, report, entry);
            }
        },
    );
    html.raw("</div>\n");
}

fn one(html: &mut Html, report: &Report, entry: &Entry) {
    html.raw("<tr><td class=\"num\">");
    html.text(&port_view::ago(report, entry.at));
    html.raw(" ago <small class=\"dim\">");
    time(html, report, entry.at);
    html.raw("</small></td><td>");
    match &entry.change {
        Change::State { from, to, reasons } => {
            Severity::of_state(*to).badge(html, to.as_str());
            html.raw("</td><th scope=\"row\">the node</th><td class=\"wide\">was ");
            html.text(from.as_str());
            if !reasons.is_empty() {
                let shown: Vec<&str> = reasons.iter().take(8).map(String::as_str).collect();
                html.raw("; now: ");
                html.text(&shown.join(", "));
            }
        }
        Change::Raised { what, message } => {
            let mark = Severity::judged(what.weight, what.status);
            mark.badge(html, mark.word());
            about(html, what);
            html.raw(": ");
            html.text(message);
        }
        Change::Cleared { what, stood } => {
            Severity::Ok.badge(html, "cleared");
            about(html, what);
            html.raw(", which stood for ");
            html.text(&port_view::span(*stood));
        }
    }
    html.raw("</td></tr>\n");
}

fn about(html: &mut Html, what: &What) {
    html.raw("</td>");
    html.leaf("th", &[("scope", "row")], &what.subject);
    html.raw("<td class=\"wide\">");
    html.leaf("span", &[("class", "reason")], &what.reason);
}
