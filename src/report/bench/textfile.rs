//! Results as Prometheus text, for node_exporter's textfile collector or a Pushgateway.

use super::Bench;
use crate::check::bench::{BenchVerdict, Grade};
use crate::observe::bench::Collective;
pub use crate::report::catalogue::BENCHMARKS as FAMILIES;
use crate::report::{Detail, Exposition, series};
use std::collections::BTreeMap;

/// The results as of a moment, in seconds of Unix time. Of several runs of one benchmark the worst is
/// exported.
pub fn encode(bench: &Bench, seconds: i64) -> String {
    let mut out = Exposition::new(Detail::Default);
    for (name, run) in &worst_by_collective(bench) {
        let sides = ["out_of_place", "in_place"].into_iter();
        for (side, peak) in sides.zip([run.out_of_place, run.in_place]) {
            let best = peak.map(|peak| peak.bytes_per_second);
            series! { out "selvage_bench_bus_bandwidth_bytes_per_second" [name, side] best; }
        }
        for one in Grade::ALL {
            series! { out "selvage_bench_verdict" [name, one.as_str()] one == run.verdict; }
        }
        series! { out
            "selvage_bench_expected_bytes_per_second" [name] run.expected_bytes_per_second;
            "selvage_bench_ratio" [name] run.ratio;
            "selvage_bench_wrong_results" [name] run.wrong;
        }
    }
    out.push("selvage_bench_timestamp_seconds", &[], seconds);
    out.into_text()
}

fn worst_by_collective(bench: &Bench) -> BTreeMap<&'static str, &BenchVerdict> {
    // Of equal verdicts the lower bandwidth counts; an unknown one is lower than any.
    let order = |run: &BenchVerdict| (run.verdict, -run.ratio.unwrap_or(0.0));
    let mut worst: BTreeMap<&'static str, &BenchVerdict> = BTreeMap::new();
    for run in bench.inputs.iter().flat_map(|input| &input.runs) {
        let name = run.collective.map_or("unknown", Collective::as_str);
        let known = worst.entry(name).or_insert(run);
        if order(run) > order(known) {
            *known = run;
        }
    }
    worst
}
