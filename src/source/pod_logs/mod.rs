//! Follows growing log files: those of all pods on the node
//! (`/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`), or all files of one directory.
//!
//! N counts restarts. The kubelet rotates a log by renaming it (`0.log.20241114-101112`), has the
//! runtime open a new `0.log`, and compresses all rotated files but the youngest (`.gz`). With Docker
//! `0.log` is a link into another directory, where `.1` is the youngest rotated file.
//!
//! One file per container is read at a time, identified by its inode: a renamed file is read to its
//! end before the newer one is begun. After a restart of the agent, the place in a rotated file,
//! compressed or not, is found by the file's beginning. Bytes that are gone are reported as lost.
//!
//! Everything is found by polling ([`Follower::poll`]). A file that is being written to is read at each
//! poll, by one system call; a quiet one has no descriptor, and its name is checked each second. A
//! partial line is left in the file and read again, so nothing is carried in memory and the resume
//! point is always the beginning of a line.
//!
//! Limits: bytes of one file per poll before all others had their turn; bytes of one poll, which also
//! bounds the work of catching up after a start; the length of a line; open files;
//! containers.
//!
//! A read may hang, so all of this belongs on a thread of its own.

mod discovery;
mod follower;
mod input;
mod listing;
mod log;
mod names;
mod options;
mod rotation;

pub use follower::Follower;
use listing::{Found, LogListing, is_gone};
use log::{Log, OpenFile, Tools, taken};
pub(crate) use names::pod_dir;
pub use options::{
    Container, FileId, Fingerprint, FlatFile, Layout, LogMarks, Mark, Options, Point, PollStats,
    Sink,
};

#[cfg(test)]
mod tests;
