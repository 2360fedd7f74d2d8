//! Text on the page: how it is escaped, shortened and split.

use crate::data_files::embedded;
use crate::report::text::writer::acts;
pub(super) use crate::units::joined;
use askama::filters::Escaper;
use std::{collections::BTreeMap, fmt, sync::LazyLock};

/// Longest text written at once, in characters.
const MAX_TEXT: usize = 600;

/// Escapes whatever a template writes. On top of HTML's own five characters it replaces those that
/// would act rather than show (control, direction and invisible characters), and cuts long texts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageText;

impl Escaper for PageText {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        for (number, c) in text.chars().enumerate() {
            match harmless(c) {
                _ if number == MAX_TEXT => return dest.write_char('…'),
                '&' => dest.write_str("&amp;")?,
                '<' => dest.write_str("&lt;")?,
                '>' => dest.write_str("&gt;")?,
                '"' => dest.write_str("&quot;")?,
                '\'' => dest.write_str("&#39;")?,
                c => dest.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The character, unless it would act rather than show.
fn harmless(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        c if acts(c) => '\u{fffd}',
        c => c,
    }
}

/// Text cut to so many characters, for places of a fixed width.
pub(super) fn cut(text: impl AsRef<str>, most: usize) -> String {
    let text = text.as_ref();
    let head = text.chars().take(most.saturating_sub(1));
    match text.chars().count() > most {
        true => head.chain(['…']).collect(),
        false => text.to_string(),
    }
}

/// Pieces of a sentence; true for those between backticks, which are code. A text with an odd
/// backtick, or one too long to be shown whole, is one piece.
pub(super) fn prose(text: &str) -> Vec<(bool, &str)> {
    if text.chars().count() > MAX_TEXT || text.matches('`').count() % 2 == 1 {
        return vec![(false, text)];
    }
    let pieces = text.split('`').enumerate();
    pieces.map(|(n, piece)| (n % 2 == 1, piece)).collect()
}

/// The name of evidence as a person reads it: that of `evidence.toml`, else the key's own words.
pub(super) fn evidence_name(key: &str) -> String {
    static NAMES: LazyLock<BTreeMap<&str, &str>> =
        LazyLock::new(|| embedded(include_str!("evidence.toml")));
    if let Some(name) = NAMES.get(key) {
        return (*name).to_string();
    }
    let words = match key.rsplit_once('_') {
        Some((words, "gbps")) => format!("{words} (Gb/s)"),
        Some((words, "bytes")) => format!("{words} (bytes)"),
        Some((words, "ms")) => format!("{words} (ms)"),
        _ => key.to_string(),
    };
    words.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = String::new();
        PageText.write_escaped_str(&mut out, text).unwrap();
        out
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
            assert_eq!(written(text), want);
        }
    }

    #[test]
    fn evidence_has_names_for_people() {
        for (key, want) in [
            ("phys_state", "physical state"),
            ("can_do", "both ends can do"),
            ("port_gbps", "port (Gb/s)"),
            ("free_bytes", "free (bytes)"),
            ("over_seconds", "over seconds"),
            ("rp_filter", "sysctl rp_filter"),
            ("priority", "priority"),
        ] {
            assert_eq!(evidence_name(key), want);
        }
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        let out = written(&"x".repeat(5000));
        assert_eq!(out.matches('x').count(), MAX_TEXT);
        assert!(out.ends_with('…'));
        assert_eq!(cut("mlx5_0", 6), "mlx5_0");
        assert_eq!(cut("mlx5_bond", 6), "mlx5_…");
        assert_eq!(joined(&["a", "b", "c"], ", ", 2), "a, b and 1 more");
    }
}
