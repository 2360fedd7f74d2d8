//! When each subject is read next. Pure: time comes in, decisions go out.

use super::sources::source;
use crate::observe::{Fault, Reading, Snapshot, SourceHealth};
use crate::units::Millis;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One thing that is read as a whole, independently of every other: a source with the device or
/// interface that is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Name of the source, as in [`SOURCES`](super::sources::SOURCES).
    pub source: &'static str,
    /// Device key or interface; empty where there is only one.
    pub name: String,
}

impl Subject {
    /// A source's subject.
    pub fn new(source: &'static str, name: &str) -> Self {
        let name = name.to_string();
        Subject { source, name }
    }

    /// Whether a hung read of `other` keeps this one from being started.
    fn waits_for(&self, other: &Subject) -> bool {
        if self == other || self.name != other.name {
            return false;
        }
        let this = source(self.source);
        this.is_held_back() && this.scope == source(other.source).scope
    }
}

/// Why a subject is not being read though it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It is queued, and every worker that may take it is stuck.
    NoReader,
    /// Another read of the same device hangs.
    DeviceHangs,
}

/// How often and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Time between two starts.
    pub interval: Duration,
    /// After this long without an answer the subject is stalled.
    pub deadline: Duration,
}

/// When a worker began a read, which it notes itself; tells the reads of a subject apart from those of one
/// that had its name before.
pub type Began = Arc<OnceLock<Millis>>;

/// One subject's place in the schedule.
#[derive(Debug, Clone, Default)]
pub struct Slot {
    pace: Pace,
    due: Millis,
    /// Queued to be read.
    started: Option<Millis>,
    /// When a worker began it.
    began: Began,
    /// Why it is not being read though it is due.
    pub idle: Option<Idle>,
    extra: Vec<Millis>,
    /// Reads that were still out when another was to be started in their place, since one ended.
    abandoned: u32,
    /// `link/0000:19:00.0`, or the source alone where there is only one subject.
    key: Arc<str>,
    /// Reads ended so far.
    pub ended: u64,
    /// How the last one went.
    pub health: SourceHealth,
}

impl Slot {
    /// Whether it may be started when it is due.
    fn is_free(&self) -> bool {
        self.started.is_none() && self.idle.is_none()
    }
}

/// All subjects with their next start.
#[derive(Debug, Default)]
pub struct Schedule {
    slots: BTreeMap<Subject, Slot>,
}

/// After an event, state is read at once and again after these: an rxe port follows its network
/// device up to 20 ms late, and firmware may take its time.
const FOLLOW_UP_MILLIS: [u64; 3] = [10, 40, 200];
/// The last of them.
const LAST_FOLLOW_UP: Duration = Duration::from_millis(200);

/// Reads of one subject that may hang at once: each keeps a worker.
const MAX_ABANDONED: u32 = 3;

/// How much too early a read may start when others are due; never more than a twentieth of its
/// interval.
const SLACK: Duration = Duration::from_millis(250);

/// Something that is gone is looked for again after these, so that a loss is believed within seconds however
/// slow the regular pace; the last one is past the default of `device_missing.gone_after`.
const DOUBT_SECS: [u64; 3] = [4, 8, 16];

impl Schedule {
    /// Adds a subject, due at once, unless it is there already.
    pub fn add(&mut self, subject: Subject, pace: Pace, now: Millis) {
        let health = SourceHealth {
            source: subject.source.into(),
            subject: subject.name.as_str().into(),
            ..SourceHealth::default()
        };
        let key = match subject.name.as_str() {
            "" => subject.source.into(),
            name => format!("{}/{name}", subject.source).into(),
        };
        self.slots.entry(subject).or_insert_with(|| Slot {
            pace,
            due: now,
            key,
            health,
            ..Slot::default()
        });
    }

    /// Reads a subject at once by another reader. Its health stays as it is, and a read that is out is forgotten,
    /// unless too many were.
    pub fn renew(&mut self, subject: &Subject, now: Millis) {
        if let Some(slot) = self.slots.get_mut(subject) {
            slot.due = now;
            if slot.started.is_some() && slot.abandoned < MAX_ABANDONED {
                slot.abandoned += 1;
                (slot.started, slot.began) = (None, Began::default());
            }
        }
    }

