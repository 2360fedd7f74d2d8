//! The nodes' addresses for Prometheus (`file_sd_configs`).

use super::Member;
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Refuses to replace a directory, a device or a pipe.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(existing) if !existing.is_file() => {
            Err(io::Error::other("exists and is not a regular file"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the file in one step: Prometheus may be reading.
pub(super) fn write(path: &Path, members: &[Member]) -> io::Result<()> {
    let targets: Vec<_> = members
        .iter()
        .map(|member| {
            json!({
                "targets": [member.listen.to_string()],
                "labels": {"instance": member.scenario.name, "cluster": "demo"},
            })
        })
        .collect();
    let mut text = serde_json::to_vec(&targets).map_err(io::Error::other)?;
    text.push(b'\n');
    check(path)?;
    let scratch = scratch(path);
    // A file or link that is already there is not followed.
    let written = std::fs::File::create_new(&scratch)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| std::fs::rename(&scratch, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&scratch);
    }
    written
}

/// A sibling of the file, named after this process.
fn scratch(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of the test's own")]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("targets.json");
        write(&file, &[]).unwrap();
        write(&file, &[]).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[]\n");
        assert!(write(dir.path(), &[]).is_err(), "a directory");
        assert!(write(Path::new("/dev/null"), &[]).is_err(), "a device");
        // A link in the place of the scratch file is not followed.
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, scratch(&file)).unwrap();
        assert!(write(&file, &[]).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    }
}
