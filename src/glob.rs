//! Name patterns in settings: `*` matches any run of characters, `?` any single one.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

/// A pattern over a whole name; every character other than `*` and `?` matches itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Glob(pub String);

impl Glob {
    /// Whether the pattern matches the whole of `name`.
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.0, name)
    }
}

impl From<&str> for Glob {
    fn from(text: &str) -> Self {
        Glob(text.to_string())
    }
}

/// Whether the pattern matches the whole of `name`.
pub fn matches(pattern: &str, name: &str) -> bool {
    // Most names differ at their beginning: no pattern has to be compiled.
    let beginning = pattern.split(['*', '?']).next().unwrap_or_default();
    name.starts_with(beginning) && WildMatch::new(pattern).matches(name)
}

/// Whether any of the patterns matches the name.
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
