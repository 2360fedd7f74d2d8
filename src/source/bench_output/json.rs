//! The file that `-J FILE` writes (nccl-tests 2.17 and later, `JSON_FILE_VERSION` 3 as of 2.19).

use crate::observe::bench::{BenchLog, Collective, Measurement, Rank, Row, Run};
use serde::Deserialize;
use serde_json::Value;

/// Ranks that are kept.
const MAX_RANKS: usize = 1 << 16;

/// Longest text that is kept, in characters.
const MAX_TEXT: usize = 256;

#[derive(Deserialize)]
struct File {
    results: Vec<Entry>,
    config: Config,
    #[serde(default)]
    args: Vec<Value>,
    devices: Option<Vec<Device>>,
    #[serde(default)]
    errors: Vec<Value>,
    #[serde(default)]
    out_of_bounds: OutOfBounds,
    average_bus_bandwidth: Option<Value>,
    end_time: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    nthreads: Value,
    ngpus: Value,
    validation: Value,
    devices: Option<Vec<Device>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Device {
    rank: Value,
    group: Value,
    hostname: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OutOfBounds {
    count: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    size: Value,
    out_of_place: Option<Side>,
    in_place: Option<Side>,
}

impl Entry {
    fn sides(&self) -> impl Iterator<Item = &Side> {
        [&self.out_of_place, &self.in_place].into_iter().flatten()
    }
}

/// Figures that could not be measured are texts: `"nan"`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Side {
    alg_bw: Value,
    bus_bw: Value,
    nwrong: Value,
}

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
    let file: File = serde_json::from_str(text).map_err(|e| e.is_eof() && !text.is_empty())?;
    let mut args = file.args.iter().map_while(Value::as_str);
    let mut errors = file.errors.iter().filter_map(Value::as_str);
    let failure = errors.find(|error| !error.is_empty());
    // Counts of wrong elements that are present and are not counts.
    let is_uncounted = |side: &&Side| !side.nwrong.is_null() && figure(&side.nwrong).is_none();
    let uncounted = file.results.iter().flat_map(Entry::sides);
    let uncounted = uncounted.filter(is_uncounted);
    let run = Run {
        collective: args.next().and_then(Collective::of),
        ranks: ranks(&file),
        rows: file.results.iter().filter_map(row).collect(),
        out_of_bounds: whole(&file.out_of_bounds.count),
        failure: failure.map(|error| (0, error.chars().take(MAX_TEXT).collect())),
        checked: figure(&file.config.validation).map(|rounds| rounds > 0.0),
        uncounted: uncounted.count() as u64,
        ended: file.average_bus_bandwidth.is_some() || file.end_time.is_some(),
        started: true,
        ..Run::default()
    };
    Ok(BenchLog {
        runs: vec![run],
        dropped: 0,
    })
}

/// Ranks. The file names only the first rank of each process (`parseRankInfo` reads one line of it);
/// a process has `nthreads` × `ngpus` of them with consecutive numbers.
fn ranks(file: &File) -> Vec<Rank> {
    let count = |value: &Value| whole(value).unwrap_or(1);
    let each = count(&file.config.nthreads).saturating_mul(count(&file.config.ngpus));
    let devices = file.devices.iter().chain(&file.config.devices).next();
    let of_process = |device: &Device| {
        let number = |value: &Value| u32::try_from(whole(value)?).ok();
        let host: String = device.hostname.as_str()?.chars().take(MAX_TEXT).collect();
        let (first, group) = (number(&device.rank)?, number(&device.group).unwrap_or(0));
        let numbers = (first..).take(each.clamp(1, 64) as usize);
        let rank = move |rank| Rank {
            rank,
            group,
            host: host.clone(),
        };
        Some(numbers.map(rank)).filter(|_| device.hostname != "")
    };
    let processes = devices.into_iter().flatten().filter_map(of_process);
    processes.flatten().take(MAX_RANKS).collect()
}

fn row(entry: &Entry) -> Option<Row> {
    let side = |side: &Option<Side>| {
        let side = side.as_ref()?;
        Some(Measurement {
            algbw: figure(&side.alg_bw)? * 1e9,
            busbw: figure(&side.bus_bw)? * 1e9,
            wrong: figure(&side.nwrong).map(|count| count as u64),
        })
    };
    let (out_of_place, in_place) = (side(&entry.out_of_place), side(&entry.in_place));
    out_of_place.or(in_place)?;
    Some(Row {
        size: whole(&entry.size)?,
        out_of_place,
        in_place,
        line: 0,
    })
}
