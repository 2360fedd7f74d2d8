//! Settings of what is written to the Node.

use super::label_syntax;
use crate::readiness::taint_hysteresis::HoldTimes;
use crate::settings_macro::{section, words};
use crate::units::{Span, serialized_as_text};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

words! {
    /// How much of the Node is written.
    Mode {
        /// Nothing; no request is made.
        Off = "off",
        /// Writes labels, and neither condition nor taint.
        Labels = "labels",
        /// Labels and the condition.
        Condition = "condition",
        /// Labels, condition and taint.
        All = "all",
    }

    /// Effect of the taint on pods that do not tolerate it.
    TaintEffect {
        /// New pods stay away; running ones stay.
        NoSchedule = "NoSchedule",
        /// Running pods are evicted, too.
        NoExecute = "NoExecute",
    }
}

/// How many nodes of a group may carry the taint at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetMax {
    /// This many nodes, whatever the group's size.
    Nodes(u32),
    /// This share of the group, in percent, rounded down, but at least one node.
    Percent(u32),
}

impl BudgetMax {
    /// The bound for a group of `nodes`.
    pub fn of(self, nodes: usize) -> usize {
        match self {
            BudgetMax::Nodes(most) => usize::try_from(most).unwrap_or(usize::MAX),
            BudgetMax::Percent(percent) => {
                let percent = usize::try_from(percent).unwrap_or(100);
                (nodes.saturating_mul(percent) / 100).max(1)
            }
        }
    }
}

impl fmt::Display for BudgetMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetMax::Nodes(most) => write!(f, "{most}"),
            BudgetMax::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for BudgetMax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|_| plain)
        };
        let budget = match text.strip_suffix('%') {
            Some(digits) => (number(digits).filter(|percent| (1..=100).contains(percent)))
                .map(BudgetMax::Percent),
            None => number(text).map(BudgetMax::Nodes),
        };
        let right = "write a number of nodes (\"3\") or 1% to 100% of them (\"10%\")";
        budget.ok_or_else(|| format!("not a budget: {text:?}; {right}"))
    }
}

serialized_as_text!(BudgetMax);

section! {
    /// What is written to the node's object in the Kubernetes API, and when.
    ClusterSettings {
        /// How much is written: off, labels, condition (labels and the condition), all (the taint,
        /// too).
        mode: Mode = Mode::All,
        /// Decide, but write nothing; pending writes are logged and exported.
        dry_run: bool = false,
        /// Prefix of labels, taints and annotations.
        prefix: String = "selvage.dev/".to_string(),
        /// Former prefixes; labels and taints under them are removed.
        former_prefixes: Vec<String> = Vec::new(),
        /// Effect of the taint: NoSchedule, or NoExecute, which evicts running pods.
        taint_effect: TaintEffect = TaintEffect::NoSchedule,
        /// How long the node must be unready before it is tainted.
        hold: Span = Span::from_secs(30),
        /// How long the node must be better before the taint is removed.
        clear: Span = Span::from_secs(300),
        /// A node that flaps waits twice as long each time, up to this long.
        clear_max: Span = Span::from_secs(3600),
        /// Taints cleared within this long count as flapping.
        flap_window: Span = Span::from_secs(3600),
        /// How often the condition's heartbeat is written while nothing changes; 0: never.
        heartbeat: Span = Span::from_secs(300),
        /// How many nodes of a group may carry the taint at once: a number or a share ("10%", at
        /// least one).
        budget_max: BudgetMax = BudgetMax::Percent(10),
        /// Label whose value divides nodes into groups with a budget each (a node pool's); empty:
        /// all nodes are one group.
        budget_group_label: String = String::new(),
        /// Label selector of the nodes that count: key, !key, key=value, key!=value, joined by commas.
        /// Empty: those with a fabric label.
        budget_selector: String = String::new(),
        /// Namespace of the budget's Lease; empty: the service account's.
        namespace: String = String::new(),
        /// Kubeconfig file to reach the API server with; empty: as a pod does.
        kubeconfig: String = String::new(),
    }
}

