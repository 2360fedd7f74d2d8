//! Whether a row's figures belong together. A row is written in pieces that others write between; cut
//! inside a number it reads as other numbers, and a piece of one as a count of wrong elements.

use super::line::Layout;
use crate::observe::bench::{Measure, Row, Run};

/// What printing with two decimals takes off a figure in GB/s, and a little.
const ROUNDING: f64 = 0.0051;

/// What printing takes off a figure, in GB/s: decimals are lost where it is too wide for its column.
fn rounding(gb: f64) -> f64 {
    match gb {
        gb if gb < 1000.0 => ROUNDING,
        gb if gb < 10_000.0 => 0.051,
        // `1e+04`.
        gb => gb / 20.0,
    }
}

/// What printing takes off a time, in microseconds: differently by version half a microsecond and half
/// a percent. From ten seconds on the column holds two digits, `1.6e+07` (`getFloatStr` of
/// nccl-tests' src/util.cu).
fn time_rounding(micros: f64) -> f64 {
    const TWO_DIGITS: f64 = 1e7;
    let usual = 0.51 + micros / 200.0;
    match micros >= TWO_DIGITS {
        true => usual.max(0.051 * 10f64.powf(micros.log10().floor())),
        false => usual,
    }
}

/// Size by time is the algorithm's bandwidth. Before 2018-12 all_gather and reduce_scatter, and
/// hypercube to this day, count (k-1)/k of the size, and both bandwidths are the same.
pub(super) fn timed(size: u64, side: &Measure, layout: Layout) -> bool {
    // The time of `-C 1` is the processor's.
    if layout.cpu_time {
        return true;
    }
    let alg = side.alg / 1e9;
    let half = time_rounding(side.micros);
    let (fast, slow) = (side.micros - half, side.micros + half);
    let at = |part: f64| {
        let most = match fast > 0.0 {
            true => size as f64 * part / fast / 1e3,
            false => f64::INFINITY,
        };
        let least = size as f64 * part / slow / 1e3;
        (least - rounding(alg)..=most + rounding(alg)).contains(&alg)
    };
    let same = (side.alg - side.bus).abs() < 1e3;
    let part = alg * side.micros * 1e3 / size.max(1) as f64;
    let k = (1.0 / (1.0 - part)).round();
    at(1.0) || (same && k >= 2.0 && at((k - 1.0) / k))
}

/// Sides of a row.
fn sides(row: &mut Row) -> [&mut Option<Measure>; 2] {
    [&mut row.out_of_place, &mut row.in_place]
}

/// Takes out what does not have the run's factor between its bandwidths, which is one and the same for
/// all rows. How many sides that were.
pub(super) fn keep_factor(run: &mut Run) -> u64 {
    let all = || {
        let rows = run.rows.iter();
        rows.flat_map(|row| [row.out_of_place, row.in_place].into_iter().flatten())
    };
    // The large figures tell it best.
    let floor = all().map(|side| side.alg).fold(0.0, f64::max) / 2.0;
    let told = all().filter(|side| side.alg > 0.0 && side.alg >= floor);
    let mut factors: Vec<f64> = told.map(|side| side.bus / side.alg).collect();
    factors.sort_by(f64::total_cmp);
    let Some(factor) = factors.get(factors.len() / 2).copied() else {
        return 0;
    };
    let floor = floor / 1e9;
    let fits = |side: &Measure| {
        let (alg, bus) = (side.alg / 1e9, side.bus / 1e9);
        let own = rounding(bus) + factor * rounding(alg);
        // The factor is known no better than the figures that it comes from.
        let its = alg * (rounding(factor * floor) + factor * rounding(floor)) / floor;
        (bus - factor * alg).abs() <= own + its
    };
    let mut out = 0;
    for row in &mut run.rows {
        for side in sides(row) {
            if side.as_ref().is_some_and(|side| !fits(side)) {
                *side = None;
                out += 1;
            }
        }
    }
    run.rows
        .retain(|row| row.out_of_place.is_some() || row.in_place.is_some());
    out
}
