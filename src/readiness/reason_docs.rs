//! The reasons that no finding brings, each with meaning and remedy.

use crate::check::{ReasonDoc, reasons};

reasons! {
    /// Reason of Unknown before the first full window.
    pub unknown STARTING = "Starting", None;
    /// Something that was seen is not long enough there to be believed, and nothing was proven before.
    pub unknown SETTLING = "Settling", None;
    /// Reason of Unknown where the node was enumerated and has no rail.
    pub unknown NO_FABRIC = "NoFabric", FixConfiguration;
    /// Reason of the state `none`: no fabric, and certainly none that is missing.
    pub unknown NOT_A_FABRIC_NODE = "NotAFabricNode", None;
    /// Reason of Unknown where nothing could be read.
    pub unknown NO_DATA = "NoData", FixConfiguration;
    /// Reason of Unknown where rails are read, and none was up at any moment of this boot.
    pub unknown NO_ACTIVE_RAIL = "NoActiveRail", CheckSwitchPort;
}

/// Every reason that comes from the fold itself and not from a check.
pub const VERDICT_DOCS: &[ReasonDoc] = REASONS;

/// What is to be said of the verdict itself: the entries for its reasons.
pub fn explained(reasons: &[String]) -> impl Iterator<Item = &'static ReasonDoc> + '_ {
    VERDICT_DOCS
        .iter()
        .filter(|doc| reasons.iter().any(|reason| reason == doc.reason))
}
