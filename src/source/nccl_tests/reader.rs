//! Bytes of an output, in any pieces, to its runs.

use super::fit;
use super::line::{self, Cell, Layout, Preamble, Said};
use crate::observe::bench::{BenchLog, Collective, Row, Run};
use crate::source::colour::without_colour;
use crate::source::container_log::unframe;
use std::collections::BTreeSet;

/// Bytes of one line that are looked at.
const LINE_LIMIT: usize = 16 * 1024;

/// Runs, rows of one, and ranks of one that are kept.
const MAX_RUNS: usize = 256;
const MAX_ROWS: usize = 4096;
const MAX_SEATS: usize = 1 << 16;

/// Bytes of a failure's line that are kept.
const MAX_FAILURE: usize = 300;

/// Turns bytes into lines and lines into runs.
#[derive(Debug, Default)]
pub struct Reader {
    log: BenchLog,
    run: Run,
    layout: Layout,
    /// Ranks named in this run.
    named: BTreeSet<(u32, u32)>,
    /// A row whose end is not there yet, and its line.
    open: Option<(Preamble, u64)>,
    /// It was cut inside a number.
    torn: bool,
    /// What the last command said, for the run that it starts.
    command: Option<Collective>,
    carry: Vec<u8>,
    lines: u64,
    scratch: Vec<u8>,
}

