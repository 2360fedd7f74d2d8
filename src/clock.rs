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

/// Number of this process's open files: the size of their directory since Linux 6.2 (fs/proc/fd.c), which
/// takes a hundredth of the time that listing hundreds of them does.
#[expect(clippy::disallowed_methods, reason = "this process's, not the host's")]
fn open_files() -> Option<u64> {
    let directory = "/proc/self/fd";
    let size = std::fs::metadata(directory).ok()?.len();
    let count = || Some(std::fs::read_dir(directory).ok()?.count() as u64);
    Some(size).filter(|size| *size > 0).or_else(count)
}

/// This process's use of the machine.
#[expect(clippy::disallowed_methods, reason = "this process's, not the host's")]
pub fn process_stats() -> AgentStats {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
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
            ("process_open_fds", open_files().map(|open| open as f64)),
            ("process_resident_memory_bytes", memory(1)),
            ("process_start_time_seconds", Some(*STARTED)),
            ("process_virtual_memory_bytes", memory(0)),
        ],
        ..AgentStats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_counted() {
        let held: Vec<_> = (0..50).map(|_| std::io::pipe().unwrap()).collect();
        let open = open_files().unwrap();
        let (most, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!((100..=most).contains(&open), "{open} of {most}");
        drop(held);
    }
}
