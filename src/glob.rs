//! Name patterns as settings tell them: `*` any run of characters, `?` any one.

use serde::{Deserialize, Serialize};

/// A pattern over a whole name; everything else than `*` and `?` stands for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(pub String);

impl Glob {
    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        let pattern: Vec<char> = self.0.chars().collect();
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        // Where the last `*` was, and how much of the name it has taken: on a mismatch it takes one
        // more. Only the last one matters, so that time is bounded by length times length.
        let mut star: Option<(usize, usize)> = None;
        while let Some(c) = name.get(n) {
            match pattern.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(want) if want == c || *want == '?' => {
                    p += 1;
                    n += 1;
                }
                _ => match &mut star {
                    Some((star_p, taken)) => {
                        *taken += 1;
                        p = *star_p + 1;
                        n = *taken;
                    }
                    None => return false,
                },
            }
        }
        pattern.iter().skip(p).all(|c| *c == '*')
    }
}

impl From<&str> for Glob {
    fn from(text: &str) -> Self {
        Glob(text.to_string())
    }
}

/// Whether the whole of `name` fits the pattern's text.
pub fn matches(pattern: &str, name: &str) -> bool {
    Glob::from(pattern).matches(name)
}

/// Whether any pattern fits the name.
pub fn any_matches(patterns: &[Glob], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, want) in [
            ("mlx5_0", "mlx5_0", true),
            ("mlx5_0", "mlx5_01", false),
            ("mlx5_*", "mlx5_bond_0", true),
            ("mlx5_?", "mlx5_10", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "", false),
            ("*_an?", "mlx5_an0", true),
            ("a*b*c", "aXXbYYbZc", true),
            ("a*b*c", "aXXbYYbZ", false),
            ("0000:19:*", "0000:19:00.0", true),
            ("[ab]", "a", false),
            ("é?", "éx", true),
        ] {
            assert_eq!(Glob::from(pattern).matches(name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = Glob("*a".repeat(60));
        assert!(!pattern.matches(&"a".repeat(59).replace("aaaa", "aaab")));
    }
}
