//! The report's forms, each encoded once a report however many ask.

use super::ServeState;
use crate::report::metrics::{self, MetricsCache};
use crate::report::page::{self, Refresh};
use crate::report::{Report, json};
use bytes::Bytes;

/// What was encoded last.
#[derive(Default)]
pub(super) struct ResponseCache {
    metrics: MetricsCache,
    json: Encoded,
    page: Encoded,
    still_page: Encoded,
}

/// One form, kept until the next report.
#[derive(Default)]
struct Encoded(Option<(u64, Bytes)>);

impl Encoded {
    fn of(&mut self, report: &Report, encode: impl FnOnce(&Report) -> String) -> Bytes {
        if let Some((generation, body)) = &self.0
            && *generation == report.generation
        {
            return body.clone();
        }
        let body = Bytes::from(encode(report));
        self.0 = Some((report.generation, body.clone()));
        body
    }
}

impl ServeState {
    pub(super) fn metrics(&self, report: &Report) -> Bytes {
        let fixed = match self.forms.try_lock() {
            Ok(mut forms) => forms.metrics.report(report, self.options),
            // In use or poisoned: encode without it rather than wait.
            Err(_) => metrics::encode_report(report, self.options).into(),
        };
        let agent = metrics::encode_agent(&(self.stats)(), report);
        [fixed.as_bytes(), agent.as_bytes()].concat().into()
    }

    pub(super) fn json(&self, report: &Report) -> Bytes {
        self.kept(report, |forms| &mut forms.json, json::encode)
    }

    pub(super) fn page(&self, report: &Report) -> Bytes {
        let encode = |report: &Report| page::encode(report, Refresh::On);
        self.kept(report, |forms| &mut forms.page, encode)
    }

    pub(super) fn still_page(&self, report: &Report) -> Bytes {
        let encode = |report: &Report| page::encode(report, Refresh::Off);
        self.kept(report, |forms| &mut forms.still_page, encode)
    }

    fn kept(
        &self,
        report: &Report,
        form: impl FnOnce(&mut ResponseCache) -> &mut Encoded,
        encode: impl FnOnce(&Report) -> String,
    ) -> Bytes {
        match self.forms.try_lock() {
            Ok(mut forms) => form(&mut forms).of(report, encode),
            Err(_) => encode(report).into(),
        }
    }
}
