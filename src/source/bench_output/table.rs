//! One line of nccl-tests' output, and the cells of table rows.

use crate::observe::bench::{Collective, Measurement, Rank};
use crate::source::parse::{Pattern, pattern};
use std::borrow::Cow;

/// Element types of all versions (`test_typenames`).
const TYPES: &str = "int8|uint8|int32|uint32|int64|uint64|half|float|double|bfloat16|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2|char|int";

/// Reductions (`test_opnames`), and the word for none.
const REDUCTIONS: &str = "sum|prod|max|min|avg|mulsum|none";

/// Size and count, of which a launcher's tag may touch the first, type, reduction, root, and cells.
static ROW: Pattern = Pattern::new(|| {
    let types = format!(r"(?:{TYPES})\s+(?:{REDUCTIONS})");
    pattern(&format!(
        r"([0-9]+)\s+([0-9]+)\s+{types}(?:\s+\S+(.*))?(?:\s|$)"
    ))
});

/// Launchers' tags, which hydra puts before each piece of a row (`[0]`, `[1,0]<stdout>:`), and what
/// quotes a line in a list of strings or a JSON object.
static WRAPPING: Pattern =
    Pattern::new(|| pattern(r#"\[[0-9,]*\]|<std(?:out|err)>:|\\[nr]|[\["'{}\],]"#));

/// The last `host:pid:tid`, whose first digits may be the end of a cell.
static NCCL: Pattern = Pattern::new(|| pattern("(?s)^(.* )?([0-9.-]*)[^ ]*:[0-9]+:[0-9]+(?: |$)"));

/// Longest host name that is kept, in bytes.
const MAX_HOST: usize = 256;

/// Columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TableLayout {
    /// Columns of one side beyond time, two bandwidths and wrong elements: four with `-I`.
    pub more: usize,
    /// The time is CPU time (`-C 1`), so that bandwidth does not follow from it.
    pub cpu_time: bool,
}

/// A program's name as a word of a command line.
pub(super) fn program(text: &str) -> Option<Collective> {
    let separator = |c: char| c.is_whitespace() || "\"'`=,;:.".contains(c);
    let mut words = text.split(separator).filter(|word| word.contains("_perf"));
    Collective::of(words.next()?)
}

/// The number after `   : `.
pub(super) fn figure(rest: &str) -> Option<f64> {
    let rest = rest.trim_start().strip_prefix(':')?;
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// `  0 Group  0 Pid 1034070 on     host device  0 [0000:11:00] NVIDIA H100 …`, after `Rank `. Without a
/// group by nccl-tests before 2.13.5 and by rccl-tests.
pub(super) fn rank(rest: &str) -> Option<Rank> {
    let words: Vec<&str> = rest.split_whitespace().take(8).collect();
    let (rank, group, host) = match words[..] {
        [rank, "Group", group, "Pid", _, "on", host, "device"] => (rank, group, host),
        [rank, "Pid", _, "on", host, "device", ..] => (rank, "0", host),
        _ => return None,
    };
    (host.len() <= MAX_HOST).then_some(())?;
    Some(Rank {
        rank: rank.parse().ok()?,
        group: group.parse().ok()?,
        host: host.to_string(),
    })
}

/// The line with the columns' names.
pub(super) fn header(text: &str) -> Option<TableLayout> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let all = words.iter().enumerate();
    let mut sides = all.filter(|(_, word)| **word == "busbw");
    let ((first, _), (second, _)) = (sides.next()?, sides.next()?);
    (words.contains(&"size") && words.contains(&"algbw")).then_some(TableLayout {
        more: (second - first).clamp(4, 16) - 4,
        cpu_time: words.contains(&"cputime"),
    })
}

/// A table row, as far as it was printed: the message size, and the cells after the root.
pub(super) type RowText = (u64, Vec<Cell>);

/// A cell of a row: a number (NaN if what is printed is `nan` or `inf`), or none for `N/A`.
pub(super) type Cell = Option<f64>;

/// Parses a row, wherever in the line it begins.
pub(super) fn row(text: &str) -> Option<RowText> {
    let text = unwrapped(text);
    let row = ROW.as_ref()?.captures(&text)?;
    let number = |group| row.get(group)?.as_str().parse().ok();
    let (size, _count): (u64, u64) = (number(1)?, number(2)?);
    let cells = row.get(3).map_or("", |cells| cells.as_str());
    let cells = cells.split_whitespace().map_while(cell).take(40);
    Some((size, cells.collect()))
}

/// Whether a text is nothing but cells, as what is left of a row that was cut.
pub(super) fn is_continuation(text: &str) -> bool {
    let text = unwrapped(text);
    text.split_whitespace().all(|word| cell(word).is_some())
}

fn cell(word: &str) -> Option<Cell> {
    if word == "N/A" {
        return Some(None);
    }
    let number: f64 = word.parse().ok()?;
    // Rust parses `infinity` and `nan` as numbers.
    let is_plain = |b: u8| b.is_ascii_digit() || b"+-.e".contains(&b);
    let is_number = word.bytes().all(is_plain) && number.is_finite();
    Some(Some(if is_number { number } else { f64::NAN }))
}

/// What nccl-tests printed before a line of NCCL's that begins in the middle of its own, at `nccl`: all
/// up to `host:pid:tid`, whose first digits are the end of the last cell (`-1host:1:2 [0] NCCL INFO`).
pub(super) fn before_nccl(text: &str, nccl: usize) -> String {
    let text = text.get(..nccl).unwrap_or_default();
    let prefix = NCCL.as_ref().and_then(|nccl| nccl.captures(text));
    let part = |group| prefix.as_ref()?.get(group).map(|part| part.as_str());
    let digits = part(2).filter(|digits| cell(digits).is_some());
    part(1).into_iter().chain(digits).collect()
}

/// Blanks in place of what others put around a line.
fn unwrapped(text: &str) -> Cow<'_, str> {
    (WRAPPING.as_ref()).map_or(text.into(), |wrapping| wrapping.replace_all(text, " "))
}

