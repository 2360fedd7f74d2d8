//! Results as a text file of metrics: for node_exporter's textfile collector, or a Pushgateway.

use super::Bench;
use crate::check::bench::{BenchVerdict, Verdict};
use crate::report::catalogue::{Detail, Family, Kind};
use crate::report::metrics::Exposition;
use std::collections::BTreeMap;

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family {
        name,
        help,
        kind: Kind::Gauge,
        labels,
        detail: Detail::Default,
    }
}

const BANDWIDTH: Family = gauge(
    "selvage_bench_bus_bandwidth_bytes_per_second",
    &["collective", "placement"],
    "Best bus bandwidth of sizes from 64 MiB on, into another buffer or in place.",
);
const EXPECTED: Family = gauge(
    "selvage_bench_expected_bytes_per_second",
    &["collective"],
    "Bus bandwidth at line rate, by the rails of a node.",
);
const RATIO: Family = gauge(
    "selvage_bench_ratio",
    &["collective"],
    "Best bus bandwidth by the expected one.",
);
const VERDICT: Family = gauge(
    "selvage_bench_verdict",
    &["collective", "verdict"],
    "1 for the verdict on the benchmark, 0 for the others.",
);
const WRONG: Family = gauge(
    "selvage_bench_wrong_results",
    &["collective"],
    "Results that the benchmark found wrong; absent where it did not check.",
);
const TIMESTAMP: Family = gauge(
    "selvage_bench_timestamp_seconds",
    &[],
    "When the results were judged, in seconds since 1970.",
);

/// All families of the file.
pub const FAMILIES: [&Family; 6] = [&BANDWIDTH, &EXPECTED, &RATIO, &VERDICT, &WRONG, &TIMESTAMP];

/// The file. Of runs of one collective the worst is told. `seconds`: now, Unix time.
pub fn encode(bench: &Bench, seconds: i64) -> String {
    let mut worst: BTreeMap<&str, &BenchVerdict> = BTreeMap::new();
    for run in bench.runs() {
        let name = run.collective.map_or("unknown", |one| one.as_str());
        let known = worst.entry(name).or_insert(run);
        // The lower of two of the same kind; none is as bad as can be.
        let rank = |run: &BenchVerdict| (run.verdict, -run.ratio.unwrap_or(0.0));
        let (new, old) = (rank(run), rank(known));
        if new.0 > old.0 || (new.0 == old.0 && new.1 > old.1) {
            *known = run;
        }
    }
    let each = |value: fn(&BenchVerdict) -> Option<f64>| {
        let rows = worst.iter();
        rows.filter_map(move |(name, run)| Some(([*name], value(run)?)))
            .collect::<Vec<_>>()
    };
    let mut sheet = Exposition::new(Detail::Default);
    let placed = worst.iter().flat_map(|(name, run)| {
        let sides = [
            ("out_of_place", run.out_of_place),
            ("in_place", run.in_place),
        ];
        sides
            .into_iter()
            .filter_map(|(side, peak)| Some(([*name, side], peak?.bytes_per_second)))
    });
    sheet.add(&BANDWIDTH, placed);
    sheet.add(&EXPECTED, each(|run| run.expected_bytes_per_second));
    sheet.add(&RATIO, each(|run| run.ratio));
    let verdicts = worst.iter().flat_map(|(name, run)| {
        Verdict::ALL.into_iter().map(|one| {
            (
                [*name, one.as_str()],
                f64::from(u8::from(one == run.verdict)),
            )
        })
    });
    sheet.add(&VERDICT, verdicts);
    sheet.add(&WRONG, each(|run| run.wrong.map(|wrong| wrong as f64)));
    sheet.one(&TIMESTAMP, Some(seconds as f64));
    sheet.into_text()
}
