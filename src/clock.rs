//! The machine's clocks and this process's own use of the machine: the edge where time becomes an
//! input.

use crate::report::metrics::AgentStats;
use crate::units::Millis;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`, the clock that kernel-log stamps follow (local_clock).
pub fn monotonic() -> Millis {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Millis(0), |time| {
        let millis = time.tv_sec().saturating_mul(1000) + time.tv_nsec() / 1_000_000;
        Millis(u64::try_from(millis).unwrap_or(0))
    })
}

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

    /// The present moment on the agent's clock.
    pub fn now(&self) -> Millis {
        self.offset.plus(self.origin.elapsed())
    }

    /// The instant of a moment.
    pub fn instant(&self, at: Millis) -> tokio::time::Instant {
        self.origin + at.since(self.offset)
    }
}

/// CPU time and memory of this process.
pub fn process_stats() -> AgentStats {
    let cpu_seconds = getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| {
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    });
    AgentStats {
        cpu_seconds,
        resident_bytes: resident_bytes(),
        ..AgentStats::default()
    }
}

/// Second field of `/proc/self/statm`, in pages.
fn resident_bytes() -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "this process's, not the host's")]
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
}
