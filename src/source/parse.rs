//! Small attributes of one word or number. A missing, unreadable or odd one is `None`: use
//! [`super::tree`] where the difference matters.

use crate::host::Host;
use crate::source::tree;
use regex::Regex;
use std::{path::Path, str::FromStr, sync::LazyLock};

/// A pattern that is built once, by the thread that first uses it: building needs more stack than the
/// agent's threads have, so that these patterns are for commands and for what those threads rarely meet.
pub type Pattern = LazyLock<Option<Regex>>;

/// Builds a pattern; of one that is a constant that cannot fail.
pub fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

/// Longest word kept: what is read here ends up in labels and tables.
const MAX_WORD: usize = 128;

/// First line of a file, without control characters, at most 128 characters; none if empty.
pub fn word(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    clean(tree::read_text(host, path).value()?)
}

/// A word that names a directory entry: nothing that would lead a path elsewhere.
pub fn name(host: &Host, path: impl AsRef<Path>) -> Option<String> {
    word(host, path).filter(|word| is_name(word))
}

/// Whether a word names an entry of a directory, and leads nowhere else.
pub fn is_name(word: &str) -> bool {
    !word.contains('/') && word != "." && word != ".."
}

/// First line of a text, cut and stripped of control characters; none if nothing is left.
pub fn clean(text: &str) -> Option<String> {
    let letters = text.lines().next()?.trim().chars();
    let printable = letters.filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER);
    let line: String = printable.take(MAX_WORD).collect();
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_string())
}

/// An unsigned decimal; `-1` and junk are none.
pub fn decimal<T: FromStr>(host: &Host, path: impl AsRef<Path>) -> Option<T> {
    word(host, path)?.parse().ok()
}

/// A hexadecimal number with or without `0x`.
pub fn hex(host: &Host, path: impl AsRef<Path>) -> Option<u64> {
    parse_hex(&word(host, path)?)
}

/// A hexadecimal number with or without `0x`.
pub fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Text up to the first NUL, as the kernel fills fixed fields; bytes that are not UTF-8 are replaced.
pub fn until_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(text).into_owned()
}

/// Tenths of a number such as `400` or `2.5`.
pub fn tenths(text: &str) -> Option<u64> {
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let is_number =
        tenth.len() == 1 && (whole.bytes().chain(tenth.bytes())).all(|b| b.is_ascii_digit());
    let whole: u64 = whole.parse().ok().filter(|_| is_number)?;
    whole.checked_mul(10)?.checked_add(tenth.parse().ok()?)
}

/// Value of the first line `KEY separator VALUE`, both without the blanks around them.
pub fn field<'a>(text: &'a str, separator: char, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    let found = pairs.find(|(name, _)| name.trim() == key);
    found.map(|(_, value)| value.trim())
}

/// Value of `KEY=` in a `uevent` file.
pub fn uevent(text: &str, key: &str) -> Option<String> {
    field(text, '=', key).and_then(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_clean_line() {
        for (text, want) in [
            ("28.41.1000\n", Some("28.41.1000")),
            ("\n", None),
            ("", None),
            ("  \u{0}\u{1b}[31mred\u{fffd}\nsecond", Some("[31mred")),
        ] {
            assert_eq!(clean(text).as_deref(), want, "{text:?}");
        }
        assert_eq!(clean(&"x".repeat(9999)).unwrap().len(), MAX_WORD);
    }

    #[test]
    fn names_stay_in_their_directory() {
        assert!(is_name("ib0.8001") && is_name("..x"));
        assert!(!is_name("../../proc") && !is_name("..") && !is_name("a/b"));
    }

    #[test]
    fn hexadecimal() {
        for (text, want) in [
            ("0x15b3\n", Some(0x15b3)),
            ("1d0f", Some(0x1d0f)),
            ("0x", None),
            ("+5", None),
            ("0xfffffffffffffffff", None),
        ] {
            assert_eq!(parse_hex(text), want, "{text:?}");
        }
    }
}
