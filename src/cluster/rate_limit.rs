//! How fast: deadlines, waits after errors, and how often the Node may be written.

use crate::settings_macro::defaults;
use backon::ExponentialBuilder;
use kube::runtime::watcher::ExponentialBackoff;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Requests in a row without an answer after which the credentials and the server's address are read again.
pub(super) const RECONNECT_AFTER: u32 = 5;

defaults! {
    /// Times that are not settings; tests shorten them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    RateLimits {
        /// Deadline of a request.
        deadline: Duration = Duration::from_secs(10),
        /// Deadline of one page of a list.
        list_deadline: Duration = Duration::from_secs(30),
        /// A connection that carries nothing for this long is dead. Longer than the API server leaves a
        /// watch open.
        idle: Duration = Duration::from_secs(300),
        /// First and longest wait after an error.
        backoff: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60)),
        /// The same where a permission is missing: an administrator may grant it.
        forbidden: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600)),
        /// The Node is read again after this long without news of it.
        resync: Duration = Duration::from_secs(600),
        /// A condition whose message alone differs is written at most this often.
        message_every: Duration = Duration::from_secs(60),
        /// Changes of labels and condition that are written at once; then one every `refill`. The
        /// taints, and events on pods, have as many of their own.
        burst: u32 = 10,
        /// Interval at which one more write is allowed, see `burst`.
        refill: Duration = Duration::from_secs(30),
        /// While the taint is withheld, the budget is asked again after the first, at last the second.
        budget_backoff: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60)),
        /// The same while another node counts the group, or the ledger is contended: a thousand nodes that
        /// wait would hold up the one that counts.
        busy: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(8)),
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

/// Actions that each have a rate limit of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gate {
    /// Any request, after an error.
    Request,
    /// The Node is read again though its watch is silent.
    Refresh,
    /// Changes of labels and condition.
    LabelsAndCondition,
    /// Changes of the taints.
    Taints,
    /// Events on pods.
    PodEvents,
    /// A condition of which the message alone differs.
    Message,
    /// A condition of which the heartbeat alone is due.
    Heartbeat,
    /// Requests for a slot of the budget.
    Slot,
}

/// The writer's clocks: when each gate opens. Some let a burst of writes through at once, then one every
/// so often.
#[derive(Debug)]
pub(super) struct Gates {
    limits: RateLimits,
    /// When a gate opens; where it allows a burst, when that is fully replenished.
    opens: BTreeMap<Gate, Instant>,
    /// The wait before the next pass, if nothing changes before.
    pub requeue: Option<Duration>,
}

impl Gates {
    /// All open.
    pub fn new(limits: &RateLimits) -> Self {
        Gates {
            limits: *limits,
            opens: BTreeMap::new(),
            requeue: None,
        }
    }

    /// Has the next pass begin within this time.
    pub fn requeue_within(&mut self, wait: Duration) {
        self.requeue = Some(self.requeue.map_or(wait, |known| known.min(wait)));
    }

    /// How long until a gate opens; zero if it is open.
    pub fn wait(&self, gate: Gate) -> Duration {
        let spare = match gate {
            Gate::LabelsAndCondition | Gate::Taints | Gate::PodEvents => {
                self.limits.refill * self.limits.burst.saturating_sub(1)
            }
            _ => Duration::ZERO,
        };
        let opens = self.opens.get(&gate);
        let wait = opens.map(|at| at.saturating_duration_since(Instant::now()));
        wait.unwrap_or_default().saturating_sub(spare)
    }

    /// Whether a gate is open; else schedules the next pass for when it opens.
    pub fn open_or_requeue(&mut self, gate: Gate) -> bool {
        let wait = self.wait(gate);
        if !wait.is_zero() {
            self.requeue_within(wait);
        }
        wait.is_zero()
    }

    /// Passes a gate that allows a burst, if it is open.
    pub fn take(&mut self, gate: Gate) -> bool {
        let open = self.open_or_requeue(gate);
        if open {
            let now = Instant::now();
            let opens = self.opens.entry(gate).or_insert(now);
            *opens = (*opens).max(now) + self.limits.refill;
        }
        open
    }

    /// Closes a gate for this long.
    pub fn close(&mut self, gate: Gate, wait: Duration) {
        self.opens.insert(gate, Instant::now() + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::utils::Backoff;

    #[test]
    fn waits_double_up_to_a_minute_and_spread() {
        let limits = RateLimits::default();
        let mut waits = backoff(limits.backoff);
        for longest in [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
            let wait = waits.next().unwrap().as_millis();
            assert!((longest / 2..=longest).contains(&wait), "{wait} {longest}");
        }
        waits.reset();
        assert!(waits.next().unwrap() <= limits.backoff.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flap_is_written_a_few_times_and_then_now_and_then() {
        let limits = RateLimits {
            burst: 3,
            ..RateLimits::default()
        };
        let mut gates = Gates::new(&limits);
        let mut taken = 0;
        for _ in 0..600 {
            taken += u32::from(gates.take(Gate::Taints));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(taken, 3 + 19);
        let mut gates = Gates::new(&RateLimits { burst: 1, ..limits });
        assert!(gates.take(Gate::Taints) && gates.take(Gate::PodEvents));
        assert_eq!(gates.requeue, None);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!gates.take(Gate::Taints));
        assert_eq!(gates.requeue, Some(Duration::from_secs(20)));
        gates.close(Gate::Slot, Duration::from_secs(5));
        assert!(!gates.open_or_requeue(Gate::Slot));
        assert_eq!(gates.requeue, Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(gates.open_or_requeue(Gate::Slot));
    }
}
