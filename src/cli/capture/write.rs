//! Writes a recorded tree into a directory, within bounds.

use super::{Summary, unwritable};
use crate::host::ERRNO_FILE;
use crate::host::recording::{Recorded, Stored};
use nix::errno::Errno;
use std::{io, path::Path};

/// Longest file kept; a longer one is cut.
const MAX_FILE: usize = 256 << 10;

/// Most files and links of one capture.
const MAX_ENTRIES: usize = 100_000;

/// Most bytes of one capture.
const MAX_BYTES: u64 = 64 << 20;

const MAX_TROUBLES: usize = 32;

/// Writes the tree below `out` with its list of errors.
pub fn write(out: &Path, mut tree: Recorded) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for (path, entry) in &tree.entries {
        let bytes = match entry {
            Stored::File(Some(bytes)) => bytes.get(..MAX_FILE).unwrap_or(bytes),
            _ => &[],
        };
        let size = bytes.len() as u64;
        if summary.files + summary.links >= MAX_ENTRIES || summary.bytes + size > MAX_BYTES {
            summary.left_out += 1;
            // A replay must not take it for absent.
            tree.errnos.insert(path.clone(), Errno::EFBIG as i32);
            continue;
        }
        if let Err(error) = make(&out.join(path), entry, bytes) {
            if summary.troubles.len() < MAX_TROUBLES {
                summary.troubles.push(unwritable(path, &error));
            }
            continue;
        }
        summary.links += usize::from(matches!(entry, Stored::Link(_)));
        summary.files += usize::from(matches!(entry, Stored::File(_)));
        summary.bytes += size;
    }
    summary.errnos = tree.errnos.len();
    if !tree.errnos.is_empty() {
        let lines =
            (tree.errnos.iter()).map(|(path, errno)| format!("{errno} {}\n", path.display()));
        let text: String = lines.collect();
        let path = out.join(ERRNO_FILE);
        std::fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
    }
    Ok(summary)
}

fn make(path: &Path, entry: &Stored, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match entry {
        Stored::Directory => std::fs::create_dir_all(path),
        Stored::Link(target) => std::os::unix::fs::symlink(target, path),
        Stored::File(_) => std::fs::write(path, bytes),
    }
}
