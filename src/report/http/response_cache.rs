//! The report's forms, each encoded once a report however many ask.

use super::ServeState;
use crate::report::metrics::{self, MetricsCache};
use crate::report::page::{self, Refresh};
use crate::report::{ClusterStatus, Report, json};
use bytes::Bytes;
use std::sync::Arc;

/// What was encoded last.
#[derive(Default)]
pub(super) struct ResponseCache {
    metrics: MetricsCache,
    json: Encoded,
    page: Encoded,
    still_page: Encoded,
}

/// A report and what the writer of the Node has done, joined for one answer.
pub(super) struct Shown {
    pub report: Arc<Report>,
    /// `None` where no Node is written.
    pub cluster: Option<Arc<ClusterStatus>>,
}

/// One form, kept until the report or the writer's status changes.
#[derive(Default)]
struct Encoded(Option<(u64, Option<Arc<ClusterStatus>>, Bytes)>);

impl Encoded {
    fn of(&mut self, shown: &Shown, encode: impl FnOnce(&Shown) -> String) -> Bytes {
        if let Some((generation, cluster, body)) = &self.0
            && *generation == shown.report.generation
            && *cluster == shown.cluster
        {
            return body.clone();
        }
        let body = Bytes::from(encode(shown));
        self.0 = Some((shown.report.generation, shown.cluster.clone(), body.clone()));
        body
    }
}

impl ServeState {
    pub(super) fn metrics(&self, shown: &Shown) -> Bytes {
        let report = &shown.report;
        let fixed = match self.forms.try_lock() {
            Ok(mut forms) => forms.metrics.report(report, self.options),
            // In use or poisoned: encode without it rather than wait.
            Err(_) => metrics::encode_report(report, self.options).into(),
        };
        let agent = metrics::encode_agent(&(self.stats)(), report);
        let cluster = shown.cluster.as_deref().map(metrics::encode_cluster);
        let cluster = cluster.unwrap_or_default();
        [fixed.as_bytes(), cluster.as_bytes(), agent.as_bytes()]
            .concat()
            .into()
    }

    pub(super) fn json(&self, shown: &Shown) -> Bytes {
        let encode = |shown: &Shown| json::encode(&shown.report, shown.cluster.as_deref());
        self.kept(shown, |forms| &mut forms.json, encode)
    }

    pub(super) fn page(&self, shown: &Shown, refresh: Refresh) -> Bytes {
        let encode = |shown: &Shown| page::encode(&shown.report, shown.cluster.as_deref(), refresh);
        match refresh {
            Refresh::On => self.kept(shown, |forms| &mut forms.page, encode),
            Refresh::Off => self.kept(shown, |forms| &mut forms.still_page, encode),
        }
    }

    fn kept(
        &self,
        shown: &Shown,
        form: impl FnOnce(&mut ResponseCache) -> &mut Encoded,
        encode: impl FnOnce(&Shown) -> String,
    ) -> Bytes {
        match self.forms.try_lock() {
            Ok(mut forms) => form(&mut forms).of(shown, encode),
            Err(_) => encode(shown).into(),
        }
    }
}
