//! Follows the kernel log live, on a thread of its own.
//!
//! What is promised over restarts of the agent: events come in order, each batch followed by how far
//! the log was read. Whoever keeps that resume point together with what the events led to sees each
//! event once and never twice, also after a kill. Records that the ring dropped before they were
//! read are counted as lost.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::observe::kernel::KernelEvent;

use super::input::{self, Input, RecordInput};
use super::state::ResumeState;
use super::{decode, driver_loaded, record};

/// Records handled before the resume point is told within a storm of events.
const BATCH: u32 = 64;

/// How to follow.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// `/dev/kmsg`, or a file of raw records that grows.
    pub path: PathBuf,
    /// The running kernel's boot id.
    pub boot_id: String,
    /// How far an earlier run read; `None` at the very first start.
    pub resume: Option<ResumeState>,
    /// Accept records that user space wrote; for tests only, since anybody could then fake a fault.
    pub any_facility: bool,
    /// Age in microseconds from which a record found at the very first start is history.
    pub history_after_us: u64,
    /// Microseconds between resume points while only uninteresting records come.
    pub tell_every_us: u64,
    /// Milliseconds between looks at a regular file, which cannot be waited for.
    pub file_poll_ms: u16,
}

impl FollowOptions {
    /// The defaults: ten minutes of history, a resume point each five seconds.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, boot_id: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            boot_id: boot_id.into(),
            resume: None,
            any_facility: false,
            history_after_us: 600_000_000,
            tell_every_us: 5_000_000,
            file_poll_ms: 50,
        }
    }
}

/// One event with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsgItem {
    /// The event.
    pub event: KernelEvent,
    /// Record number in this boot.
    pub seq: u64,
    /// Microseconds since boot, by the kernel's clock.
    pub ts_us: u64,
    /// Old news found at the first start ever: state to know, not an alert to raise.
    pub historic: bool,
}

/// What the follower hands over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An event.
    Item(Box<KmsgItem>),
    /// Everything up to here has been handed over.
    Through(ResumeState),
}

/// Counts since the start, readable from other threads.
#[derive(Debug, Default)]
pub struct FollowStats {
    /// Records read and not seen before.
    pub records: AtomicU64,
    /// Events delivered.
    pub events: AtomicU64,
    /// Records that were overwritten before they could be read, or were too large.
    pub lost: AtomicU64,
    /// Records that user space wrote, left aside.
    pub foreign: AtomicU64,
    /// Lines that are no record.
    pub unparsed: AtomicU64,
}

/// Why following ended.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The log cannot be opened: absent, or not permitted (CAP_SYSLOG). Try again later.
    #[error("open {path}: {source}")]
    Open {
        /// The log's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Reading or waiting failed. Open anew.
    #[error("read {path}: {source}")]
    Read {
        /// The log's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Stops a follower from another thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    flag: Arc<AtomicBool>,
    wake: Arc<PipeWriter>,
}

impl Stopper {
    /// Ends [`KmsgFollower::run`] soon.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::Release);
        // A full pipe wakes the follower as well as one byte more.
        let _ = (&*self.wake).write(&[1]);
    }
}

/// The follower.
pub struct KmsgFollower {
    options: FollowOptions,
    input: Box<dyn RecordInput>,
    stats: Arc<FollowStats>,
    stopper: Stopper,
    woken: PipeReader,
    /// Nothing is known of an earlier run.
    first_start: bool,
    /// Records up to this number were handled before.
    seen_through: Option<u64>,
    last_seq: Option<u64>,
    overrun: bool,
    dirty: bool,
    told_at_us: u64,
}

impl KmsgFollower {
    /// Opens the log.
    ///
    /// # Errors
    /// [`FollowError::Open`].
    pub fn open(options: FollowOptions) -> Result<Self, FollowError> {
        let failed = |source| FollowError::Open {
            path: options.path.clone(),
            source,
        };
        let input = input::open(&options.path).map_err(failed)?;
        let (woken, wake) = io::pipe().map_err(failed)?;
        Ok(Self::over(input, options, woken, wake))
    }

    fn over(
        input: Box<dyn RecordInput>,
        options: FollowOptions,
        woken: PipeReader,
        wake: PipeWriter,
    ) -> Self {
        let first_start = options.resume.is_none();
        let seen_through = options
            .resume
            .as_ref()
            .filter(|resume| resume.boot_id == options.boot_id)
            .map(|resume| resume.last_seq);
        Self {
            input,
            stats: Arc::default(),
            stopper: Stopper {
                flag: Arc::default(),
                wake: Arc::new(wake),
            },
            woken,
            first_start,
            seen_through,
            last_seq: seen_through,
            // Records may have been overwritten while nobody read.
            overrun: seen_through.is_some(),
            dirty: false,
            told_at_us: 0,
            options,
        }
    }

