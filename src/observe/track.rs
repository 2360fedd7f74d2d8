//! One counter over time.

use super::CounterKind;
use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};

/// Increases kept a counter. Healthy error counters hold none; a busy counter's oldest are merged.
const MAX_STEPS: usize = 96;

/// Longest time that increases are kept for.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// Increases kept over a restart of the agent, from so long ago at most.
const MAX_KEPT: usize = 16;
const KEPT: Duration = Duration::from_secs(3600);

/// A stretch of time that ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// End of the window, in monotonic milliseconds.
    pub now: Millis,
    /// Length of the window.
    pub length: Duration,
}

impl Window {
    /// The last `length` before `now`.
    pub fn last(length: Duration, now: Millis) -> Self {
        Window { now, length }
    }

    /// Start of the window; 0 if the window is longer than the clock has run.
    pub fn start(self) -> Millis {
        self.now.minus(self.length)
    }
}

/// How much a counter rose within a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Increase {
    /// By how much, at least (a reset inside the window hides what came before it).
    pub by: u64,
    /// How much of the window has been watched.
    pub over: Duration,
}

/// One counter's past. The default is a wide counter without samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    kind: CounterKind,
    baseline: Option<Millis>,
    last: Option<(Millis, u64)>,
    previous: Option<Millis>,
    last_by: u64,
    rebased: bool,
    steps: VecDeque<TrackStep>,
}

/// What a counter rose by between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct TrackStep {
    from: Millis,
    at: Millis,
    by: u64,
}

impl TrackStep {
    /// What counts of it in a window that it ends in: of a rise over a gap in the samples that is longer than the
    /// window, the part that lies in it, rounded up.
    fn within(self, window: Window) -> u64 {
        let whole = self.at.since(self.from);
        if whole <= window.length {
            return self.by;
        }
        let part = self.at.since(window.start().max(self.from));
        let share = u128::from(self.by) * part.as_millis();
        u64::try_from(share.div_ceil(whole.as_millis())).unwrap_or(u64::MAX)
    }
}

impl Track {
    /// A track without samples: the first one is the baseline.
    pub fn new(kind: CounterKind) -> Self {
        Track {
            kind,
            ..Track::default()
        }
    }

    /// Makes the next sample a baseline; what it rose by before stays.
    pub fn rebase(&mut self) {
        self.rebased = true;
    }

    /// Adds a sample and returns the increase since the one before. The first is a baseline (0). A
    /// value below the last is a wrap where the counter wraps and was past half of its range, else a
    /// reset, which is a new baseline. A sample not newer than the last one changes nothing.
    pub fn push(&mut self, at: Millis, value: u64) -> u64 {
        self.push_with(at, value, false)
    }

    /// The same; where the sample's source was `reset`, a value below the last is not a wrap.
    pub fn push_with(&mut self, at: Millis, value: u64, reset: bool) -> u64 {
        // What is beyond its nominal end is wider than that (extended counters).
        if matches!(self.kind, CounterKind::Saturating { max } if value > max) {
            self.kind = CounterKind::Wide;
        }
        let Some((last_at, last)) = self.last else {
            self.baseline = Some(at);
            self.last = Some((at, value));
            return 0;
        };
        if at <= last_at {
            return 0;
        }
        let by = match self.kind {
            CounterKind::Gauge => 0,
            _ if std::mem::take(&mut self.rebased) => 0,
            _ if value >= last => value - last,
            CounterKind::Wrapping { max } if !reset && last > max / 2 && value <= max / 2 => {
                (max - last.min(max)) + value + 1
            }
            _ => 0,
        };
        self.previous = Some(last_at);
        self.last = Some((at, value));
        self.last_by = by;
        if by > 0 {
            let from = last_at;
            self.steps.push_back(TrackStep { from, at, by });
            let keep_from = at.minus(KEEP);
            while (self.steps.front()).is_some_and(|step| step.at < keep_from) {
                self.steps.pop_front();
            }
            merge_oldest(&mut self.steps, MAX_STEPS);
        }
        by
    }

    /// Last raw value read; `None` before the first sample.
    pub fn value(&self) -> Option<u64> {
        self.last.map(|(_, value)| value)
    }

    /// What to keep of it over a restart of the agent.
    pub fn to_keep(&self) -> Option<Track> {
        let (at, _) = self.last?;
        let recent = self.steps.iter().filter(|step| at.since(step.at) < KEPT);
        let mut steps: VecDeque<TrackStep> = recent.copied().collect();
        merge_oldest(&mut steps, MAX_KEPT);
        Some(Track {
            previous: Some(at),
            last_by: 0,
            steps,
            ..self.clone()
        })
    }