impl ClusterSettings {
    /// How long a verdict must stand before the taint follows.
    pub fn hold_times(&self) -> HoldTimes {
        HoldTimes {
            hold: self.hold.duration(),
            clear: self.clear.duration(),
            clear_max: self.clear_max.duration(),
            flap_window: self.flap_window.duration(),
        }
    }

    /// Every invalid setting: its key and what is wrong with it.
    pub fn complaints(&self) -> Vec<(String, String)> {
        let mut complaints = Vec::new();
        let mut complain = |key: &str, message: String| {
            complaints.push((format!("cluster.{key}"), message));
        };
        let former = self.former_prefixes.iter().map(|p| ("former_prefixes", p));
        for (key, prefix) in [("prefix", &self.prefix)].into_iter().chain(former) {
            if !label_syntax::is_prefix(prefix) {
                let such = "a DNS name followed by a slash, such as \"selvage.dev/\"";
                complain(key, format!("{prefix:?} is not a label prefix: {such}"));
            }
        }
        if self.former_prefixes.contains(&self.prefix) {
            complain("former_prefixes", format!("{:?} is in use", self.prefix));
        }
        let label = &self.budget_group_label;
        if !label.is_empty() && !label_syntax::is_label_key(label) {
            let message = format!("{label:?} is not a label key");
            complain("budget_group_label", message);
        }
        if let Err(message) = label_syntax::parse_selector(&self.budget_selector) {
            complain("budget_selector", message);
        }
        if self.clear_max < self.clear {
            let (most, clear) = (self.clear_max, self.clear);
            let message = format!("{most} is shorter than cluster.clear ({clear})");
            complain("clear_max", message);
        }
        let least = Span::from_secs(60);
        if self.heartbeat != Span::default() && self.heartbeat < least {
            let message = format!("{} is shorter than {least}", self.heartbeat);
            complain("heartbeat", message);
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_text() {
        for (text, want) in [
            ("10%", Some(BudgetMax::Percent(10))),
            ("100%", Some(BudgetMax::Percent(100))),
            ("3", Some(BudgetMax::Nodes(3))),
            ("0", Some(BudgetMax::Nodes(0))),
            ("0%", None),
            ("101%", None),
            ("", None),
            ("%", None),
            ("-1", None),
            ("+1", None),
            ("1.5%", None),
            ("ten", None),
            ("99999999999", None),
        ] {
            assert_eq!(text.parse::<BudgetMax>().ok(), want, "{text}");
        }
    }

    #[test]
    fn a_part_is_rounded_down_and_is_one_at_least() {
        let ten = BudgetMax::Percent(10);
        for (nodes, want) in [
            (0, 1),
            (1, 1),
            (9, 1),
            (19, 1),
            (20, 2),
            (500, 50),
            (10_000, 1000),
        ] {
            assert_eq!(ten.of(nodes), want, "{nodes}");
        }
        assert_eq!(BudgetMax::Nodes(0).of(500), 0);
        assert_eq!(BudgetMax::Nodes(7).of(2), 7);
    }

    #[test]
    fn complaints_name_the_key() {
        let wrong = ClusterSettings {
            prefix: "selvage.dev".into(),
            former_prefixes: vec!["Old/".into()],
            budget_group_label: "a b".into(),
            clear: Span::from_secs(600),
            clear_max: Span::from_secs(60),
            heartbeat: Span::from_secs(5),
            ..ClusterSettings::default()
        };
        let keys: Vec<String> = wrong.complaints().into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            [
                "cluster.prefix",
                "cluster.former_prefixes",
                "cluster.budget_group_label",
                "cluster.clear_max",
                "cluster.heartbeat"
            ]
        );
        assert!(ClusterSettings::default().complaints().is_empty());
    }
}
