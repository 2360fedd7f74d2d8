//! The bytes of one file, plain or compressed, from any offset on.

use super::listing::{self, Entry};
use super::options::Fingerprint;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Most bytes unpacked in one step while the known part of a compressed file is skipped.
const SKIP_STEP: u64 = 1 << 20;

/// One of a limited number; free again when dropped.
pub(super) struct Slot {
    _count: Arc<()>,
}

/// Counts what is held open.
#[derive(Default)]
pub(super) struct Slots(Arc<()>);

impl Slots {
    pub(super) fn take(&self) -> Slot {
        Slot {
            _count: Arc::clone(&self.0),
        }
    }

    pub(super) fn taken(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// Where bytes come from.
pub(super) enum Input {
    /// Not held open.
    Closed,
    /// A file that may grow.
    Plain(File, Slot),
    /// A compressed file, which does not change any more.
    Gz { gz: Box<Gz>, _slots: [Slot; 2] },
}

/// A compressed file being unpacked.
pub(super) struct Gz {
    decoder: MultiGzDecoder<File>,
    /// Unpacked and not taken: the beginning of a line.
    carry: Vec<u8>,
    /// Bytes handled before, to be unpacked and dropped.
    skip: u64,
}

impl Gz {
    pub(super) fn open(path: &Path, skip: u64) -> io::Result<Self> {
        Ok(Gz {
            decoder: MultiGzDecoder::new(listing::open(path)?.0),
            carry: Vec::new(),
            skip,
        })
    }

    fn fill(&mut self, buf: &mut [u8]) -> io::Result<(usize, Then)> {
        if self.skip > 0 {
            let step = self.skip.min(SKIP_STEP);
            let passed = io::copy(&mut (&mut self.decoder).take(step), &mut io::sink())?;
            self.skip -= passed;
            match passed < step {
                true => return Ok((0, Then::End)),
                false if self.skip > 0 => return Ok((0, Then::More)),
                false => {}
            }
        }
        let carried = self.carry.len().min(buf.len());
        let (head, room) = buf.split_at_mut(carried);
        head.copy_from_slice(self.carry.get(..carried).unwrap_or_default());
        let bytes = read_full(room, |_, room| self.decoder.read(room))?;
        let then = if bytes < room.len() {
            Then::End
        } else {
            Then::More
        };
        Ok((carried + bytes, then))
    }
}

/// What comes after the bytes read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The buffer is full: more, probably.
    More,
    /// Nothing for now.
    Pause,
    /// Nothing ever.
    End,
}

impl Input {
    /// Reads what follows `offset`. Only `pass` moves on: what is not passed is read again.
    pub(super) fn fill(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<(usize, Then)> {
        match self {
            Input::Closed => Ok((0, Then::Pause)),
            Input::Plain(file, _) => {
                let bytes = retry(|| file.read_at(buf, offset))?;
                let full = bytes == buf.len();
                Ok((bytes, if full { Then::More } else { Then::Pause }))
            }
            Input::Gz { gz, .. } => gz.fill(buf),
        }
    }

    /// The first `passed` bytes of the last fill are done with, the others are not.
    pub(super) fn pass(&mut self, filled: &[u8], passed: usize) {
        if let Input::Gz { gz, .. } = self
            && gz.skip == 0
        {
            gz.carry.clear();
            let rest = filled.get(passed..).unwrap_or_default();
            gz.carry.extend_from_slice(rest);
        }
    }
}

fn retry(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Fills `buf` up to the end of the file; `read` is given the position and the room left.
fn read_full(
    buf: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut bytes = 0;
    while let Some(room) = buf.get_mut(bytes..).filter(|room| !room.is_empty()) {
        match retry(|| read(bytes as u64, room))? {
            0 => break,
            more => bytes += more,
        }
    }
    Ok(bytes)
}

/// The beginning of an open file, as much as a fingerprint takes.
pub(super) fn beginning(file: &File) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; Fingerprint::MAX];
    let bytes = read_full(&mut buf, |at, room| file.read_at(room, at))?;
    buf.truncate(bytes);
    Ok(buf)
}

/// Whether the file of `entry` begins as `first` says and, where its size tells, reaches to `offset`.
pub(super) fn is_same(entry: &Entry, first: Fingerprint, offset: u64) -> io::Result<bool> {
    if entry.compressed {
        let mut buf = [0; Fingerprint::MAX];
        let (bytes, _) = Gz::open(&entry.path, 0)?.fill(&mut buf)?;
        return Ok(first.fits(buf.get(..bytes).unwrap_or_default()));
    }
    let (file, meta) = listing::open(&entry.path)?;
    Ok(meta.len() >= offset && first.fits(&beginning(&file)?))
}
