//! The strip of figures below the banner.

use super::{badge::Badge, context::PageContext};
use crate::check::{Finding, gpudirect, nccl};
use crate::readiness;
use crate::report::port_view;

/// A value, how bad it is, and what else there is to say of it.
type Figure = (String, Option<Badge>, String);

impl PageContext<'_> {
    /// Whether the first window is not complete, and no reason says so already.
    pub(super) fn window_is_open(&self) -> bool {
        let mut reasons = self.report.reasons.iter();
        !self.report.full_window && !reasons.any(|of| of == readiness::STARTING)
    }

    /// The finding that leads the verdict's reasons; none where the verdict rests on no finding.
    pub(super) fn leading(&self) -> Option<&Finding> {
        let reason = self.report.reasons.first()?;
        let findings = self.report.findings.iter();
        let about = findings.filter(|of| of.reason == *reason);
        about.min_by_key(|finding| finding.caused_by.is_some())
    }

    /// Why the fabric cannot be drawn, or has no rails.
    pub(super) fn fabric_note(&self) -> Option<&'static str> {
        let ports = &self.layout.ports;
        let rails = ports.iter().filter(|port| port.view.rail).count();
        port_view::fabric_note(self.report, ports.len(), rails)
    }

    pub(super) fn gpudirect_figure(&self) -> Figure {
        let path = self.report.gpudirect.path;
        let wanted = !self.layout.gpus.is_empty() && !self.layout.ports.is_empty();
        let missing = (path == gpudirect::Path::None && wanted).then_some(Badge::Degraded);
        (path.as_str().into(), missing, String::new())
    }

    pub(super) fn rails(&self) -> Figure {
        let ports = &self.layout.ports;
        let rails = || ports.iter().filter(|port| port.view.rail);
        let up = rails().filter(|port| port.view.is_active()).count();
        let value = match (&self.report.snapshot.devices, rails().count()) {
            (None, _) => "unknown".into(),
            (Some(_), 0) => "none".into(),
            (Some(_), all) => format!("{up} of {all} up"),
        };
        let more = match ports.len() - rails().count() {
            0 => String::new(),
            1 => "and 1 other port".into(),
            others => format!("and {others} other ports"),
        };
        (value, rails().map(|port| port.link).max(), more)
    }

    pub(super) fn gpus(&self) -> Figure {
        let severities = || self.layout.gpus.iter().map(|gpu| gpu.severity);
        let more = match severities().filter(|one| *one > Badge::Notice).count() {
            0 => String::new(),
            bad => format!("{bad} with findings"),
        };
        let value = port_view::gpu_count_text(self.report);
        (value, severities().max(), more)
    }

    pub(super) fn findings(&self) -> Figure {
        use Badge::{Degraded, Failing, Notice, Unknown};
        let severities = || self.report.findings.iter().map(Badge::of);
        let count = |severity: Badge| {
            let found = severities().filter(|one| *one == severity).count();
            (found > 0).then(|| format!("{found} {}", severity.word()))
        };
        let worst_first = [Failing, Degraded, Unknown, Notice].into_iter();
        let words: Vec<String> = worst_first.filter_map(count).collect();
        let value = match self.report.findings.len() {
            0 => "none".to_string(),
            all => all.to_string(),
        };
        (value, severities().max(), words.join(", "))
    }

    pub(super) fn jobs(&self) -> Option<Figure> {
        let jobs = &self.report.jobs.containers;
        if jobs.is_empty() && self.report.jobs.logs.is_none() {
            return None;
        }
        let verdicts = jobs.iter().map(|job| job.verdict.tcp_fallback);
        let (severity, more) = match verdicts.filter(|of| *of == nccl::Fallback::Yes).count() {
            0 => (None, String::new()),
            some => (Some(Badge::Degraded), format!("{some} fell back to TCP")),
        };
        Some((jobs.len().to_string(), severity, more))
    }
}
