//! Writes a file in one step, because a collector may read it at any time.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Refuses what a rename must not replace: a directory, a link, a device or a pipe.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            let why = "exists and is not a regular file: not replaced";
            Err(io::Error::other(why))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes or replaces a file.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    check(path)?;
    let scratch = scratch(path);
    // A file or link that is already there is not followed.
    let written = std::fs::File::create_new(&scratch)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&scratch, path));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&scratch);
    })
}

/// A sibling, because a rename stays within a file system; collectors do not read names that end so.
fn scratch(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of the test's own")]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("targets.json");
        replace(&file, b"1").unwrap();
        replace(&file, b"2").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "2");
        assert!(replace(dir.path(), b"").is_err(), "a directory");
        assert!(replace(Path::new("/dev/null"), b"").is_err(), "a device");
        // A link in the place of the scratch file is not followed.
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, scratch(&file)).unwrap();
        assert!(replace(&file, b"").is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    }
}
