//! What the nodes that are not ready have in common: first places and versions, then reasons. The rule
//! is that of the alert `SelvageGroupFailing`, among nodes of which enough lie elsewhere.

use super::FleetNode;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest faulty nodes under one value that make it a cause, and fewest nodes elsewhere to compare them with.
const LEAST: usize = 4;
/// Least share of a value's nodes that are faulty: one in so many.
const SHARE: usize = 5;
/// How many times as often its nodes are faulty as those under other values of the kind.
const TIMES: usize = 4;

/// Nodes that are not ready, and what they have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SharedCause {
    /// What they share, other than the reason: `leaf`, `driver`.
    pub kind: Option<&'static str>,
    /// Which one.
    pub value: Option<String>,
    /// How many nodes have that value, faulty or not.
    pub of: Option<usize>,
    /// Faulty and all nodes under other values of the kind.
    pub elsewhere: Option<(usize, usize)>,
    /// Their reasons, with the number of nodes.
    pub reasons: BTreeMap<String, usize>,
    /// Their names, worst first.
    pub nodes: Vec<String>,
}

/// Faulty and all nodes.
type Tally = (usize, usize);

/// Groups of faulty nodes, each node in one: those that share a place or version, most nodes first; then
/// the rest by reason.
pub(super) fn causes(nodes: &[FleetNode]) -> Vec<SharedCause> {
    let mut left: Vec<&FleetNode> = nodes.iter().filter(|node| node.is_faulty()).collect();
    // Nodes without a verdict prove nothing about what others share.
    let mut judged: Vec<&FleetNode> = nodes.iter().filter(|node| node.state.is_some()).collect();
    let mut causes = Vec::new();
    while let Some(cause) = shared(&judged) {
        let has = |node: &FleetNode| {
            let mut all = node.attributes.iter();
            all.any(|of| Some(of.kind) == cause.kind && Some(&of.value) == cause.value.as_ref())
        };
        let (those, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|node| has(node));
        left = others;
        judged.retain(|node| !(node.is_faulty() && has(node)));
        causes.push(with_nodes(cause, &those));
    }
    let mut by_reason: BTreeMap<&str, Vec<&FleetNode>> = BTreeMap::new();
    for node in left {
        by_reason.entry(&node.reason).or_default().push(node);
    }
    let of_reason = |those: &Vec<_>| with_nodes(SharedCause::default(), those);
    let mut rest: Vec<SharedCause> = by_reason.values().map(of_reason).collect();
    rest.sort_by_key(|cause| Reverse(cause.nodes.len()));
    causes.extend(rest);
    causes
}

fn with_nodes(mut cause: SharedCause, nodes: &[&FleetNode]) -> SharedCause {
    for node in nodes {
        *cause.reasons.entry(node.reason.clone()).or_default() += 1;
        cause.nodes.push(node.node.clone());
    }
    cause
}

/// The value under which most nodes are faulty, far more often than under others; of several that fit the
/// same nodes the narrowest.
fn shared(nodes: &[&FleetNode]) -> Option<SharedCause> {
    let mut values: BTreeMap<(&'static str, &str), Tally> = BTreeMap::new();
    let mut kinds: BTreeMap<&'static str, Tally> = BTreeMap::new();
    for node in nodes {
        let faulty = usize::from(node.is_faulty());
        let count = |tally: &mut Tally| *tally = (tally.0 + faulty, tally.1 + 1);
        for attribute in &node.attributes {
            let value = values.entry((attribute.kind, &attribute.value));
            count(value.or_default());
        }
        let of_node: BTreeSet<_> = node.attributes.iter().map(|of| of.kind).collect();
        (of_node.into_iter()).for_each(|kind| count(kinds.entry(kind).or_default()));
    }
    let stands_out = |((kind, value), (faulty, of)): (&(&'static str, &str), &Tally)| {
        let all = kinds.get(kind)?;
        let (others_faulty, others) = (all.0.checked_sub(*faulty)?, all.1.checked_sub(*of)?);
        let fits = *faulty >= LEAST
            && faulty * SHARE >= *of
            && others >= LEAST
            && faulty * others > TIMES * others_faulty * of;
        let cause = || SharedCause {
            kind: Some(kind),
            value: Some(value.to_string()),
            of: Some(*of),
            elsewhere: Some((others_faulty, others)),
            ..SharedCause::default()
        };
        fits.then(|| ((*faulty, Reverse(*of)), cause()))
    };
    let found = values.iter().filter_map(stands_out);
    let (_, cause) = found.max_by_key(|(rank, _)| *rank)?;
    Some(cause)
}