impl Reader {
    /// Takes in a piece. What it ends with in the middle of a line waits for the next.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(end);
            if self.carry.is_empty() {
                self.take_line(head);
            } else {
                self.keep(head);
                let line = std::mem::take(&mut self.carry);
                self.take_line(&line);
            }
            rest = tail.get(1..).unwrap_or_default();
        }
        self.keep(rest);
    }

    /// The input ends here.
    pub fn finish(mut self) -> BenchLog {
        if !self.carry.is_empty() {
            let line = std::mem::take(&mut self.carry);
            self.take_line(&line);
        }
        self.close_row();
        self.close_run();
        self.log
    }

    fn keep(&mut self, part: &[u8]) {
        let room = LINE_LIMIT.saturating_sub(self.carry.len());
        let part = part.get(..part.len().min(room)).unwrap_or_default();
        self.carry.extend_from_slice(part);
    }

    fn take_line(&mut self, line: &[u8]) {
        self.lines += 1;
        let line = line.get(..LINE_LIMIT).unwrap_or(line);
        let mut scratch = std::mem::take(&mut self.scratch);
        let (_, text) = unframe(line, &mut scratch);
        let text = String::from_utf8_lossy(text);
        let text = without_colour(&text);
        let text = text.trim_end();
        if !text.is_empty() {
            self.text(text);
        }
        self.scratch = scratch;
    }

    fn text(&mut self, text: &str) {
        // A row may begin before what NCCL has to say; what stands behind that is NCCL's.
        let nccl = text.find("NCCL INFO").or_else(|| text.find("NCCL WARN"));
        let own = nccl.map_or(text, |at| text.get(..at).unwrap_or_default());
        if let Some(preamble) = line::preamble(own) {
            self.close_row();
            self.begin_row();
            self.open = Some((preamble, self.lines));
            self.close_if_whole();
            return;
        }
        if nccl.is_some() {
            // Its last lines are cut into as rows are; a run without them counts as unfinished.
            match line::said(own) {
                Some(
                    own
                    @ (Said::OutOfBounds(_) | Said::Average(_) | Said::Rank(_) | Said::TornRank),
                ) => {
                    self.close_row();
                    self.said(own);
                }
                _ => self.go_on(own),
            }
            return;
        }
        if let Some(said) = line::said(text) {
            self.close_row();
            self.said(said);
            return;
        }
        self.go_on(text);
    }

    /// The open row goes on here, if these are its cells.
    fn go_on(&mut self, text: &str) {
        if let Some((row, _)) = &mut self.open {
            let (cells, torn) = line::rest_of_row(text);
            row.cells.extend(cells);
            self.torn |= torn;
            self.close_if_whole();
        }
    }

    fn said(&mut self, said: Said<'_>) {
        match said {
            Said::Start(checked) => {
                self.begin_head();
                self.run.started = true;
                self.run.checked = self.run.checked.or(checked);
            }
            Said::Version(version) => {
                self.begin_head();
                self.run.version = Some(version.chars().take(32).collect());
            }
            Said::Program(collective) => {
                // Concluded as well as starting.
                if self.run.collective != Some(collective) {
                    self.begin_head();
                    self.run.collective = Some(collective);
                }
            }
            Said::Rank(seat) => {
                self.begin_head();
                if !self.named.insert((seat.group, seat.rank)) {
                    self.run.apart = true;
                }
                if self.run.seats.len() < MAX_SEATS {
                    self.run.seats.push(seat);
                }
            }
            // Elsewhere it is somebody's remark.
            Said::TornRank => {
                let head = self.run.rows.is_empty() && !self.run.is_over();
                self.run.torn_ranks |= head && !self.run.is_empty();
            }
            Said::Head(layout) => {
                self.begin_head();
                self.layout = layout;
            }
            Said::OutOfBounds(bad) => {
                let worst = self.run.out_of_bounds.unwrap_or(0).max(bad);
                self.run.out_of_bounds = Some(worst);
            }
            Said::Average(average) => {
                self.run.average = self.run.average.or(average);
                self.run.ended = true;
            }
            Said::Failure(text) => self.fail(text),
            // Outside of a run it is about something else.
            Said::Death(_) if self.run.is_empty() => {}
            Said::Death(text) => self.fail(text),
            Said::Command(collective) => {
                if self.run.ended || self.run.failure.is_some() {
                    self.close_run();
                }
                // In the middle of a table it is somebody's remark.
                if self.run.rows.is_empty() {
                    self.command = Some(collective);
                }
            }
        }
    }

    fn fail(&mut self, text: &str) {
        let text = text.chars().take(MAX_FAILURE).collect();
        self.run.failure.get_or_insert((self.lines, text));
    }

    /// A line of a run's head: if the last one has rows, the next begins.
    fn begin_head(&mut self) {
        let over = self.run.is_over() || self.run.failure.is_some();
        // Processes that do not know of each other print heads and rows in turns.
        if over || (!self.run.rows.is_empty() && !self.run.apart) {
            self.close_run();
        }
    }

    /// A row: after a run's end it is the next run's.
    fn begin_row(&mut self) {
        if self.run.is_over() && !self.run.apart {
            self.close_run();
        }
    }

    fn close_run(&mut self) {
        self.named.clear();
        self.layout = Layout::default();
        let mut run = std::mem::take(&mut self.run);
        if run.is_empty() {
            return;
        }
        run.torn_rows += fit::keep_factor(&mut run);
        let command = self.command.take();
        run.collective = run.collective.or(command);
        if self.log.runs.len() < MAX_RUNS {
            self.log.runs.push(run);
        } else {
            self.log.dropped += 1;
        }
    }

    fn close_if_whole(&mut self) {
        let whole = 2 * self.layout.stride + usize::from(self.layout.root == Some(true));
        let enough = self
            .open
            .as_ref()
            .is_some_and(|(row, _)| row.cells.len() >= whole && self.layout.root.is_some());
        if enough {
            self.close_row();
        }
    }

    fn close_row(&mut self) {
        let torn = std::mem::take(&mut self.torn);
        let Some((row, line)) = self.open.take() else {
            return;
        };
        if torn {
            self.run.torn_rows += 1;
            return;
        }
        let mut cells = row.cells.as_slice();
        let stride = self.layout.stride;
        // Without a head: a root makes the number of cells odd. A timestamp's words are no cells.
        // Under a head a root may be left empty, as is the reduction.
        let has_root = match self.layout.root {
            Some(false) => false,
            _ => cells.len() % stride == 1,
        };
        let root = match cells.first() {
            Some(Cell::Number(root)) if has_root => Some(*root),
            _ => None,
        };
        if has_root {
            cells = cells.get(1..).unwrap_or_default();
        }
        let mut layout = self.layout;
        // Before 2022-08 nothing was printed where there is no reduction; since then the count is.
        if layout.counts.is_none() && row.redop.as_deref() == Some("none") {
            layout.counts = Some(true);
        }
        let (mut sides, mut odd) = ([None; 2], false);
        for (side, cells) in sides.iter_mut().zip(cells.chunks_exact(stride)) {
            let Some(measure) = line::measure(cells, layout) else {
                continue;
            };
            if !fit::timed(row.size, &measure, layout) {
                odd = true;
                continue;
            }
            self.run.uncounted += u64::from(line::uncounted(cells, layout));
            *side = Some(measure);
        }
        // What is left of a row that does not fit is not known to be of it.
        if odd {
            self.run.torn_rows += 1;
            return;
        }
        let [out_of_place, in_place] = sides;
        if (out_of_place.is_none() && in_place.is_none()) || self.run.rows.len() >= MAX_ROWS {
            return;
        }
        // One figure is enough: alltoall in place is not checked.
        for side in cells.chunks(stride).take(2).filter_map(line::checked) {
            self.run.checked = Some(self.run.checked == Some(true) || side);
        }
        self.run.rows.push(Row {
            size: row.size,
            count: row.count,
            dtype: row.dtype,
            redop: row.redop.filter(|op| op != "none"),
            root: root.filter(|root| *root >= 0.0).map(|root| root as u32),
            out_of_place,
            in_place,
            line,
        });
    }
}
