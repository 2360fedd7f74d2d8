//! How far the kernel log was read, kept over restarts of the agent.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The resume point. Sequence numbers start anew at each boot, so they hold for one boot id only
/// (`/proc/sys/kernel/random/boot_id`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeState {
    /// Boot that the number belongs to.
    pub boot_id: String,
    /// Last record number that was handled.
    pub last_seq: u64,
}

/// What was found where the state is kept.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// No file: the agent was never here.
    Absent,
    /// A usable state.
    Found(ResumeState),
    /// Unreadable or torn; the reason. The log is then read as if the agent was never here.
    Unusable(String),
}

/// Reads the state.
#[must_use]
pub fn load(path: &Path) -> Loaded {
    match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Loaded::Absent,
        Err(e) => Loaded::Unusable(e.to_string()),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(state) => Loaded::Found(state),
            Err(e) => Loaded::Unusable(e.to_string()),
        },
    }
}

/// Writes the state beside the old one and renames it over: a reader sees one or the other.
///
/// Not synced to the disk: after a power cut the boot id differs and the number is void anyway.
///
/// # Errors
/// Any failure to write or rename; the old state then stays.
pub fn save(path: &Path, state: &ResumeState) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    fs::write(&fresh, serde_json::to_vec(state)?)?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_state_comes_back_and_a_torn_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg.json");
        assert_eq!(load(&path), Loaded::Absent);
        let state = ResumeState {
            boot_id: "b".into(),
            last_seq: u64::MAX,
        };
        save(&path, &state).unwrap();
        assert_eq!(load(&path), Loaded::Found(state));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(&path, "{\"boot_id\":\"b\",").unwrap();
        assert!(matches!(load(&path), Loaded::Unusable(_)));
        fs::write(&path, "").unwrap();
        assert!(matches!(load(&path), Loaded::Unusable(_)));
        let missing = dir.path().join("no/such");
        assert!(
            save(
                &missing,
                &ResumeState {
                    boot_id: "b".into(),
                    last_seq: 1
                }
            )
            .is_err()
        );
    }
}