    /// Whether it rose within the last hour that it was read.
    pub fn rose_recently(&self) -> bool {
        let last = self.steps.back();
        last.is_some_and(|step| (self.last_at()).is_some_and(|at| at.since(step.at) < KEPT))
    }

    /// Moment of the last sample.
    pub fn last_at(&self) -> Option<Millis> {
        self.last.map(|(at, _)| at)
    }

    /// Whether a value is below the last one, which a counter does by a wrap or a reset only.
    pub fn falls(&self, value: u64) -> bool {
        self.kind != CounterKind::Gauge && self.value().is_some_and(|last| value < last)
    }

    /// At its maximum and stuck there: further deltas are blind zeros.
    pub fn saturated(&self) -> bool {
        matches!((self.kind, self.last), (CounterKind::Saturating { max }, Some((_, value))) if value >= max)
    }

    /// Increase within the window; none until two samples exist, and none of a gauge.
    pub fn increase(&self, window: Window) -> Option<Increase> {
        self.increase_of(window, |_, _| true)
    }

    /// The same over only those samples for which `counts(previous sample's time, own time)` holds.
    pub fn increase_of(
        &self,
        window: Window,
        counts: impl Fn(Millis, Millis) -> bool,
    ) -> Option<Increase> {
        if self.kind == CounterKind::Gauge {
            return None;
        }
        self.previous?;
        let start = window.start();
        let steps = self.steps.iter();
        let steps = steps.filter(|step| step.at > start && counts(step.from, step.at));
        let by = (steps.map(|step| step.within(window))).fold(0, u64::saturating_add);
        let over = window.now.since(self.baseline?.max(start));
        Some(Increase { by, over })
    }

    /// Increase of the last sample over the one before it, and the time between.
    pub fn last_step(&self) -> Option<Increase> {
        let (by, over) = (self.last_by, self.last_at()?.since(self.previous?));
        Some(Increase { by, over })
    }
}

