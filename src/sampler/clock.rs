//! The agent's monotonic clock.

use crate::units::Millis;
/// Monotonic time in milliseconds from an origin.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: tokio::time::Instant,
    offset: Millis,
}

impl Clock {
    /// A clock that reads `now` at this moment. Uses tokio's clock, which tests can pause.
    pub fn starting_at(now: Millis) -> Self {
        Clock {
            origin: tokio::time::Instant::now(),
            offset: now,
        }
    }

    /// Now.
    pub fn now(&self) -> Millis {
        self.offset.plus(self.origin.elapsed())
    }

    /// The instant of a moment.
    pub fn instant(&self, at: Millis) -> tokio::time::Instant {
        self.origin + at.since(self.offset)
    }
}
