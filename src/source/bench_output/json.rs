//! The file that `-J FILE` writes (nccl-tests 2.17 and later, `JSON_FILE_VERSION` 3 as of 2.19).
#![expect(clippy::indexing_slicing, reason = "an absent `Value` indexes as null")]

use crate::observe::bench::{BenchLog, Collective, Measurement, Rank, Run, SizeRow};
use serde_json::Value;

/// Ranks that are kept.
const MAX_RANKS: usize = 1 << 16;

/// Longest text that is kept, in characters.
const MAX_TEXT: usize = 256;

/// A number that is not negative.
fn figure(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| *number >= 0.0)
}

/// A whole number; sizes may be written with a fraction of zero.
fn whole(value: &Value) -> Option<u64> {
    let whole = figure(value).filter(|number| number.fract() == 0.0);
    whole.map(|number| number as u64)
}

/// Reads such a file. The error says whether the text is JSON that was cut before its end.
pub fn parse(text: &str) -> Result<BenchLog, bool> {
    let file: Value = serde_json::from_str(text).map_err(|e| e.is_eof() && !text.is_empty())?;
    let (Value::Object(config), Value::Array(results)) = (&file["config"], &file["results"]) else {
        return Err(false);
    };
    let mut errors = elements(&file["errors"]).filter_map(Value::as_str);
    let too_low = file["average_bus_bandwidth"]["okay"] == "false";
    let too_low = too_low.then_some("the average bus bandwidth is below NCCL_TESTS_MIN_BW");
    let failure = errors.find(|error| !error.is_empty()).or(too_low);
    // Counts of wrong elements that are present and are not counts. Figures that could not be measured
    // are texts: `"nan"`.
    let rows = results.iter();
    let sides = rows.flat_map(|row| SIDES.map(|side| &row[side]["nwrong"]));
    let uncounted = sides.filter(|wrong| !wrong.is_null() && figure(wrong).is_none());
    let run = Run {
        collective: file["args"][0].as_str().and_then(Collective::of),
        ranks: ranks(&file),
        rows: results.iter().filter_map(row).collect(),
        out_of_bounds: whole(&file["out_of_bounds"]["count"]),
        failure: failure.map(|error| (0, error.chars().take(MAX_TEXT).collect())),
        checked: (config.get("validation").and_then(figure)).map(|rounds| rounds > 0.0),
        uncounted: uncounted.count() as u64,
        ended: !file["average_bus_bandwidth"].is_null() || !file["end_time"].is_null(),
        started: true,
        ..Run::default()
    };
    let runs = vec![run];
    Ok(BenchLog { runs, dropped: 0 })
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Ranks. The file names only the first rank of each process (`parseRankInfo` reads one line of it);
/// a process has `nthreads` × `ngpus` of them with consecutive numbers.
fn ranks(file: &Value) -> Vec<Rank> {
    let config = &file["config"];
    let count = |name: &str| whole(&config[name]).unwrap_or(1);
    let each = count("nthreads").saturating_mul(count("ngpus"));
    let lists = [&file["devices"], &config["devices"]];
    let devices = lists.into_iter().find(|list| list.is_array());
    let of_process = |device: &Value| {
        let number = |name: &str| u32::try_from(whole(&device[name])?).ok();
        let host = device["hostname"].as_str()?;
        let host: String = host.chars().take(MAX_TEXT).collect();
        let (first, group) = (number("rank")?, number("group").unwrap_or(0));
        let numbers = (first..).take(each.clamp(1, 64) as usize);
        let named = !host.is_empty();
        let rank = move |rank| Rank {
            rank,
            group,
            host: host.clone(),
        };
        named.then(|| numbers.map(rank))
    };
    let devices = devices.into_iter().flat_map(elements);
    let processes = devices.filter_map(of_process);
    processes.flatten().take(MAX_RANKS).collect()
}

/// The two sides of a row.
const SIDES: [&str; 2] = ["out_of_place", "in_place"];

fn row(entry: &Value) -> Option<SizeRow> {
    let [out_of_place, in_place] = SIDES.map(|side| {
        let side = &entry[side];
        Some(Measurement {
            algbw: figure(&side["alg_bw"])? * 1e9,
            busbw: figure(&side["bus_bw"])? * 1e9,
            wrong: figure(&side["nwrong"]).map(|count| count as u64),
        })
    });
    out_of_place.or(in_place)?;
    Some(SizeRow {
        size: whole(&entry["size"])?,
        out_of_place,
        in_place,
        line: 0,
    })
}