/// Merges the oldest under the later moment, so that sums over long windows stay right.
fn merge_oldest(steps: &mut VecDeque<TrackStep>, most: usize) {
    while steps.len() > most {
        if let Some(oldest) = steps.pop_front()
            && let Some(next) = steps.front_mut()
        {
            next.by = next.by.saturating_add(oldest.by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U32: CounterKind = CounterKind::Wrapping {
        max: u32::MAX as u64,
    };

    fn pushed(kind: CounterKind, values: &[u64]) -> (Track, Vec<u64>) {
        let mut track = Track::new(kind);
        let by = values
            .iter()
            .enumerate()
            .map(|(i, value)| track.push(Millis::from_secs(10 * (i as u64 + 1)), *value))
            .collect();
        (track, by)
    }

    #[test]
    fn increases() {
        type Row = (&'static str, CounterKind, &'static [u64], &'static [u64]);
        let rows: [Row; 6] = [
            (
                "first is a baseline, however big",
                CounterKind::Wide,
                &[9999, 9999, 10004],
                &[0, 0, 5],
            ),
            (
                "a reset is a new baseline",
                CounterKind::Wide,
                &[100, 3, 7],
                &[0, 0, 4],
            ),
            (
                "firmware u32 wraps",
                U32,
                &[u32::MAX as u64 - 4, 5],
                &[0, 10],
            ),
            (
                "a small fall of a wrapping counter is a reset",
                U32,
                &[1000, 10, 12],
                &[0, 0, 2],
            ),
            (
                "cleared by hand",
                CounterKind::Saturating { max: 15 },
                &[15, 0, 1],
                &[0, 0, 1],
            ),
            (
                "gauges have no increase",
                CounterKind::Gauge,
                &[5, 50, 5],
                &[0, 0, 0],
            ),
        ];
        for (name, kind, values, want) in rows {
            let (_, got) = pushed(kind, values);
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_wrap_leads_from_the_upper_half_to_the_lower() {
        const MAX: u64 = u32::MAX as u64;
        const HALF: u64 = MAX / 2;
        for (last, value, want) in [
            (HALF, 0, 0),
            (HALF + 1, 0, MAX - HALF),
            (MAX, HALF, HALF + 1),
            (MAX, HALF + 1, 0),
            (MAX, MAX, 0),
        ] {
            let (_, by) = pushed(U32, &[last, value]);
            assert_eq!(by, [0, want], "{last} {value}");
        }
        let (track, _) = pushed(U32, &[5]);
        assert!(track.falls(4) && !track.falls(5));
        assert!(!pushed(CounterKind::Gauge, &[5]).0.falls(4));
    }

    #[test]
    fn what_is_kept_goes_on_after_a_restart() {
        let mut track = Track::new(CounterKind::Wide);
        for (at, value) in [(1000, 5), (1015, 9), (1030, 9)] {
            track.push(Millis::from_secs(at), value);
        }
        let mut kept = track.to_keep().unwrap();
        let hour = |track: &Track, now| {
            let window = Window::last(Duration::from_secs(3600), Millis::from_secs(now));
            track.increase(window).map(|rise| rise.by)
        };
        assert_eq!(hour(&kept, 1060), Some(4));
        kept.push(Millis::from_secs(1060), 12);
        assert_eq!(hour(&kept, 1060), Some(7));
    }

    #[test]
    fn a_rise_over_a_gap_is_spread_over_it() {
        let mut track = Track::new(CounterKind::Wide);
        track.push(Millis::from_secs(100), 0);
        track.push(Millis::from_secs(700), 1200);
        let minute = Window::last(Duration::from_secs(60), Millis::from_secs(700));
        assert_eq!(track.increase(minute).unwrap().by, 120);
        // One is never none.
        track.push(Millis::from_secs(1300), 1201);
        let minute = Window::last(Duration::from_secs(60), Millis::from_secs(1300));
        assert_eq!(track.increase(minute).unwrap().by, 1);
    }

    #[test]
    fn a_device_that_came_back_begins_again() {
        let mut track = Track::new(U32);
        track.push(Millis(1), 3_000_000_000);
        track.push(Millis(2), 3_000_000_007);
        track.rebase();
        assert_eq!(
            [track.push(Millis(3), 40), track.push(Millis(4), 41)],
            [0, 1]
        );
    }

    #[test]
    fn a_source_that_was_reset_does_not_wrap() {
        let mut track = Track::new(U32);
        track.push(Millis(1), 3_000_000_000);
        assert_eq!(track.push_with(Millis(2), 17, true), 0);
        assert_eq!(track.push(Millis(3), 18), 1);
    }

    #[test]
    fn a_counter_beyond_its_nominal_end_is_wider() {
        let (track, by) = pushed(CounterKind::Saturating { max: 255 }, &[250, 300, 255]);
        assert_eq!(by, [0, 50, 0]);
        assert!(!track.saturated());
    }

    #[test]
    fn saturation_shows_and_is_no_increase() {
        let (track, by) = pushed(CounterKind::Saturating { max: 15 }, &[14, 15, 15]);
        assert_eq!(by, [0, 1, 0]);
        assert!(track.saturated());
        let (track, _) = pushed(CounterKind::Wide, &[u64::MAX]);
        assert!(!track.saturated());
    }

    #[test]
    fn windows_take_only_what_is_inside_and_tell_how_much_was_watched() {
        let (track, _) = pushed(CounterKind::Wide, &[0, 4, 4, 6]);
        let now = Millis::from_secs(40);
        let wide = track.increase(Window::last(Duration::from_secs(3600), now));
        assert_eq!(
            wide,
            Some(Increase {
                by: 6,
                over: Duration::from_secs(30)
            })
        );
        let narrow = track.increase(Window::last(Duration::from_secs(15), now));
        assert_eq!(
            narrow,
            Some(Increase {
                by: 2,
                over: Duration::from_secs(15)
            })
        );
        let (one, _) = pushed(CounterKind::Wide, &[77]);
        assert_eq!(one.increase(Window::last(KEEP, now)), None);
    }

    #[test]
    fn a_window_begins_after_its_start() {
        let (track, _) = pushed(CounterKind::Wide, &[0, 4, 4, 6]);
        let by = |secs, now| {
            let window = Window::last(Duration::from_secs(secs), Millis::from_secs(now));
            track.increase(window).unwrap().by
        };
        assert_eq!((by(20, 40), by(21, 40), by(0, 40)), (2, 6, 0));
    }

    #[test]
    fn memory_is_bounded_and_sums_stay_right() {
        let mut track = Track::new(CounterKind::Wide);
        for i in 0..10_000u64 {
            track.push(Millis::from_secs(i + 1), i * 3);
        }
        assert!(track.steps.len() <= MAX_STEPS);
        let all = track
            .increase(Window::last(KEEP, Millis::from_secs(10_000)))
            .unwrap();
        assert_eq!(all.by, 9_999 * 3);
    }

    #[test]
    fn the_same_sample_twice_changes_nothing() {
        let mut track = Track::new(CounterKind::Wide);
        track.push(Millis(1), 1);
        track.push(Millis(2), 5);
        assert_eq!(track.push(Millis(2), 5), 0);
        assert_eq!(track.last_step().unwrap().by, 4);
    }
}
