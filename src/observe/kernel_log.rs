//! Kernel-log events of this boot, folded: repeats of one event are one entry with a count and
//! a bounded list of moments (one GPU once logged 800 000 equal Xids).

pub use super::kernel::Note;

use super::totals::Totals;
use super::{KernelEvent, KernelEventKind, NvLink, RecoveryAction, Severity, Sxid, Xid, XidDetail};
use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Moments kept of one kind of event.
const MAX_TIMES: usize = 64;
/// Most devices with an entry of their own, virtual functions among them.
const MAX_DEVICES: usize = 512;
/// Most codes kept for one GPU or switch. Xids end at 176 (`nverror.h`); SXids are sparser.
const MAX_CODES: usize = 192;
/// Characters kept of a message.
const MAX_TEXT: usize = 240;

/// When an event was logged, and whether it was in the log already when the agent began to read.
pub type When = (Millis, bool);

/// Everything logged this boot, by device. GPUs and switches go by slot (`dddd:bb:dd`),
/// empty where the line named none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLog {
    /// GPUs by slot (`dddd:bb:dd`).
    pub gpus: BTreeMap<String, GpuLog>,
    /// NVSwitch errors by slot and code.
    pub switches: BTreeMap<String, BTreeMap<u32, SwitchError>>,
    /// NICs and other devices by address (`dddd:bb:dd.f`), by slot where the line names no function, or
    /// by the interface or RDMA device where it names that alone.
    pub devices: BTreeMap<String, DeviceLog>,
    /// Loads of NVIDIA's driver: by its own line, or seen gone from the list of modules and back.
    #[serde(default)]
    pub driver_loaded: Seen,
}

/// Events of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLog {
    /// Every Xid of this GPU, by code.
    pub xids: BTreeMap<u32, XidLog>,
    /// The driver's own last verdict (Xid 154), and when.
    pub recovery: Option<(RecoveryAction, Millis)>,
    /// When the driver last took its verdict back (154 to `None`).
    pub cleared: Option<Millis>,
    /// When the driver took its verdict back, or was reloaded and had the GPU again, the latest times.
    #[serde(default)]
    pub taken_back: Vec<Millis>,
}

/// One code of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XidLog {
    /// When and how often.
    pub seen: Seen,
    /// The process that the last line with one named.
    pub process: Option<String>,
    /// What the lines say beyond code and process, the worst of each part.
    pub detail: XidDetail,
}

/// When and how often an event was logged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Number of events, also beyond the moments kept.
    pub count: u64,
    /// Moment of the first event.
    pub first: Millis,
    /// Moment of the latest event.
    pub last: Millis,
    /// The latest moments, oldest first; bounded.
    pub times: Vec<Millis>,
    /// The last message, cut to a bound.
    pub text: String,
    /// The last event was in the log before the agent began to read.
    pub historic: bool,
}

/// One code of one NVSwitch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchError {
    /// When and how often.
    pub seen: Seen,
    /// Whether it ever called itself fatal.
    pub fatal: bool,
}

/// Events of one NIC or other device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLog {
    /// First and last time, and count, of each kind of event by subject.
    pub notes: BTreeMap<Note, Seen>,
}

impl DeviceLog {
    /// Whether a link that comes up ends what the firmware said before: not commands that stall, unless a
    /// reset followed.
    fn was_reset(&self) -> bool {
        let last = |is: &dyn Fn(Note) -> bool| {
            let notes = self.notes.iter().filter(|(note, _)| is(**note));
            notes.map(|(_, seen)| seen.last).max()
        };
        let stalled = last(&|note| note == Note::CommandsStalled);
        let failed = last(&|note| note.is_grave() && note != Note::CommandsStalled);
        let began = last(&|note| note == Note::RecoveryStarted).filter(|_| stalled.is_some());
        let over = last(&|note| matches!(note, Note::Recovered | Note::Loaded));
        let reset = failed.max(began);
        reset > over && reset >= stalled
    }
}

impl GpuLog {
    /// Whether a reload of the driver at some moment ends what was said before. That it asked for a reboot, only
    /// that ends.
    pub fn is_ended_by_reload(&self, at: Millis) -> bool {
        match self.recovery {
            None | Some((RecoveryAction::None, _)) => true,
            Some((RecoveryAction::NodeReboot, _)) => false,
            Some((_, asked)) => at > asked,
        }
    }

