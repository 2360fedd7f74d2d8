//! Follows the kernel log live, on a thread of its own.
//!
//! Events come in order, each with its place in the log. A reader that saves that resume point together
//! with the event's effects sees each event exactly once over restarts, also after a kill. Records that the ring dropped before they were read are counted as lost.

use std::{os::fd::AsFd, time::Duration};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::observe::{KernelEvent, KernelEventKind, Note};

use super::assemble::REPORT_REACH;
pub use super::open::{FollowError, FollowOptions, ReadMethod};
use super::open::{SYSLOG, open_log};
use super::{Input, Position, RecordInput, ResumeState, aer, decode, gpu, record, silent};

/// Age from which a record found at the very first start is history.
pub const HISTORY: Duration = Duration::from_secs(600);
/// Microseconds by which a stamp must fall to be of another boot: processors stamp out of order.
const OTHER_BOOT_US: u64 = 10_000_000;
/// Microseconds between resume points while only uninteresting records come.
const RESUME_POINT_EVERY_US: u64 = 5_000_000;
/// Longest wait for a record: after it, the receiver is asked whether it still listens.
const WAIT_MS: u16 = 1000;
/// Milliseconds between reads of a regular file, which stands for a kernel's log in a directory tree.
const FILE_POLL_MS: u16 = 500;
/// Milliseconds between reads by syslog(2), at least.
const SYSLOG_POLL_MS: u16 = 1000;

/// One event with its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsgItem {
    /// What the record says, decoded.
    pub event: KernelEvent,
    /// The record's place: to be saved together with the event's effects.
    pub through: ResumeState,
    /// Old news found at the first start ever: state to know, not an alert to raise.
    pub historic: bool,
}

/// What the follower hands over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// An event, with its place in the log.
    Item(Box<KmsgItem>),
    /// Everything up to here has been handed over; told now and then while only uninteresting records
    /// come.
    Through(ResumeState),
    /// So many records were overwritten before they could be read, or were too large. By syslog(2)
    /// the number is unknown: each gap counts as one.
    Lost(u64),
    /// Stamps begin again: what was handed over before is of an earlier boot.
    Rebooted,
}

/// Reads the kernel log record by record and resumes where an earlier run stopped.
pub struct KmsgFollower {
    options: FollowOptions,
    /// The way that was taken.
    pub way: ReadMethod,
    input: Box<dyn RecordInput>,
    /// No earlier run left a resume point, and what the log held has not been read through.
    first_start: bool,
    /// Records up to this number were handled before.
    seen_through: Option<u64>,
    /// Records up to this stamp were: an earlier run read syslog(2).
    seen_until_us: Option<u64>,
    until_found: bool,
    /// The last record handled.
    reached: Option<Position>,
    overrun: bool,
    /// `reached` is newer than the last place handed over.
    dirty: bool,
    /// The GPU that a report on a failed probe named, and the record's number, where its lines are
    /// records of their own.
    probe: Option<(String, u64)>,
    /// The firmware's report whose lines are being read.
    firmware: aer::FirmwareReport,
    /// Stamps fell, which was not handed over yet.
    rebooted: bool,
    resume_point_at_us: Option<u64>,
    /// The smaller stamp of the last two records, of which one may be far off.
    pub steady_us: u64,
    /// Not yet handed over as lost.
    lost: u64,
    /// Records handled so far: whether a drain found any.
    pub records: u64,
}

impl KmsgFollower {
    /// Opens the log.
    ///
    /// # Errors
    /// Neither way that the options allow can be opened.
    pub fn open(options: FollowOptions) -> Result<Self, FollowError> {
        let (way, input) = open_log(&options)?;
        Ok(Self::over((way, input), options))
    }

    fn over((way, input): (ReadMethod, Box<dyn RecordInput>), options: FollowOptions) -> Self {
        let reached = options.place();
        let seen_through = reached.and_then(|place| place.last_seq);
        Self {
            way,
            input,
            first_start: options.resume.is_none(),
            seen_through,
            seen_until_us: reached
                .filter(|place| place.last_seq.is_none())
                .and_then(|place| place.last_ts_us),
            until_found: false,
            reached,
            // Records may have been overwritten between the runs.
            overrun: seen_through.is_some(),
            dirty: false,
            probe: None,
            firmware: aer::FirmwareReport::default(),
            rebooted: false,
            resume_point_at_us: None,
            steady_us: 0,
            lost: 0,
            records: 0,
            options,
        }
    }

