//! Follows the logs of all pods on the node: `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`.
//!
//! N counts restarts. The kubelet rotates a log by renaming it (`0.log.20241114-101112`), has the
//! runtime open a new `0.log`, and compresses all rotated ones but the youngest (`.gz`). With Docker
//! `0.log` is a link into another directory, where `.1` is the youngest rotated file.
//!
//! One file a container is read at a time, by its inode: a renamed file is read to its end before the
//! newer one is begun. Who comes late finds his place in a rotated file, compressed or not, by the
//! file's beginning. What is gone is told as lost.
//!
//! Looks ([`Follower::poll`]) find everything; inotify only makes them come sooner. A file that is
//! written to is read at each look, by one system call; one that rests has an inotify watch for its
//! next write and no descriptor. A line that is not whole is left where it is and read again, so
//! nothing is carried in memory and the resume point is always the beginning of a line.
//!
//! Bounds: bytes of one file in a look before all others had their turn; bytes of files that lag
//! behind in a look, together, which also bounds the work of catching up after a start; the length of
//! a line; files open; containers; rotated bytes caught up on.
//!
//! A read may hang, so all of this belongs on a thread of its own; [`Progress`] shows it.

mod cut;
mod files;
mod fingerprint;
mod follow_on;
mod follower;
mod input;
mod log;
mod losses;
mod names;
mod options;
mod read;
mod state;
mod tree;
mod watch;

pub use cut::PARTIAL_TAGS;
pub use fingerprint::Fingerprint;
pub use follower::{Follower, Progress};
pub use options::{Container, Options, PollStats, Sink};
pub use state::{Mark, ResumeState};

#[cfg(test)]
mod tests;
