//! What every section of the page is made from.

use super::{badge::MAX_FINDINGS, topology_layout::Drawing};
use crate::report::{ClusterStatus, Report, port_view};
use crate::units::Millis;
use askama::Template;

/// Rows of any table or list, at most.
pub(super) const MAX_ROWS: usize = 64;

/// What the sections are made from.
#[derive(Clone, Copy)]
pub(super) struct PageContext<'a> {
    pub(super) report: &'a Report,
    /// What the writer of the Node did; `None` where no Node is written.
    pub(super) cluster: Option<&'a ClusterStatus>,
    pub(super) layout: &'a Drawing<'a>,
    /// Rows of any list; lower where texts are so long that the section would be too large.
    pub(super) limit: usize,
}

impl<'a> PageContext<'a> {
    pub(super) fn ago(&self, at: &Millis) -> String {
        port_view::ago(self.report, *at)
    }

    /// UTC in whole seconds; `None` where the snapshot has no wall time.
    pub(super) fn utc(&self, at: &Millis) -> Option<String> {
        port_view::wall_at(self.report, *at).map(whole_seconds)
    }

    /// The first rows of a list.
    pub(super) fn rows<T>(&self, all: &'a [T], most: usize) -> impl Iterator<Item = &'a T> {
        all.iter().take(self.shown(most))
    }

    pub(super) fn shown(&self, most: usize) -> usize {
        self.limit.min(most)
    }

    /// Number of the first finding with this reason, where that has an anchor.
    pub(super) fn anchor_of(&self, reason: &str) -> Option<usize> {
        let mut findings = self.report.findings.iter().take(MAX_FINDINGS);
        findings.position(|finding| finding.reason == reason)
    }

    /// One section, with fewer rows where it would be larger than `bytes`, so that hostile texts in
    /// one section leave room for the others.
    pub(super) fn fit<T: Template>(
        self,
        bytes: usize,
        section: impl Fn(PageContext<'a>) -> T,
    ) -> String {
        let mut limit = MAX_ROWS;
        loop {
            // Writing to a String cannot fail.
            let html = (section(PageContext { limit, ..self }).render()).unwrap_or_default();
            if html.len() <= bytes || limit == 1 {
                return html;
            }
            limit /= 2;
        }
    }
}

pub(super) fn whole_seconds(wall: jiff::Timestamp) -> String {
    format!("{wall:.0}")
}