    /// Handles everything that can be read now and does not wait.
    ///
    /// # Errors
    /// A read failed.
    pub fn drain(
        &mut self,
        now_us: u64,
        deliver: &mut impl FnMut(Delivery),
    ) -> Result<(), FollowError> {
        loop {
            let input = self.input.next().map_err(|source| self.failed(source))?;
            let mut item = None;
            match input {
                Input::Empty => break,
                Input::Overrun => self.overrun = true,
                Input::Lost => self.lost += 1,
                Input::Restarted => self.seen_through = self.reached.and_then(|at| at.last_seq),
                Input::Record { text, fresh } => item = self.record(&text, fresh, now_us),
                Input::Message(message) => {
                    let from = (message.priority >> 3, None);
                    item = self.message(message.place, from, &message.text, false, now_us);
                }
            }
            if std::mem::take(&mut self.rebooted) {
                deliver(Delivery::Rebooted);
            }
            if let Some(item) = item {
                self.dirty = false;
                deliver(Delivery::Item(Box::new(item)));
            }
        }
        // What comes from now on is news, whatever the kernel's clock says.
        self.first_start = false;
        if self.lost > 0 {
            deliver(Delivery::Lost(std::mem::take(&mut self.lost)));
        }
        let recent = |at: u64| now_us.saturating_sub(at) < RESUME_POINT_EVERY_US;
        if let Some(place) = self.reached
            && self.dirty
            && !self.resume_point_at_us.is_some_and(recent)
        {
            self.resume_point_at_us = Some(now_us);
            self.dirty = false;
            let boot_id = self.options.boot_id.clone();
            deliver(Delivery::Through(ResumeState { boot_id, place }));
        }
        Ok(())
    }

    /// Waits for a record, or until it is time to save or to read again. `took` is how long the last
    /// drain took if it found nothing.
    ///
    /// # Errors
    /// The log is gone.
    pub fn wait(&self, took: Duration) -> Result<(), FollowError> {
        let Some(fd) = self.input.fd() else {
            let pause = match self.way {
                ReadMethod::Device => FILE_POLL_MS,
                ReadMethod::Syslog => pause_ms(took),
            };
            std::thread::sleep(Duration::from_millis(pause.into()));
            return Ok(());
        };
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        // Where the log is gone, reading finds out.
        match poll(&mut fds, PollTimeout::from(WAIT_MS)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(self.failed(errno.into())),
        }
    }

    /// Stamp of the last record handled, in microseconds.
    #[must_use]
    pub fn newest_us(&self) -> Option<u64> {
        self.reached?.last_ts_us
    }

    fn record(&mut self, text: &str, fresh: bool, now_us: u64) -> Option<KmsgItem> {
        let record = record::parse(text)?;
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
            // Nothing up to that stamp is left, so newer records may be gone as well.
            self.lost += u64::from(!self.until_found);
        }
        if std::mem::take(&mut self.overrun)
            && !fresh
            && let Some(last) = self.reached.and_then(|place| place.last_seq)
        {
            self.lost += seq.saturating_sub(last).saturating_sub(1);
        }
        let place = Position::numbered(seq, record.ts_us);
        let from = (record.facility, record.device.as_deref());
        self.message(place, from, &record.text, fresh, now_us)
    }

    /// Handles a message that was not handled before, from this facility and device.
    fn message(
        &mut self,
        place: Position,
        (facility, device): (u32, Option<&str>),
        text: &str,
        fresh: bool,
        now_us: u64,
    ) -> Option<KmsgItem> {
        let before = self.newest_us();
        let at = place.last_ts_us.or(before).unwrap_or(0);
        let before = before.unwrap_or(at);
        // Within a boot numbers rise, whatever a stamp says.
        let last_seq = self.reached.and_then(|reached| reached.last_seq);
        let fell = (place.last_seq.zip(last_seq)).is_none_or(|(seq, last)| seq <= last);
        self.rebooted |= fell && at.saturating_add(OTHER_BOOT_US) < before;
        self.steady_us = before.min(at);
        self.reached = Some(place);
        self.dirty = true;
        self.records += 1;
        if facility != 0 && !self.options.any_facility {
            return None;
        }
        // `linux_banner`, a boot's first message (`init/main.c`): other readers of the log number nothing.
        self.rebooted |= at < OTHER_BOOT_US && text.starts_with("Linux version ");
        let named = gpu::probe_report_start(text).map(|slot| (slot, self.records));
        let open = |(_, began): &(String, u64)| self.records - began <= REPORT_REACH.into();
        self.probe = named.or(self.probe.take().filter(open));
        let event = self.firmware.feed(text).or_else(|| decode(text, device));
        let mut event = event.or_else(|| silent(text, device))?;
        if event.what == KernelEventKind::Note(Note::Driver) && event.pci.is_none() {
            event.pci = self.probe.take().map(|(slot, _)| slot);
        }
        let age = now_us.saturating_sub(place.last_ts_us.unwrap_or(0));
        let boot_id = self.options.boot_id.clone();
        Some(KmsgItem {
            event,
            through: ResumeState { boot_id, place },
            historic: self.first_start && !fresh && u128::from(age) > HISTORY.as_micros(),
        })
    }

    fn failed(&self, source: std::io::Error) -> FollowError {
        let what = match self.way {
            ReadMethod::Device => format!("read {}", self.options.path.display()),
            ReadMethod::Syslog => format!("read {SYSLOG}"),
        };
        FollowError { what, source }
    }
}

/// Milliseconds until the next read by syslog(2), after one that took so long and found nothing.
/// The kernel walks its whole ring each time, about 0.6 µs a record (9 ms for 1 MiB): reads take at
/// most a 400th of the time.
fn pause_ms(took: Duration) -> u16 {
    let pause = took.saturating_mul(400).as_millis();
    u16::try_from(pause)
        .unwrap_or(u16::MAX)
        .clamp(SYSLOG_POLL_MS, 5000)
}

#[cfg(test)]
mod tests;
