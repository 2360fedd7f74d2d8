//! Turns the bytes of an output, in pieces of any size, into runs.

use super::table::{self, Cell, Layout, Line, RowText};
use crate::observe::bench::{BenchLog, Collective, Measurement, Row, Run};
use crate::source::colour::without_colour;
use crate::source::container_log::unframe;
use std::collections::BTreeSet;

/// Longest line that is read, in bytes.
const LINE_LIMIT: usize = 16 * 1024;

/// Runs, rows of a run, and ranks of a run that are kept.
const MAX_RUNS: usize = 256;
const MAX_ROWS: usize = 4096;
const MAX_RANKS: usize = 1 << 16;

/// Longest error message that is kept, in characters.
const MAX_FAILURE: usize = 300;

/// Reads the printed output of nccl-tests.
#[derive(Debug, Default)]
pub struct Reader {
    log: BenchLog,
    run: Run,
    layout: Layout,
    /// Groups and ranks listed in this run.
    listed: BTreeSet<(u32, u32)>,
    /// What nccl-tests printed of a line that NCCL's lines cut, and the number of the line that it began on.
    cut: String,
    cut_at: u64,
    /// The benchmark that the last command line names, for the run that it starts.
    command: Option<Collective>,
    /// The start of a line whose end is not read yet.
    partial: Vec<u8>,
    line_number: u64,
}

impl Reader {
    /// Reads a piece; an incomplete last line waits for the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (line, ends) = part
                .strip_suffix(b"\n")
                .map_or((part, false), |line| (line, true));
            let room = LINE_LIMIT.saturating_sub(self.partial.len());
            self.partial
                .extend_from_slice(line.get(..line.len().min(room)).unwrap_or_default());
            if ends {
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
        let mut scratch = Vec::new();
        let (_, text) = unframe(&line, &mut scratch);
        let text = String::from_utf8_lossy(text);
        let text = without_colour(&text);
        if !text.trim_end().is_empty() {
            self.read_text(text.trim_end());
        }
        self.partial = line;
        self.partial.clear();
    }

    /// Puts lines together again that NCCL's lines cut.
    fn read_text(&mut self, text: &str) {
        let nccl = text.find("NCCL INFO").or_else(|| text.find("NCCL WARN"));
        let own = match nccl {
            Some(at) => &table::before_nccl(text, at),
            None => text,
        };
        // What is a line of its own does not continue another.
        let is_own = table::row(own).is_some() || table::line(own).is_some();
        if is_own || self.cut.len() > LINE_LIMIT {
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
        if let Some(row) = table::row(&text) {
            self.add_row(&row);
        } else if let Some(line) = table::line(&text) {
            self.apply(line);
        }
    }

    fn apply(&mut self, line: Line<'_>) {
        if let Line::Start(_) | Line::Rank(_) | Line::Header(_) = line {
            self.begin_header();
        }
        match line {
            Line::Start(checked) => {
                self.run.started = true;
                self.run.checked = self.run.checked.or(checked);
            }
            // Printed at the start and at the end of a run.
            Line::Program(collective) if self.run.collective == Some(collective) => {}
            Line::Program(collective) => {
                self.begin_header();
                self.run.collective = Some(collective);
            }
            Line::Rank(rank) => {
                self.run.separate |= !self.listed.insert((rank.group, rank.rank));
                if self.run.ranks.len() < MAX_RANKS {
                    self.run.ranks.push(rank);
                }
            }
            Line::Header(layout) => self.layout = layout,
            Line::OutOfBounds(wrong) => {
                self.run.out_of_bounds = self.run.out_of_bounds.max(Some(wrong));
            }
            Line::Average => self.run.ended = true,
            // Outside of a run it is about another program.
            Line::LauncherError(_) if self.run.is_empty() => {}
            Line::Failure(text) | Line::LauncherError(text) => {
                let text = text.chars().take(MAX_FAILURE).collect();
                self.run.failure.get_or_insert((self.cut_at, text));
            }
            Line::Command(collective) => {
                if self.run.ended || self.run.failure.is_some() {
                    self.close_run();
                }
                // In the middle of a table it is a remark.
                if self.run.rows.is_empty() {
                    self.command = Some(collective);
                }
            }
        }
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
        self.layout = Layout::default();
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

    fn add_row(&mut self, row: &RowText) {
        if self.run.is_over() && !self.run.separate {
            self.close_run();
        }
        let mut layout = self.layout;
        // Before 2022-08 a missing reduction was printed as nothing.
        if layout.counts.is_none() && row.reduction_is_none {
            layout.counts = Some(true);
        }
        // Without a header only the odd number of cells shows the root; under one it may be empty.
        let has_root = layout.root != Some(false) && row.cells.len() % layout.stride == 1;
        let cells = row.cells.get(usize::from(has_root)..).unwrap_or_default();
        let sides = || cells.chunks(layout.stride).take(2);
        let measure = |cells: &[Cell]| match cells.len() == layout.stride {
            true => table::side(cells, layout),
            false => None,
        };
        let measured: Vec<_> = sides().map(measure).collect();
        let fits = |(micros, side): &(f64, Measurement)| {
            layout.cpu_time || table::consistent(row.size, *micros, side)
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
            self.run.uncounted += u64::from(table::uncounted(cells, layout));
            // One figure shows that results were checked: alltoall is not checked in place.
            let checked = cells.get(3).map(Option::is_some);
            self.run.checked = checked.max(self.run.checked);
        }
        if self.run.rows.len() >= MAX_ROWS {
            return;
        }
        self.run.rows.push(Row {
            size: row.size,
            out_of_place,
            in_place,
            line: self.cut_at,
        });
    }
}