    /// What was said until then is over, if the GPU stays quiet.
    pub(super) fn take_back(&mut self, at: Millis) {
        if self.taken_back.last() != Some(&at) {
            keep_last(&mut self.taken_back, at, MAX_TIMES);
        }
    }
}

impl Seen {
    /// The first moment, and the latest that are kept.
    pub fn moments(&self) -> impl Iterator<Item = Millis> + use<'_> {
        let first = (self.count > 0).then_some(self.first);
        first.into_iter().chain(self.times.iter().copied())
    }

    /// Counts one more event.
    pub fn push(&mut self, (at, historic): When, text: &str) {
        if self.count == 0 {
            self.first = at;
        }
        self.count = self.count.saturating_add(1);
        self.last = self.last.max(at);
        self.historic = historic;
        self.text = text.chars().take(MAX_TEXT).collect();
        keep_last(&mut self.times, at, MAX_TIMES);
    }

    /// How often since a moment; at most the number of moments kept.
    pub fn since(&self, start: Millis) -> u64 {
        self.times.iter().filter(|at| **at >= start).count() as u64
    }
}

impl KernelLog {
    /// Adds an event; `historic` ones happened before the agent started.
    pub fn push(&mut self, at: Millis, historic: bool, event: &KernelEvent, totals: &mut Totals) {
        let when = (at, historic);
        match &event.what {
            KernelEventKind::Xid(xid) => self.push_xid(when, event, xid, totals),
            KernelEventKind::Sxid(sxid) => self.push_sxid(when, event, sxid),
            KernelEventKind::DriverLoaded => self.driver_loaded.push(when, &event.text),
            KernelEventKind::Note(note) => self.push_note(when, event, *note, totals),
        }
    }

    /// What was said so last, of any device or of none.
    pub fn latest(&self, note: Note) -> Option<&Seen> {
        let devices = self.devices.values();
        let seen = devices.filter_map(|device| device.notes.get(&note));
        seen.max_by_key(|seen| seen.last)
    }

    /// What is saved over a restart: not the link changes and refused commands that busy devices log
    /// all day, which no verdict depends on; but a link that came up may show that a failure has passed.
    pub fn to_keep(&self) -> Self {
        let mut kept = self.clone();
        kept.devices.retain(|_, device| {
            let failed = device.notes.keys().any(|note| note.is_grave());
            let is_kept = |note: &Note| !note.is_routine() || failed && *note == Note::LinkUp;
            device.notes.retain(|note, _| is_kept(note));
            !device.notes.is_empty()
        });
        kept
    }

    fn push_xid(&mut self, when: When, event: &KernelEvent, new: &Xid, totals: &mut Totals) {
        let slot = event.pci.clone().unwrap_or_default();
        let Some(gpu) = entry(&mut self.gpus, slot.clone(), MAX_DEVICES) else {
            return;
        };
        let Some(xid) = entry(&mut gpu.xids, new.code, MAX_CODES) else {
            return;
        };
        let after_clear = gpu.cleared.is_some_and(|cleared| xid.seen.last <= cleared);
        let before = xid.detail.recovery;
        xid.seen.push(when, &event.text);
        if new.process.is_some() {
            xid.process.clone_from(&new.process);
        }
        if after_clear || xid.seen.count == 1 {
            xid.detail = new.detail.clone();
        } else {
            merge(&mut xid.detail, &new.detail);
        }
        if let Some((_, to)) = new.detail.recovery {
            use RecoveryAction::{None as Nothing, Other};
            if to == Nothing {
                // Only a request that was made is taken back.
                let asked = gpu.recovery.map_or(Nothing, |(asked, _)| asked);
                let before = before.filter(|_| asked == Nothing);
                xid.detail.recovery = before.or(Some((asked, Nothing)));
            }
            // What this version does not know takes no request back that it knows.
            let stands = |(asked, at): (RecoveryAction, Millis)| {
                !matches!(asked, Nothing | Other(_)) && at >= self.driver_loaded.last
            };
            let adds_nothing = match to {
                Nothing => gpu.recovery.is_some_and(|(asked, _)| asked == Nothing),
                Other(_) => gpu.recovery.is_some_and(stands),
                _ => false,
            };
            if !adds_nothing {
                gpu.recovery = Some((to, when.0));
            }
            if to == Nothing {
                gpu.cleared = Some(when.0);
                gpu.take_back(when.0);
                // The driver's report that a GPU recovered is not an error.
                return;
            }
        }
        let codes = totals.xids.entry(slot).or_default();
        *codes.entry(new.code).or_default() += 1;
    }

