//! The rules by which nodes may carry the taint. Pure: requests to the API are made elsewhere.
//!
//! One Lease per group of nodes holds a ledger: the names of the nodes that may be tainted, each with
//! the version of the Node object that its taint patch tests for. Three rules keep the bound, with
//! no clock in them:
//!
//! 1. A node enters the ledger by compare-and-swap on the Lease (its `resourceVersion`), only while
//!    there are fewer entries than the limit, and *before* it patches its Node.
//! 2. The patch that puts the taint tests for the very `resourceVersion` that stands in the ledger.
//!    So, however late it arrives, it can only succeed on the object that the entry speaks of.
//! 3. Any agent may drop an entry after it has seen, having read the ledger before, that the node is
//!    gone, or that it carries no taint and has another version than the entry: then the patch that
//!    the entry stood for can no longer succeed. The drop is itself a compare-and-swap, so that an
//!    entry renewed meanwhile is not lost. (Names in the ledger that no node can have are dropped as
//!    well.)
//!
//! Hence at every instant the tainted nodes are among the entries, and the entries are at most the
//! limit. The owner returns its entry by the same proof: it has seen its object untainted at a later
//! version than the entry's, so that no patch of its own can still be under way; and an entry is
//! renewed only to a later version, never to that of a stale view. (Nodes found tainted without an
//! entry, because the Lease was deleted by hand, are entered even beyond the limit: they carry the
//! taint, and keep new ones out.) Recovery needs no permission: the taint is removed first, the entry
//! afterwards.

use super::BudgetMax;
use crate::hash::fnv1a;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// A count of the group's nodes is good for this long.
pub const COUNT_GOOD_FOR: Duration = Duration::from_secs(600);
/// While the budget is full, entries are looked through for dead ones this often at most.
pub const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// A node that has started to count is given this long.
pub const COUNT_PATIENCE: Duration = Duration::from_secs(60);

/// The ledger, as the Lease's annotation holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Node name to the `resourceVersion` of its Node that its taint patch tests for.
    #[serde(default)]
    pub claims: BTreeMap<String, String>,
    /// Nodes of the group, when they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// When they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<jiff::Timestamp>,
    /// The node that is counting them now, and since when: the others wait instead of counting too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<(String, jiff::Timestamp)>,
}

/// A node as the list of the group shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Version of its object.
    pub resource_version: String,
    /// Whether it carries our taint.
    pub tainted: bool,
    /// Whether it is in the group; else it only has an entry.
    pub counted: bool,
}

/// The group, listed after the ledger was read, and what else has an entry in it.
pub type ListedNodes = BTreeMap<String, Listed>;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetStep {
    /// The ledger has the entry: patch the Node.
    Go,
    /// Write this ledger (compare-and-swap); then patch the Node.
    ClaimThenGo(Ledger),
    /// Write this ledger, which says that we count; then list the group and ask again with it.
    Count(Ledger),
    /// Another node is counting: ask again soon.
    Wait,
    /// The entry has a later version of the object than the asker has seen: read it again.
    Stale,
    /// The budget is spent, or does not count this node: leave the node untainted, and write this
    /// ledger if there is one.
    Withhold(Withheld, Option<Ledger>),
}

/// Why no slot is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// As many nodes as the limit carry the taint.
    Spent,
    /// The group does not count this node.
    NotInGroup,
}

/// A request for a slot.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Name of the node that asks.
    pub node: &'a str,
    /// Version of its object, which the patch will test for.
    pub resource_version: &'a str,
    /// The setting `cluster.budget_max`.
    pub max: BudgetMax,
    /// Whether the group counts it, by its labels at that version.
    pub in_group: bool,
    /// Wall time, which only decides when to count again.
    pub now: jiff::Timestamp,
}

impl Ledger {
    /// Parses the annotation. A broken one is an empty ledger that was never counted, so that the
    /// group is listed first.
    pub fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// The annotation's value, as JSON.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The bound for the group as last counted.
    pub fn limit(&self, max: BudgetMax) -> usize {
        max.of(self.nodes.unwrap_or(0))
    }