/// One side of a row, by its cells: the time in microseconds, and the measurement.
pub(super) fn side(cells: &[Cell]) -> Option<(f64, Measurement)> {
    let number = |at: usize| {
        let cell = cells.get(at).copied().flatten();
        cell.filter(|number| *number >= 0.0)
    };
    let measurement = Measurement {
        algbw: number(1)? * 1e9,
        busbw: number(2)? * 1e9,
        wrong: number(3).and_then(count),
    };
    Some((number(0)?, measurement))
}

/// A count of wrong elements; before 2022-08 a difference was printed instead.
fn count(number: f64) -> Option<u64> {
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

/// Whether the column of wrong elements does not hold a count: `-3`, `nan`, `4e-07`.
pub(super) fn uncounted(cells: &[Cell]) -> bool {
    let cell = cells.get(3).copied().flatten();
    cell.is_some_and(|number| count(number).is_none())
}

/// Whether the bandwidth is size divided by time, as far as rounding in print allows. A row that was
/// cut inside a number reads as other numbers.
pub(super) fn consistent(size: u64, micros: f64, side: &Measurement) -> bool {
    let gb = side.algbw / 1e9;
    // Figures too wide for their columns lose decimals (`getFloatStr` of src/util.cu).
    let rounding = match gb {
        gb if gb < 1000.0 => 0.0051,
        gb if gb < 10_000.0 => 0.051,
        gb => gb / 20.0,
    };
    // From ten seconds on a time has two digits: `1.6e+07`.
    let half = match micros {
        micros if micros < 1e7 => 0.51 + micros / 200.0,
        micros => 0.051 * 10f64.powf(micros.log10().floor()),
    };
    let least = size as f64 / (micros + half) / 1e3;
    let most = match micros - half {
        fastest if fastest > 0.0 => size as f64 / fastest / 1e3,
        _ => f64::INFINITY,
    };
    // hypercube counts (n-1)/n of the size and prints the same bandwidth twice.
    let part = if side.algbw == side.busbw { 0.5 } else { 1.0 };
    (least * part - rounding..=most + rounding).contains(&gb)
}
