//! Turns the bytes of an output, in pieces of any size, into runs.

use super::table::{self, Cell, RowText, TableLayout};
use crate::observe::bench::{BenchLog, Collective, Measurement, Run, SizeRow};
use crate::source::{colour, container_log};
use std::collections::BTreeSet;

/// Longest line that is read, in bytes.
const LINE_LIMIT: usize = 16 * 1024;

/// Runs, rows of a run, and ranks of a run that are kept.
const MAX_RUNS: usize = 256;
const MAX_ROWS: usize = 4096;
const MAX_RANKS: usize = 1 << 16;

/// Longest error message that is kept, in characters.
const MAX_FAILURE: usize = 300;

/// Errors that nccl-tests prints itself.
const FAILURES: &str = "Test NCCL failure|Test CUDA failure|Test failure |Test timeout (";

/// What launchers print about a process that died: Open MPI (version 5 calls itself prterun), the
/// hydra of MPICH, Slurm, kubectl.
const LAUNCHER_ERRORS: &str = "noticed that process rank|exited with non-zero|exited with a non-zero|\
    terminated normally, but|MPI_ABORT was invoked|BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|\
    srun: error: |CANCELLED AT |command terminated with exit code";

/// Reads the printed output of nccl-tests.
#[derive(Debug, Default)]
pub struct BenchReader {
    log: BenchLog,
    run: Run,
    layout: TableLayout,
    /// Groups and ranks listed in this run.
    listed: BTreeSet<(u32, u32)>,
    /// The part of a line of nccl-tests' that precedes a line of NCCL's, and the number of the line on
    /// which it began.
    cut: String,
    cut_at: u64,
    /// The benchmark that the last command line names, for the run that it starts.
    command: Option<Collective>,
    /// The start of a line whose end is not read yet.
    partial: Vec<u8>,
    line_number: u64,
}