    /// What to do for a node that is to be tainted. `group` is the list, if it was read after this
    /// ledger.
    pub fn ask(&self, asker: Asker<'_>, group: Option<&ListedNodes>) -> BudgetStep {
        let (node, version, now) = (asker.node, asker.resource_version, asker.now);
        let entry = self.claims.get(node);
        // A patch that tests for the later version may be on its way.
        if entry.is_some_and(|entry| is_later(entry, version) == Some(true)) {
            return BudgetStep::Stale;
        }
        let mut ledger = self.clone();
        if let Some(group) = group {
            ledger.update_from(group, now);
        }
        if !asker.in_group || group.is_some_and(|group| !counts(group, node)) {
            let counted = group.is_some().then_some(ledger);
            return BudgetStep::Withhold(Withheld::NotInGroup, counted);
        }
        if entry.is_some_and(|entry| entry == version) && group.is_none() {
            return BudgetStep::Go;
        }
        let entered = ledger.claims.contains_key(node);
        let fresh = group.is_some() || self.counted_within(COUNT_GOOD_FOR, now);
        let full = ledger.claims.len() >= ledger.limit(asker.max);
        // Renewing takes no room.
        if entered || fresh && !full {
            return BudgetStep::ClaimThenGo(ledger.with(node, version));
        }
        if group.is_some() {
            return BudgetStep::Withhold(Withheld::Spent, Some(ledger));
        }
        if fresh && self.counted_within(SWEEP_EVERY, now) {
            return BudgetStep::Withhold(Withheld::Spent, None);
        }
        let other_counts = |(who, since): &(String, jiff::Timestamp)| {
            who != node && is_within(*since, COUNT_PATIENCE, now)
        };
        match self.counting.as_ref().is_some_and(other_counts) {
            true if fresh => BudgetStep::Withhold(Withheld::Spent, None),
            true => BudgetStep::Wait,
            false => {
                ledger.counting = Some((node.into(), now));
                BudgetStep::Count(ledger)
            }
        }
    }

    /// The ledger with an entry for a node that was found tainted, even beyond the limit; `None` if it
    /// has one.
    pub fn adopted(&self, node: &str, resource_version: &str) -> Option<Ledger> {
        (!self.claims.contains_key(node)).then(|| self.with(node, resource_version))
    }

    /// The ledger without a node that was seen untainted at this version; `None` if it has no entry,
    /// or one whose patch may still succeed on that very version.
    pub fn released(&self, node: &str, resource_version: &str) -> Option<Ledger> {
        let entry = self.claims.get(node)?;
        let moved = is_later(resource_version, entry).unwrap_or(resource_version != entry);
        moved.then(|| self.without(node))
    }

    /// The ledger without a node, even if its patch may still succeed.
    pub fn without(&self, node: &str) -> Ledger {
        let mut ledger = self.clone();
        ledger.claims.remove(node);
        ledger
    }

    /// The ledger with an entry for a node at this version.
    fn with(&self, node: &str, resource_version: &str) -> Ledger {
        let mut ledger = self.clone();
        ledger.claims.insert(node.into(), resource_version.into());
        ledger
    }

    /// Updates the ledger from the listed group: its size, tainted nodes, dead entries.
    fn update_from(&mut self, group: &ListedNodes, now: jiff::Timestamp) {
        self.claims.retain(|node, version| {
            let lives = |of: &Listed| of.tainted || of.resource_version == *version;
            group.get(node).is_some_and(lives)
        });
        for (node, listed) in group.iter().filter(|(_, listed)| listed.tainted) {
            let version = || listed.resource_version.clone();
            self.claims.entry(node.clone()).or_insert_with(version);
        }
        self.nodes = Some(group.values().filter(|listed| listed.counted).count());
        self.counted = Some(now);
        self.counting = None;
    }

    fn counted_within(&self, span: Duration, now: jiff::Timestamp) -> bool {
        self.nodes.is_some() && self.counted.is_some_and(|at| is_within(at, span, now))
    }
}

/// Whether a version is later than another; `None` unless they are numbers, as they are on every API
/// server in use.
pub(super) fn is_later(version: &str, than: &str) -> Option<bool> {
    Some(version.parse::<u64>().ok()? > than.parse::<u64>().ok()?)
}

/// Whether a moment lies within a span of now. Nodes' clocks differ: a moment further in the future is
/// not trusted.
fn is_within(at: jiff::Timestamp, span: Duration, now: jiff::Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() < span
}

fn counts(group: &ListedNodes, node: &str) -> bool {
    group.get(node).is_some_and(|listed| listed.counted)
}

/// Prefix of the name of every group's Lease.
pub const LEASE: &str = "selvage-budget";

/// Name of a group's Lease. `value` is the group label's; empty if all nodes are one group.
pub fn lease_name(value: &str) -> String {
    if value.is_empty() {
        return LEASE.into();
    }
    // Values may hold what names may not (capitals, underscores): a hash keeps them apart.
    let plain = value.to_ascii_lowercase();
    let plain = plain.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let plain = plain.get(..30).unwrap_or(&plain).trim_matches('-');
    format!("{LEASE}-{plain}-{:016x}", fnv1a(value.as_bytes()))
}

#[cfg(test)]
mod tests;
