//! What an Xid or SXid means for the node.
//!
//! Authorities disagree on many codes, so the operator's override comes first, then NVLink 5's severity
//! word, then the table. What the driver asks for by Xid 154 is a finding of its own and makes no other
//! Xid milder. An unknown code is reported and never fails a node.

use super::Action;
pub use super::policy::Disposition;
use super::policy::XidOverride;
use crate::data_files::embedded;
use crate::observe::{KernelEvent, KernelEventKind, NvLink, RecoveryAction, Severity, XidDetail};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

/// The operator's overrides by code.
pub type Overrides = BTreeMap<u32, XidOverride>;

/// The judgement of one event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
pub fn ruling(event: &KernelEvent, overrides: &Overrides) -> Option<Ruling> {
    match &event.what {
        KernelEventKind::Xid(xid) => Some(xid_ruling(xid.code, &xid.detail, overrides)),
        // NVSwitch errors go by their own word; detail lines of a report carry none and add nothing.
        KernelEventKind::Sxid(sxid) => {
            let (disposition, remedy) = match sxid.severity {
                Some(Severity::Fatal) => (Disposition::Fatal, "reboot"),
                _ => (Disposition::Ignore, "watch"),
            };
            Some(Ruling {
                disposition,
                class: "nvlink",
                meaning: "NVSwitch error",
                ..by_table(0).remedied(remedy)
            })
        }
        _ => None,
    }
}

/// Name of a code's class.
pub fn class(code: u32) -> &'static str {
    by_table(code).class
}

/// The table, `xid_codes.toml`.
static TABLE: LazyLock<Table> = LazyLock::new(|| embedded(include_str!("xid_codes.toml")));

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Table {
    unknown: Code,
    codes: BTreeMap<u32, Code>,
    remedies: BTreeMap<&'static str, Remedy>,
    recovery: BTreeMap<&'static str, Recovery>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    class: &'static str,
    disposition: Disposition,
    meaning: &'static str,
    remedy: &'static str,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remedy {
    action: Action,
    text: &'static str,
}

/// What the driver asks for by Xid 154.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recovery {
    disposition: Disposition,
    remedy: String,
    /// For people: `a reset of the GPU`.
    pub what: String,
}

/// The table's row of what the driver asks for; that of `unknown` for what this version does not know.
pub(super) fn recovery(action: RecoveryAction) -> &'static Recovery {
    static NONE: LazyLock<Recovery> = LazyLock::new(Recovery::default);
    let word = serde_json::to_value(action).unwrap_or_default();
    let row = TABLE.recovery.get(word.as_str().unwrap_or("unknown"));
    row.unwrap_or(&NONE)
}

fn by_table(code: u32) -> Ruling {
    let row = TABLE.codes.get(&code).unwrap_or(&TABLE.unknown);
    let ruling = Ruling {
        disposition: row.disposition,
        class: row.class,
        meaning: row.meaning,
        count: 1,
        ..Ruling::default()
    };
    ruling.remedied(row.remedy)
}

impl Ruling {
    /// With a remedy of the table.
    fn remedied(self, name: &str) -> Self {
        let known = TABLE.remedies.get(name).copied().unwrap_or_default();
        Ruling {
            remedy: known.text,
            action: known.action,
            ..self
        }
    }
}

/// Judges an Xid by its code and parts.
pub fn xid_ruling(code: u32, detail: &XidDetail, overrides: &Overrides) -> Ruling {
    let mut ruling = by_table(code);
    if let Some(o) = overrides.get(&code) {
        ruling.disposition = o.action;
        ruling.overridden = true;
        ruling.count = o.count.max(1);
        ruling.within = o.within.map_or(Duration::ZERO, |within| within.0);
    } else if let Some((_, to)) = detail.recovery {
        let recovery = recovery(to);
        ruling = ruling.remedied(&recovery.remedy);
        ruling.disposition = recovery.disposition;
    } else if let Some(disposition) = detail.nvlink.as_ref().and_then(|n| nvlink(code, n)) {
        ruling.disposition = disposition;
    }
    ruling
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

#[cfg(test)]
mod tests {
    use super::Disposition::{App, Fatal, Ignore};
    use super::*;

    #[test]
    fn every_row_is_read_and_has_its_remedy() {
        let table: Table = toml::from_str(include_str!("xid_codes.toml")).unwrap();
        assert_eq!(table.codes.len(), 116);
        for row in table.codes.values().chain([&table.unknown]) {
            assert!(table.remedies.contains_key(row.remedy), "{}", row.remedy);
        }
        for to in (0..=6).map(RecoveryAction::from_code) {
            let row = recovery(to);
            assert!(table.remedies.contains_key(&*row.remedy), "{to:?}");
            assert!(!row.what.is_empty(), "{to:?}");
        }
        // Of NVSwitches.
        assert!(table.remedies.contains_key("reboot") && table.remedies.contains_key("watch"));
        assert_eq!(by_table(7).meaning, "unknown Xid code");
    }

    #[test]
    fn application_codes_never_touch_the_node() {
        for code in [13, 31, 43, 45, 68, 69] {
            let disposition = by_table(code).disposition;
            assert!(matches!(disposition, App | Ignore), "{code}");
        }
    }

    #[test]
    fn xid_74_is_harmless_by_all_its_registers_alone() {
        let ruled = |words: &[u32]| {
            let words = words.to_vec();
            let nvlink = Some(NvLink {
                words,
                ..NvLink::default()
            });
            let detail = XidDetail {
                nvlink,
                ..XidDetail::default()
            };
            xid_ruling(74, &detail, &Overrides::default()).disposition
        };
        for first in [1, 1 << 23, 1 << 30, 1 | 1 << 23 | 1 << 30] {
            assert_eq!(ruled(&[first, 0, 0, 0, 0, 0, 0]), Ignore, "{first:#x}");
            assert_eq!(ruled(&[first, 0, 0, 1, 0, 0, 0]), Fatal, "{first:#x}");
            assert_eq!(ruled(&[first, 0, 0, 0, 0, 0]), Fatal, "{first:#x}, cut");
        }
        for first in [0, 2, 1 << 22 | 1, 1 << 31] {
            assert_eq!(ruled(&[first, 0, 0, 0, 0, 0, 0]), Fatal, "{first:#x}");
        }
    }

    #[test]
    fn codes_that_take_a_gpu_away() {
        for code in [
            46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 158, 167,
        ] {
            assert_eq!(by_table(code).disposition, Fatal, "{code}");
        }
    }
}
