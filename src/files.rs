//! Bounded reads of files that people and other programs write, and writes of files that others read at any
//! time. (Kernel files: `source/tree.rs`.)

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
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
    let mib = most >> 20;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {mib} MiB"))),
        false => Ok(bytes),
    }
}

/// Writes or replaces a file, whole or not at all; never through a link. `mode` holds whatever the umask.
///
/// # Errors
/// The system's answer; an old file is as it was.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    // A sibling, because a rename stays within a file system.
    let new = path.with_extension("new");
    let create = || File::create_new(&new);
    let file = create().or_else(|error| match error.kind() {
        // Of a process that was killed.
        io::ErrorKind::AlreadyExists => std::fs::remove_file(&new).and_then(|()| create()),
        _ => Err(error),
    });
    let mut file = file?;
    let permissions = mode.map(Permissions::from_mode);
    let prepared = permissions.map_or(Ok(()), |mode| file.set_permissions(mode));
    let prepared = prepared.and_then(|()| file.write_all(bytes));
    let written = prepared.and_then(|()| file.sync_data());
    let replaced = written.and_then(|()| std::fs::rename(&new, path));
    replaced.inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}

/// Refuses what a person hardly meant to replace: a directory, a link, a device or a pipe.
///
/// # Errors
/// Why the path cannot be taken.
pub(crate) fn check_replaceable(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let why = "exists and is not a regular file: not replaced";
            Err(io::Error::other(why))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of the test's own")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("targets.json");
        let read = || std::fs::read_to_string(&file).unwrap();
        replace(&file, b"1", None).unwrap();
        replace(&file, b"2", None).unwrap();
        assert_eq!(read(), "2");
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("targets.new")).unwrap();
        replace(&file, b"3", None).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        assert_eq!(read(), "3");
        assert!(replace(dir.path(), b"", None).is_err(), "a directory");
        assert!(check_replaceable(&file).is_ok());
        for path in [dir.path(), Path::new("/dev/null")] {
            assert!(check_replaceable(path).is_err(), "{path:?}");
        }
    }
}
