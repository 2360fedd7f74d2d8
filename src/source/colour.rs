//! Colours for terminals, which logs keep.

use std::borrow::Cow;

/// Without ANSI colours (`dmesg -L`, Ray, shippers that keep them), with and without their escape byte.
pub(crate) fn without_colour(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let rest = part.strip_prefix('[').map_or(part, |code| {
            let end = code.find(|c: char| !(c.is_ascii_digit() || c == ';'));
            let after = end.and_then(|end| code.get(end..)).unwrap_or_default();
            let mut after = after.chars();
            // The letter that ends it.
            after.next();
            after.as_str()
        });
        plain.push_str(rest);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_and_text_stays() {
        for (text, plain) in [
            ("plain [1;31m", "plain [1;31m"),
            ("\u{1b}[1;31mred\u{1b}[0m text\u{1b}[K", "red text"),
            ("cut \u{1b}[1;3", "cut "),
            ("\u{1b}", ""),
        ] {
            assert_eq!(without_colour(text), plain, "{text:?}");
        }
    }
}
