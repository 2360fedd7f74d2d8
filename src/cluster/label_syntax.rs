//! The syntax of label keys, label values and selectors.

use crate::units::is_dns_label;
use kube::core::{Expression, Selector};

/// Longest label value (Kubernetes).
const LABEL_VALUE_MAX: usize = 63;

/// Text as a label's value: other characters become dashes, and it is cut at 63 and trimmed at both
/// ends.
pub(super) fn label_value(text: &str) -> String {
    let odd = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    let plain = text.replace(odd, "-");
    let plain = plain.get(..LABEL_VALUE_MAX).unwrap_or(&plain);
    plain
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_string()
}

/// Whether it is a label name or a non-empty label value by Kubernetes' syntax.
pub(super) fn is_label_name(text: &str) -> bool {
    !text.is_empty() && label_value(text) == text
}

/// Whether it is a DNS subdomain and a slash (Kubernetes label syntax).
pub(super) fn is_prefix(text: &str) -> bool {
    text.strip_suffix('/').is_some_and(is_dns_name)
}

/// Whether it is a DNS subdomain, as names of objects are.
pub(super) fn is_dns_name(name: &str) -> bool {
    let part = |part: &str| is_dns_label(part) && !part.starts_with('-') && !part.ends_with('-');
    name.len() <= 253 && name.split('.').all(part)
}

/// Whether it is a label's key, with or without prefix.
pub(super) fn is_label_key(text: &str) -> bool {
    let name = match text.split_once('/') {
        Some((prefix, name)) if is_prefix(&format!("{prefix}/")) => name,
        Some(_) => return false,
        None => text,
    };
    is_label_name(name)
}

/// Parses a selector: `key`, `!key`, `key=value`, `key!=value`, joined by commas.
///
/// # Errors
/// The part that cannot be parsed.
pub(super) fn parse_selector(text: &str) -> Result<Selector, String> {
    let parts = text.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    let expressions: Result<Vec<Expression>, String> = parts.map(expression).collect();
    Ok(Selector::from_iter(expressions?))
}

fn expression(part: &str) -> Result<Expression, String> {
    let bad = || format!("{part:?} is not one of key, !key, key=value, key!=value");
    let checked = |text: &str, is_right: fn(&str) -> bool| {
        let text = text.trim();
        is_right(text).then(|| text.to_string()).ok_or_else(bad)
    };
    let key = |key: &str| checked(key, is_label_key);
    let value = |value: &str| checked(value, |text| text.is_empty() || is_label_name(text));
    if let Some((left, right)) = part.split_once("!=") {
        Ok(Expression::NotEqual(key(left)?, value(right)?))
    } else if let Some((left, right)) = part.split_once('=') {
        let right = right.strip_prefix('=').unwrap_or(right);
        Ok(Expression::Equal(key(left)?, value(right)?))
    } else if let Some(absent) = part.strip_prefix('!') {
        Ok(Expression::DoesNotExist(key(absent)?))
    } else {
        Ok(Expression::Exists(key(part)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_always_fit() {
        for (text, want) in [
            ("LinkDown", "LinkDown"),
            ("2026-11-21T10:00:00Z", "2026-11-21T10-00-00Z"),
            ("-odd.", "odd"),
            ("---", ""),
            ("", ""),
            ("a b/c", "a-b-c"),
            ("naïve", "na-ve"),
        ] {
            assert_eq!(label_value(text), want, "{text}");
        }
        let long = "x".repeat(62) + "--y";
        assert_eq!(label_value(&long), "x".repeat(62));
    }

    #[test]
    fn selectors() {
        for (text, want) in [
            ("a", Some("a")),
            (" a = b , c!=d,!e ", Some("a=b,c!=d,!e")),
            ("a==b", Some("a=b")),
            ("x.io/a=", Some("x.io/a=")),
            ("", Some("")),
            ("a in (b)", None),
            ("=b", None),
            ("a=b c", None),
            ("!", None),
        ] {
            let got = parse_selector(text)
                .ok()
                .map(|selector| selector.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }
}
