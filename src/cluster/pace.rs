//! How fast: waits after failures, and writes while a verdict flaps. Chance and time are inputs.

use crate::units::Millis;
use std::time::Duration;

/// Times that are no settings; tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a request may take.
    pub deadline: Duration,
    /// How long a page of the list of all nodes may take.
    pub list_deadline: Duration,
    /// First and longest wait after a failure.
    pub backoff: (Duration, Duration),
    /// The same where a right is missing: somebody may grant it.
    pub forbidden: (Duration, Duration),
    /// The object is read anew when nothing was heard of it for this long.
    pub resync: Duration,
    /// Words of the condition alone are written at most this often.
    pub words_every: Duration,
    /// Changes of labels and condition that are written at once; then one every `refill`. As many,
    /// counted apart, of the taints.
    pub at_once: u32,
    /// See `at_once`.
    pub refill: Duration,
    /// While the taint is withheld, the budget is looked at after this long, later and later.
    pub ask_again: (Duration, Duration),
    /// While another node counts the group, or the ledger is fought over.
    pub busy: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            deadline: Duration::from_secs(10),
            list_deadline: Duration::from_secs(30),
            backoff: (Duration::from_millis(500), Duration::from_secs(60)),
            forbidden: (Duration::from_secs(5), Duration::from_secs(600)),
            resync: Duration::from_secs(600),
            words_every: Duration::from_secs(60),
            at_once: 10,
            refill: Duration::from_secs(30),
            ask_again: (Duration::from_secs(5), Duration::from_secs(60)),
            busy: Duration::from_millis(400),
        }
    }
}

/// Waits after failures: doubling, with jitter, so that a thousand agents do not come back at once.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Nothing has failed yet.
    pub fn new((first, longest): (Duration, Duration)) -> Self {
        Backoff {
            first,
            longest,
            failures: 0,
        }
    }

    /// The wait after one more failure; `chance` is from 0 to 1. Not shorter than what the server
    /// asked for.
    pub fn after(&mut self, chance: f64, asked: Option<Duration>) -> Duration {
        let wait = self
            .first
            .saturating_mul(2u32.saturating_pow(self.failures))
            .min(self.longest);
        self.failures = (self.failures + 1).min(16);
        let wait = wait.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0));
        wait.max(asked.unwrap_or_default().min(Duration::from_secs(60)))
    }

    /// It went well.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Writes that may be made at once, and one more every so often: a token bucket.
#[derive(Debug, Clone)]
pub struct Allowance {
    tokens: f64,
    most: f64,
    every: Duration,
    at: Millis,
}

impl Allowance {
    /// Full.
    pub fn new(most: u32, every: Duration, now: Millis) -> Self {
        Allowance {
            tokens: f64::from(most),
            most: f64::from(most),
            every,
            at: now,
        }
    }

    /// Takes one, or says how long there is none.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn take(&mut self, now: Millis) -> Result<(), Duration> {
        self.look(now)?;
        self.tokens -= 1.0;
        Ok(())
    }

    /// As [`Allowance::take`], taking none.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn look(&mut self, now: Millis) -> Result<(), Duration> {
        let every = self.every.as_secs_f64();
        let gained = now.since(self.at).as_secs_f64() / every;
        self.tokens = (self.tokens + gained).min(self.most);
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) * every))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_spread() {
        let limits = Limits::default();
        let mut late = Backoff::new(limits.backoff);
        let waits: Vec<u128> = (0..9).map(|_| late.after(1.0, None).as_millis()).collect();
        assert_eq!(
            waits,
            [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
        );
        late.reset();
        assert_eq!(late.after(0.0, None), Duration::from_millis(250));
        let asked = Some(Duration::from_secs(20));
        assert_eq!(late.after(0.5, asked), Duration::from_secs(20));
        for _ in 0..100 {
            assert!(late.after(1.0, None) <= limits.backoff.1);
        }
    }

    #[test]
    fn a_flap_is_written_a_few_times_and_then_now_and_then() {
        let mut pace = Allowance::new(3, Duration::from_secs(30), Millis(0));
        let taken = (0..600).filter(|second| pace.take(Millis(second * 1000)).is_ok());
        assert_eq!(taken.count(), 3 + 19);
        let mut empty = Allowance::new(1, Duration::from_secs(30), Millis(0));
        assert_eq!(empty.take(Millis(0)), Ok(()));
        assert_eq!(empty.take(Millis(10_000)), Err(Duration::from_secs(20)));
    }
}
