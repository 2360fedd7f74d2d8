//! What `tests/fuzz` needs to see of the registry.

use super::registry::{PodLookup, Registry};
use crate::check::nccl_jobs::ContainerVerdict;
use crate::observe::pod::ContainerKey;
use crate::source::pod_logs::Sink;
use crate::units::Millis;
use std::sync::Arc;
use std::time::Duration;

/// The registry of all containers' logs, as the reader of pods' logs uses it.
#[derive(Default)]
pub struct Logs(Registry);

impl Logs {
    /// For so many containers at most, which together hold so many bytes.
    pub fn new(most: usize, budget: usize) -> Self {
        Logs(Registry::new(most, budget))
    }

    /// Where its lines go.
    pub fn sink(&mut self) -> &mut dyn Sink {
        &mut self.0
    }

    /// Judges all logs; the verdicts, worst first.
    pub fn judge(&mut self, now: u64, wall: jiff::Timestamp) -> Vec<Arc<ContainerVerdict>> {
        self.0.at(Millis(now), Some(wall));
        let unavailable = |_: &ContainerKey| PodLookup::Unavailable;
        self.0
            .judge(true, Duration::from_secs(300), None, unavailable, drop);
        self.0.verdicts()
    }

    /// A new one, as after a restart of the agent.
    #[must_use]
    pub fn restarted(&self, most: usize, budget: usize) -> Self {
        let mut other = Registry::new(most, budget);
        other.restore(self.0.save(), self.0.outcomes.clone());
        Logs(other)
    }

    /// Bytes that all containers hold, as counted.
    pub fn held(&self) -> usize {
        self.0.held()
    }
}
