//! Small readers over text; none can panic on any input.

use std::fmt;

/// A PCI address; the function is absent in NVIDIA's three-field form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bdf {
    domain: u32,
    bus: u8,
    device: u8,
    function: Option<u8>,
}

impl Bdf {
    /// Reads an address at the start of `s`; returns it and what follows.
    pub fn take(s: &str) -> Option<(Self, &str)> {
        let (domain, rest) = take_hex(s, 4, 8)?;
        let (bus, rest) = take_hex(rest.strip_prefix(':')?, 2, 2)?;
        let (device, rest) = take_hex(rest.strip_prefix(':')?, 2, 2)?;
        let mut bdf = Self {
            domain,
            bus: u8::try_from(bus).ok()?,
            device: u8::try_from(device).ok()?,
            function: None,
        };
        let Some(after) = rest.strip_prefix('.') else {
            return Some((bdf, rest));
        };
        match after.chars().next().and_then(|c| c.to_digit(8)) {
            Some(f) => {
                bdf.function = u8::try_from(f).ok();
                Some((bdf, after.get(1..).unwrap_or_default()))
            }
            // A full stop that ends a sentence.
            None => Some((bdf, rest)),
        }
    }

    /// The last address in `s` that stands as a word of its own.
    pub fn last_in(s: &str) -> Option<Self> {
        s.split([' ', '\t', '(', ')', ','])
            .filter_map(|w| {
                let (bdf, rest) = Self::take(w)?;
                matches!(rest, "" | "." | ":").then_some(bdf)
            })
            .next_back()
    }

    /// `dddd:bb:dd`, lower case.
    pub fn slot(self) -> String {
        format!("{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)
    }

    /// The same slot, whatever the function.
    pub fn same_slot(self, other: Self) -> bool {
        self.domain == other.domain && self.bus == other.bus && self.device == other.device
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.slot())?;
        match self.function {
            Some(n) => write!(f, ".{n}"),
            None => Ok(()),
        }
    }
}

/// Hex digits at the start of `s`, between `min` and `max` of them.
fn take_hex(s: &str, min: usize, max: usize) -> Option<(u32, &str)> {
    let len = s.bytes().take_while(u8::is_ascii_hexdigit).count();
    if len < min || len > max {
        return None;
    }
    let value = u32::from_str_radix(s.get(..len)?, 16).ok()?;
    Some((value, s.get(len..)?))
}

/// Decimal digits at the start of `s`.
pub fn take_u32(s: &str) -> Option<(u32, &str)> {
    let len = s.bytes().take_while(u8::is_ascii_digit).count();
    let value = s.get(..len)?.parse().ok()?;
    Some((value, s.get(len..)?))
}

/// The decimal number that follows `key` anywhere in `s`.
pub fn number_after(s: &str, key: &str) -> Option<u32> {
    let (_, rest) = s.split_once(key)?;
    take_u32(rest).map(|(n, _)| n)
}

/// A `0x…` word at the start of `s`.
pub fn take_0x(s: &str) -> Option<(u32, &str)> {
    take_hex(s.strip_prefix("0x")?, 1, 8)
}

/// All whole `0x…` words of a list; a word that the line's end cut is left out.
pub fn hex_words(s: &str) -> Vec<u32> {
    let body = s.split(')').next().unwrap_or_default();
    let closed = body.len() < s.len();
    let mut words = Vec::new();
    let mut parts = body.split([',', ' ']).filter(|w| !w.is_empty()).peekable();
    while let Some(word) = parts.next() {
        let Some((value, "")) = take_0x(word) else {
            break;
        };
        if parts.peek().is_none() && !closed && word.len() < 10 {
            break;
        }
        words.push(value);
        if words.len() == 16 {
            break;
        }
    }
    words
}

/// `prefix` compared without case; returns what follows.
pub fn strip_prefix_nocase<'a>(s: &'a str, prefix: &str) -> Option<&'a str> {
    let head = s.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| s.get(prefix.len()..).unwrap_or_default())
}

/// Whether `needle` (lower case) occurs in `s`, case aside.
pub fn contains_nocase(s: &str, needle: &str) -> bool {
    let n = needle.len();
    n > 0
        && s.as_bytes()
            .windows(n)
            .any(|w| w.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let take = |s| Bdf::take(s).map(|(b, rest)| (b.to_string(), b.slot(), rest.to_owned()));
        assert_eq!(
            take("0000:3B:00.1: x"),
            Some(("0000:3b:00.1".into(), "0000:3b:00".into(), ": x".into()))
        );
        assert_eq!(
            take("00000009:01:00)"),
            Some(("0009:01:00".into(), "0009:01:00".into(), ")".into()))
        );
        assert_eq!(take("0000:05"), None);
        assert_eq!(take("05:00.0"), None);
        assert_eq!(
            take("0000:3b:00. So"),
            Some(("0000:3b:00".into(), "0000:3b:00".into(), ". So".into()))
        );
        let last = Bdf::last_in("from 0000:16:01.0 to 0000:17:00.0").map(|b| b.to_string());
        assert_eq!(last.as_deref(), Some("0000:17:00.0"));
    }

    #[test]
    fn register_lists_drop_a_cut_word() {
        assert_eq!(hex_words("0x0, 0x10000, 0x2)"), vec![0, 0x1_0000, 2]);
        assert_eq!(hex_words("0x000fe406 0x0000"), vec![0x000f_e406]);
        assert_eq!(hex_words("0x000fe406"), vec![0x000f_e406]);
        assert_eq!(hex_words("Link"), Vec::<u32>::new());
    }
}
