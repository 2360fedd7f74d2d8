//! Thresholds of the checks.

use crate::section::section;
use crate::units::Span;

section! {
    /// Placeholder.
    Policy {
        /// An example.
        example: Example = Example::default(),
    }
}

section! {
    /// An example section.
    Example {
        /// A finding is raised once it has stood this long.
        raise_after: Span = Span::from_secs(3),
        /// At least this many.
        rails: Option<u32> = None,
        /// The operator's word by code.
        overrides: std::collections::BTreeMap<u32, Override> = Default::default(),
    }
}

/// Placeholder.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Placeholder.
    pub count: u32,
}

impl Policy {
    /// What is wrong.
    pub fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}
