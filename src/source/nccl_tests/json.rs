//! The file that `-J FILE` writes (nccl-tests 2.17 and later, `JSON_FILE_VERSION` 3 by 2.19).

use crate::observe::bench::{BenchLog, Collective, Measure, Row, Run, Seat};
use serde_json::Value;

/// Rows and ranks that are kept.
const MAX: usize = 1 << 16;

/// Reads such a file; none: it is another.
pub fn parse(text: &str) -> Option<BenchLog> {
    let file: Value = serde_json::from_str(text).ok()?;
    let results = file.get("results")?.as_array()?;
    let config = file.get("config")?;
    let args = file.get("args").and_then(Value::as_array);
    let program = args.and_then(|args| args.first()?.as_str());
    let average = file.pointer("/average_bus_bandwidth/bandwidth");
    let errors = file.get("errors").and_then(Value::as_array);
    let failure = errors
        .and_then(|errors| errors.iter().find_map(Value::as_str))
        .filter(|error| !error.is_empty());
    let run = Run {
        collective: program.and_then(Collective::of),
        version: None,
        seats: seats(&file, config),
        apart: false,
        rows: results.iter().take(MAX).filter_map(row).collect(),
        out_of_bounds: file.pointer("/out_of_bounds/count").and_then(Value::as_u64),
        average: average.and_then(figure).map(|average| average * 1e9),
        failure: failure.map(|error| (0, error.chars().take(300).collect())),
        // A file that is cut is no JSON.
        checked: config
            .get("validation")
            .and_then(figure)
            .map(|rounds| rounds > 0.0),
        ended: average.is_some() || file.get("end_time").is_some(),
        started: true,
    };
    Some(BenchLog {
        runs: vec![run],
        dropped: 0,
    })
}

/// Ranks. Of a process the file names the first alone (`parseRankInfo` reads one line of it); it has
/// `nthreads` × `ngpus`, numbered on.
fn seats(file: &Value, config: &Value) -> Vec<Seat> {
    let count = |name: &str| config.get(name).and_then(Value::as_u64).unwrap_or(1);
    let each = count("nthreads")
        .saturating_mul(count("ngpus"))
        .clamp(1, 64);
    let devices = file.get("devices").or_else(|| config.get("devices"));
    let devices = devices.and_then(Value::as_array);
    let mut seats = Vec::new();
    for device in devices.into_iter().flatten().take(MAX) {
        let number = |name: &str| {
            let value = device.get(name).and_then(Value::as_u64)?;
            u32::try_from(value).ok()
        };
        let (Some(rank), Some(host)) = (
            number("rank"),
            device.get("hostname").and_then(Value::as_str),
        ) else {
            continue;
        };
        for more in 0..each as u32 {
            seats.push(Seat {
                rank: rank.saturating_add(more),
                group: number("group").unwrap_or(0),
                pid: number("pid").unwrap_or(0),
                host: host.chars().take(256).collect(),
            });
        }
    }
    seats.truncate(MAX);
    seats
}

fn row(row: &Value) -> Option<Row> {
    let number = |name: &str| row.get(name).and_then(Value::as_u64);
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    let side = |name: &str| {
        let side = row.get(name)?;
        let time = side.get("time").or_else(|| side.get("cpu_time"));
        Some(Measure {
            micros: time.and_then(figure)?,
            alg: side.get("alg_bw").and_then(figure)? * 1e9,
            bus: side.get("bus_bw").and_then(figure)? * 1e9,
            wrong: side.get("nwrong").and_then(figure).map(|n| n as u64),
        })
    };
    let (out_of_place, in_place) = (side("out_of_place"), side("in_place"));
    if out_of_place.is_none() && in_place.is_none() {
        return None;
    }
    Some(Row {
        size: number("size")?,
        count: number("count")?,
        dtype: text("type").chars().take(32).collect(),
        redop: Some(text("redop"))
            .filter(|op| !op.is_empty() && *op != "none")
            .map(|op| op.chars().take(32).collect()),
        // A text, padded: `    -1`.
        root: text("root").trim().parse().ok(),
        out_of_place,
        in_place,
        line: 0,
    })
}

/// A finite number that is not negative; `nan` is written as a text.
fn figure(value: &Value) -> Option<f64> {
    value.as_f64().filter(|n| n.is_finite() && *n >= 0.0)
}
