//! Follows the kernel log live, on a thread of its own.
//!
//! What is promised over restarts of the agent: events come in order, each batch followed by how far
//! the log was read. Whoever keeps that resume point together with what the events led to sees each
//! event once and never twice, also after a kill. Records that the ring dropped before they were
//! read are counted as lost.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::observe::kernel::KernelEvent;

use super::input::{Input, RecordInput};
pub use super::open::{FollowError, FollowOptions, Way};
use super::open::{SYSLOG, open_log};
use super::state::{Place, ResumeState};
use super::{decode, driver_loaded, record};

/// Records handled before the resume point is told within a storm of events.
const BATCH: u32 = 64;

/// One event with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsgItem {
    /// The event.
    pub event: KernelEvent,
    /// The record's place in this boot.
    pub place: Place,
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
    /// Records that were overwritten before they could be read, or were too large. By syslog(2)
    /// nobody knows how many: each gap counts as one, and is one at least.
    pub lost: AtomicU64,
    /// Records that user space wrote, left aside.
    pub foreign: AtomicU64,
    /// Lines that are no record.
    pub unparsed: AtomicU64,
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
    way: Way,
    input: Box<dyn RecordInput>,
    stats: Arc<FollowStats>,
    stopper: Stopper,
    woken: PipeReader,
    /// Nothing is known of an earlier run.
    first_start: bool,
    /// Records up to this number were handled before.
    seen_through: Option<u64>,
    /// Records up to this stamp were: an earlier run read syslog(2).
    seen_until_us: Option<u64>,
    /// The last record handled.
    reached: Option<Place>,
    until_found: bool,
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
        let (way, input) = open_log(&options)?;
        let (woken, wake) = io::pipe().map_err(|source| FollowError::Open {
            path: options.path.clone(),
            source,
        })?;
        Ok(Self::over((way, input), options, woken, wake))
    }

    fn over(
        (way, input): (Way, Box<dyn RecordInput>),
        options: FollowOptions,
        woken: PipeReader,
        wake: PipeWriter,
    ) -> Self {
        let reached = options.place();
        let seen_through = reached.and_then(|place| place.last_seq);
        Self {
            way,
            input,
            stats: Arc::default(),
            stopper: Stopper {
                flag: Arc::default(),
                wake: Arc::new(wake),
            },
            woken,
            first_start: options.resume.is_none(),
            seen_through,
            seen_until_us: reached
                .filter(|place| place.last_seq.is_none())
                .and_then(|place| place.last_ts_us),
            reached,
            until_found: false,
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

    /// The way that was taken.
    #[must_use]
    pub fn way(&self) -> Way {
        self.way
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
            let began = clock();
            let before = self.stats.records.load(Ordering::Relaxed);
            if let Err(e) = self.drain(began, &mut deliver) {
                break Err(e);
            }
            if self.stopped() {
                break Ok(());
            }
            let news = self.stats.records.load(Ordering::Relaxed) != before;
            let took_us = if news {
                0
            } else {
                clock().saturating_sub(began)
            };
            if let Err(e) = self.wait(took_us) {
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
            let input = self.input.next().map_err(|source| self.failed(source))?;
            let mut item = None;
            match input {
                Input::Empty => break,
                Input::Overrun => self.overrun = true,
                Input::Oversize => add(&self.stats.lost, 1),
                Input::Gap => add(&self.stats.lost, 1),
                Input::Junk => add(&self.stats.unparsed, 1),
                Input::Restarted => {
                    self.seen_through = self.reached.and_then(|place| place.last_seq);
                }
                Input::Record { text, fresh } => item = self.record(&text, fresh, now_us),
                Input::Message(message) => {
                    let facility = message.priority >> 3;
                    let told = (&*message.text, None);
                    item = self.told(message.place, facility, told, false, now_us);
                }
            }
            if let Some(item) = item {
                add(&self.stats.events, 1);
                deliver(Delivery::Item(Box::new(item)));
                delivered = true;
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
        if let Some(until) = self.seen_until_us {
            if record.ts_us <= until {
                self.until_found = true;
                return None;
            }
            self.seen_until_us = None;
            // Nothing of it is left: so what came behind it may be gone, too.
            add(&self.stats.lost, u64::from(!self.until_found));
        }
        if std::mem::take(&mut self.overrun)
            && !fresh
            && let Some(last) = self.reached.and_then(|place| place.last_seq)
        {
            add(&self.stats.lost, seq.saturating_sub(last).saturating_sub(1));
        }
        let place = Place::numbered(seq, record.ts_us);
        let told = (&*record.text, record.device.as_deref());
        self.told(place, record.facility, told, fresh, now_us)
    }

    /// A record that was not handled before: its text, and its device where the log names it.
    fn told(
        &mut self,
        place: Place,
        facility: u32,
        (text, device): (&str, Option<&str>),
        fresh: bool,
        now_us: u64,
    ) -> Option<KmsgItem> {
        self.reached = Some(place);
        self.dirty = true;
        add(&self.stats.records, 1);
        if facility != 0 && !self.options.any_facility {
            add(&self.stats.foreign, 1);
            return None;
        }
        let event = decode(text, device).or_else(|| driver_loaded(text))?;
        let ts_us = place.last_ts_us.unwrap_or(0);
        let age = now_us.saturating_sub(ts_us);
        Some(KmsgItem {
            event,
            place,
            ts_us,
            historic: self.first_start && !fresh && age > self.options.history_after_us,
        })
    }

    fn failed(&self, source: io::Error) -> FollowError {
        let path = match self.way {
            Way::Device => self.options.path.clone(),
            Way::Syslog => SYSLOG.into(),
        };
        FollowError::Read { path, source }
    }

    fn stopped(&self) -> bool {
        self.stopper.flag.load(Ordering::Acquire)
    }

    /// Until a record comes, the stopper calls, or it is time to save or to look again; a look that
    /// found nothing took so many microseconds.
    fn wait(&self, took_us: u64) -> Result<(), FollowError> {
        let failed = |errno: Errno| self.failed(errno.into());
        let stop = PollFd::new(self.woken.as_fd(), PollFlags::POLLIN);
        let Some(fd) = self.input.fd() else {
            let pause = match self.way {
                Way::Device => self.options.file_poll_ms,
                Way::Syslog => pause_ms(took_us, self.options.syslog_poll_ms),
            };
            return match poll(&mut [stop], PollTimeout::from(pause)) {
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
        let (Some(place), true) = (self.reached, self.dirty) else {
            return;
        };
        self.told_at_us = now_us;
        self.dirty = false;
        deliver(Delivery::Through(ResumeState {
            boot_id: self.options.boot_id.clone(),
            place,
        }));
    }
}

/// Milliseconds until the next look by syslog(2). The kernel walks its whole ring at each, about
/// 0.6 µs a record: 9 ms of 1 MiB. Where nothing comes, looks take a 400th of the time at most.
fn pause_ms(took_us: u64, least: u16) -> u16 {
    let pause = took_us.saturating_mul(400) / 1000;
    u16::try_from(pause)
        .unwrap_or(u16::MAX)
        .min(5000)
        .max(least)
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
