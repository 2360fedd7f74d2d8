//! Results as Prometheus text, for node_exporter's textfile collector or a Pushgateway.

use super::Bench;
use crate::check::bench::{BenchVerdict, Verdict};
use crate::observe::bench::Collective;
use prometheus::{GaugeVec, Opts, Registry, TextEncoder};
use std::collections::BTreeMap;

/// A metric family of the file; all are gauges.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Name of the metric.
    pub name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
}

const BANDWIDTH: Family = Family {
    name: "selvage_bench_bus_bandwidth_bytes_per_second",
    labels: &["collective", "placement"],
    help: "Best bus bandwidth of message sizes from 64 MiB on, out of place or in place.",
};
const EXPECTED: Family = Family {
    name: "selvage_bench_expected_bytes_per_second",
    labels: &["collective"],
    help: "Bus bandwidth at line rate, by the rails of a node.",
};
const RATIO: Family = Family {
    name: "selvage_bench_ratio",
    labels: &["collective"],
    help: "Best bus bandwidth divided by the expected one.",
};
const VERDICT: Family = Family {
    name: "selvage_bench_verdict",
    labels: &["collective", "verdict"],
    help: "1 for the verdict on the benchmark, 0 for the others.",
};
const WRONG: Family = Family {
    name: "selvage_bench_wrong_results",
    labels: &["collective"],
    help: "Wrong elements that the benchmark found; absent if it did not check.",
};
const TIMESTAMP: Family = Family {
    name: "selvage_bench_timestamp_seconds",
    labels: &[],
    help: "When the results were judged, in seconds since 1970.",
};

/// All families of the file.
pub const FAMILIES: [Family; 6] = [BANDWIDTH, EXPECTED, RATIO, VERDICT, WRONG, TIMESTAMP];

/// The text file. Of several runs of a collective the worst is exported. `seconds` is the time.
pub fn encode(bench: &Bench, seconds: i64) -> prometheus::Result<String> {
    let registry = Registry::new();
    let gauge = |family: &Family| {
        let gauge = GaugeVec::new(Opts::new(family.name, family.help), family.labels)?;
        registry.register(Box::new(gauge.clone()))?;
        prometheus::Result::Ok(gauge)
    };
    let (bandwidth, expected) = (gauge(&BANDWIDTH)?, gauge(&EXPECTED)?);
    let (ratio, verdict, wrong) = (gauge(&RATIO)?, gauge(&VERDICT)?, gauge(&WRONG)?);
    let set = |gauge: &GaugeVec, labels: &[&str], value: Option<f64>| {
        if let Some(value) = value {
            gauge.with_label_values(labels).set(value);
        }
    };
    for (name, run) in &worst_by_collective(bench) {
        let (out, inside) = (run.out_of_place, run.in_place);
        for (side, peak) in [("out_of_place", out), ("in_place", inside)] {
            let best = peak.map(|peak| peak.bytes_per_second);
            set(&bandwidth, &[name, side], best);
        }
        set(&expected, &[name], run.expected_bytes_per_second);
        set(&ratio, &[name], run.ratio);
        for (one, verdict_name) in Verdict::NAMES {
            let stands = f64::from(u8::from(one == run.verdict));
            set(&verdict, &[name, verdict_name], Some(stands));
        }
        set(&wrong, &[name], run.wrong.map(|wrong| wrong as f64));
    }
    set(&gauge(&TIMESTAMP)?, &[], Some(seconds as f64));
    TextEncoder::new().encode_to_string(&registry.gather())
}

fn worst_by_collective(bench: &Bench) -> BTreeMap<String, &BenchVerdict> {
    // Of equal verdicts the lower bandwidth counts; an unknown one is lower than any.
    let order = |run: &BenchVerdict| (run.verdict, -run.ratio.unwrap_or(0.0));
    let mut worst: BTreeMap<String, &BenchVerdict> = BTreeMap::new();
    for run in bench.inputs.iter().flat_map(|input| &input.runs) {
        let name = run.collective.map_or("unknown".into(), Collective::name);
        let known = worst.entry(name).or_insert(run);
        if order(run) > order(known) {
            *known = run;
        }
    }
    worst
}
