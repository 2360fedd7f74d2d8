//! One line of nccl-tests, without what stands before it.

use crate::observe::bench::{Collective, Measure, Seat};

/// Element types in the table, of all versions (`test_typenames`).
const TYPES: [&str; 14] = [
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
    "f8e4m3", "f8e5m2", "char", "int",
];

/// Reductions in the table (`test_opnames`), and the word for none.
const OPS: [&str; 7] = ["sum", "prod", "max", "min", "avg", "mulsum", "none"];

/// Columns of one side of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Columns from one side's time to the other's.
    pub stride: usize,
    /// There is a column for the root.
    pub root: Option<bool>,
    /// The fourth column counts wrong elements; it is a difference before 2022-08.
    pub counts: Option<bool>,
    /// The time is the processor's (`-C 1`), not the operation's.
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

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said<'a> {
    /// `# nThread 1 nGpus 1 minBytes … validation: 1`: whether results are checked, where told.
    Start(Option<bool>),
    /// `# nccl-tests version 2.17.6 …`.
    Version(&'a str),
    /// `# Collective test starting: all_reduce_perf`, concluded too.
    Program(Collective),
    /// A rank.
    Rank(Seat),
    /// The start of a rank's line, whose rest is lost.
    TornRank,
    /// The table's head.
    Head(Layout),
    /// `# Out of bounds values : 0 OK`.
    OutOfBounds(u64),
    /// `# Avg bus bandwidth    : 123.4`, in bytes a second; none: no number (`-nan`).
    Average(Option<f64>),
    /// `host: Test NCCL failure …`.
    Failure(&'a str),
    /// A launcher tells that a process of it died.
    Death(&'a str),
    /// The command that runs one.
    Command(Collective),
}

/// Longest name of a host that is kept, in bytes (`getHostName(hostname, 1024)`; the kernel's 64).
const MAX_HOST: usize = 256;

/// What launchers say where a process did not end well: Open MPI (5 calls itself prterun), MPICH's
/// hydra, Slurm, kubectl.
const DEATHS: [&str; 9] = [
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

/// Anything but a row.
pub(super) fn said(line: &str) -> Option<Said<'_>> {
    if let Some(at) = line.find("Rank ")
        && let Some(seat) = line.get(at + 5..).and_then(rank)
    {
        return Some(Said::Rank(seat));
    }
    if let Some(rest) = after(line, "#").and_then(|rest| rest.trim_start().strip_prefix("Rank "))
        && rest.trim_start().starts_with(|c: char| c.is_ascii_digit())
    {
        return Some(Said::TornRank);
    }
    if let Some(rest) = after(line, "# nccl-tests version ") {
        let version = rest.split_whitespace().next()?;
        return Some(Said::Version(version));
    }
    for mark in ["Collective test starting:", "Collective test concluded:"] {
        if let Some(rest) = after(line, mark) {
            return Collective::of(rest.trim()).map(Said::Program);
        }
    }
    // RCCL's has colons.
    if (line.contains("nThread ") || line.contains("nThreads: ")) && line.contains("minBytes") {
        let validation = after(line, "validation").and_then(figure);
        return Some(Said::Start(validation.map(|rounds| rounds > 0.0)));
    }
    if line.contains("busbw") && line.contains("algbw") && line.contains("size") {
        return head(line).map(Said::Head);
    }
    if let Some(rest) = after(line, "Out of bounds values") {
        // Whatever stands for the count, FAILED is at least one.
        let failed = u64::from(rest.contains("FAILED"));
        let bad = figure(rest).map(|bad| (bad as u64).max(failed));
        return bad
            .or((failed > 0).then_some(failed))
            .map(Said::OutOfBounds);
    }
    if let Some(rest) = after(line, "Avg bus bandwidth") {
        return Some(Said::Average(figure(rest).map(|average| average * 1e9)));
    }
    for mark in [
        "Test NCCL failure",
        "Test CUDA failure",
        "Test failure ",
        "Test timeout (",
    ] {
        if line.contains(mark) {
            return Some(Said::Failure(line.trim()));
        }
    }
    if DEATHS.iter().any(|mark| line.contains(mark)) {
        return Some(Said::Death(line.trim()));
    }
    command(line).map(Said::Command)
}

/// A program's name as a word of a command line.
fn command(line: &str) -> Option<Collective> {
    let at = line.find("_perf")?;
    let before = line.get(..at)?;
    let start = before.rfind(|c: char| c.is_whitespace() || "\"'`/=".contains(c));
    let start = start.map_or(0, |start| start + 1);
    let rest = line.get(start..)?;
    let end = rest.find(|c: char| c.is_whitespace() || "\"'`,;:.".contains(c));
    Collective::of(rest.get(..end.unwrap_or(rest.len()))?)
}

fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark).map(|(_, rest)| rest)
}

