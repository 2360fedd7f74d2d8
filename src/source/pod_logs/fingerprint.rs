//! Tells a file from another one that came to its inode number.

use crate::hash::fnv1a;
use serde::{Deserialize, Serialize};

/// Bytes at a file's beginning that tell it: a CRI line opens with a stamp in nanoseconds.
pub(super) const FIRST: usize = 256;

/// A hash of a file's first bytes. A log only grows, so they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// How many bytes; 0: the file was empty, so nothing is known of it.
    pub len: u16,
    /// Their hash (FNV-1a, 64 bits).
    pub hash: u64,
}

impl Fingerprint {
    /// Of a file's beginning.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let first = bytes.get(..FIRST).unwrap_or(bytes);
        Self {
            len: u16::try_from(first.len()).unwrap_or_default(),
            hash: fnv1a(first),
        }
    }

    /// Whether it would say more of a file that has so many bytes.
    pub(super) fn may_grow(self, size: u64) -> bool {
        usize::from(self.len) < FIRST && size > u64::from(self.len)
    }

    /// Whether a file that begins so is the same, as far as is known.
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        bytes
            .get(..usize::from(self.len))
            .is_some_and(|first| self.len == 0 || fnv1a(first) == self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grew_is_the_same_and_another_is_not() {
        let long = [b'x'; 2 * FIRST];
        let mut other = long;
        other[FIRST - 1] = b'y';
        for (before, now, same) in [
            (&b""[..], &b"abc"[..], true),
            (b"abc", b"abcdef", true),
            (b"abc", b"abd", false),
            (b"abc", b"ab", false),
            (&long[..], &long[..], true),
            (&long[..FIRST], &long[..], true),
            (&long[..], &other[..], false),
        ] {
            assert_eq!(Fingerprint::of(before).fits(now), same, "{before:?}");
        }
        assert!(Fingerprint::of(b"abc").may_grow(4));
        assert!(!Fingerprint::of(b"abc").may_grow(3));
        assert!(!Fingerprint::of(&long).may_grow(1 << 20));
    }
}
