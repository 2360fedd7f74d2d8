//! Metric families of one report, encoded by the prometheus crate. Every scrape makes them from the
//! report at hand, so a port that is gone leaves no last value behind.

use crate::report::catalogue::{self, Detail, Family, MetricKind};
use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use std::collections::HashMap;

/// The value of a series; `None` where nothing was observed, which leaves the series out.
pub(crate) trait MetricSample {
    fn sample(self) -> Option<f64>;
}

macro_rules! samples {
    ($($type:ty)*) => {$(
        impl MetricSample for $type {
            fn sample(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )*};
}

samples! { i64 u32 u64 usize f64 }

impl MetricSample for bool {
    fn sample(self) -> Option<f64> {
        Some(u8::from(self).into())
    }
}

impl<T: MetricSample> MetricSample for Option<T> {
    fn sample(self) -> Option<f64> {
        self?.sample()
    }
}

/// Adds series, one a line: family, label values, value.
macro_rules! series {
    ($out:ident $($family:literal [$($label:expr),*] $value:expr;)*) => {
        $($out.push($family, &[$($label),*], $value);)*
    };
}
pub(crate) use series;

/// The families so far, each with its series.
pub(crate) struct Exposition {
    detail: Detail,
    families: HashMap<&'static str, (&'static Family, Vec<Metric>)>,
}

impl Exposition {
    pub(crate) fn new(detail: Detail) -> Self {
        let families = HashMap::new();
        Exposition { detail, families }
    }

    /// Whether more than the default selection is exported.
    pub(super) fn is_full(&self) -> bool {
        self.detail == Detail::Full
    }

    /// Adds a series to a family of the catalogue; label values in the order of its label names. Of two
    /// with the same labels the first one stays: a series that comes twice would spoil the whole scrape.
    pub(crate) fn push(&mut self, family: &str, labels: &[&str], value: impl MetricSample) {
        let Some(family) = catalogue::family(family) else {
            debug_assert!(false, "{family} is not in the catalogue");
            return;
        };
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let (Some(value), true) = (value.sample(), family.detail <= self.detail) else {
            return;
        };
        let known = self.families.entry(family.name);
        let (_, series) = known.or_insert((family, Vec::new()));
        series.push(metric(family, labels, value));
    }

    /// Prometheus text format 0.0.4, families and series sorted.
    pub(crate) fn into_text(self) -> String {
        let families = self.families.into_values();
        let mut families: Vec<MetricFamily> = families.map(encoded).collect();
        families.sort_by(|one, other| one.name().cmp(other.name()));
        // Writing to a String cannot fail, and no family is without a series.
        (TextEncoder::new().encode_to_string(&families)).unwrap_or_default()
    }
}

fn metric(family: &Family, values: &[&str], value: f64) -> Metric {
    let labels = family.labels.iter().zip(values).map(|(name, value)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_string());
        label.set_value((*value).to_string());
        label
    });
    let mut metric = Metric::from_label(labels.collect());
    match family.kind {
        MetricKind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
        MetricKind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
    }
    metric
}

/// A family with its series sorted by the values of their labels.
fn encoded((family, mut series): (&Family, Vec<Metric>)) -> MetricFamily {
    fn values(metric: &Metric) -> impl Iterator<Item = &str> {
        metric.get_label().iter().map(LabelPair::value)
    }
    let compare = |one: &Metric, other: &Metric| values(one).cmp(values(other));
    series.sort_by(compare);
    series.dedup_by(|later, first| compare(later, first).is_eq());
    let mut out = MetricFamily::default();
    out.set_name(family.name.to_string());
    out.set_help(family.help.to_string());
    out.set_field_type(match family.kind {
        MetricKind::Counter => MetricType::COUNTER,
        MetricKind::Gauge => MetricType::GAUGE,
    });
    out.set_metric(series);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Option<f64>) -> String {
        let mut exposition = Exposition::new(Detail::Default);
        exposition.push("selvage_rails", &[], value);
        exposition.into_text()
    }

    #[test]
    fn a_family_without_values_is_left_out() {
        assert_eq!(text(None), "");
    }

    #[test]
    fn of_two_series_with_the_same_labels_the_first_stays() {
        let mut exposition = Exposition::new(Detail::Default);
        for (task, panics) in [("b", 1_u64), ("a", 2), ("b", 3)] {
            exposition.push("selvage_task_panics_total", &[task], panics);
        }
        let text = exposition.into_text();
        let series: Vec<&str> = text.lines().skip(2).collect();
        let of = |task, panics| format!("selvage_task_panics_total{{task=\"{task}\"}} {panics}");
        assert_eq!(series, [of("a", 2), of("b", 1)]);
    }

    #[test]
    fn large_counters_are_exact_as_far_as_f64_is() {
        assert!(text(Some(9_007_199_254_740_991.0)).ends_with("selvage_rails 9007199254740991\n"));
    }
}
