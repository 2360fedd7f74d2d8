//! Waits before believing: the one hysteresis machine, used by every check.
//!
//! - **Identity** is (check, key, reason, whether it is an Unknown). One fault is never cleared by
//!   another's recovery, and time spent not knowing never counts towards a failure.
//! - **Raise**: a candidate must stand for its `raise_after` without a break. A break, however
//!   short, starts the wait again: what comes and goes is the flap check's subject.
//! - **Hold**: once raised, a finding stands for at least [`Hysteresis::hold`].
//! - **Clear**: it must be gone for its `clear_after` without a break. If it comes back sooner, the
//!   same stretch goes on and `since` stays.
//! - **Flapping lengthens**: a finding that was cleared [`Hysteresis::flap_count`] times within
//!   [`Hysteresis::flap_window`] waits twice as long to clear, then four times, up to
//!   [`Hysteresis::flap_max_factor`].
//! - **Unknown neither raises nor clears.** While a check says Unknown of a key, what it said of
//!   that key before stays where it was, raised or waiting; the clock of both waits stops. An
//!   Unknown with an empty key ([`WHOLE_NODE`]) stands for every key of its check, and
//!   [`Candidate::unseen`], which is not shown, for one reason, or without one for all that any check
//!   says of a part. Only an operator who accepts the machine as it is ([`Debouncer::accept`]) lets it
//!   clear.

use super::{Candidate, Finding, Reason, Status, Weight};
use crate::settings_macro::section;
use crate::units::{Millis, Span};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Key of a candidate that speaks for all keys of its check.
pub const WHOLE_NODE: &str = "";

/// Identities kept, with those that are remembered only for flap counting.
const MAX_KEYS: usize = 2048;

section! {
    /// Settings of the machine that all checks share.
    Hysteresis {
        /// A raised finding stands at least this long.
        hold: Span = Span::from_secs(15),
        /// Clears are counted over this long.
        flap_window: Span = Span::from_secs(3600),
        /// From this many clears within the window on, clearing takes longer; 0: never.
        flap_count: u32 = 3,
        /// Clearing never takes more than this many times as long.
        flap_max_factor: u32 = 8,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    check: &'static str,
    key: String,
    reason: Reason,
    unknown: bool,
}

impl Identity {
    fn of(candidate: &Candidate) -> Self {
        Identity {
            check: candidate.check,
            key: candidate.key.clone(),
            reason: candidate.reason,
            unknown: candidate.status == Status::Unknown,
        }
    }
}

/// What a step saw of one identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sight {
    Present,
    #[default]
    Absent,
    /// The check cannot tell.
    Blind,
}

#[derive(Debug, Clone, Default)]
enum Progress {
    /// Seen, not yet believed; for how long it was seen to stand.
    Pending { stood: Duration },
    /// Believed; for how long it was seen to be gone, if it is.
    Raised { at: Millis, gone: Option<Duration> },
    /// Remembered for flap counting only.
    #[default]
    Cleared,
}

#[derive(Debug, Clone, Default)]
struct Known {
    phase: Progress,
    since: Millis,
    last: Sight,
    clears: VecDeque<Millis>,
    /// The machine was accepted as it was then, and this was not seen since.
    accepted: bool,
    /// An earlier run believed it, and this one has not seen it.
    restored: bool,
    candidate: Candidate,
}

/// The machine with its memory.
#[derive(Debug, Clone, Default)]
pub struct Debouncer {
    settings: Hysteresis,
    entries: BTreeMap<Identity, Known>,
    stepped_at: Option<Millis>,
    /// Every source has answered: what is not seen then is gone.
    pub full_window: bool,
}

impl Debouncer {
    /// A machine that has seen nothing.
    pub fn new(settings: Hysteresis) -> Self {
        Debouncer {
            settings,
            ..Debouncer::default()
        }
    }

