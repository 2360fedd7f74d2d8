//! The machine's clocks and this process's own use of the machine: the edge where time becomes an
//! input.

use crate::report::AgentStats;
use crate::units::Millis;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use std::sync::LazyLock;

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

/// Unix time of the process's start, in seconds; `main` asks first.
pub static STARTED: LazyLock<f64> = LazyLock::new(|| jiff::Timestamp::now().as_second() as f64);

/// This process's use of the machine.
#[expect(clippy::disallowed_methods, reason = "this process's, not the host's")]
pub fn process_stats() -> AgentStats {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    let open = std::fs::read_dir("/proc/self/fd")
        .ok()
        .map(|all| all.count() as f64);
    let most = getrlimit(Resource::RLIMIT_NOFILE).ok();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    let memory = |field| {
        let pages: f64 = statm.split(' ').nth(field)?.parse().ok()?;
        Some(pages * page? as f64)
    };
    let cpu = usage.map(|of| seconds(of.user_time()) + seconds(of.system_time()));
    AgentStats {
        process: vec![
            ("process_cpu_seconds_total", cpu),
            ("process_max_fds", most.map(|(most, _)| most as f64)),
            ("process_open_fds", open),
            ("process_resident_memory_bytes", memory(1)),
            ("process_start_time_seconds", Some(*STARTED)),
            ("process_virtual_memory_bytes", memory(0)),
        ],
        ..AgentStats::default()
    }
}