    /// Drops subjects for which `keep` says no. A read that is still out is forgotten.
    pub fn retain(&mut self, mut keep: impl FnMut(&Subject) -> bool) {
        self.slots.retain(|subject, _| keep(subject));
    }

    /// Whether the subject is known.
    pub fn contains(&self, subject: &Subject) -> bool {
        self.slots.contains_key(subject)
    }

    /// An event says that the subject may have changed: read now, and a few times soon after.
    pub fn wake(&mut self, subject: &Subject, now: Millis) {
        if let Some(slot) = self.slots.get_mut(subject) {
            slot.due = slot.due.min(now);
            // The last event's follow-ups are enough for those before it; doubts stay.
            let soon = now.plus(LAST_FOLLOW_UP);
            slot.extra.retain(|at| *at > soon);
            let follow_ups = FOLLOW_UP_MILLIS.map(|by| now.plus(Duration::from_millis(by)));
            slot.extra.splice(0..0, follow_ups);
        }
    }

    /// Something that the subject showed before is missing: read again before it is believed.
    pub fn doubt(&mut self, subject: &Subject, now: Millis) {
        if let Some(slot) = self.slots.get_mut(subject) {
            let soon = now.plus(LAST_FOLLOW_UP);
            slot.extra.retain(|at| *at <= soon);
            slot.extra
                .extend(DOUBT_SECS.map(|by| now.plus(Duration::from_secs(by))));
        }
    }

    /// Whether more looks at the subject are to come out of doubt.
    pub fn in_doubt(&self, subject: &Subject, now: Millis) -> bool {
        let soon = now.plus(LAST_FOLLOW_UP);
        (self.slots.get(subject)).is_some_and(|slot| slot.extra.iter().any(|at| *at > soon))
    }

    /// The subjects that have more looks to come out of doubt.
    pub fn doubted(&self, now: Millis) -> Vec<Subject> {
        let doubted = self.slots.keys();
        let doubted = doubted.filter(|subject| self.in_doubt(subject, now));
        doubted.cloned().collect()
    }

    /// Whether an event woke the subject a moment ago, or it is being read again out of doubt.
    pub fn is_woken(&self, subject: &Subject) -> bool {
        (self.slots.get(subject)).is_some_and(|slot| !slot.extra.is_empty())
    }