    /// Takes what the checks say at `now` and gives what is believed, worst first.
    pub fn step(&mut self, candidates: Vec<Candidate>, now: Millis) -> Vec<Finding> {
        let passed = self.stepped_at.map_or(Duration::ZERO, |at| now.since(at));
        self.stepped_at = Some(self.stepped_at.map_or(now, |at| at.max(now)));

        let (unseen, candidates): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|of| of.unseen);
        let (away, unseen): (Vec<_>, Vec<_>) =
            unseen.into_iter().partition(|of| of.reason.is_empty());
        let unseen: BTreeSet<Identity> = unseen.iter().map(Identity::of).collect();
        let (unread, away): (Vec<_>, Vec<_>) =
            away.into_iter().partition(|of| of.key == WHOLE_NODE);
        let is_unseen = |id: &Identity| {
            unseen.contains(id) || away.iter().any(|part| is_about(&id.key, &part.key))
        };
        let unknown = (candidates.iter()).filter(|of| of.status == Status::Unknown);
        let blind = unknown.chain(&unread).map(|of| (of.check, of.key.clone()));
        let blind: BTreeSet<(&'static str, String)> = blind.collect();
        // `run_all` gives each once.
        let present = candidates.into_iter().map(|of| (Identity::of(&of), of));
        let mut present: BTreeMap<Identity, Candidate> = present.collect();

        self.entries.retain(|id, entry| {
            let seen = match present.remove(id) {
                Some(candidate) => {
                    entry.candidate = candidate;
                    (entry.accepted, entry.restored) = (false, false);
                    Sight::Present
                }
                None if entry.accepted => Sight::Absent,
                None if entry.restored && !self.full_window => Sight::Blind,
                None if is_unseen(id) || (!id.unknown && is_blind(&blind, id)) => Sight::Blind,
                None => Sight::Absent,
            };
            entry.step(seen, passed, now, &self.settings)
        });
        self.admit(present, now);

        let mut findings: Vec<Finding> = self.entries.values().filter_map(Known::finding).collect();
        worst_first(&mut findings);
        findings
    }

    /// What is believed, but for what is unknown, which a later run finds out again.
    pub fn standing(&self) -> impl Iterator<Item = Finding> + '_ {
        let entries = self.entries.values().filter(|entry| !entry.accepted);
        let standing = entries.filter_map(Known::finding);
        standing.filter(|finding| finding.status > Status::Unknown)
    }

    /// Believes what an earlier run believed. What is gone once every source has answered clears at once: it
    /// may have healed long ago.
    pub fn restore(&mut self, findings: impl Iterator<Item = Finding>, now: Millis) {
        for mut candidate in findings.take(MAX_KEYS) {
            candidate.timing.clear_after = Duration::ZERO;
            let since = candidate.since.min(now);
            let known = Known {
                phase: Progress::Raised {
                    at: since,
                    gone: None,
                },
                since,
                last: Sight::Blind,
                restored: true,
                candidate,
                ..Known::default()
            };
            self.entries.insert(Identity::of(&known.candidate), known);
        }
    }

    /// The worst that waits to be raised and would move the verdict; none if nothing waits.
    pub fn waiting(&self) -> Option<Status> {
        let waits = |entry: &&Known| matches!(entry.phase, Progress::Pending { .. });
        let waiting = self.entries.values().filter(waits).map(|of| &of.candidate);
        let moving = waiting.filter(|candidate| candidate.weight == Weight::Verdict);
        moving.map(|candidate| candidate.status).max()
    }

    /// Whether anything that would move the verdict waits to be raised, or is raised.
    pub fn has_faults(&self) -> bool {
        let counts = |entry: &Known| entry.candidate.weight == Weight::Verdict;
        let stands = |entry: &Known| !matches!(entry.phase, Progress::Cleared);
        let mut entries = self.entries.values();
        entries.any(|entry| stands(entry) && counts(entry))
    }

    /// The nearest moment at which a finding is raised or clears if the checks go on saying the same;
    /// none if time alone changes nothing.
    pub fn next_change(&self) -> Option<Millis> {
        let now = self.stepped_at?;
        let waits = (self.entries.values()).filter_map(|entry| entry.wait(now, &self.settings));
        waits.min().map(|wait| now.plus(wait))
    }

    /// The machine is right as it is now: what is not seen again clears, even where its check can no
    /// longer tell, as what it would go by is forgotten.
    pub fn accept(&mut self) {
        (self.entries.values_mut()).for_each(|entry| entry.accepted = true);
    }

    fn admit(&mut self, new: BTreeMap<Identity, Candidate>, now: Millis) {
        let mut new: Vec<_> = new.into_iter().collect();
        new.sort_by_key(|(_, candidate)| std::cmp::Reverse((candidate.weight, candidate.status)));
        for (id, candidate) in new {
            if self.entries.len() >= MAX_KEYS && !self.drop_oldest_cleared() {
                continue;
            }
            let mut entry = Known {
                candidate,
                ..Known::default()
            };
            entry.step(Sight::Present, Duration::ZERO, now, &self.settings);
            self.entries.insert(id, entry);
        }
    }

    fn drop_oldest_cleared(&mut self) -> bool {
        let is_cleared = |(_, entry): &(_, &Known)| matches!(entry.phase, Progress::Cleared);
        let cleared = self.entries.iter().filter(is_cleared);
        let oldest = cleared.min_by_key(|(_, entry)| entry.clears.back().copied());
        let oldest = oldest.map(|(id, _)| id.clone());
        oldest.is_some_and(|id| self.entries.remove(&id).is_some())
    }
}

