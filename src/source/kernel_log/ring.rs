//! Records through syslog(2), for where `/dev/kmsg` is refused: the device cgroup of an unprivileged
//! container forbids opening it, whatever the capabilities.
//!
//! The kernel gives no cheap and sound sign of new records (SYSLOG_ACTION_SIZE_UNREAD restarts when another
//! process reads `/proc/kmsg`, and does not change when the ring is full and lines are equally long),
//! so each read takes the log's end, and more only if the last line handled is not in it.

use std::{collections::VecDeque, io};

use super::lines::SyslogLines;
use super::{Input, Position, RecordInput};

/// Bytes of the log's end that are read first: the lines of a quiet second many times over.
const FIRST: usize = 16 * 1024;
/// More than any ring holds as text, in bytes.
const MOST: usize = 256 << 20;
/// More than the longest record as text, in bytes: with that much room left, the read was complete.
const RECORD: usize = 8 * 1024;

/// Fills the buffer with the newest whole records that fit: syslog(2), or a test's.
pub type ReadAll = dyn FnMut(&mut [u8]) -> io::Result<usize> + Send;

/// The kernel's ring, as a source of records.
pub struct SyslogRing {
    read_all: Box<ReadAll>,
    buffer: Vec<u8>,
    /// The last line handled; without one, every line is new.
    place: Position,
    /// Every line stamped before this was handled, also after a loss.
    floor_us: u64,
    news: VecDeque<Input>,
    has_read: bool,
}

impl SyslogRing {
    /// Reads once, so that a refusal is reported here. Records after `place` are new.
    ///
    /// # Errors
    /// The system's answer; [`Unstamped`](super::lines::Unstamped).
    pub fn open(read_all: Box<ReadAll>, place: Position) -> io::Result<Self> {
        let mut ring = Self {
            read_all,
            buffer: Vec::new(),
            place,
            floor_us: place.last_ts_us.unwrap_or(0),
            news: VecDeque::new(),
            has_read: true,
        };
        ring.read()?;
        Ok(ring)
    }

    /// Queues the new records.
    fn read(&mut self) -> io::Result<()> {
        let mut size = FIRST;
        loop {
            if self.buffer.len() != size {
                self.buffer = vec![0; size];
            }
            let read = (self.read_all)(&mut self.buffer)?;
            let all = read + RECORD <= size || size >= MOST;
            let bytes = self.buffer.get(..read).unwrap_or_default();
            let lines = SyslogLines::parse(bytes).map_err(io::Error::other)?;
            let messages = match lines.after(&self.place, all) {
                Some(from) => lines.messages(from, 0),
                None if !all => {
                    size = size.saturating_mul(4).min(MOST);
                    continue;
                }
                None => {
                    // Overwritten, or cleared (`dmesg -C`): how much was lost is unknown.
                    self.news.push_back(Input::Lost);
                    self.place = Position::default();
                    lines.messages(0, self.floor_us)
                }
            };
            for message in messages {
                self.place = message.place;
                self.floor_us = self.floor_us.max(message.ts_us);
                self.news.push_back(Input::Message(message));
            }
            if size > FIRST {
                self.buffer = Vec::new();
            }
            return Ok(());
        }
    }
}

impl RecordInput for SyslogRing {
    fn next(&mut self) -> io::Result<Input> {
        loop {
            if let Some(input) = self.news.pop_front() {
                return Ok(input);
            }
            // One read, then a pause.
            if std::mem::take(&mut self.has_read) {
                return Ok(Input::Empty);
            }
            self.read()?;
            self.has_read = true;
        }
    }
}

#[cfg(test)]
mod tests;