    /// Subjects to start now. Each is marked as out; a subject that is out is never started again
    /// before it ended, however late it is. Subjects due a moment later are started along with them: fewer
    /// wake-ups.
    pub fn start_due(&mut self, now: Millis) -> Vec<Subject> {
        let mut due = Vec::new();
        self.hold_back();
        let waking = (self.slots.values()).any(|slot| slot.is_free() && slot.due <= now);
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
            slot.began = Began::default();
            due.push(subject.clone());
        }
        due
    }

    /// Holds back subjects of a device that keeps another read, and releases the others.
    fn hold_back(&mut self) {
        let hung: Vec<Subject> = (self.slots.iter())
            .filter(|(_, slot)| slot.health.stalled_since.is_some())
            .map(|(subject, _)| subject.clone())
            .collect();
        for (subject, slot) in &mut self.slots {
            if slot.started.is_none() {
                let held = hung.iter().any(|hung| subject.waits_for(hung));
                slot.idle = held.then_some(Idle::DeviceHangs);
            }
        }
    }

    /// Where the worker that reads the subject notes when it began: its deadline counts from there.
    pub fn began(&self, subject: &Subject) -> Option<&Began> {
        self.slots.get(subject).map(|slot| &slot.began)
    }

    /// A read ended. True if the source's health differs from before, or this was its first answer.
    pub fn end(&mut self, of: &Subject, now: Millis, took: Duration, ended: Reading<()>) -> bool {
        let Some(slot) = self.slots.get_mut(of) else {
            return false;
        };
        let health = &mut slot.health;
        let was_out = health.stalled_since.take().is_some() | slot.idle.take().is_some();
        let before = (health.absent, health.fault.take());
        slot.started = None;
        slot.abandoned = 0;
        slot.ended += 1;
        health.micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        health.absent = ended == Reading::Absent;
        match ended {
            Reading::Failed(fault) => health.fault = Some(fault),
            _ => health.last_ok = Some(now),
        }
        slot.ended == 1 || was_out || before != (health.absent, health.fault.clone())
    }

    /// Marks reads that are out beyond their deadline, and those that no worker started for as long.
    /// True if one was newly marked.
    pub fn mark_stalled(&mut self, now: Millis) -> bool {
        let mut any = false;
        for slot in self.slots.values_mut() {
            let deadline = slot.pace.deadline;
            match (slot.started, slot.began.get().copied()) {
                (Some(_), Some(began)) => {
                    slot.idle = None;
                    if slot.health.stalled_since.is_none() && now.since(began) >= deadline {
                        slot.health.stalled_since = Some(began);
                        any = true;
                    }
                }
                (Some(started), None) if slot.idle.is_none() && now.since(started) >= deadline => {
                    slot.idle = Some(Idle::NoReader);
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
            .filter(|slot| slot.started.is_none() || slot.health.stalled_since.is_none())
            .filter(|slot| slot.idle.is_none())
            .map(|slot| match (slot.started, slot.extra.first()) {
                (Some(started), _) => {
                    let began = slot.began.get().copied();
                    began.unwrap_or(started).plus(slot.pace.deadline)
                }
                (None, Some(extra)) => slot.due.min(*extra),
                (None, None) => slot.due,
            })
            .min()
    }

    /// Since when a subject's read is out, or an earlier one that gave no answer.
    pub fn out_since(&self, subject: &Subject) -> Option<Millis> {
        let slot = self.slots.get(subject)?;
        slot.health.stalled_since.or(slot.started)
    }

    /// Whether nothing is out but what is stalled.
    pub fn quiet(&self) -> bool {
        (self.slots.values()).all(|slot| {
            slot.started.is_none() || slot.health.stalled_since.is_some() || slot.idle.is_some()
        })
    }

    /// Whether every subject has answered at least `times`, or is stalled, held back, absent or
    /// failing.
    pub fn answered(&self, times: impl Fn(&Subject) -> u64) -> bool {
        self.slots.iter().all(|(subject, slot)| {
            slot.ended >= times(subject)
                || slot.health.stalled_since.is_some()
                || slot.idle.is_some()
                || (slot.ended > 0 && (slot.health.absent || slot.health.fault.is_some()))
        })
    }
}

/// The next start on the subject's grid; starts missed meanwhile are left out.
fn next_due(due: Millis, interval: Duration, now: Millis) -> Millis {
    let next = due.plus(interval);
    if next > now { next } else { now.plus(interval) }
}

/// Sources whose health is set by others ([`super::Sampler::set_health`]).
const FOLLOWED_ELSEWHERE: [&str; 3] = ["kernel_log", "pod_logs", "log_files"];

/// Brings the health of every scheduled source up to date; those followed elsewhere stay.
pub fn report_health(snapshot: &mut Snapshot, schedule: &Schedule) {
    let slots = schedule.slots.values();
    let hung = (slots
        .clone()
        .filter(|slot| slot.health.stalled_since.is_some()))
    .count();
    let healths = slots.map(|slot| {
        let mut health = slot.health.clone();
        health.fault = slot.idle.map(|idle| unread(idle, hung)).or(health.fault);
        (Arc::clone(&slot.key), health)
    });
    let before = std::mem::take(&mut snapshot.sources).into_iter();
    let kept = before.filter(|(_, health)| FOLLOWED_ELSEWHERE.contains(&&*health.source));
    snapshot.sources = kept.chain(healths).collect();
}

/// Why a subject that is due is not being read.
fn unread(idle: Idle, hung: usize) -> Fault {
    Fault::other(match idle {
        Idle::NoReader => format!("waits for a free reader: {hung} other reads hang"),
        Idle::DeviceHangs => "not started: another read of this device hangs".to_string(),
    })
}

#[cfg(test)]
mod tests;