/// The number behind `   : `.
fn figure(rest: &str) -> Option<f64> {
    let rest = rest.trim_start().strip_prefix(':')?;
    let value: f64 = unquoted(rest.split_whitespace().next()?).parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// `  0 Group  0 Pid 1034070 on     host device  0 [0000:11:00] NVIDIA H100 …`, after `Rank `. No
/// group before 2022-08, no pid before 2019.
fn rank(rest: &str) -> Option<Seat> {
    let mut words = rest.split_whitespace();
    let rank = words.next()?.parse().ok()?;
    let (mut group, mut pid) = (0, 0);
    let host = loop {
        match words.next()? {
            "Group" => group = words.next()?.parse().ok()?,
            "Pid" => pid = words.next()?.parse().ok()?,
            "on" => break words.next()?,
            _ => return None,
        }
    };
    if words.next()? != "device" || host.len() > MAX_HOST {
        return None;
    }
    let host = host.to_string();
    Some(Seat {
        rank,
        group,
        pid,
        host,
    })
}

fn head(line: &str) -> Option<Layout> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut buses = (0..words.len()).filter(|at| words.get(*at) == Some(&"busbw"));
    let (first, second) = (buses.next()?, buses.next()?);
    let fourth = words.get(first + 1).copied();
    Some(Layout {
        stride: (second - first).clamp(4, 16),
        root: Some(words.contains(&"root")),
        counts: match fourth {
            Some("#wrong") => Some(true),
            Some("error" | "delta" | "res") => Some(false),
            _ => None,
        },
        cpu_time: words.contains(&"cputime"),
    })
}

/// What stands at a row's start, and the cells that followed on the same line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Preamble {
    pub size: u64,
    pub count: u64,
    pub dtype: String,
    pub redop: Option<String>,
    /// Cells after the reduction: the root too, which nothing tells from a time but the layout.
    pub cells: Vec<Cell>,
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    Number(f64),
    /// `N/A`.
    Nothing,
    /// `nan`, `inf`.
    Odd,
}

/// A row's start, wherever in the line it begins.
pub(super) fn preamble(line: &str) -> Option<Preamble> {
    let line = untagged(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = (2..words.len()).find(|at| words.get(*at).is_some_and(|w| TYPES.contains(w)))?;
    let number = |at: usize| {
        let word: &str = words.get(at)?;
        // A launcher's tag may touch the first.
        let start = word
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + 1);
        word.get(start..)?.parse::<u64>().ok()
    };
    let (size, count) = (number(at - 2)?, number(at - 1)?);
    let mut rest = words.get(at + 1..)?;
    let mut redop = None;
    if let Some(op) = rest.first().filter(|op| OPS.contains(*op)) {
        redop = Some((*op).to_string());
        rest = rest.get(1..)?;
    }
    Some(Preamble {
        size,
        count,
        dtype: (*words.get(at)?).to_string(),
        redop,
        cells: cells(rest),
    })
}

