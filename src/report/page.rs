//! The page at `/`: one document that a browser shows without a further request and without scripts.
//! It refreshes by the answer's `Refresh` header; `/paused` is the same page without that header, for
//! reading, selecting and keyboard use.
//!
//! The markup is in `templates/`, where every expression is escaped by [`text::PageText`].

mod badge;
mod cluster;
mod context;
mod jobs;
mod markdown;
mod node;
mod summary;
mod text;
mod topology_layout;

use super::{ClusterStatus, Report, State, nccl, port_view, runbooks};
use crate::check::job_verdicts::VerdictSource;
use crate::readiness;
use crate::readiness::history::VerdictChange;
use askama::Template;
use badge::Badge;
use context::{MAX_ROWS, PageContext};
use std::time::Duration;
use topology_layout::Above;

/// Content security policy: no script, no request, no frame around it.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("page/style.css");

/// Whether the page refreshes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// At `/`.
    On,
    /// At `/paused`.
    Off,
}

/// How long after a change of the verdict somebody is likely to be watching.
const RECENT: Duration = Duration::from_secs(120);

/// Seconds between refreshes: fewer while things change.
pub fn refresh_seconds(report: &Report) -> u8 {
    let lately = report.snapshot.at.since(report.since) < RECENT;
    if lately || !report.full_window { 5 } else { 10 }
}

/// An icon's shape, of a different outline for each severity.
#[derive(Template)]
#[template(path = "shape.html")]
struct IconShape(Badge);

impl Badge {
    fn shape(self) -> IconShape {
        IconShape(self)
    }
}

/// The whole document.
#[derive(Template)]
#[template(path = "page.html")]
struct NodePage<'a> {
    page: PageContext<'a>,
    refresh: Refresh,
    /// Severity that the icon in the browser's tab shows.
    severity: Badge,
    sections: Vec<String>,
}

/// The sections in their order, each with the bytes that it may take.
macro_rules! sections {
    ($($path:literal $bytes:literal)*) => {
        fn sections(page: PageContext<'_>) -> Vec<String> {
            vec![$({
                #[derive(Template)]
                #[template(path = $path)]
                struct Section<'a> {
                    page: PageContext<'a>,
                }
                page.fit($bytes, |page| Section { page })
            }),*]
        }
    };
}

sections! {
    "summary.html" 20_000
    "fabric.html" 48_000
    "findings.html" 40_000
    "events.html" 16_000
    "jobs.html" 32_000
    "ports.html" 40_000
    "gpus.html" 24_000
    "xids.html" 12_000
    "cluster.html" 12_000
    "sources.html" 16_000
}

/// HTML of the page.
pub fn encode(report: &Report, cluster: Option<&ClusterStatus>, refresh: Refresh) -> String {
    let layout = topology_layout::of(report);
    let page = PageContext {
        report,
        cluster,
        layout: &layout,
        limit: MAX_ROWS,
    };
    let document = NodePage {
        page,
        refresh,
        severity: Badge::of_state(&report.state),
        sections: sections(page),
    };
    document.render().unwrap_or_default()
}

/// A runbook, or the list of them, in the look of the page at `/`; nothing about this node.
#[derive(Template)]
#[template(path = "runbook.html")]
struct RunbookPage<'a> {
    book: &'a runbooks::Runbook,
    body: String,
    severity: Badge,
}

/// HTML of a runbook, or of the list of them.
pub fn runbook(book: &runbooks::Runbook) -> String {
    let document = RunbookPage {
        book,
        body: markdown::render(book.text),
        severity: Badge::Notice,
    };
    document.render().unwrap_or_default()
}

#[cfg(test)]
mod scan;
#[cfg(test)]
mod tests;