impl BenchReader {
    /// Reads a piece; an incomplete last line waits for the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let line = part.strip_suffix(b"\n");
            let room = LINE_LIMIT.saturating_sub(self.partial.len());
            let kept = line.unwrap_or(part).iter().take(room);
            self.partial.extend(kept);
            if line.is_some() {
                self.read_line();
            }
        }
    }

    /// Ends the input and returns its runs.
    pub fn finish(mut self) -> BenchLog {
        self.read_line();
        self.read_cut();
        self.close_run();
        self.log
    }

    fn read_line(&mut self) {
        self.line_number += 1;
        let line = std::mem::take(&mut self.partial);
        let (_, text) = container_log::unframe(&line);
        let text = String::from_utf8_lossy(&text);
        self.read_text(colour::without_colour(&text).trim_end());
    }

    /// Puts rows together again that NCCL's lines cut.
    fn read_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let nccl = text.find("NCCL INFO").or_else(|| text.find("NCCL WARN"));
        let own = match nccl {
            Some(at) => &table::before_nccl(text, at),
            None => text,
        };
        // All but cells is a line of its own.
        if !table::is_continuation(own) || self.cut.len() > LINE_LIMIT {
            self.read_cut();
        }
        if self.cut.is_empty() {
            self.cut_at = self.line_number;
        }
        self.cut.push_str(own);
        if nccl.is_none() {
            self.read_cut();
        }
    }

    fn read_cut(&mut self) {
        let text = std::mem::take(&mut self.cut);
        match table::row(&text) {
            Some(row) => self.add_row(&row),
            None => self.read_above_table(&text),
        }
    }

    fn read_above_table(&mut self, text: &str) {
        let after = |mark: &str| text.split_once(mark).map(|(_, rest)| rest);
        let program = after("Collective test starting:").or(after("Collective test concluded:"));
        // RCCL prints colons.
        let has_threads = text.contains("nThread ") || text.contains("nThreads: ");
        let is_parameters = text.contains("minBytes") && has_threads;
        if let Some(rank) = after("Rank ").and_then(table::rank) {
            self.begin_header();
            self.run.separate |= !self.listed.insert((rank.group, rank.rank));
            if self.run.ranks.len() < MAX_RANKS {
                self.run.ranks.push(rank);
            }
        } else if let Some(program) = program {
            let collective = Collective::of(program.trim());
            // Printed at the start and at the end of a run.
            if collective.is_some() && collective != self.run.collective {
                self.begin_header();
                self.run.collective = collective;
            }
        } else if is_parameters || text.contains("# nccl-tests version ") {
            self.begin_header();
            self.run.started = true;
            let rounds = after("validation").and_then(table::figure);
            let checked = rounds.map(|rounds| rounds > 0.0);
            self.run.checked = self.run.checked.or(checked);
        } else if let Some(layout) = table::header(text) {
            self.begin_header();
            self.layout = layout;
        } else {
            self.read_below_table(text);
        }
    }

    fn read_below_table(&mut self, text: &str) {
        let any = |marks: &str| marks.split('|').any(|mark| text.contains(mark));
        if let Some((_, rest)) = text.split_once("Out of bounds values") {
            // FAILED means at least one, whatever the count says.
            let failed = rest.contains("FAILED").then_some(1);
            let wrong = table::figure(rest).map(|count| count as u64).max(failed);
            self.run.out_of_bounds = self.run.out_of_bounds.max(wrong);
        } else if text.contains("Avg bus bandwidth") {
            self.run.ended = true;
            // Less than the user's own limit, NCCL_TESTS_MIN_BW.
            if text.contains("FAILED") {
                self.failed(text);
            }
        } else if any(FAILURES) || any(LAUNCHER_ERRORS) {
            // Outside of a run a launcher's error is about another program.
            if any(FAILURES) || !self.run.is_empty() {
                self.failed(text);
            }
        } else if let Some(collective) = table::program(text) {
            if self.run.ended || self.run.failure.is_some() {
                self.close_run();
            }
            // In the middle of a table it is a remark.
            if self.run.rows.is_empty() {
                self.command = Some(collective);
            }
        }
    }

    /// The first line that tells of a failure counts.
    fn failed(&mut self, text: &str) {
        let text = text.trim().chars().take(MAX_FAILURE).collect();
        self.run.failure.get_or_insert((self.cut_at, text));
    }

    /// A header line begins the next run if this one has rows or is over.
    fn begin_header(&mut self) {
        let over = self.run.is_over() || self.run.failure.is_some();
        // Processes that did not join print headers and rows in turns.
        if over || (!self.run.rows.is_empty() && !self.run.separate) {
            self.close_run();
        }
    }

    fn close_run(&mut self) {
        self.listed.clear();
        self.layout = TableLayout::default();
        let mut run = std::mem::take(&mut self.run);
        if run.is_empty() {
            return;
        }
        let command = self.command.take();
        run.collective = run.collective.or(command);
        if self.log.runs.len() < MAX_RUNS {
            self.log.runs.push(run);
        } else {
            self.log.dropped += 1;
        }
    }

    fn add_row(&mut self, (size, cells): &RowText) {
        if self.run.is_over() && !self.run.separate {
            self.close_run();
        }
        let TableLayout { more, cpu_time } = self.layout;
        let stride = 4 + more;
        let sides = || cells.chunks(stride).take(2);
        let whole = |cells: &[Cell]| table::side(cells).filter(|_| cells.len() == stride);
        let measured: Vec<_> = sides().map(whole).collect();
        let fits = |(micros, side): &(f64, Measurement)| {
            cpu_time || table::consistent(*size, *micros, side)
        };
        let side = |at: usize| measured.get(at).copied().flatten().map(|(_, side)| side);
        let (out_of_place, in_place) = (side(0), side(1));
        let is_torn = !measured.iter().flatten().all(fits);
        if is_torn || out_of_place.or(in_place).is_none() {
            // `nan` is what was too fast to measure.
            let is_printed = cells.iter().flatten().all(|cell| !cell.is_nan());
            self.run.torn_rows += u64::from(is_torn || !cells.is_empty() && is_printed);
            return;
        }
        for cells in sides() {
            self.run.uncounted += u64::from(table::uncounted(cells));
            // One figure shows that results were checked: alltoall is not checked in place.
            let checked = cells.get(3).map(Option::is_some);
            self.run.checked = checked.max(self.run.checked);
        }
        if self.run.rows.len() < MAX_ROWS {
            self.run.rows.push(SizeRow {
                size: *size,
                out_of_place,
                in_place,
                line: self.cut_at,
            });
        }
    }
}