impl Known {
    /// Moves on by one step; false when there is nothing left to remember.
    fn step(&mut self, seen: Sight, passed: Duration, now: Millis, settings: &Hysteresis) -> bool {
        let window_start = now.minus(settings.flap_window.duration());
        while self.clears.front().is_some_and(|at| *at < window_start) {
            self.clears.pop_front();
        }
        // Only time between two like sightings has been seen; what lies next to a blind one has not.
        let counted = match self.last == seen {
            true => passed,
            false => Duration::ZERO,
        };
        self.last = seen;
        let clear_after = self.clear_after(settings);
        match (&mut self.phase, seen) {
            (Progress::Cleared, Sight::Present) => {
                self.since = now;
                self.stands(Duration::ZERO, now);
            }
            (Progress::Pending { stood }, Sight::Present) => {
                let stood = *stood + counted;
                self.stands(stood, now);
            }
            (Progress::Pending { .. }, Sight::Absent) => self.phase = Progress::Cleared,
            (Progress::Raised { gone, .. }, Sight::Present) => *gone = None,
            (Progress::Raised { at, gone }, Sight::Absent) => {
                let gone_for = gone.map_or(Duration::ZERO, |gone| gone + counted);
                *gone = Some(gone_for);
                let held = now.since(*at) >= settings.hold.duration();
                if held && gone_for >= clear_after {
                    self.phase = Progress::Cleared;
                    self.clears.push_back(now);
                    // More would not change the factor.
                    while self.clears.len() > 64 {
                        self.clears.pop_front();
                    }
                }
            }
            (_, Sight::Blind) | (Progress::Cleared, Sight::Absent) => {}
        }
        !(matches!(self.phase, Progress::Cleared) && self.clears.is_empty())
    }

    /// How much longer the same sightings must go on until it is raised or clears.
    fn wait(&self, now: Millis, settings: &Hysteresis) -> Option<Duration> {
        match (&self.phase, self.last) {
            (Progress::Pending { stood }, Sight::Present) => {
                Some(self.candidate.timing.raise_after.saturating_sub(*stood))
            }
            (Progress::Raised { at, gone }, Sight::Absent) => {
                let held = settings.hold.duration().saturating_sub(now.since(*at));
                let left = self.clear_after(settings).saturating_sub((*gone)?);
                Some(left.max(held))
            }
            _ => None,
        }
    }

    /// Has stood so long: it is raised, or waits.
    fn stands(&mut self, stood: Duration, now: Millis) {
        self.phase = match stood >= self.candidate.timing.raise_after {
            true => Progress::Raised {
                at: now,
                gone: None,
            },
            false => Progress::Pending { stood },
        };
    }

    /// How long it must be gone: the more often it cleared of late, the longer. One that clears at once and
    /// comes again is held first, so that there is something to lengthen.
    fn clear_after(&self, settings: &Hysteresis) -> Duration {
        let clear_after = self.candidate.timing.clear_after;
        let beyond = (self.clears.len() as u32).checked_sub(settings.flap_count);
        let factor = match beyond.filter(|_| settings.flap_count > 0) {
            Some(beyond) => 2u32.saturating_pow(beyond.saturating_add(1)),
            None => 1,
        };
        match factor.min(settings.flap_max_factor.max(1)) {
            1 => clear_after,
            factor => (clear_after.max(settings.hold.duration())).saturating_mul(factor),
        }
    }

    fn finding(&self) -> Option<Finding> {
        let is_raised = matches!(self.phase, Progress::Raised { .. });
        is_raised.then(|| Finding {
            since: self.since,
            ..self.candidate.clone()
        })
    }
}

/// Whether a key is a part's: it begins with the part's own.
pub fn is_about(key: &str, part: &str) -> bool {
    (key.strip_prefix(part)).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

fn is_blind(blind: &BTreeSet<(&'static str, String)>, id: &Identity) -> bool {
    blind.contains(&(id.check, id.key.clone())) || blind.contains(&(id.check, WHOLE_NODE.into()))
}

/// Believes everything at once: for `selvage check`, which looks once and cannot wait. But what has to
/// stand longer than the machine is up has not: it is unknown.
pub fn step_once(mut candidates: Vec<Candidate>, now: Millis) -> Vec<Finding> {
    for candidate in &mut candidates {
        if candidate.timing.raise_after > now.since(Millis(0)) {
            candidate.status = Status::Unknown;
        }
        candidate.timing.raise_after = Duration::ZERO;
    }
    Debouncer::default().step(candidates, now)
}

/// Worst first; the verdict's before notices; then by check, subject, reason.
pub fn worst_first(findings: &mut [Finding]) {
    fn rank(of: &Finding) -> impl Ord {
        // The order in which the fold lets them decide.
        let mut worst = Status::WORST_FIRST.iter();
        let status = worst.position(|status| *status == of.status);
        let identity = (of.check, &of.subject, &of.key, of.reason);
        (std::cmp::Reverse(of.weight), status, identity)
    }
    findings.sort_by(|a, b| rank(a).cmp(&rank(b)));
}

#[cfg(test)]
mod tests;
