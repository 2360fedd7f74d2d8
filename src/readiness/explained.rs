//! Words for the reasons that no finding brings.

use super::{NO_ACTIVE_RAIL, NO_DATA, NO_FABRIC, NOT_A_FABRIC_NODE, SETTLING, STARTING};
use crate::check::Action;

/// A reason of the verdict that no finding explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictDoc {
    /// CamelCase reason that a verdict without findings carries, such as `NoFabric`.
    pub reason: &'static str,
    /// What the evidence says when this reason stands.
    pub meaning: &'static str,
    /// First action for the operator.
    pub remedy: &'static str,
    /// The same for machines.
    pub action: Action,
}

/// Every reason that comes from the fold itself and not from a check.
pub const VERDICT_DOCS: [VerdictDoc; 6] = [
    VerdictDoc {
        reason: STARTING,
        meaning: "The agent has not yet seen every source for its first full window.",
        remedy: "Wait: two intervals of the counters, 20 s by default. If it stays, look at the sources that do not answer.",
        action: Action::None,
    },
    VerdictDoc {
        reason: SETTLING,
        meaning: "Something that looks wrong is not long enough there to be believed, and the node was not ready before: links that train, a driver that loads, a device plugin that starts.",
        remedy: "Wait: it becomes ready, or a finding says what is wrong, within five minutes as a rule.",
        action: Action::None,
    },
    VerdictDoc {
        reason: NO_FABRIC,
        meaning: "The kernel was asked for its RDMA devices, and has none that is a rail (compute fabric).",
        remedy: "Look whether the NICs' driver is loaded (`lspci -k`, `rdma link`), and whether `rails.include` or `rails.exclude` leaves out what should be a rail. Only on a node that is meant to have no fabric and has NICs that could be one, set `policy.expect.rails = 0`: it is then ready.",
        action: Action::FixConfiguration,
    },
    VerdictDoc {
        reason: NOT_A_FABRIC_NODE,
        meaning: "The node is certainly not meant to have a fabric (state `none`): the PCI bus shows no function that could be a rail, nothing that the shape, the settings or the Node's resources say promises one, and none was there before. NICs that carry the default route, and Azure's accelerated networking, are not a fabric.",
        remedy: "Nothing is to be done. If the node should have a fabric, its NICs are missing: look at `lspci`, and set `policy.expect.rails`.",
        action: Action::None,
    },
    VerdictDoc {
        reason: NO_DATA,
        meaning: "Nothing is known of the fabric: RDMA devices could not be listed, or the state of no rail could be read.",
        remedy: "Look whether the host's /sys is there below the host root (`--host-root`) and readable.",
        action: Action::FixConfiguration,
    },
    VerdictDoc {
        reason: NO_ACTIVE_RAIL,
        meaning: "The rails are there and can be read, and none of them was up at any moment of this boot, so that nothing shows whether any should be.",
        remedy: "If they should be up, look at cables, switch and subnet manager, and set `policy.expect.rails` so that a node in this state counts as unready.",
        action: Action::CheckSwitchPort,
    },
];

/// What is to be said of the verdict itself: the entries for its reasons.
pub fn explained(reasons: &[String]) -> impl Iterator<Item = &'static VerdictDoc> + '_ {
    VERDICT_DOCS
        .iter()
        .filter(|doc| reasons.iter().any(|reason| reason == doc.reason))
}
