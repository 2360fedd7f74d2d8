//! The file that `-J FILE` writes (nccl-tests 2.17 and later, `JSON_FILE_VERSION` 3 by 2.19).
//!
//! Read field by field into what is kept: a file's size bounds no tree of values, so none is built.

use crate::observe::bench::{BenchLog, Collective, Measure, Row, Run, Seat};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Rows, devices, ranks and errors that are kept.
const MAX: usize = 1 << 16;

/// Characters of a text that are kept.
const MAX_TEXT: usize = 300;

/// A value of which only a number or a text says something.
#[derive(Debug, Default)]
enum Scalar {
    #[default]
    Nothing,
    Number(f64),
    Text(String),
}

impl Scalar {
    /// A finite number that is not negative; `nan` is written as a text.
    fn figure(&self) -> Option<f64> {
        match self {
            Scalar::Number(n) => Some(*n).filter(|n| n.is_finite() && *n >= 0.0),
            _ => None,
        }
    }

    /// A whole number. Sizes are below 2^53.
    fn whole(&self) -> Option<u64> {
        self.figure().filter(|n| n.fract() == 0.0).map(|n| n as u64)
    }

    fn text(&self) -> &str {
        match self {
            Scalar::Text(text) => text,
            _ => "",
        }
    }
}

struct OfScalar;

impl<'de> Visitor<'de> for OfScalar {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_u64<E>(self, n: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(n as f64))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(n as f64))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(n))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.chars().take(MAX_TEXT).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OfScalar)
    }
}

/// The first [`MAX`] of a list; what follows is read over.
#[derive(Debug)]
struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfList<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfList<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut kept = Vec::new();
                while kept.len() < MAX {
                    match seq.next_element()? {
                        Some(one) => kept.push(one),
                        None => return Ok(List(kept)),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(List(kept))
            }
        }
        from.deserialize_seq(OfList(PhantomData))
    }
}

#[derive(Deserialize)]
struct File {
    results: List<Entry>,
    config: Config,
    #[serde(default)]
    args: List<Scalar>,
    devices: Option<List<Device>>,
    #[serde(default)]
    errors: List<Scalar>,
    #[serde(default)]
    out_of_bounds: OutOfBounds,
    average_bus_bandwidth: Option<Average>,
    end_time: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    nthreads: Scalar,
    #[serde(default)]
    ngpus: Scalar,
    #[serde(default)]
    validation: Scalar,
    devices: Option<List<Device>>,
}

#[derive(Deserialize)]
struct Device {
    #[serde(default)]
    rank: Scalar,
    #[serde(default)]
    group: Scalar,
    #[serde(default)]
    pid: Scalar,
    #[serde(default)]
    hostname: Scalar,
}

#[derive(Deserialize, Default)]
struct OutOfBounds {
    #[serde(default)]
    count: Scalar,
}

#[derive(Deserialize)]
struct Average {
    #[serde(default)]
    bandwidth: Scalar,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    size: Scalar,
    #[serde(default)]
    count: Scalar,
    #[serde(default)]
    r#type: Scalar,
    #[serde(default)]
    redop: Scalar,
    #[serde(default)]
    root: Scalar,
    out_of_place: Option<Side>,
    in_place: Option<Side>,
}

#[derive(Deserialize)]
struct Side {
    time: Option<Scalar>,
    #[serde(default)]
    cpu_time: Scalar,
    #[serde(default)]
    alg_bw: Scalar,
    #[serde(default)]
    bus_bw: Scalar,
    #[serde(default)]
    nwrong: Scalar,
}

/// Reads such a file; else whether it is JSON that ends too early.
pub fn parse(text: &str) -> Result<BenchLog, bool> {
    let file: File = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) => return Err(error.is_eof() && !text.is_empty()),
    };
    let program = file.args.0.first().map_or("", Scalar::text);
    let errors = file.errors.0.iter().map(Scalar::text);
    let failure = errors.filter(|error| !error.is_empty()).map(str::to_string);
    let ended = file.average_bus_bandwidth.is_some() || file.end_time.is_some();
    let average = file.average_bus_bandwidth.as_ref();
    let sides = || {
        let rows = file.results.0.iter();
        rows.flat_map(|row| [&row.out_of_place, &row.in_place].into_iter().flatten())
    };
    let run = Run {
        collective: Collective::of(program),
        seats: seats(&file),
        rows: file.results.0.iter().filter_map(row).collect(),
        out_of_bounds: file.out_of_bounds.count.whole(),
        average: average.and_then(|average| Some(average.bandwidth.figure()? * 1e9)),
        failure: failure.map(|error| (0, error)).next(),
        // A file that is cut is no JSON.
        checked: file.config.validation.figure().map(|rounds| rounds > 0.0),
        uncounted: sides().filter(|side| uncounted(&side.nwrong)).count() as u64,
        ended,
        started: true,
        ..Run::default()
    };
    Ok(BenchLog {
        runs: vec![run],
        dropped: 0,
    })
}

/// There where a count of wrong elements should be, and none.
fn uncounted(wrong: &Scalar) -> bool {
    !matches!(wrong, Scalar::Nothing) && wrong.figure().is_none()
}

/// Ranks. Of a process the file names the first alone (`parseRankInfo` reads one line of it); it has
/// `nthreads` × `ngpus`, numbered on.
fn seats(file: &File) -> Vec<Seat> {
    let config = &file.config;
    let [threads, gpus] = [&config.nthreads, &config.ngpus].map(|n| n.whole().unwrap_or(1));
    let each = threads.saturating_mul(gpus).clamp(1, 64);
    let devices = file.devices.as_ref().or(config.devices.as_ref());
    let mut seats = Vec::new();
    for device in devices.into_iter().flat_map(|devices| &devices.0) {
        let number = |scalar: &Scalar| u32::try_from(scalar.whole()?).ok();
        let host = device.hostname.text();
        let Some(rank) = number(&device.rank).filter(|_| !host.is_empty()) else {
            continue;
        };
        for more in 0..each as u32 {
            if seats.len() == MAX {
                return seats;
            }
            seats.push(Seat {
                rank: rank.saturating_add(more),
                group: number(&device.group).unwrap_or(0),
                pid: number(&device.pid).unwrap_or(0),
                host: host.chars().take(256).collect(),
            });
        }
    }
    seats
}

fn side(side: &Option<Side>) -> Option<Measure> {
    let side = side.as_ref()?;
    Some(Measure {
        micros: side.time.as_ref().unwrap_or(&side.cpu_time).figure()?,
        alg: side.alg_bw.figure()? * 1e9,
        bus: side.bus_bw.figure()? * 1e9,
        wrong: side.nwrong.figure().map(|n| n as u64),
    })
}

fn row(row: &Entry) -> Option<Row> {
    let (out_of_place, in_place) = (side(&row.out_of_place), side(&row.in_place));
    if out_of_place.is_none() && in_place.is_none() {
        return None;
    }
    Some(Row {
        size: row.size.whole()?,
        count: row.count.whole()?,
        dtype: row.r#type.text().chars().take(32).collect(),
        redop: Some(row.redop.text())
            .filter(|op| !op.is_empty() && *op != "none")
            .map(|op| op.chars().take(32).collect()),
        // A text, padded: `    -1`.
        root: row.root.text().trim().parse().ok(),
        out_of_place,
        in_place,
        line: 0,
    })
}
