//! What an Xid or SXid means for the node.
//!
//! Authorities disagree on many codes, so the operator's override comes first; then the driver's
//! own verdict (Xid 154), then NVLink 5's severity word, then the table. An unknown code
//! is reported and never fails a node.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::policy::{XidAction, XidOverride};

use crate::observe::kernel::{
    Detail, EventKind, KernelEvent, NvLink, RecoveryAction, Severity, XidDetail,
};

pub use table::{CODES, lookup};

/// What to do about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// Where a fault lies, as a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XidClass {
    /// A user's program.
    App,
    /// The GPU's engines or controllers.
    Gpu,
    /// The GPU's memory and its caches.
    Memory,
    /// NVLink, between GPUs or to a switch.
    Nvlink,
    /// The PCIe link to the host.
    Pcie,
    /// NVIDIA's driver or firmware.
    Driver,
    /// The link between Grace and the GPU.
    C2c,
    /// Power supply or its cables.
    Power,
    /// Not in the table.
    Unknown,
}

impl XidClass {
    /// The label's value.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Gpu => "gpu",
            Self::Memory => "memory",
            Self::Nvlink => "nvlink",
            Self::Pcie => "pcie",
            Self::Driver => "driver",
            Self::C2c => "c2c",
            Self::Power => "power",
            Self::Unknown => "unknown",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XidCode {
    /// The number that the driver prints.
    pub code: u32,
    /// Where the fault lies.
    pub class: XidClass,
    /// What it does to the node, when nothing stronger speaks.
    pub disposition: Disposition,
    /// What happened, in a phrase.
    pub meaning: &'static str,
    /// What the operator should do.
    pub remedy: &'static str,
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

/// The authority that decided on a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The operator's override.
    Operator,
    /// Xid 154's text.
    RecoveryAction,
    /// The message's own severity word or register bits.
    Message,
    /// The built-in table of codes.
    Table,
    /// No authority: the code is unknown.
    None,
}

/// The judgement of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What it does to the node.
    pub disposition: Disposition,
    /// The authority that decided.
    pub authority: Authority,
    /// Where the fault lies.
    pub class: XidClass,
    /// What happened, in a phrase.
    pub meaning: &'static str,
    /// What the operator should do.
    pub remedy: &'static str,
    /// Occurrences from which the disposition applies.
    pub count: u32,
    /// Window for the count; zero is unlimited.
    pub within: Duration,
}

/// Judges an Xid or SXid event; `None` for other kinds.
#[must_use]
pub fn ruling(event: &KernelEvent, overrides: &Overrides) -> Option<Ruling> {
    match (&event.kind, &event.detail) {
        (EventKind::Xid, detail) => {
            let none = XidDetail::default();
            let detail = match detail {
                Detail::Xid(d) => d,
                _ => &none,
            };
            Some(xid_ruling(event.xid?, detail, overrides))
        }
        (EventKind::Sxid, Detail::Sxid(d)) => Some(sxid_ruling(d.severity)),
        _ => None,
    }
}

/// The disposition alone; [`Disposition::Report`] for other kinds.
#[must_use]
pub fn disposition(event: &KernelEvent, overrides: &Overrides) -> Disposition {
    ruling(event, overrides).map_or(Disposition::Report, |r| r.disposition)
}

/// Judges an Xid by its code and parts.
#[must_use]
pub fn xid_ruling(code: u32, detail: &XidDetail, overrides: &Overrides) -> Ruling {
    let row = lookup(code);
    let mut ruling = Ruling {
        disposition: row.map_or(Disposition::Report, |r| r.disposition),
        authority: row.map_or(Authority::None, |_| Authority::Table),
        class: row.map_or(XidClass::Unknown, |r| r.class),
        meaning: row.map_or("unknown Xid code", |r| r.meaning),
        remedy: row.map_or(table::LOOK_UP, |r| r.remedy),
        count: 1,
        within: Duration::ZERO,
    };
    if let Some(o) = overrides.get(&code) {
        ruling.disposition = o.action.into();
        ruling.authority = Authority::Operator;
        ruling.count = o.count.max(1);
        ruling.within = o.within.map_or(Duration::ZERO, |within| within.0);
    } else if let Some((_, to)) = detail.recovery {
        let (disposition, remedy) = recovery(to);
        ruling.disposition = disposition;
        ruling.remedy = remedy;
        ruling.authority = Authority::RecoveryAction;
    } else if let Some(disposition) = detail.nvlink.as_ref().and_then(|n| nvlink(code, n)) {
        ruling.disposition = disposition;
        ruling.authority = Authority::Message;
    }
    ruling
}

/// Xid 154's verdict in the operator's terms.
fn recovery(to: RecoveryAction) -> (Disposition, &'static str) {
    match to {
        RecoveryAction::None => (Disposition::Clear, "Nothing: the driver says it recovered."),
        RecoveryAction::GpuReset => (Disposition::Fatal, table::RESET),
        RecoveryAction::NodeReboot => (Disposition::Fatal, table::REBOOT),
        RecoveryAction::DrainP2p => (
            Disposition::Fatal,
            "Drain the jobs that use peer-to-peer traffic with this GPU, then reset it.",
        ),
        RecoveryAction::DrainAndReset => (
            Disposition::Fatal,
            "Drain the jobs on this GPU, then reset it.",
        ),
        RecoveryAction::RecoverImex => (
            Disposition::Degraded,
            "Recover the IMEX domain: restart its service on the rack's nodes.",
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

/// NVSwitch errors go by their own word; detail lines of a report carry none and add nothing.
fn sxid_ruling(severity: Option<Severity>) -> Ruling {
    let (disposition, authority) = match severity {
        Some(Severity::Fatal) => (Disposition::Fatal, Authority::Message),
        Some(Severity::Nonfatal) => (Disposition::Ignore, Authority::Message),
        None => (Disposition::Ignore, Authority::None),
    };
    Ruling {
        disposition,
        authority,
        class: XidClass::Nvlink,
        meaning: "NVSwitch error",
        remedy: table::FABRIC,
        count: 1,
        within: Duration::ZERO,
    }
}
