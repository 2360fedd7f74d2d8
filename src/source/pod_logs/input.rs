//! The bytes of one file, plain or compressed, from any offset on.

use super::files;
use super::fingerprint::{FIRST, Fingerprint};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes unpacked at most in one step while a compressed file's known part is passed over.
const SKIP_STEP: u64 = 1 << 20;

/// Where bytes come from.
pub(super) enum Input {
    /// Not held open.
    Closed,
    /// A file that may grow.
    Plain(File),
    /// A file that is whole.
    Gz(Box<Gz>),
}

/// A compressed file being unpacked.
pub(super) struct Gz {
    decoder: MultiGzDecoder<File>,
    /// What was unpacked and not taken: the beginning of a line.
    carry: Vec<u8>,
    /// Handled before: unpacked and dropped.
    skip: u64,
}

impl Gz {
    pub(super) fn open(path: &Path, skip: u64) -> io::Result<Self> {
        let (file, _) = files::open(path)?;
        Ok(Gz {
            decoder: MultiGzDecoder::new(file),
            carry: Vec::new(),
            skip,
        })
    }

    fn fill(&mut self, buf: &mut [u8]) -> io::Result<Filled> {
        if self.skip > 0 {
            let step = self.skip.min(SKIP_STEP);
            let passed = io::copy(&mut (&mut self.decoder).take(step), &mut io::sink())?;
            self.skip -= passed;
            let ended = passed < step;
            if ended || self.skip > 0 {
                return Ok(Filled {
                    bytes: 0,
                    state: if ended { Then::End } else { Then::More },
                });
            }
        }
        let mut bytes = self.carry.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..bytes), self.carry.get(..bytes)) {
            to.copy_from_slice(from);
        }
        let mut state = Then::More;
        while let Some(room) = buf.get_mut(bytes..).filter(|room| !room.is_empty()) {
            match self.decoder.read(room) {
                Ok(0) => {
                    state = Then::End;
                    break;
                }
                Ok(read) => bytes += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Filled { bytes, state })
    }
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) bytes: usize,
    pub(super) state: Then,
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
    /// Reads what follows `offset`. Nobody but `pass` moves on: what is not passed is given again.
    pub(super) fn fill(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<Filled> {
        match self {
            Input::Closed => Ok(Filled {
                bytes: 0,
                state: Then::Pause,
            }),
            Input::Plain(file) => loop {
                match file.read_at(buf, offset) {
                    Ok(bytes) => {
                        let state = if bytes == buf.len() {
                            Then::More
                        } else {
                            Then::Pause
                        };
                        return Ok(Filled { bytes, state });
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
            Input::Gz(gz) => gz.fill(buf),
        }
    }

    /// The first `passed` bytes of the last fill are done with, the others are not.
    pub(super) fn pass(&mut self, filled: &[u8], passed: usize) {
        if let Input::Gz(gz) = self
            && gz.skip == 0
        {
            gz.carry.clear();
            gz.carry
                .extend_from_slice(filled.get(passed..).unwrap_or_default());
        }
    }
}

/// The beginning of a file, at most what a fingerprint takes.
pub(super) fn first(file: &File, buf: &mut [u8; FIRST]) -> io::Result<usize> {
    let mut bytes = 0;
    while let Some(room) = buf.get_mut(bytes..).filter(|room| !room.is_empty()) {
        match file.read_at(room, bytes as u64) {
            Ok(0) => break,
            Ok(read) => bytes += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The fingerprint of an open file.
pub(super) fn fingerprint(file: &File) -> io::Result<Fingerprint> {
    let mut buf = [0; FIRST];
    let bytes = first(file, &mut buf)?;
    Ok(Fingerprint::of(buf.get(..bytes).unwrap_or_default()))
}

/// Whether an open file begins as told.
pub(super) fn begins(file: &File, known: Fingerprint) -> bool {
    let mut buf = [0; FIRST];
    first(file, &mut buf).is_ok_and(|bytes| known.fits(buf.get(..bytes).unwrap_or_default()))
}

/// Whether the file at `path` begins as told.
pub(super) fn fits(path: &Path, compressed: bool, known: Fingerprint) -> io::Result<bool> {
    let mut buf = [0; FIRST];
    let bytes = if compressed {
        let mut gz = Gz::open(path, 0)?;
        gz.fill(&mut buf)?.bytes
    } else {
        first(&files::open(path)?.0, &mut buf)?
    };
    Ok(known.fits(buf.get(..bytes).unwrap_or_default()))
}
