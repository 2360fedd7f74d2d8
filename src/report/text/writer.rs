//! Lines of a terminal: wrapping, colours, and keeping text from outside harmless.

use crate::check::nccl::EvidenceLine;
use crate::report::Style;
pub(crate) use crate::units::count;
use std::borrow::{Borrow, Cow};

/// Longest message, remedy or evidence printed, in characters.
const MAX_TEXT: usize = 800;

/// A column is not cut to less than this.
const NARROWEST: usize = 10;

/// A list as it follows a verdict or a number in a line; empty where there is none.
pub(crate) fn after_colon(items: &[impl Borrow<str>]) -> String {
    match items {
        [] => String::new(),
        items => format!(": {}", items.join(", ")),
    }
}

pub(crate) struct Page {
    pub(crate) out: String,
    pub(crate) width: usize,
    pub(crate) colour: bool,
}

impl Page {
    /// An empty page, at most `widest` columns wide.
    pub(crate) fn new(style: Style, widest: usize) -> Self {
        Page {
            out: String::with_capacity(4096),
            width: style.width.clamp(40, widest),
            colour: style.colour,
        }
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Text from outside after a lead-in, wrapped; later lines are indented under it.
    pub(crate) fn wrapped(&mut self, lead: &str, indent: usize, text: &str) {
        self.whole(lead, indent, &cut(&clean(text), MAX_TEXT));
    }

    /// A list after its lead-in; nothing where it is empty.
    pub(crate) fn listed(&mut self, lead: &str, indent: usize, items: &[String], separator: &str) {
        if !items.is_empty() {
            self.wrapped(lead, indent, &items.join(separator));
        }
    }

    /// A verdict on a log: a word in colour, the summary with the name of the log, and facts.
    pub(crate) fn verdict(&mut self, (colour, word): (Colour, &str), text: &str, facts: &[String]) {
        let lead = format!("{}  ", self.paint(colour, word));
        self.wrapped(&lead, 2, text);
        self.listed("  ", 2, facts, "; ");
    }

    /// What a verdict on a log rests on: lines of it, notes, and what to do.
    pub(crate) fn grounds(&mut self, lines: &[EvidenceLine], notes: &[String], fixes: &[String]) {
        for line in lines {
            self.wrapped(&format!("  {:>7}  ", line.line), 11, &line.text);
        }
        for note in notes {
            self.wrapped("  note: ", 8, note);
        }
        for remedy in fixes {
            self.wrapped("  -> ", 5, remedy);
        }
    }

    /// A table under bold heads, its columns two spaces apart; `shown` may colour a cell, by its column.
    /// On a narrow page the widest columns are cut.
    pub(crate) fn table(
        &mut self,
        indent: &str,
        mut rows: Vec<Vec<String>>,
        shown: impl Fn(&Page, usize, &str) -> String,
    ) {
        let mut widths = widths(&rows);
        narrow(&mut widths, self.width - indent.len());
        for (cell, width) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&widths)) {
            *cell = cut_middle(cell, *width);
        }
        for (number, row) in rows.iter().enumerate() {
            let mut line = indent.to_string();
            for ((column, cell), width) in row.iter().enumerate().zip(&widths) {
                line += &match number {
                    0 => self.paint(Colour::Bold, cell),
                    _ => shown(self, column, cell),
                };
                line += &" ".repeat(width - cell.chars().count() + 2);
            }
            self.line(&line);
        }
    }

    /// The same of any length.
    pub(crate) fn whole(&mut self, lead: &str, indent: usize, text: &str) {
        let text = clean(text);
        let words: Vec<&str> = text.split_whitespace().collect();
        let rest = " ".repeat(indent);
        let options = textwrap::Options::new(self.width)
            .initial_indent(lead)
            .subsequent_indent(&rest)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .break_words(false);
        for line in textwrap::wrap(&words.join(" "), options) {
            self.line(&line);
        }
    }

    /// The word of a verdict or status, in its colour.
    pub(crate) fn judged(&self, word: &str) -> String {
        let colour = match word.trim_end().to_ascii_lowercase().as_str() {
            "ok" | "ready" => Colour::Green,
            "degraded" => Colour::Yellow,
            "failing" | "unready" => Colour::Red,
            "unknown" => Colour::Magenta,
            "skipped" => return word.to_string(),
            _ => Colour::Bold,
        };
        self.paint(colour, word)
    }

    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        match self.colour {
            true => format!("\x1b[{}m{text}\x1b[0m", colour as u8),
            false => text.to_string(),
        }
    }
}

/// The width of each column of a table, in characters.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len(), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

/// Takes from the widest column until all fit, with two spaces between.
fn narrow(widths: &mut [usize], screen: usize) {
    loop {
        let whole = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let Some(widest) = widths.iter_mut().max() else {
            return;
        };
        if whole <= screen || *widest <= NARROWEST {
            return;
        }
        let least = NARROWEST.max(*widest / 2);
        *widest = widest.saturating_sub(whole - screen).max(least);
    }
}

/// Names differ at their beginning or at their end.
fn cut_middle(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_string();
    }
    let tail = most / 3;
    let head = text.chars().take(most.saturating_sub(tail + 2));
    let tail = text.chars().skip(length - tail);
    head.chain("..".chars()).chain(tail).collect()
}

#[derive(Clone, Copy)]
pub(crate) enum Colour {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Magenta = 35,
}

/// Whether a character acts rather than shows: control characters, direction marks, invisible ones.
pub(crate) fn acts(c: char) -> bool {
    match c {
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{fdd0}'..='\u{fdef}' | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control() || u32::from(c) & 0xfffe == 0xfffe,
    }
}

/// Replaces every character that could control the terminal with `?`.
pub fn clean(text: &str) -> Cow<'_, str> {
    match text.contains(acts) {
        true => Cow::Owned(text.replace(acts, "?")),
        false => Cow::Borrowed(text),
    }
}

/// The text of another program for a terminal: its lines and colours (`ESC [ 31 m`), and nothing else
/// that steers it.
pub fn clean_lines(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for (index, part) in text.split('\x1b').enumerate() {
        let is_number = |c: char| c.is_ascii_digit() || c == ';';
        let after = part.strip_prefix('[');
        let after = after.and_then(|part| part.trim_start_matches(is_number).strip_prefix('m'));
        let plain = match after {
            _ if index == 0 => part,
            Some(plain) => {
                cleaned.push('\x1b');
                cleaned.push_str(part.strip_suffix(plain).unwrap_or_default());
                plain
            }
            None => {
                cleaned.push('?');
                part
            }
        };
        let lines: Vec<_> = plain.split('\n').map(clean).collect();
        cleaned.push_str(&lines.join("\n"));
    }
    cleaned
}

pub(crate) fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        None => Cow::Borrowed(text),
        Some((at, _)) => {
            let head = text.get(..at).unwrap_or_default();
            Cow::Owned(format!("{head}..."))
        }
    }
}

/// Prints an error for the user to standard error. A closed standard error is ignored.
pub(crate) fn complain(what: impl std::fmt::Display) {
    use std::io::Write;
    // File names and arguments may hold escape sequences.
    let what = what.to_string();
    let lines: Vec<_> = what.split('\n').map(clean).collect();
    let _ = writeln!(std::io::stderr(), "selvage: {}", lines.join("\n"));
}
