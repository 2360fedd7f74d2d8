//! The one way to markup. Tags, attribute names and templates are `&'static str`, so that they can
//! only come out of this program's own source; whatever was read anywhere goes through [`Html::text`]
//! and stays text.

/// Longest text written at once, in characters.
const MAX_TEXT: usize = 600;

/// Longest attribute value, in characters.
const MAX_ATTRIBUTE: usize = 160;

/// Attributes of a tag: their names are the program's, their values anybody's.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A document being written.
#[derive(Debug)]
pub(super) struct Html {
    out: String,
    /// Bytes that text may still take in this part of the page.
    room: usize,
}

impl Html {
    /// An empty one, with no room for text.
    pub(super) fn new() -> Self {
        Html {
            out: String::with_capacity(48 * 1024),
            room: 0,
        }
    }

    /// The document.
    pub(super) fn into_string(self) -> String {
        self.out
    }

    /// A part begins, in which text may take so many bytes. What is beyond is left out, so that one
    /// part full of long texts takes no room from the next.
    pub(super) fn part(&mut self, room: usize) {
        self.room = room;
    }

    /// Whether this part is full.
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Markup of the template.
    #[inline(never)]
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// `<tag a="…">`
    #[inline(never)]
    pub(super) fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            for c in value.chars().take(MAX_ATTRIBUTE) {
                self.escaped(harmless(c));
            }
            self.out.push('"');
        }
        self.out.push('>');
    }

    /// `</tag>`
    #[inline(never)]
    pub(super) fn close(&mut self, tag: &'static str) {
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
    }

    /// `<tag a="…">text</tag>`
    #[inline(never)]
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Text from anywhere.
    #[inline(never)]
    pub(super) fn text(&mut self, text: &str) {
        for (number, c) in text.chars().enumerate() {
            let before = self.out.len();
            if number >= MAX_TEXT || self.room == 0 {
                self.out.push('…');
                return;
            }
            self.escaped(harmless(c));
            self.room = self.room.saturating_sub(self.out.len() - before);
        }
    }

    /// Text from anywhere, with what stands between backticks as code.
    #[inline(never)]
    pub(super) fn prose(&mut self, text: &str) {
        if text.chars().count() > MAX_TEXT || text.matches('`').count() % 2 == 1 {
            return self.text(text);
        }
        for (number, piece) in text.split('`').enumerate() {
            match number % 2 {
                0 => self.text(piece),
                _ => self.leaf("code", &[], piece),
            }
        }
    }

    fn escaped(&mut self, c: char) {
        match c {
            '&' => self.out.push_str("&amp;"),
            '<' => self.out.push_str("&lt;"),
            '>' => self.out.push_str("&gt;"),
            '"' => self.out.push_str("&quot;"),
            '\'' => self.out.push_str("&#39;"),
            c => self.out.push(c),
        }
    }
}

/// The character, unless it would act rather than show: control characters, those that turn the
/// direction of what follows, invisible ones.
fn harmless(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' => '\u{fffd}',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => '\u{fffd}',
        '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => '\u{fffd}',
        '\u{fdd0}'..='\u{fdef}' | '\u{e0000}'..='\u{e0fff}' => '\u{fffd}',
        c if c.is_control() || u32::from(c) & 0xfffe == 0xfffe => '\u{fffd}',
        c => c,
    }
}

/// Text cut to so many characters, for places of a fixed width.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_string(),
        Some(_) => {
            let head: String = text.chars().take(most.saturating_sub(1)).collect();
            format!("{head}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut html = Html::new();
        html.part(10_000);
        html.leaf("p", &[("title", text)], text);
        html.into_string()
    }

    #[test]
    fn markup_from_outside_is_text() {
        for (text, want) in [
            ("plain", "plain"),
            ("<script>", "&lt;script&gt;"),
            ("\"' &amp;", "&quot;&#39; &amp;amp;"),
            ("]]>-->", "]]&gt;--&gt;"),
            ("a\0\u{1b}[31m", "a\u{fffd}\u{fffd}[31m"),
            ("a\r\n\tb", "a   b"),
            (
                "\u{202e}\u{2066}\u{61c}\u{feff}",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("é 漢 🦀", "é 漢 🦀"),
        ] {
            assert_eq!(written(text), format!("<p title=\"{want}\">{want}</p>"));
        }
    }

    #[test]
    fn long_texts_and_full_parts_are_cut_and_say_so() {
        let long = "x".repeat(5000);
        let mut html = Html::new();
        html.part(1000);
        html.text(&long);
        assert!(!html.is_full());
        html.text(&long);
        html.text(&long);
        assert!(html.is_full());
        let out = html.into_string();
        assert_eq!(out.matches('x').count(), 1000);
        assert_eq!(out.matches('…').count(), 3);
        assert_eq!(cut("mlx5_0", 6), "mlx5_0");
        assert_eq!(cut("mlx5_bond", 6), "mlx5_…");
    }
}
