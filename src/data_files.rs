//! Data files that are part of the program.

use serde::Deserialize;

/// What one of them holds. The tests hold that each can be read.
pub(crate) fn embedded<T: Deserialize<'static> + Default>(text: &'static str) -> T {
    toml::from_str(text).unwrap_or_else(|error| {
        tracing::error!(%error, "data file of the program could not be read");
        T::default()
    })
}
