//! How far each container's log was read.

use super::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};

/// The resume point of all containers followed. It outlives a reboot: files are known by their
/// beginnings, not by their device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResumeState {
    /// One a container; as many as are followed at most.
    pub logs: Vec<Mark>,
}

/// How far one container's log was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// UID of the pod.
    pub uid: String,
    /// Name of the container.
    pub container: String,
    /// Restart number of the file that is read.
    pub restart: u32,
    /// Its inode number: the first guess where to find it.
    pub inode: u64,
    /// Its beginning: what it is known by.
    pub first: Fingerprint,
    /// Where its first line not yet handled begins, in bytes; of a compressed file, of its content.
    pub offset: u64,
    /// Stamp of the youngest rotated file that is known to be older (`20241114101112`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<u64>,
    /// The line at the offset is longer than what is handled: its rest is passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within_long: bool,
}
