//! Lists of names and counts in messages.

/// Names that one message lists at most.
const MAX_NAMES: usize = 12;

/// A number with its noun: `3 devices`.
pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Names separated by commas, shortened if there are many.
pub(super) fn list(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(MAX_NAMES) {
        0 if names.is_empty() => "none".into(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Names in quotes, which makes blanks visible.
pub(super) fn quoted(names: &[String]) -> String {
    list(
        &names
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>(),
    )
}

/// A choice of at least one name.
pub(super) fn any_of(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        _ => format!("one or more of {}", list(names)),
    }
}
