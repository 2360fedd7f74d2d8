//! A scanner that reads a message from the left.

/// Offset of a literal in a text, by a searcher that is built once.
macro_rules! find {
    ($text:expr, $words:literal) => {{
        use memchr::memmem::Finder;
        static FINDER: std::sync::LazyLock<Finder<'static>> =
            std::sync::LazyLock::new(|| Finder::new($words));
        FINDER.find($text.as_ref())
    }};
}
pub(in crate::source::nccl) use find;

/// The unread rest of a text.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a>(pub &'a str);

impl<'a> Scan<'a> {
    /// Reads a decimal number.
    pub fn number(&mut self) -> Option<u32> {
        let digits = self.take(|b| b.is_ascii_digit())?;
        digits.parse().ok()
    }

    /// Reads `0x` and a hexadecimal number.
    pub fn pointer(&mut self) -> Option<u64> {
        self.0 = self.0.strip_prefix("0x")?;
        self.hex()
    }

    /// Reads a hexadecimal number.
    pub fn hex(&mut self) -> Option<u64> {
        let digits = self.take(|b| b.is_ascii_hexdigit())?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Reads one or more ASCII bytes of a kind.
    pub fn take(&mut self, kind: impl Fn(u8) -> bool) -> Option<&'a str> {
        let end = self.0.bytes().position(|b| !kind(b) || !b.is_ascii());
        let (taken, rest) = self.0.split_at_checked(end.unwrap_or(self.0.len()))?;
        self.0 = rest;
        (!taken.is_empty()).then_some(taken)
    }

    /// Reads a literal.
    pub fn tag(&mut self, tag: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(tag)?;
        Some(())
    }

    /// Skips spaces.
    pub fn spaces(&mut self) -> &mut Self {
        self.0 = self.0.trim_start_matches(' ');
        self
    }
}
