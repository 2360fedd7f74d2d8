//! How long a verdict must stand before the node's taint follows it.

use super::State;
use crate::check::{Finding, PASSES_WITHIN, Status, Weight, debounce::is_about};
use crate::units::Millis;
use serde::Serialize;
use std::{collections::VecDeque, time::Duration};

/// Most clearings that are remembered.
const FLAPS: usize = 31;

/// What the taint should do, as far as the verdict over time says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tainting {
    /// The verdict does not justify a change.
    #[default]
    Keep,
    /// The node has been unready for the hold time.
    Want,
    /// The node has been better for the clear time, or was never unready for long enough.
    Clear,
}

/// How long a verdict must stand, by the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldTimes {
    /// Unready this long before the taint is wanted.
    pub hold: Duration,
    /// Better this long before the taint is removed.
    pub clear: Duration,
    /// Clearing never takes longer than this, however often the node flaps.
    pub clear_max: Duration,
    /// Taints that were cleared within this long make the next one clear later.
    pub flap_window: Duration,
}

/// How long a planned event that shows the same findings takes at most: a firmware reset, a driver that
/// is reloaded. Nothing where one of the findings that decide is none of those, nor about the same part.
pub fn passes_within(findings: &[Finding]) -> Duration {
    let decides = |of: &&Finding| of.weight == Weight::Verdict && of.status == Status::Failing;
    let seconds = |of: &Finding| of.evidence.get(PASSES_WITHIN)?.as_u64();
    let deciding = findings.iter().filter(decides);
    least_wait(deciding.map(|found| (found.key.as_str(), seconds(found))))
}

/// The same of the keys of the findings that decide, each with the seconds that it takes at most.
pub fn least_wait<'a>(deciding: impl Iterator<Item = (&'a str, Option<u64>)> + Clone) -> Duration {
    let of_part = |(key, _)| {
        let parts = deciding.clone().filter(|(part, _)| is_about(key, part));
        parts.filter_map(|(_, seconds)| seconds).max()
    };
    let waits = deciding.clone().map(|found| of_part(found).unwrap_or(0));
    Duration::from_secs(waits.min().unwrap_or(0))
}

/// Follows the verdict over time.
#[derive(Debug, Clone, Default)]
pub struct TaintHysteresis {
    times: HoldTimes,
    wanted: bool,
    /// The least that an unready verdict must stand now: [`passes_within`] of the findings behind it.
    pub patience: Duration,
    /// The taint was found on the Node, and no verdict since said that the node is better.
    adopted: bool,
    /// An operator said that the node is right as it is.
    pub accepted: bool,
    /// How long the verdict has contradicted `wanted`. Time between a known and an unknown verdict
    /// does not count, and an unknown verdict stops the clock.
    stood: Duration,
    /// Whether the last verdict was unready (`None` inside: unknown), and when it was given.
    last: Option<(Option<bool>, Millis)>,
    /// When the taint was cleared, within the flap window.
    clears: VecDeque<Millis>,
}

impl TaintHysteresis {
    /// One that has seen nothing.
    pub fn new(times: HoldTimes) -> Self {
        TaintHysteresis {
            times,
            ..TaintHysteresis::default()
        }
    }

    /// The node carries the taint from before: it then goes only after the clear time.
    pub fn adopt(&mut self, now: Millis) {
        if !self.wanted {
            self.wanted = true;
            self.adopted = true;
            self.stood = Duration::ZERO;
            self.last = Some((Some(true), now));
        }
    }

    /// Takes the verdict of `now`. Before the first full window nothing changes, and unknown changes
    /// nothing either: it stops both waits.
    pub fn update(&mut self, state: State, full_window: bool, now: Millis) -> Tainting {
        if !full_window {
            return Tainting::Keep;
        }
        let unready = match state {
            State::Unready => Some(true),
            State::Ready | State::Degraded => Some(false),
            // Who put the taint saw a fabric.
            State::NoFabric if self.adopted && !self.accepted => None,
            State::NoFabric => Some(false),
            State::Unknown => None,
        };
        self.adopted &= unready != Some(false);
        let counted = match self.last {
            Some((last, at)) if last == unready => now.since(at),
            _ => Duration::ZERO,
        };
        self.last = Some((unready, now));
        match unready {
            Some(unready) if unready == self.wanted => self.stood = Duration::ZERO,
            Some(unready) => {
                self.stood += counted;
                let wait = self.wait(now);
                if self.stood >= wait {
                    self.wanted = unready;
                    self.stood = Duration::ZERO;
                    if !unready {
                        self.clears.push_back(now);
                    }
                }
            }
            None => {}
        }
        match (self.wanted, unready) {
            (true, _) => Tainting::Want,
            (false, None) => Tainting::Keep,
            (false, Some(_)) => Tainting::Clear,
        }
    }