    fn push_sxid(&mut self, when: When, event: &KernelEvent, sxid: &Sxid) {
        // Detail lines of the same report carry no word of their own.
        let Some(severity) = sxid.severity else {
            return;
        };
        let slot = event.pci.clone().unwrap_or_default();
        let codes = entry(&mut self.switches, slot, MAX_DEVICES);
        if let Some(error) = codes.and_then(|codes| entry(codes, sxid.code, MAX_CODES)) {
            error.seen.push(when, &event.text);
            error.fatal |= severity == Severity::Fatal;
        }
    }

    fn push_note(&mut self, when: When, event: &KernelEvent, note: Note, totals: &mut Totals) {
        let address = address_of(event);
        let key = match address {
            "" => event.name.as_deref().unwrap_or_default(),
            address => address,
        };
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(key) {
            self.make_room(note);
        }
        let Some(device) = entry(&mut self.devices, key.to_string(), MAX_DEVICES) else {
            return;
        };
        let seen = device.notes.entry(note).or_default();
        seen.push(when, &event.text);
        // Of a reset that went well, bnxt_en says nothing but that the link is up again.
        if note == Note::LinkUp && device.was_reset() && event.text.starts_with("bnxt_en ") {
            (device.notes.entry(Note::Recovered).or_default()).push(when, &event.text);
        }
        if matches!(
            note,
            Note::Loaded | Note::GpuLost | Note::ResetRequired | Note::Cooled
        ) {
            return;
        }
        if let Some(events) = entry(&mut totals.nic_events, address.to_string(), MAX_DEVICES) {
            *events.entry(event.what.name().to_string()).or_default() += 1;
        }
    }

    /// Drops a device for another of which this was said: one of the virtual functions that load, log link
    /// changes or fail to start before a NIC that failed, and of these the one that was quiet longest.
    fn make_room(&mut self, note: Note) {
        let weight = |note: &Note| (note.is_grave(), !note.is_benign());
        let worst = |of: &DeviceLog| of.notes.keys().map(weight).max();
        let last = |of: &DeviceLog| of.notes.values().map(|seen| seen.last).max();
        let first = (self.devices.iter()).min_by_key(|(_, device)| (worst(device), last(device)));
        let less = first.filter(|(_, device)| worst(device) <= Some(weight(&note)));
        if let Some(address) = less.map(|(address, _)| address.clone()) {
            self.devices.remove(&address);
        }
    }
}

/// The address with its function where the line has one, else the slot.
fn address_of(event: &KernelEvent) -> &str {
    let device = (event.device.as_deref()).and_then(|device| device.rsplit(' ').next());
    let address = device.filter(|address| address.contains('.'));
    address.or(event.pci.as_deref()).unwrap_or_default()
}

/// Folds a repeat in, so that the worst of each part stays: `Fatal` over no word, which a cut line has,
/// over `Nonfatal`; every register bit ever set, and the shortest list of registers (a cut one proves
/// nothing about the rest).
fn merge(kept: &mut XidDetail, new: &XidDetail) {
    kept.recovery = new.recovery.or(kept.recovery);
    let is_fatal = |link: &NvLink| link.severity == Some(Severity::Fatal);
    let (Some(kept), Some(new)) = (&mut kept.nvlink, &new.nvlink) else {
        let either = kept.nvlink.take().or_else(|| new.nvlink.clone());
        kept.nvlink = either.filter(is_fatal);
        return;
    };
    if !is_fatal(kept) && (is_fatal(new) || new.severity.is_none()) {
        kept.severity = new.severity;
    }
    kept.words.truncate(new.words.len());
    for (word, more) in kept.words.iter_mut().zip(&new.words) {
        *word |= more;
    }
}

/// Adds a moment, and drops the oldest beyond `most`.
pub(super) fn keep_last(times: &mut Vec<Millis>, at: Millis, most: usize) {
    times.push(at);
    times.drain(..times.len().saturating_sub(most));
}

/// The entry of a key, made if there is room.
fn entry<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, room: usize) -> Option<&mut V> {
    if map.len() >= room && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

#[cfg(test)]
mod tests;
