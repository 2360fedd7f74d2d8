//! When each subject is read next. Pure: time comes in, decisions go out.

use crate::observe::reading::Fault;
use crate::units::Millis;
use std::collections::BTreeMap;
use std::time::Duration;

/// One thing that is read as a whole, independently of every other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The list of RDMA devices.
    Devices,
    /// PCI functions.
    Pci,
    /// Drivers and modules of the GPUDirect path.
    GpuDirect,
    /// 802.1X of all network devices.
    Dot1x,
    /// Port state of one device, by device key.
    Link(String),
    /// Counters of one device, by device key.
    Counters(String),
    /// GID tables of one device, by device key.
    Gids(String),
    /// One network device's link.
    Netdev(String),
    /// One network device's ethtool statistics.
    Ethtool(String),
    /// One network device's DCB settings.
    Dcb(String),
    /// Link states of one network device's virtual functions.
    VfLinks(String),
}

impl Subject {
    /// Name of the source, as in metrics and the report.
    pub fn source(&self) -> &'static str {
        match self {
            Subject::Devices => "devices",
            Subject::Pci => "pci",
            Subject::GpuDirect => "gpudirect",
            Subject::Dot1x => "dot1x",
            Subject::Link(_) => "link",
            Subject::Counters(_) => "counters",
            Subject::Gids(_) => "gids",
            Subject::Netdev(_) => "netdev",
            Subject::Ethtool(_) => "ethtool",
            Subject::Dcb(_) => "dcb",
            Subject::VfLinks(_) => "vf_links",
        }
    }

    /// Which one of that source; empty where there is only one.
    pub fn name(&self) -> &str {
        match self {
            Subject::Devices | Subject::Pci | Subject::GpuDirect | Subject::Dot1x => "",
            Subject::Link(name)
            | Subject::Counters(name)
            | Subject::Gids(name)
            | Subject::Netdev(name)
            | Subject::Ethtool(name)
            | Subject::Dcb(name)
            | Subject::VfLinks(name) => name,
        }
    }

    /// What says whether the node has its rails and GPUs: read as long as anything is.
    pub fn is_vital(&self) -> bool {
        matches!(self, Subject::Devices | Subject::Pci | Subject::Link(_))
    }

    /// Whether a hung read of `other` keeps this one from being begun: both ask one driver, which
    /// is likely to keep a second thread as well. Port state and carrier are asked for all the same.
    fn waits_for(&self, other: &Subject) -> bool {
        match (self, other) {
            (
                Subject::Counters(name) | Subject::Gids(name),
                Subject::Link(hung) | Subject::Counters(hung) | Subject::Gids(hung),
            )
            | (
                Subject::Ethtool(name) | Subject::Dcb(name) | Subject::VfLinks(name),
                Subject::Netdev(hung)
                | Subject::Ethtool(hung)
                | Subject::Dcb(hung)
                | Subject::VfLinks(hung),
            ) => self != other && name == hung,
            _ => false,
        }
    }
}

/// Why a subject is not being read though it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It was handed over at that moment, and every thread that may take it is stuck.
    NoReader(Millis),
    /// Another read of the same device hangs.
    DeviceHangs,
}

/// How a finished read went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It gave facts.
    Ok,
    /// This kernel or tree does not have the source.
    Absent,
    /// It failed.
    Failed(Fault),
}

/// How often and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Time between starts.
    pub interval: Duration,
    /// After this long without an answer the subject is stalled.
    pub deadline: Duration,
}

/// One subject's place in the schedule.
#[derive(Debug, Clone)]
pub struct Slot {
    pace: Pace,
    due: Millis,
    /// Handed over to be read.
    started: Option<Millis>,
    /// A thread took it up.
    began: Option<Millis>,
    /// Why it is not being read though it is due.
    pub idle: Option<Idle>,
    extra: Vec<Millis>,
    /// Out beyond its deadline since then.
    pub stalled_since: Option<Millis>,
    /// Last end without a failure.
    pub last_ok: Option<Millis>,
    /// Reads ended so far.
    pub ended: u64,
    /// Duration of the last finished read.
    pub took: Duration,
    /// Why the last one failed.
    pub fault: Option<Fault>,
    /// The source does not exist here.
    pub absent: bool,
}