/// A line that goes on with a row: cells only, but for a tag before them. Each printf of a row writes
/// four; fewer are a number in somebody's words. And whether it begins inside a number: each printf
/// begins with blanks.
pub(super) fn rest_of_row(line: &str) -> (Vec<Cell>, bool) {
    let line = untagged(line);
    let blank = line.starts_with(|c: char| c.is_whitespace());
    let words: Vec<&str> = line.split_whitespace().collect();
    // `2024-05-01T12:00:00Z`, `worker-0:`.
    let skip = usize::from(words.first().is_some_and(|word| cell(word).is_none()));
    let mut cells = cells(words.get(skip..).unwrap_or_default());
    cells.truncate(cells.len() / 4 * 4);
    let torn = !cells.is_empty() && skip == 0 && !blank;
    (cells, torn)
}

/// A word without the end of somebody's quotation: `N/A",` in a list of strings, `0"}` in an object.
fn unquoted(word: &str) -> &str {
    let word = word.trim_end_matches(['}', ']', ',', '"', '\'']);
    let word = word.strip_suffix("\\n").unwrap_or(word);
    word.strip_suffix("\\r").unwrap_or(word)
}

/// Cells up to the first word that is none. What touches the last (a host's name, whose line begins
/// there) is left out.
fn cells(words: &[&str]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for word in words {
        match cell(word) {
            Some(cell) => cells.push(cell),
            None if cell(unquoted(word)).is_some() => {
                cells.extend(cell(unquoted(word)));
                break;
            }
            None => {
                let end = word
                    .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
                    .unwrap_or(word.len());
                // `-1host:1:2 [0] NCCL INFO`: the root; anything longer was a cell of its own.
                cells.extend(
                    word.get(..end)
                        .and_then(cell)
                        .filter(|_| word.contains(':')),
                );
                break;
            }
        }
        if cells.len() > 40 {
            break;
        }
    }
    cells
}

fn cell(word: &str) -> Option<Cell> {
    if word == "N/A" {
        return Some(Cell::Nothing);
    }
    // A time of day is none, nor is a word that Rust would take for a number.
    let number: f64 = word.parse().ok()?;
    let plain = word
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.e".contains(&b));
    Some(if plain && number.is_finite() {
        Cell::Number(number)
    } else {
        Cell::Odd
    })
}

/// Without tags of launchers, which hydra puts before each piece of a row: `[0]`,
/// `[1,0]<stdout>:`.
fn untagged(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('[') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let inside = tail.get(1..).unwrap_or_default();
        let end = inside.find(|c: char| !(c.is_ascii_digit() || c == ','));
        match end.and_then(|end| inside.get(end..)) {
            Some(close) if close.starts_with(']') && end != Some(0) => {
                let mut close = close.get(1..).unwrap_or_default();
                for stream in ["<stdout>:", "<stderr>:", ":"] {
                    close = close.strip_prefix(stream).unwrap_or(close);
                }
                out.push(' ');
                rest = close;
            }
            _ => {
                out.push('[');
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether the fourth column holds a figure (a count, a difference) or `N/A`; none: it is not there.
pub(super) fn checked(cells: &[Cell]) -> Option<bool> {
    cells.get(3).map(|cell| *cell != Cell::Nothing)
}

/// Where a count of wrong elements should be, there is none: `-3`, `nan`.
pub(super) fn uncounted(cells: &[Cell], layout: Layout) -> bool {
    let no_count = match cells.get(3) {
        Some(Cell::Number(number)) => *number < 0.0,
        Some(Cell::Odd) => true,
        Some(Cell::Nothing) | None => false,
    };
    no_count && layout.counts == Some(true)
}

/// One side's measurement out of its cells.
pub(super) fn measure(cells: &[Cell], layout: Layout) -> Option<Measure> {
    let number = |at: usize| match cells.get(at) {
        Some(Cell::Number(number)) if *number >= 0.0 => Some(*number),
        _ => None,
    };
    let wrong = number(3).filter(|_| layout.counts == Some(true));
    Some(Measure {
        micros: number(0)?,
        alg: number(1)? * 1e9,
        bus: number(2)? * 1e9,
        wrong: wrong.map(|wrong| wrong as u64),
    })
}
