//! How fast: deadlines, waits after errors, and how often the Node may be written.

use backon::ExponentialBuilder;
use kube::runtime::watcher::ExponentialBackoff;
use std::time::Duration;
use tokio::time::Instant;

/// Times that are not settings; tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Deadline of a request.
    pub deadline: Duration,
    /// Deadline of one page of a list.
    pub list_deadline: Duration,
    /// A connection that carries nothing for this long is dead. Longer than the API server leaves a
    /// watch open.
    pub idle: Duration,
    /// First and longest wait after an error.
    pub backoff: (Duration, Duration),
    /// The same where a permission is missing: an administrator may grant it.
    pub forbidden: (Duration, Duration),
    /// The Node is read again after this long without news of it.
    pub resync: Duration,
    /// A condition whose message alone differs is written at most this often.
    pub message_every: Duration,
    /// Changes of labels and condition that are written at once; then one every `refill`. The
    /// taints, and events on pods, have as many of their own.
    pub burst: u32,
    /// Interval at which one more write is allowed, see `burst`.
    pub refill: Duration,
    /// While the taint is withheld, the budget is asked again after the first, at last the second.
    pub budget_backoff: (Duration, Duration),
    /// Wait while another node counts the group, or the ledger is contended.
    pub busy: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            deadline: Duration::from_secs(10),
            list_deadline: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            backoff: (Duration::from_millis(500), Duration::from_secs(60)),
            forbidden: (Duration::from_secs(5), Duration::from_secs(600)),
            resync: Duration::from_secs(600),
            message_every: Duration::from_secs(60),
            burst: 10,
            refill: Duration::from_secs(30),
            budget_backoff: (Duration::from_secs(5), Duration::from_secs(60)),
            busy: Duration::from_millis(400),
        }
    }
}

/// Waits that double from `first` to `longest`, each shortened by up to half at random, so that a
/// thousand agents do not come back at once.
pub(super) fn backoff((first, longest): (Duration, Duration)) -> ExponentialBackoff {
    // The jitter is added: up to as much again.
    ExponentialBuilder::default()
        .with_min_delay(first / 2)
        .with_max_delay(longest / 2)
        .with_factor(2.0)
        .with_jitter()
        .without_max_times()
        .into()
}

/// A token bucket: so many writes at once, then one every so often.
#[derive(Debug, Clone)]
pub(super) struct RateLimit {
    burst: u32,
    refill: Duration,
    /// When the bucket is full again.
    full_at: Instant,
}

impl RateLimit {
    /// A bucket that is full now.
    pub fn new(limits: &Limits, now: Instant) -> Self {
        RateLimit {
            burst: limits.burst,
            refill: limits.refill,
            full_at: now,
        }
    }

    /// How long until a token is there; zero if one is.
    pub fn wait(&self, now: Instant) -> Duration {
        let spare = self.refill * self.burst.saturating_sub(1);
        self.full_at
            .saturating_duration_since(now)
            .saturating_sub(spare)
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        match self.wait(now) {
            Duration::ZERO => {
                self.full_at = self.full_at.max(now) + self.refill;
                Ok(())
            }
            wait => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::utils::Backoff;

    #[test]
    fn waits_double_up_to_a_minute_and_spread() {
        let limits = Limits::default();
        let mut waits = backoff(limits.backoff);
        for longest in [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
            let wait = waits.next().unwrap().as_millis();
            assert!((longest / 2..=longest).contains(&wait), "{wait} {longest}");
        }
        waits.reset();
        assert!(waits.next().unwrap() <= limits.backoff.0);
    }

    #[test]
    fn a_flap_is_written_a_few_times_and_then_now_and_then() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let limits = Limits {
            burst: 3,
            ..Limits::default()
        };
        let mut limit = RateLimit::new(&limits, start);
        let taken = (0..600).filter(|second| limit.take(at(*second)).is_ok());
        assert_eq!(taken.count(), 3 + 19);
        let mut limit = RateLimit::new(&Limits { burst: 1, ..limits }, start);
        assert_eq!(limit.take(at(0)), Ok(()));
        assert_eq!(limit.take(at(10)), Err(Duration::from_secs(20)));
    }
}
