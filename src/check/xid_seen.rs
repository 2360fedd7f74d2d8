//! The list of Xids of this boot, for the report.

use super::xid_codes;
use crate::observe::History;
use crate::units::Millis;
use serde::Serialize;

/// Most entries in the report.
const MAX: usize = 64;

/// One Xid of one GPU, repeats folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct XidSeen {
    /// GPU slot, `0000:17:00`; `None` where the line names none.
    pub pci: Option<String>,
    /// The Xid code that the driver printed.
    pub xid: u32,
    /// Class out of the table in `check/xid_codes.rs`: `app`, `memory`, `nvlink` …
    pub class: String,
    /// Number of events this boot.
    pub count: u64,
    /// Moment of the first event.
    #[serde(skip)]
    pub first: Millis,
    /// Moment of the latest event.
    #[serde(skip)]
    pub last: Millis,
    /// The last line's own words, cut to a bound.
    pub message: String,
    /// Process named by the last line.
    pub process: Option<String>,
}

/// Every code of every GPU, newest last; the oldest are left out beyond a bound.
pub fn seen(history: &History) -> Vec<XidSeen> {
    let mut all: Vec<XidSeen> = (history.kernel.gpus.iter())
        .flat_map(|(slot, gpu)| {
            gpu.xids.iter().map(move |(code, log)| XidSeen {
                pci: (!slot.is_empty()).then(|| slot.clone()),
                xid: *code,
                class: xid_codes::class(*code).to_string(),
                count: log.seen.count,
                first: log.seen.first,
                last: log.seen.last,
                message: log.seen.text.clone(),
                process: log.process.clone(),
            })
        })
        .collect();
    all.sort_by(|a, b| (a.last, &a.pci, a.xid).cmp(&(b.last, &b.pci, b.xid)));
    let extra = all.len().saturating_sub(MAX);
    all.drain(..extra);
    all
}
