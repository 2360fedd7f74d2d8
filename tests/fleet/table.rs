//! What was measured, for people.

use std::time::Duration;

/// Rows of a name and a figure.
#[derive(Default)]
pub struct Table(Vec<(String, String)>);

impl Table {
    pub fn row(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        let (what, figure) = (what.into(), figure.into());
        println!("MEASURED {what}: {figure}");
        self.0.push((what, figure));
    }

    pub fn print(&self) {
        let width = self.0.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        println!();
        for (what, figure) in &self.0 {
            println!("  {what:width$}  {figure}");
        }
        println!();
    }
}

/// Median, 99th percentile and worst of some spans.
pub fn spread(mut spans: Vec<Duration>) -> String {
    spans.sort();
    if spans.is_empty() {
        return "none".into();
    }
    let at = |part: usize| millis(spans[(spans.len() - 1) * part / 100]);
    format!(
        "median {}, p99 {}, most {} (of {})",
        at(50),
        at(99),
        at(100),
        spans.len()
    )
}

pub fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort();
    spans[spans.len() / 2]
}

pub fn millis(span: Duration) -> String {
    format!("{:.0} ms", span.as_secs_f64() * 1000.0)
}

pub fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}
