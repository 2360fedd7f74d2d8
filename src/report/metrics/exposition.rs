//! Series on their way to text: the Prometheus text format 0.0.4, written as it comes. A node has
//! some thousand series, and building values of a client library for each costs more than reading
//! them from the kernel; that this says the same as the library is tested.

use crate::report::catalogue::{Detail, Family, Kind};
use std::fmt::Write;

/// Integers up to here are exact as f64.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The exposition so far.
pub(crate) struct Exposition {
    pub(super) detail: Detail,
    text: String,
}

impl Exposition {
    pub(crate) fn new(detail: Detail) -> Self {
        Exposition {
            detail,
            text: String::new(),
        }
    }

    /// With room for a text about as long as the last one.
    pub(super) fn with_capacity(detail: Detail, bytes: usize) -> Self {
        Exposition {
            detail,
            text: String::with_capacity(bytes),
        }
    }

    /// Whether this family is exported.
    pub(crate) fn wants(&self, family: &Family) -> bool {
        family.detail <= self.detail
    }

    /// Adds a family; label values in the order of its label names. Left out if nothing has a value.
    pub(crate) fn add<const N: usize, L: AsRef<str>>(
        &mut self,
        family: &Family,
        series: impl IntoIterator<Item = ([L; N], f64)>,
    ) {
        debug_assert_eq!(family.labels.len(), N, "{}", family.name);
        if !self.wants(family) {
            return;
        }
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        head(&mut self.text, family);
        for (values, value) in series {
            line(
                &mut self.text,
                family,
                values.each_ref().map(AsRef::as_ref),
                value,
            );
        }
    }

    /// Adds a family of one series without labels, if it has a value.
    pub(crate) fn one(&mut self, family: &Family, value: Option<f64>) {
        self.add(family, value.map(|value| ([""; 0], value)));
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

// Once in the program, and not in each of a hundred families.
#[inline(never)]
fn line<const N: usize>(text: &mut String, family: &Family, values: [&str; N], value: f64) {
    text.push_str(family.name);
    for (at, (name, value)) in family.labels.iter().zip(&values).enumerate() {
        text.push(if at == 0 { '{' } else { ',' });
        text.push_str(name);
        text.push_str("=\"");
        escape(text, value, true);
        text.push('"');
    }
    text.push_str(if N > 0 { "} " } else { " " });
    number(text, value);
    text.push('\n');
}

#[inline(never)]
fn head(text: &mut String, family: &Family) {
    text.push_str("# HELP ");
    text.push_str(family.name);
    text.push(' ');
    escape(text, family.help, false);
    text.push_str("\n# TYPE ");
    text.push_str(family.name);
    text.push_str(match family.kind {
        Kind::Counter => " counter\n",
        Kind::Gauge => " gauge\n",
    });
}

/// Backslash and newline are escaped everywhere, the quotation mark in label values.
fn escape(text: &mut String, raw: &str, quoted: bool) {
    let special = |byte: u8| byte == b'\\' || byte == b'\n' || (quoted && byte == b'"');
    if !raw.bytes().any(special) {
        text.push_str(raw);
        return;
    }
    for c in raw.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quoted => text.push_str("\\\""),
            c => text.push(c),
        }
    }
}

fn number(text: &mut String, value: f64) {
    // Writing to a String cannot fail.
    let _ = if value.fract() == 0.0 && value.abs() <= EXACT {
        write!(text, "{}", value as i64)
    } else if value.is_infinite() {
        write!(text, "{}Inf", if value > 0.0 { '+' } else { '-' })
    } else {
        write!(text, "{value}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

    const fn family(kind: Kind, labels: &'static [&'static str]) -> Family {
        Family {
            name: "selvage_test",
            help: "A \"help\" with \\ and\na line.",
            kind,
            labels,
            detail: Detail::Default,
        }
    }

    /// What the client library makes of the same series.
    fn library<const N: usize>(family: &Family, series: &[([&str; N], f64)]) -> String {
        let metric = |(values, value): &([&str; N], f64)| {
            let pairs = family.labels.iter().zip(values).map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name((*name).to_string());
                pair.set_value((*value).to_string());
                pair
            });
            let mut metric = Metric::from_label(pairs.collect());
            let mut counter = Counter::default();
            counter.set_value(*value);
            metric.set_counter(counter);
            let mut gauge = Gauge::default();
            gauge.set_value(*value);
            metric.set_gauge(gauge);
            metric
        };
        let mut out = MetricFamily::default();
        out.set_name(family.name.to_string());
        out.set_help(family.help.to_string());
        out.set_field_type(match family.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
        });
        out.set_metric(series.iter().map(metric).collect());
        let mut text = String::new();
        prometheus::TextEncoder::new()
            .encode_utf8(&[out], &mut text)
            .unwrap();
        text
    }

    #[test]
    fn says_what_the_client_library_says() {
        let values = [
            0.0,
            1.0,
            -3.0,
            0.5,
            1e-7,
            123_456.789,
            4_294_967_295.0,
            9_007_199_254_740_991.0,
            9_007_199_254_740_992.0,
            18_446_744_073_709_551_615.0,
            f64::NAN,
        ];
        let labels = [
            "",
            "mlx5_0",
            "a\"b",
            "a\\b",
            "a\nb",
            "\u{fc}\u{1f980}",
            "{}=,# ",
        ];
        for kind in [Kind::Counter, Kind::Gauge] {
            let two = family(kind, &["device", "port"]);
            let series: Vec<([&str; 2], f64)> = labels
                .iter()
                .flat_map(|label| values.map(|value| ([*label, "1"], value)))
                .collect();
            let mut sheet = Exposition::new(Detail::Default);
            sheet.add(&two, series.clone());
            assert_eq!(sheet.into_text(), library(&two, &series));

            let none = family(kind, &[]);
            let mut sheet = Exposition::new(Detail::Default);
            sheet.one(&none, Some(2.5));
            assert_eq!(sheet.into_text(), library(&none, &[([], 2.5)]));
        }
    }

    #[test]
    fn infinity_is_spelt_as_prometheus_does() {
        let mut sheet = Exposition::new(Detail::Default);
        sheet.one(&family(Kind::Gauge, &[]), Some(f64::INFINITY));
        sheet.one(&family(Kind::Gauge, &[]), Some(f64::NEG_INFINITY));
        let text = sheet.into_text();
        assert!(text.contains("selvage_test +Inf\n") && text.contains("selvage_test -Inf\n"));
    }

    #[test]
    fn a_family_without_values_is_left_out() {
        let mut sheet = Exposition::new(Detail::Default);
        sheet.one(&family(Kind::Gauge, &[]), None);
        assert_eq!(sheet.into_text(), "");
    }
}
