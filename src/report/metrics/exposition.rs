//! Metric families of one snapshot on their way through the prometheus crate. Every scrape makes them
//! from the report at hand, so a port that is gone leaves no last value behind.

use crate::report::catalogue::{Detail, Family, Kind};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Registry, TextEncoder};

/// The families so far.
pub(crate) struct Exposition {
    pub(super) detail: Detail,
    families: Vec<MetricFamily>,
}

impl Exposition {
    pub(crate) fn new(detail: Detail) -> Self {
        Exposition {
            detail,
            families: Vec::new(),
        }
    }

    /// Adds a family; label values in the order of its label names. Without series it is left out.
    pub(crate) fn add<const N: usize, L: AsRef<str>>(
        &mut self,
        family: &Family,
        series: impl IntoIterator<Item = ([L; N], f64)>,
    ) {
        debug_assert_eq!(family.labels.len(), N, "{}", family.name);
        if family.detail > self.detail {
            return;
        }
        let series = series.into_iter();
        let metric = |(values, value): ([L; N], f64)| {
            metric(family, values.each_ref().map(AsRef::as_ref), value)
        };
        let mut out = MetricFamily::default();
        out.set_name(family.name.to_string());
        out.set_help(family.help.to_string());
        out.set_field_type(match family.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        out.set_metric(series.map(metric).collect());
        self.families.push(out);
    }

    /// Adds a family of one series without labels, if it has a value.
    pub(crate) fn one(&mut self, family: &Family, value: Option<f64>) {
        self.add(family, value.map(|value| ([""; 0], value)));
    }

    /// Prometheus text format 0.0.4, families and series sorted.
    pub(crate) fn into_text(self) -> String {
        let registry = Registry::new();
        let text = registry
            .register(Box::new(Snapshot(self.families)))
            .and_then(|()| TextEncoder::new().encode_to_string(&registry.gather()));
        text.unwrap_or_else(|error| {
            tracing::error!(%error, "metrics could not be encoded");
            String::new()
        })
    }
}

fn metric<const N: usize>(family: &Family, values: [&str; N], value: f64) -> Metric {
    let labels = family.labels.iter().zip(values).map(|(name, value)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_string());
        label.set_value(value.to_string());
        label
    });
    let mut metric = Metric::from_label(labels.collect());
    match family.kind {
        Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
        Kind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
    }
    metric
}

/// What the registry gathers: families that are already made.
struct Snapshot(Vec<MetricFamily>);

impl Collector for Snapshot {
    fn desc(&self) -> Vec<&Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Family = Family {
        name: "selvage_test",
        help: "A help.",
        kind: Kind::Gauge,
        labels: &[],
        detail: Detail::Default,
    };

    fn text(value: Option<f64>) -> String {
        let mut exposition = Exposition::new(Detail::Default);
        exposition.one(&TEST, value);
        exposition.into_text()
    }

    #[test]
    fn a_family_without_values_is_left_out() {
        assert_eq!(text(None), "");
    }

    #[test]
    fn large_counters_are_exact_as_far_as_f64_is() {
        assert!(text(Some(9_007_199_254_740_991.0)).ends_with("selvage_test 9007199254740991\n"));
    }
}
