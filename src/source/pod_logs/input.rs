//! The bytes of one file, plain or compressed, from any offset on.

use super::{Fingerprint, Found, listing};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read};
use std::{os::unix::fs::FileExt, path::Path, sync::Arc};

/// Most bytes unpacked in one step while the known part of a compressed file is skipped.
const SKIP_STEP: u64 = 1 << 20;

/// A share in a count of what is held open, which drops with it.
pub(super) type ReadSlot = Arc<()>;

/// Where bytes come from.
pub(super) enum LogInput {
    /// Not held open.
    Closed,
    /// A file that may grow.
    Plain { file: File, _slot: ReadSlot },
    /// A compressed file, which does not change any more.
    Gz { gz: Box<Gz>, _slots: [ReadSlot; 2] },
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
            if passed < step || self.skip > 0 {
                return Ok((0, if passed < step { Then::End } else { Then::More }));
            }
        }
        let room = buf.len().saturating_sub(self.carry.len()) as u64;
        let mut unpacked = (&mut self.decoder).take(room);
        let fresh = unpacked.read_to_end(&mut self.carry)?;
        let filled = self.carry.len().min(buf.len());
        let (head, _) = buf.split_at_mut(filled);
        head.copy_from_slice(self.carry.get(..filled).unwrap_or_default());
        let ended = (fresh as u64) < room;
        Ok((filled, if ended { Then::End } else { Then::More }))
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

impl LogInput {
    pub(super) fn plain(file: File, open: &ReadSlot) -> Self {
        let _slot = Arc::clone(open);
        LogInput::Plain { file, _slot }
    }

    /// Reads what follows `offset`. Only `pass` moves on: what is not passed is read again.
    pub(super) fn fill(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<(usize, Then)> {
        match self {
            LogInput::Closed => Ok((0, Then::Pause)),
            LogInput::Plain { file, .. } => {
                let bytes = file.read_at(buf, offset)?;
                let full = bytes == buf.len();
                Ok((bytes, if full { Then::More } else { Then::Pause }))
            }
            LogInput::Gz { gz, .. } => gz.fill(buf),
        }
    }

    /// The first `passed` bytes of the last fill are done with, the others are not.
    pub(super) fn pass(&mut self, passed: usize) {
        if let LogInput::Gz { gz, .. } = self {
            gz.carry.drain(..passed.min(gz.carry.len()));
        }
    }
}

/// The beginning of an open file, as much as a fingerprint takes.
pub(super) fn beginning(file: &File) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; Fingerprint::MAX];
    let bytes = file.read_at(&mut buf, 0)?;
    buf.truncate(bytes);
    Ok(buf)
}

/// Whether the file of `entry` begins as `first` says and, where its size tells, reaches to `offset`.
pub(super) fn is_same(entry: &Found, first: Fingerprint, offset: u64) -> io::Result<bool> {
    if entry.compressed {
        let mut buf = [0; Fingerprint::MAX];
        let (bytes, _) = Gz::open(&entry.path, 0)?.fill(&mut buf)?;
        return Ok(first.fits(buf.get(..bytes).unwrap_or_default()));
    }
    let (file, meta) = listing::open(&entry.path)?;
    Ok(meta.len() >= offset && first.fits(&beginning(&file)?))
}
