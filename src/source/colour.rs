//! Colours for terminals, which logs keep.

use crate::source::parse::{Pattern, pattern};
use std::borrow::Cow;

/// A colour's code, or what is left of one.
static CODE: Pattern = Pattern::new(|| pattern(r"(?s)\x1b(?:\[[0-9;]*.?)?"));

/// Without ANSI colours (`dmesg -L`, Ray, shippers that keep them), with and without their escape byte.
pub(crate) fn without_colour(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let code = CODE.as_ref();
    code.map_or(Cow::Borrowed(text), |code| code.replace_all(text, ""))
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
