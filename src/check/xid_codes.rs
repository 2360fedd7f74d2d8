//! What an Xid or SXid means for the node.
//!
//! Authorities disagree on many codes, so the operator's override comes first; then the driver's
//! own verdict (Xid 154), then NVLink 5's severity word, then the table. An unknown code
//! is reported and never fails a node.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use super::Action;
use super::policy::{XidAction, XidOverride};
use table::Remedy;

use crate::observe::kernel::{KernelEvent, NvLink, RecoveryAction, Severity, What, XidDetail};

/// What to do about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disposition {
    /// The fault is over: clears what the same GPU raised.
    Clear,
    /// Counted; no effect on the node.
    Ignore,
    /// The code is unknown: shown, without effect on the verdict.
    Report,
    /// A program's fault: shown, the node is fine.
    App,
    /// The node works with less.
    Degraded,
    /// The GPU is unusable until an operator acts.
    Fatal,
}

impl From<XidAction> for Disposition {
    fn from(action: XidAction) -> Self {
        match action {
            XidAction::Ignore => Self::Ignore,
            XidAction::App => Self::App,
            XidAction::Degraded => Self::Degraded,
            XidAction::Fatal => Self::Fatal,
        }
    }
}

/// The operator's overrides by code.
pub type Overrides = BTreeMap<u32, XidOverride>;

/// The judgement of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What it does to the node.
    pub disposition: Disposition,
    /// The operator's override decided.
    pub overridden: bool,
    /// Where the fault lies, as a metric label: `app`, `gpu`, `memory`, `nvlink`, `pcie`, `driver`,
    /// `c2c`, `power`, `unknown`.
    pub class: &'static str,
    /// What happened, in a phrase.
    pub meaning: &'static str,
    /// What the operator should do.
    pub remedy: &'static str,
    /// The same for machines.
    pub action: Action,
    /// Occurrences from which the disposition applies.
    pub count: u32,
    /// Window for the count; zero is unlimited.
    pub within: Duration,
}

/// Judges an Xid or SXid event; `None` for other kinds.
#[must_use]
pub fn ruling(event: &KernelEvent, overrides: &Overrides) -> Option<Ruling> {
    match &event.what {
        What::Xid(xid) => Some(xid_ruling(xid.code, &xid.detail, overrides)),
        // NVSwitch errors go by their own word; detail lines of a report carry none and add nothing.
        What::Sxid(sxid) => Some(Ruling {
            disposition: match sxid.severity {
                Some(Severity::Fatal) => Disposition::Fatal,
                _ => Disposition::Ignore,
            },
            class: "nvlink",
            meaning: "NVSwitch error",
            remedy: table::FABRIC.1,
            action: table::FABRIC.0,
            ..by_table(0)
        }),
        _ => None,
    }
}

/// Name of a code's class.
#[must_use]
pub fn class(code: u32) -> &'static str {
    by_table(code).class
}

fn by_table(code: u32) -> Ruling {
    let unknown = &(
        code,
        "unknown",
        Disposition::Report,
        "unknown Xid code",
        table::LOOK_UP,
    );
    let (_, class, disposition, meaning, (action, remedy)) =
        *table::lookup(code).unwrap_or(unknown);
    Ruling {
        disposition,
        overridden: false,
        class,
        meaning,
        remedy,
        action,
        count: 1,
        within: Duration::ZERO,
    }
}

/// Judges an Xid by its code and parts.
#[must_use]
pub fn xid_ruling(code: u32, detail: &XidDetail, overrides: &Overrides) -> Ruling {
    let mut ruling = by_table(code);
    if let Some(o) = overrides.get(&code) {
        ruling.disposition = o.action.into();
        ruling.overridden = true;
        ruling.count = o.count.max(1);
        ruling.within = o.within.map_or(Duration::ZERO, |within| within.0);
    } else if let Some((_, to)) = detail.recovery {
        (ruling.disposition, (ruling.action, ruling.remedy)) = recovery(to);
    } else if let Some(disposition) = detail.nvlink.as_ref().and_then(|n| nvlink(code, n)) {
        ruling.disposition = disposition;
    }
    ruling
}

/// Xid 154's verdict in the operator's terms.
fn recovery(to: RecoveryAction) -> (Disposition, Remedy) {
    match to {
        RecoveryAction::None => (
            Disposition::Clear,
            (Action::None, "Nothing: the driver says it recovered."),
        ),
        RecoveryAction::GpuReset => (Disposition::Fatal, table::RESET),
        RecoveryAction::NodeReboot => (Disposition::Fatal, table::REBOOT),
        RecoveryAction::DrainP2p => (
            Disposition::Fatal,
            (
                Action::ResetDevice,
                "Drain the jobs that use peer-to-peer traffic with this GPU, then reset it.",
            ),
        ),
        RecoveryAction::DrainAndReset => (
            Disposition::Fatal,
            (
                Action::ResetDevice,
                "Drain the jobs on this GPU, then reset it.",
            ),
        ),
        RecoveryAction::RecoverImex => (
            Disposition::Degraded,
            (
                Action::FixConfiguration,
                "Recover the IMEX domain: restart its service on the rack's nodes.",
            ),
        ),
        RecoveryAction::Other(_) => (Disposition::Degraded, table::LOOK_UP),
    }
}

/// NVLink 5 by its own word; Xid 74 is harmless when only bits that say so are set: 0, 23 and 30
/// of the first register, nothing elsewhere.
fn nvlink(code: u32, n: &NvLink) -> Option<Disposition> {
    const HARMLESS: u32 = 1 | 1 << 23 | 1 << 30;
    match (code, n.severity) {
        (144..=150, Some(Severity::Fatal)) => Some(Disposition::Fatal),
        (144..=150, Some(Severity::Nonfatal)) => Some(Disposition::Ignore),
        (74, _) => {
            let (first, others) = n.words.split_first()?;
            // A cut list proves nothing about the registers that are missing.
            let whole = n.words.len() >= 7;
            let harmless = *first != 0 && first & !HARMLESS == 0 && others.iter().all(|w| *w == 0);
            (whole && harmless).then_some(Disposition::Ignore)
        }
        _ => None,
    }
}
