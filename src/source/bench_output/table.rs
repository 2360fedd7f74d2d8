//! One line of nccl-tests' output, and the cells of table rows.

use crate::observe::bench::{Collective, Measurement, Rank};

/// Element types of all versions (`test_typenames`).
const TYPES: &str =
    "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 char int";

/// Reductions (`test_opnames`), and the word for none.
const REDUCTIONS: &str = "sum prod max min avg mulsum none";

/// Longest host name that is kept, in bytes.
const MAX_HOST: usize = 256;

/// Errors that nccl-tests prints itself.
const FAILURES: [&str; 4] = [
    "Test NCCL failure",
    "Test CUDA failure",
    "Test failure ",
    "Test timeout (",
];

/// What launchers print about a process that died: Open MPI (version 5 calls itself prterun), the
/// hydra of MPICH, Slurm, kubectl.
const LAUNCHER_ERRORS: [&str; 9] = [
    "noticed that process rank",
    "exited with non-zero",
    "exited with a non-zero",
    "terminated normally, but",
    "MPI_ABORT was invoked",
    "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "srun: error: ",
    "CANCELLED AT ",
    "command terminated with exit code",
];

/// Columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Columns of one side.
    pub stride: usize,
    /// Whether there is a root column; `None` without a header line.
    pub root: Option<bool>,
    /// Whether the fourth column counts wrong elements (a difference before 2022-08).
    pub counts: Option<bool>,
    /// The time is CPU time (`-C 1`), so that bandwidth does not follow from it.
    pub cpu_time: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            stride: 4,
            root: None,
            counts: None,
            cpu_time: false,
        }
    }
}

/// What a line other than a table row says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line<'a> {
    /// `# nThread 1 … validation: 1`, or the version line; whether results are checked.
    Start(Option<bool>),
    /// `# Collective test starting: all_reduce_perf`, or `concluded`.
    Program(Collective),
    /// An entry of the rank list.
    Rank(Rank),
    /// The header with the columns' names.
    Header(Layout),
    /// `# Out of bounds values : 0 OK`
    OutOfBounds(u64),
    /// `# Avg bus bandwidth    : 123.4`, the last line of a run.
    Average,
    /// `host: Test NCCL failure …`
    Failure(&'a str),
    /// A launcher reports that a process died.
    LauncherError(&'a str),
    /// A command line that starts a benchmark.
    Command(Collective),
}

/// Parses a line that is not a table row.
pub(super) fn line(text: &str) -> Option<Line<'_>> {
    let after = |mark: &str| text.split_once(mark).map(|(_, rest)| rest);
    let any = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    let all = |marks: &[&str]| marks.iter().all(|mark| text.contains(mark));
    if let Some(rank) = after("Rank ").and_then(rank) {
        return Some(Line::Rank(rank));
    }
    let program = after("Collective test starting:").or(after("Collective test concluded:"));
    if let Some(program) = program {
        return Collective::of(program.trim()).map(Line::Program);
    }
    if any(&["# nccl-tests version "]) {
        return Some(Line::Start(None));
    }
    // RCCL prints colons.
    if any(&["nThread ", "nThreads: "]) && any(&["minBytes"]) {
        let rounds = after("validation").and_then(figure);
        return Some(Line::Start(rounds.map(|rounds| rounds > 0.0)));
    }
    if all(&["busbw", "algbw", "size"]) {
        return header(text).map(Line::Header);
    }
    if let Some(rest) = after("Out of bounds values") {
        // FAILED means at least one, whatever the count says.
        let failed = rest.contains("FAILED").then_some(1);
        let count = figure(rest).map(|count| count as u64);
        return count.max(failed).map(Line::OutOfBounds);
    }
    if any(&["Avg bus bandwidth"]) {
        return Some(Line::Average);
    }
    if any(&FAILURES) {
        return Some(Line::Failure(text.trim()));
    }
    if any(&LAUNCHER_ERRORS) {
        return Some(Line::LauncherError(text.trim()));
    }
    // A program's name as a word of a command line.
    let separator = |c: char| c.is_whitespace() || "\"'`=,;:.".contains(c);
    let mut words = text.split(separator).filter(|word| word.contains("_perf"));
    Collective::of(words.next()?).map(Line::Command)
}

/// The number after `   : `.
fn figure(rest: &str) -> Option<f64> {
    let rest = rest.trim_start().strip_prefix(':')?;
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// `  0 Group  0 Pid 1034070 on     host device  0 [0000:11:00] NVIDIA H100 …`, after `Rank `. The
/// group is missing before 2022-08, the process before 2019.
fn rank(rest: &str) -> Option<Rank> {
    let mut words = rest.split_whitespace();
    let rank = words.next()?.parse().ok()?;
    let mut group = 0;
    let host = loop {
        match words.next()? {
            "Group" => group = words.next()?.parse().ok()?,
            "Pid" => drop(words.next()?.parse::<u32>().ok()?),
            "on" => break words.next()?,
            _ => return None,
        }
    };
    let whole = words.next()? == "device" && host.len() <= MAX_HOST;
    whole.then(|| Rank {
        rank,
        group,
        host: host.to_string(),
    })
}

fn header(text: &str) -> Option<Layout> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut sides = words
        .iter()
        .enumerate()
        .filter(|(_, word)| **word == "busbw");
    let ((first, _), (second, _)) = (sides.next()?, sides.next()?);
    Some(Layout {
        stride: (second - first).clamp(4, 16),
        root: Some(words.contains(&"root")),
        counts: match words.get(first + 1).copied() {
            Some("#wrong") => Some(true),
            Some("error" | "delta" | "res") => Some(false),
            _ => None,
        },
        cpu_time: words.contains(&"cputime"),
    })
}