impl Slot {
    /// Whether it may be started when it is due.
    fn is_free(&self) -> bool {
        self.started.is_none() && self.idle.is_none()
    }
}

/// All subjects.
#[derive(Debug, Default)]
pub struct Schedule {
    slots: BTreeMap<Subject, Slot>,
}

/// After an event, state is read at once and again after these: an rxe port follows its network
/// device up to 20 ms late, and firmware may take its time.
const FOLLOW_UPS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(40),
    LAST_FOLLOW_UP,
];

const LAST_FOLLOW_UP: Duration = Duration::from_millis(200);

/// How much too early a read may start when others are due; never more than a twentieth of its
/// interval.
const SLACK: Duration = Duration::from_millis(250);

/// What is gone is looked for again after these, so that a loss is believed within seconds however
/// slow the regular pace; the last one is past the default of `device_missing.gone_after`.
const DOUBTS: [Duration; 3] = [
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

impl Schedule {
    /// Adds a subject, due at once, unless it is there already.
    pub fn add(&mut self, subject: Subject, pace: Pace, now: Millis) {
        self.slots.entry(subject).or_insert_with(|| Slot {
            pace,
            due: now,
            started: None,
            began: None,
            idle: None,
            extra: Vec::new(),
            stalled_since: None,
            last_ok: None,
            ended: 0,
            took: Duration::ZERO,
            fault: None,
            absent: false,
        });
    }

    /// Drops subjects for which `keep` says no. A read that is still out is forgotten.
    pub fn retain(&mut self, mut keep: impl FnMut(&Subject) -> bool) {
        self.slots.retain(|subject, _| keep(subject));
    }

    /// Whether the subject is known.
    pub fn contains(&self, subject: &Subject) -> bool {
        self.slots.contains_key(subject)
    }

    /// All slots.
    pub fn slots(&self) -> impl Iterator<Item = (&Subject, &Slot)> {
        self.slots.iter()
    }

    /// An event says that the subject may have changed: read now, and a few times soon after.
    pub fn wake(&mut self, subject: &Subject, now: Millis) {
        if let Some(slot) = self.slots.get_mut(subject) {
            slot.due = slot.due.min(now);
            // The last event's follow-ups are enough for those before it; doubts stay.
            let soon = now.plus(LAST_FOLLOW_UP);
            slot.extra.retain(|at| *at > soon);
            let follow_ups = FOLLOW_UPS.iter().map(|by| now.plus(*by));
            slot.extra.splice(0..0, follow_ups);
        }
    }

    /// What the subject showed before is missing: look a few times more before it is believed.
    pub fn doubt(&mut self, subject: &Subject, now: Millis) {
        if let Some(slot) = self.slots.get_mut(subject) {
            let soon = now.plus(LAST_FOLLOW_UP);
            slot.extra.retain(|at| *at <= soon);
            slot.extra.extend(DOUBTS.iter().map(|by| now.plus(*by)));
        }
    }

    /// Whether more looks at the subject are to come out of doubt.
    pub fn in_doubt(&self, subject: &Subject, now: Millis) -> bool {
        let soon = now.plus(LAST_FOLLOW_UP);
        (self.slots.get(subject)).is_some_and(|slot| slot.extra.iter().any(|at| *at > soon))
    }

    /// Whether an event woke the subject a moment ago, or it is looked at again.
    pub fn is_woken(&self, subject: &Subject) -> bool {
        (self.slots.get(subject)).is_some_and(|slot| !slot.extra.is_empty())
    }

    /// Subjects to start now. Each is marked as out; a subject that is out is never started again
    /// before it ended, however late it is. What would be due a moment later is taken along: fewer
    /// wake-ups.
    pub fn start_due(&mut self, now: Millis) -> Vec<Subject> {
        let mut due = Vec::new();
        self.hold_back();
        let waking = self
            .slots
            .values()
            .any(|slot| slot.is_free() && slot.due <= now);
        for (subject, slot) in &mut self.slots {
            if !slot.is_free() {
                continue;
            }
            let slack = match waking {
                true => SLACK.min(slot.pace.interval / 20),
                false => Duration::ZERO,
            };
            let routine = slot.due <= now.plus(slack);
            if !routine && slot.extra.first().is_none_or(|at| *at > now) {
                continue;
            }
            slot.extra.retain(|at| *at > now);
            if routine {
                slot.due = next_due(slot.due, slot.pace.interval, now);
            }
            slot.started = Some(now);
            slot.began = None;
            due.push(subject.clone());
        }
        due
    }

    /// Holds back what would ask a device that keeps another read, and lets go what need wait no
    /// longer.
    fn hold_back(&mut self) {
        let hung: Vec<Subject> = (self.slots.iter())
            .filter(|(_, slot)| slot.stalled_since.is_some())
            .map(|(subject, _)| subject.clone())
            .collect();
        for (subject, slot) in &mut self.slots {
            if slot.started.is_none() {
                let held = hung.iter().any(|hung| subject.waits_for(hung));
                slot.idle = held.then_some(Idle::DeviceHangs);
            }
        }
    }

    /// A thread took the read up: its deadline counts from here.
    pub fn began(&mut self, subject: &Subject, at: Millis) {
        if let Some(slot) = self.slots.get_mut(subject)
            && slot.started.is_some()
        {
            slot.began = Some(at);
            slot.idle = None;
        }
    }

    /// A read ended.
    pub fn end(&mut self, subject: &Subject, now: Millis, took: Duration, ended: Ended) {
        let Some(slot) = self.slots.get_mut(subject) else {
            return;
        };
        slot.started = None;
        slot.idle = None;
        slot.stalled_since = None;
        slot.took = took;
        slot.ended += 1;
        slot.absent = ended == Ended::Absent;
        match ended {
            Ended::Failed(fault) => slot.fault = Some(fault),
            Ended::Ok | Ended::Absent => {
                slot.fault = None;
                slot.last_ok = Some(now);
            }
        }
    }

    /// Marks reads that are out beyond their deadline, and those that nobody took up for as long.
    /// True if one was newly marked.
    pub fn mark_stalled(&mut self, now: Millis) -> bool {
        let mut any = false;
        for slot in self.slots.values_mut() {
            let deadline = slot.pace.deadline;
            match (slot.started, slot.began) {
                (Some(_), Some(began))
                    if slot.stalled_since.is_none() && now.since(began) >= deadline =>
                {
                    slot.stalled_since = Some(began);
                    any = true;
                }
                (Some(started), None) if slot.idle.is_none() && now.since(started) >= deadline => {
                    slot.idle = Some(Idle::NoReader(started));
                    any = true;
                }
                _ => {}
            }
        }
        any
    }

    /// When something next wants attention: a start or a deadline.
    pub fn next_attention(&self) -> Option<Millis> {
        self.slots
            .values()
            .filter(|slot| slot.stalled_since.is_none() && slot.idle.is_none())
            .map(|slot| match slot.began.or(slot.started) {
                Some(out) if slot.started.is_some() => out.plus(slot.pace.deadline),
                _ => slot
                    .extra
                    .first()
                    .map_or(slot.due, |extra| slot.due.min(*extra)),
            })
            .min()
    }

    /// Reads that hang.
    pub fn hung(&self) -> usize {
        let hung = |slot: &&Slot| slot.stalled_since.is_some();
        self.slots.values().filter(hung).count()
    }

    /// Whether nothing is out but what is stalled.
    pub fn quiet(&self) -> bool {
        (self.slots.values()).all(|slot| {
            slot.started.is_none() || slot.stalled_since.is_some() || slot.idle.is_some()
        })
    }

    /// Whether every subject has answered at least `times`, or is stalled, held back, absent or
    /// failing.
    pub fn answered(&self, times: impl Fn(&Subject) -> u64) -> bool {
        self.slots.iter().all(|(subject, slot)| {
            slot.ended >= times(subject)
                || slot.stalled_since.is_some()
                || slot.idle.is_some()
                || (slot.ended > 0 && (slot.absent || slot.fault.is_some()))
        })
    }
}

/// The next start on the subject's grid; starts missed meanwhile are left out.
fn next_due(due: Millis, interval: Duration, now: Millis) -> Millis {
    let next = due.plus(interval);
    if next > now { next } else { now.plus(interval) }
}

#[cfg(test)]
mod tests;
