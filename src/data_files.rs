//! Data files that are part of the program.

use serde::Deserialize;

/// What one of them holds. The tests hold that each can be read.
pub(crate) fn embedded<T: Deserialize<'static> + Default>(text: &'static str) -> T {
    toml::from_str(text).unwrap_or_else(|error| {
        tracing::error!(%error, "data file of the program could not be read");
        T::default()
    })
}

/// The rest of the line of a text that begins with `name: `.
pub(crate) fn line_of(text: &'static str, name: &str) -> Option<&'static str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
