//! Records through syslog(2), for where `/dev/kmsg` is refused: the device cgroup of a container
//! that is not privileged lets nobody open it, whatever the capabilities.
//!
//! Nothing tells cheaply and soundly that there is news (SYSLOG_ACTION_SIZE_UNREAD starts anew when
//! somebody reads `/proc/kmsg`, and stays the same when the ring is full and lines are of a length),
//! so each look reads the log's end, and more only where the line handled last is not in it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use super::input::{Input, RecordInput};
use super::lines::{Found, Lines, Message};
use super::state::Place;

/// Bytes of the log's end that a look begins with: the lines of a quiet second many times over.
const FIRST: usize = 16 * 1024;
/// More than any ring holds, as text.
const MOST: usize = 256 << 20;
/// More than one record is long, as text. With that much room left nothing older was left out.
const RECORD: usize = 8 * 1024;

/// Gives the newest whole records that fit into the buffer: syslog(2), or a test's.
pub type ReadAll = dyn FnMut(&mut [u8]) -> io::Result<usize> + Send;

/// The kernel's ring.
pub struct Ring {
    read_all: Box<ReadAll>,
    buffer: Vec<u8>,
    /// The last line handled; without any, all is new.
    place: Place,
    /// Whatever was lost, nothing from before this was not seen.
    floor_us: u64,
    news: VecDeque<Input>,
    looked: bool,
}

impl Ring {
    /// Reads once, so that a refusal is told here. What is after `place` is new.
    ///
    /// # Errors
    /// What the system said; [`Unstamped`](super::lines::Unstamped).
    pub fn open(read_all: Box<ReadAll>, place: Place) -> io::Result<Self> {
        let mut ring = Self {
            read_all,
            buffer: Vec::new(),
            place,
            floor_us: place.last_ts_us.unwrap_or(0),
            news: VecDeque::new(),
            looked: true,
        };
        ring.look()?;
        Ok(ring)
    }

    /// Puts what is new to the news.
    fn look(&mut self) -> io::Result<()> {
        let mut size = FIRST;
        loop {
            if self.buffer.len() != size {
                self.buffer = vec![0; size];
            }
            let read = (self.read_all)(&mut self.buffer)?;
            let all = read + RECORD <= size || size >= MOST;
            let bytes = self.buffer.get(..read).unwrap_or_default();
            let lines = Lines::parse(bytes).map_err(io::Error::other)?;
            let (messages, junk) = match lines.after(&self.place, all) {
                Found::From(from) => lines.messages(from, 0),
                Found::Missing if !all => {
                    size = size.saturating_mul(4).min(MOST);
                    continue;
                }
                Found::Missing => {
                    // Overwritten, or cleared (`dmesg -C`): what came before that is not known.
                    self.news.push_back(Input::Gap);
                    self.place = Place::default();
                    lines.messages(0, self.floor_us)
                }
            };
            self.news.extend((0..junk).map(|_| Input::Junk));
            self.take(messages);
            if size > FIRST {
                self.buffer = Vec::new();
            }
            return Ok(());
        }
    }

    fn take(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.place = message.place;
            self.floor_us = self.floor_us.max(message.ts_us);
            self.news.push_back(Input::Message(message));
        }
    }
}

impl RecordInput for Ring {
    fn next(&mut self) -> io::Result<Input> {
        loop {
            if let Some(input) = self.news.pop_front() {
                return Ok(input);
            }
            // One look, then a pause.
            if std::mem::take(&mut self.looked) {
                return Ok(Input::Empty);
            }
            self.look()?;
            self.looked = true;
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