    /// The counts.
    #[must_use]
    pub fn stats(&self) -> Arc<FollowStats> {
        Arc::clone(&self.stats)
    }

    /// A handle that ends [`Self::run`].
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Follows until stopped. `clock` gives microseconds on the kernel log's clock
    /// (CLOCK_MONOTONIC comes near it).
    ///
    /// # Errors
    /// [`FollowError::Read`].
    pub fn run(
        &mut self,
        clock: impl Fn() -> u64,
        mut deliver: impl FnMut(Delivery),
    ) -> Result<(), FollowError> {
        let ended = loop {
            if let Err(e) = self.drain(clock(), &mut deliver) {
                break Err(e);
            }
            if self.stopped() {
                break Ok(());
            }
            if let Err(e) = self.wait() {
                break Err(e);
            }
        };
        self.tell(clock(), &mut deliver);
        ended
    }

    /// Handles all that can be read now and does not wait.
    ///
    /// # Errors
    /// [`FollowError::Read`].
    pub fn drain(
        &mut self,
        now_us: u64,
        deliver: &mut impl FnMut(Delivery),
    ) -> Result<(), FollowError> {
        let mut batch = 0;
        let mut delivered = false;
        while !self.stopped() {
            let input = self.input.next().map_err(|source| FollowError::Read {
                path: self.options.path.clone(),
                source,
            })?;
            match input {
                Input::Empty => break,
                Input::Overrun => self.overrun = true,
                Input::Oversize => add(&self.stats.lost, 1),
                Input::Restarted => self.seen_through = self.last_seq,
                Input::Record { text, fresh } => {
                    if let Some(item) = self.record(&text, fresh, now_us) {
                        add(&self.stats.events, 1);
                        deliver(Delivery::Item(Box::new(item)));
                        delivered = true;
                    }
                }
            }
            batch += 1;
            if batch >= BATCH && delivered {
                self.tell(now_us, deliver);
                (batch, delivered) = (0, false);
            }
        }
        if delivered || now_us.saturating_sub(self.told_at_us) >= self.options.tell_every_us {
            self.tell(now_us, deliver);
        }
        Ok(())
    }

    fn record(&mut self, text: &str, fresh: bool, now_us: u64) -> Option<KmsgItem> {
        let Some(record) = record::parse(text) else {
            add(&self.stats.unparsed, 1);
            return None;
        };
        let seq = record.seq;
        if !fresh && self.seen_through.is_some_and(|seen| seq <= seen) {
            return None;
        }
        if std::mem::take(&mut self.overrun)
            && !fresh
            && let Some(last) = self.last_seq
        {
            add(&self.stats.lost, seq.saturating_sub(last).saturating_sub(1));
        }
        self.last_seq = Some(seq);
        self.dirty = true;
        add(&self.stats.records, 1);
        if record.facility != 0 && !self.options.any_facility {
            add(&self.stats.foreign, 1);
            return None;
        }
        let event = decode(&record.text, record.device.as_deref())
            .or_else(|| driver_loaded(&record.text))?;
        let age = now_us.saturating_sub(record.ts_us);
        Some(KmsgItem {
            event,
            seq,
            ts_us: record.ts_us,
            historic: self.first_start && !fresh && age > self.options.history_after_us,
        })
    }

    fn stopped(&self) -> bool {
        self.stopper.flag.load(Ordering::Acquire)
    }

    /// Until a record comes, the stopper calls, or it is time to save or to look again.
    fn wait(&self) -> Result<(), FollowError> {
        let failed = |errno: Errno| FollowError::Read {
            path: self.options.path.clone(),
            source: errno.into(),
        };
        let stop = PollFd::new(self.woken.as_fd(), PollFlags::POLLIN);
        let Some(fd) = self.input.fd() else {
            return match poll(&mut [stop], PollTimeout::from(self.options.file_poll_ms)) {
                Ok(_) | Err(Errno::EINTR) => Ok(()),
                Err(errno) => Err(failed(errno)),
            };
        };
        let mut fds = [stop, PollFd::new(fd, PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(1000u16)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let [_, log] = fds;
        let gone = PollFlags::POLLHUP | PollFlags::POLLNVAL;
        let events = log.revents().unwrap_or(PollFlags::empty());
        // With something to read, the read tells.
        if events.intersects(gone) && !events.contains(PollFlags::POLLIN) {
            return Err(failed(Errno::EPIPE));
        }
        Ok(())
    }

    /// Tells how far the log was read, if that is news.
    fn tell(&mut self, now_us: u64, deliver: &mut impl FnMut(Delivery)) {
        let (Some(last_seq), true) = (self.last_seq, self.dirty) else {
            return;
        };
        self.told_at_us = now_us;
        self.dirty = false;
        deliver(Delivery::Through(ResumeState {
            boot_id: self.options.boot_id.clone(),
            last_seq,
        }));
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
