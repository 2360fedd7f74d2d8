//! Lines of a terminal: wrapping, colours, and keeping text from outside harmless.

use std::borrow::Cow;

/// Longest message, remedy or evidence printed, in characters.
const MAX_TEXT: usize = 800;

pub(in crate::report) struct Page {
    pub(in crate::report) out: String,
    pub(in crate::report) width: usize,
    pub(in crate::report) colour: bool,
}

impl Page {
    pub(in crate::report) fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Text from outside after a lead-in, wrapped; later lines are indented under it.
    pub(in crate::report) fn wrapped(&mut self, lead: &str, indent: usize, text: &str) {
        self.whole(lead, indent, &cut(&clean(text), MAX_TEXT));
    }

    /// The same of any length.
    pub(in crate::report) fn whole(&mut self, lead: &str, indent: usize, text: &str) {
        let text = clean(text);
        let mut line = lead.to_string();
        let mut used = shown_width(lead);
        let mut at_start = true;
        for word in text.split_whitespace() {
            let length = word.chars().count();
            if !at_start && used + 1 + length > self.width {
                self.line(&line);
                line = " ".repeat(indent);
                used = indent;
                at_start = true;
            }
            if !at_start {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
            at_start = false;
        }
        self.line(&line);
    }

    pub(in crate::report) fn paint(&self, colour: Colour, text: &str) -> String {
        if self.colour {
            format!("\x1b[{}m{text}\x1b[0m", colour as u8)
        } else {
            text.to_string()
        }
    }
}

#[derive(Clone, Copy)]
pub(in crate::report) enum Colour {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Magenta = 35,
}

/// Characters that a terminal shows; colour codes take no room.
fn shown_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_code = false;
    for c in text.chars() {
        match c {
            '\x1b' => in_code = true,
            'm' if in_code => in_code = false,
            _ if in_code => {}
            _ => width += 1,
        }
    }
    width
}

/// Text from outside with everything that could steer a terminal (control characters, direction
/// marks, invisible ones) shown as `?`.
pub fn clean(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if text.contains(steers) {
        Cow::Owned(text.replace(steers, "?"))
    } else {
        Cow::Borrowed(text)
    }
}

pub(in crate::report) fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        None => Cow::Borrowed(text),
        Some((at, _)) => {
            let head = text.get(..at).unwrap_or_default();
            Cow::Owned(format!("{head}..."))
        }
    }
}
