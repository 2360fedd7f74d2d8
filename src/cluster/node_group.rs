//! The nodes that share a budget with this one.

use super::budget::lease_name;
use super::names::{FABRIC, FABRIC_KIND, Names, is_label_name};
use super::settings::{ClusterSettings, is_label_key};
use kube::core::{Expression, Selector, SelectorExt};
use std::collections::BTreeMap;

/// A group of nodes with one budget.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    /// Name of the Lease that holds its ledger.
    pub lease: String,
    /// Selects its nodes.
    pub selector: Selector,
}

impl NodeGroup {
    /// The group of a node with these labels.
    pub fn new(
        settings: &ClusterSettings,
        names: &Names,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        let mut selector = match parse(&settings.budget_selector) {
            Ok(selector) if !selector.selects_all() => selector,
            // A bad selector is rejected with the settings.
            _ => Selector::from_iter([
                Expression::Exists(names.own(FABRIC)),
                Expression::NotEqual(names.own(FABRIC_KIND), "none".into()),
            ]),
        };
        let label = &settings.budget_group_label;
        let value = labels.get(label).map_or("", String::as_str);
        if !label.is_empty() {
            selector.extend([match value {
                "" => Expression::DoesNotExist(label.clone()),
                value => Expression::Equal(label.clone(), value.into()),
            }]);
        }
        NodeGroup {
            lease: lease_name(value),
            selector,
        }
    }

    /// Whether a node with these labels is in the group.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.matches(labels)
    }
}

/// Reads a selector: `key`, `!key`, `key=value`, `key!=value`, joined by commas.
///
/// # Errors
/// The part that cannot be parsed.
pub fn parse(text: &str) -> Result<Selector, String> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let expressions: Result<Vec<Expression>, String> = parts.map(expression).collect();
    Ok(Selector::from_iter(expressions?))
}

fn expression(part: &str) -> Result<Expression, String> {
    let bad = || format!("{part:?} is not one of key, !key, key=value, key!=value");
    let key = |key: &str| {
        let key = key.trim();
        is_label_key(key).then(|| key.to_string()).ok_or_else(bad)
    };
    let value = |value: &str| {
        let value = value.trim();
        (value.is_empty() || is_label_name(value))
            .then(|| value.to_string())
            .ok_or_else(bad)
    };
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

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        pairs.iter().map(pair).collect()
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
            let got = parse(text).ok().map(|selector| selector.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn by_default_all_nodes_with_a_fabric_are_one_group() {
        let settings = ClusterSettings::default();
        let names = Names::new(&settings);
        let ours = labels(&[
            ("selvage.dev/fabric", "ready"),
            ("selvage.dev/fabric-kind", "roce"),
        ]);
        let group = NodeGroup::new(&settings, &names, &ours);
        assert_eq!(group.lease, "selvage-budget");
        assert_eq!(
            group.selector.to_string(),
            "selvage.dev/fabric,selvage.dev/fabric-kind!=none"
        );
        assert!(group.holds(&ours));
        let none = labels(&[
            ("selvage.dev/fabric", "unknown"),
            ("selvage.dev/fabric-kind", "none"),
        ]);
        assert!(!group.holds(&none));
        assert!(!group.holds(&labels(&[])));
    }

    #[test]
    fn a_group_label_divides() {
        let settings = ClusterSettings {
            budget_group_label: "pool".into(),
            budget_selector: "gpu".into(),
            ..ClusterSettings::default()
        };
        let names = Names::new(&settings);
        let of = |labels: &BTreeMap<String, String>| NodeGroup::new(&settings, &names, labels);
        let a = labels(&[("gpu", ""), ("pool", "H100_a")]);
        let group = of(&a);
        assert_eq!(group.selector.to_string(), "gpu,pool=H100_a");
        assert!(group.lease.starts_with("selvage-budget-h100-a-"));
        assert_ne!(
            group.lease,
            of(&labels(&[("gpu", ""), ("pool", "h100-a")])).lease
        );
        let without = of(&labels(&[("gpu", "")]));
        assert_eq!(without.selector.to_string(), "gpu,!pool");
        assert!(!without.holds(&a));
    }
}