/// The start of a table row, and the cells that follow on the same line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowStart {
    pub size: u64,
    /// The reduction is printed as `none`, which layouts with a count of wrong elements do.
    pub reduction_is_none: bool,
    /// Cells after the reduction. The first may be the root, which only the layout tells.
    pub cells: Vec<Cell>,
}

/// A cell of a row: a number (NaN if what is printed is `nan` or `inf`), or none for `N/A`.
pub(super) type Cell = Option<f64>;

/// Parses the start of a row, wherever in the line it begins.
pub(super) fn row_start(text: &str) -> Option<RowStart> {
    let text = unwrapped(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_one_of = |names: &str, word: &str| names.split(' ').any(|name| name == word);
    let at = words
        .iter()
        .skip(2)
        .position(|word| is_one_of(TYPES, word))?;
    let number = |at: usize| {
        // A launcher's tag may touch the first number.
        let word = words.get(at)?;
        let start = word.rfind(|c: char| !c.is_ascii_digit());
        word.get(start.map_or(0, |at| at + 1)..)?
            .parse::<u64>()
            .ok()
    };
    let (size, _count) = (number(at)?, number(at + 1)?);
    let rest = words.get(at + 3..)?;
    let reduction = rest.first().filter(|word| is_one_of(REDUCTIONS, word));
    Some(RowStart {
        size,
        reduction_is_none: reduction == Some(&"none"),
        cells: cells(rest.get(usize::from(reduction.is_some())..)?),
    })
}

/// The cells of a line that continues a row, and whether the line begins inside a number. nccl-tests
/// prints four cells or more at a time and starts each piece with blanks; fewer are a number in some
/// other text.
pub(super) fn continuation(text: &str) -> (Vec<Cell>, bool) {
    let text = unwrapped(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    // A timestamp or a launcher's tag.
    let skip = usize::from(words.first().is_some_and(|word| cell(word).is_none()));
    let mut cells = cells(words.get(skip..).unwrap_or_default());
    cells.truncate(cells.len() / 4 * 4);
    let torn = !cells.is_empty() && skip == 0 && !text.starts_with(char::is_whitespace);
    (cells, torn)
}

/// Cells up to the first word that is not one.
fn cells(words: &[&str]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = words.iter().map_while(|word| cell(word)).take(40).collect();
    // `-1host:1:2 [0] NCCL INFO`: a line of NCCL's begins right after the last cell.
    if let Some(word) = words.get(cells.len()).filter(|word| word.contains(':')) {
        let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
        cells.extend(end.and_then(|end| cell(word.get(..end)?)));
    }
    cells
}

fn cell(word: &str) -> Option<Cell> {
    if word == "N/A" {
        return Some(None);
    }
    let number: f64 = word.parse().ok()?;
    // Rust parses `infinity` and `nan` as numbers.
    let is_plain = word
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.e".contains(&b));
    Some(Some(if is_plain && number.is_finite() {
        number
    } else {
        f64::NAN
    }))
}

/// Blanks in place of launchers' tags, which hydra puts before each piece of a row (`[0]`,
/// `[1,0]<stdout>:`), and of what quotes a line in a list of strings or a JSON object.
fn unwrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, part) in text.split('[').enumerate() {
        let tag = part.split_once(']').filter(|(inside, _)| {
            let number = |b: u8| b.is_ascii_digit() || b == b',';
            at > 0 && !inside.is_empty() && inside.bytes().all(number)
        });
        let rest = tag.map_or(part, |(_, rest)| rest);
        out.push_str(if at > 0 { " " } else { "" });
        let stream = ["<stdout>:", "<stderr>:", ":"].iter();
        let rest = stream.fold(rest, |rest, name| match tag {
            Some(_) => rest.strip_prefix(name).unwrap_or(rest),
            None => rest,
        });
        out.push_str(rest);
    }
    let out = out.replace("\\n", " ").replace("\\r", " ");
    out.replace(['"', '\'', '{', '}', ']', ','], " ")
}

/// One side of a row, by its cells: the time in microseconds, and the measurement.
pub(super) fn side(cells: &[Cell], layout: Layout) -> Option<(f64, Measurement)> {
    let number = |at: usize| {
        cells
            .get(at)
            .copied()
            .flatten()
            .filter(|number| *number >= 0.0)
    };
    let measurement = Measurement {
        algbw: number(1)? * 1e9,
        busbw: number(2)? * 1e9,
        wrong: number(3)
            .filter(|_| layout.counts == Some(true))
            .map(|wrong| wrong as u64),
    };
    Some((number(0)?, measurement))
}

/// Whether the column of wrong elements should hold a count and does not: `-3`, `nan`.
pub(super) fn uncounted(cells: &[Cell], layout: Layout) -> bool {
    let count = cells.get(3).copied().flatten();
    layout.counts == Some(true) && count.is_some_and(|count| count.is_nan() || count < 0.0)
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
    // all_gather and reduce_scatter before 2018-12, and hypercube, count (n-1)/n of the size and print
    // the same bandwidth twice.
    let part = if side.algbw == side.busbw { 0.5 } else { 1.0 };
    (least * part - rounding..=most + rounding).contains(&gb)
}
