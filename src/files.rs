//! Bounded reads of files that people and other programs write. (Kernel files: `source/tree.rs`.)

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// All of a regular file. Opening a pipe does not wait for its writer.
///
/// # Errors
/// The system's answer; the file is not a regular one, or longer than `most` bytes (whole MiB).
pub(crate) fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = nix::libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => read_all(file, most),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// All of an input.
///
/// # Errors
/// As [`read_regular`].
pub(crate) fn read_all(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!(
            "it is longer than {} MiB",
            most >> 20
        ))),
        false => Ok(bytes),
    }
}