    /// How long a verdict against `wanted` must stand. Each clearing of late doubles the next wait.
    fn wait(&mut self, now: Millis) -> Duration {
        if !self.wanted {
            return self.times.hold.max(self.patience);
        }
        let start = now.minus(self.times.flap_window);
        // Beyond so many, one more makes no difference.
        while self.clears.len() > FLAPS || self.clears.front().is_some_and(|at| *at < start) {
            self.clears.pop_front();
        }
        let doublings = u32::try_from(self.clears.len()).unwrap_or(u32::MAX);
        let factor = 2u32.saturating_pow(doublings);
        (self.times.clear.saturating_mul(factor)).min(self.times.clear_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Degraded, NoFabric, Ready, Unknown, Unready};
    use Tainting::{Clear, Keep, Want};

    const TIMES: HoldTimes = HoldTimes {
        hold: Duration::from_secs(30),
        clear: Duration::from_secs(300),
        clear_max: Duration::from_secs(1200),
        flap_window: Duration::from_secs(36_000),
    };

    /// Verdicts second by second; gives the seconds at which the answer changed.
    fn play(
        hold: &mut TaintHysteresis,
        from: u64,
        verdicts: &[(State, u64)],
    ) -> Vec<(u64, Tainting)> {
        let mut now = from;
        let mut changes: Vec<(u64, Tainting)> = Vec::new();
        for (state, seconds) in verdicts {
            for _ in 0..*seconds {
                let tainting = hold.update(*state, true, Millis(now * 1000));
                if changes.last().is_none_or(|(_, last)| *last != tainting) {
                    changes.push((now, tainting));
                }
                now += 1;
            }
        }
        changes
    }

    #[test]
    fn a_verdict_must_stand() {
        type Row = (&'static [(State, u64)], &'static [(u64, Tainting)]);
        let rows: [Row; 7] = [
            // Held, then cleared after the clear time.
            (
                &[(Ready, 10), (Unready, 60), (Ready, 400)],
                &[(0, Clear), (40, Want), (370, Clear)],
            ),
            // Too short.
            (&[(Ready, 10), (Unready, 29), (Ready, 60)], &[(0, Clear)]),
            // Degraded is not unready: it clears, too.
            (
                &[(Unready, 31), (Degraded, 400)],
                &[(0, Clear), (30, Want), (331, Clear)],
            ),
            // A break starts the hold again.
            (
                &[(Unready, 29), (Ready, 1), (Unready, 40)],
                &[(0, Clear), (60, Want)],
            ),
            // Time not known counts for neither; from the first moment on, it keeps what is there.
            (
                &[(Unknown, 500), (Unready, 20), (Unknown, 500), (Unready, 20)],
                &[
                    (0, Keep),
                    (500, Clear),
                    (520, Keep),
                    (1020, Clear),
                    (1031, Want),
                ],
            ),
            (&[(Unready, 31), (Unknown, 5000)], &[(0, Clear), (30, Want)]),
            (
                &[(Unready, 31), (Ready, 200), (Unknown, 5000), (Ready, 120)],
                &[(0, Clear), (30, Want), (5332, Clear)],
            ),
        ];
        for (verdicts, want) in rows {
            let mut hold = TaintHysteresis::new(TIMES);
            assert_eq!(play(&mut hold, 0, verdicts), want, "{verdicts:?}");
        }
    }

    #[test]
    fn flapping_clears_later_each_time_up_to_the_most() {
        let mut hold = TaintHysteresis::new(TIMES);
        let mut took = Vec::new();
        let mut now = 0;
        for _ in 0..5 {
            let changes = play(&mut hold, now, &[(Unready, 40), (Ready, 2000)]);
            let better = now + 40;
            let cleared = changes
                .iter()
                .find(|(at, what)| *at >= better && *what == Clear);
            took.push(cleared.unwrap().0 - better);
            now += 2040;
        }
        assert_eq!(took, [300, 600, 1200, 1200, 1200]);
    }

    #[test]
    fn a_restart_changes_nothing_until_the_first_window_and_then_waits() {
        let mut hold = TaintHysteresis::new(TIMES);
        assert_eq!(hold.update(Unready, false, Millis(0)), Keep);
        assert_eq!(hold.update(Ready, false, Millis(100_000)), Keep);
        // The taint was found on the node: seeing the node ready is not yet enough.
        hold.adopt(Millis(100_000));
        let changes = play(&mut hold, 100, &[(Ready, 400)]);
        assert_eq!(changes, [(100, Want), (400, Clear)]);
        // Adopting what is wanted anyhow changes nothing.
        play(&mut hold, 1000, &[(Unready, 40)]);
        hold.adopt(Millis(1_040_000));
        assert_eq!(hold.update(Unready, true, Millis(1_041_000)), Want);
    }

    #[test]
    fn an_adopted_taint_outlives_the_fabric_until_an_operator_accepts_that() {
        let mut hold = TaintHysteresis::new(TIMES);
        hold.adopt(Millis(0));
        assert_eq!(play(&mut hold, 1, &[(NoFabric, 400)]), [(1, Want)]);
        hold.accepted = true;
        let changes = play(&mut hold, 401, &[(NoFabric, 400)]);
        assert_eq!(changes, [(401, Want), (701, Clear)]);
    }

    #[test]
    fn what_a_planned_event_shows_taints_later() {
        let mut hold = TaintHysteresis::new(TIMES);
        hold.patience = Duration::from_secs(90);
        let changes = play(&mut hold, 0, &[(Ready, 10), (Unready, 60)]);
        assert_eq!(changes, [(0, Clear)]);
        // Another fault on top of it counts from when the node was unready first.
        hold.patience = Duration::ZERO;
        assert_eq!(play(&mut hold, 70, &[(Unready, 1)]), [(70, Want)]);
    }

    #[test]
    fn no_hold_is_at_once() {
        let mut hold = TaintHysteresis::new(HoldTimes {
            hold: Duration::ZERO,
            ..TIMES
        });
        assert_eq!(hold.update(Unready, true, Millis(5)), Want);
    }
}
