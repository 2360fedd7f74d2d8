//! The nodes that share a budget with this one.

use super::{ClusterSettings, budget, label_syntax, names};
use kube::core::{Expression, Selector, SelectorExt};
use std::collections::BTreeMap;

/// A group of nodes with one budget.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    /// Name of the Lease that holds its ledger.
    pub lease: String,
    /// Label selector that matches the group's nodes.
    pub selector: Selector,
}

impl NodeGroup {
    /// The group of a node with these labels.
    pub fn new(settings: &ClusterSettings, labels: &BTreeMap<String, String>) -> Self {
        let mut selector = match label_syntax::parse_selector(&settings.budget_selector) {
            Ok(selector) if !selector.selects_all() => selector,
            // A bad selector is rejected with the settings.
            _ => Selector::from_iter([
                Expression::Exists(settings.own(names::FABRIC)),
                Expression::NotEqual(settings.own(names::FABRIC_KIND), "none".into()),
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
        let lease = budget::lease_name(value);
        NodeGroup { lease, selector }
    }

    /// Whether a node with these labels is in the group.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.matches(labels)
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
    fn by_default_all_nodes_with_a_fabric_are_one_group() {
        let settings = ClusterSettings::default();
        let ours = labels(&[
            ("selvage.dev/fabric", "ready"),
            ("selvage.dev/fabric-kind", "roce"),
        ]);
        let group = NodeGroup::new(&settings, &ours);
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
        let of = |labels: &BTreeMap<String, String>| NodeGroup::new(&settings, labels);
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
