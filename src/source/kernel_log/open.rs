//! How the log is followed, and which way to it is open.

use std::io;
use std::path::PathBuf;

use super::input::{self, RecordInput};
use super::klogctl;
use super::ring::Ring;
use super::state::{Place, ResumeState};

/// What faults call syslog(2).
pub(super) const SYSLOG: &str = "syslog(2)";

/// Ways to read the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The device, or a file in its place.
    Device,
    /// syslog(2): the running kernel's log, whatever the path.
    Syslog,
}

impl Way {
    /// As reports tell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Device => "device",
            Way::Syslog => "syslog",
        }
    }
}

/// How to follow.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// `/dev/kmsg`, or a file of raw records that grows.
    pub path: PathBuf,
    /// The way; none: the device, and syslog(2) where it is absent or refused.
    pub way: Option<Way>,
    /// The running kernel's boot id.
    pub boot_id: String,
    /// How far an earlier run read; `None` at the very first start.
    pub resume: Option<ResumeState>,
    /// Accept records that user space wrote; for tests only, since anybody could then fake a fault.
    pub any_facility: bool,
    /// Age in microseconds from which a record found at the very first start is history.
    pub history_after_us: u64,
    /// Microseconds between resume points while only uninteresting records come.
    pub tell_every_us: u64,
    /// Milliseconds between looks at a regular file, which cannot be waited for.
    pub file_poll_ms: u16,
    /// Milliseconds between looks by syslog(2).
    pub syslog_poll_ms: u16,
}

impl FollowOptions {
    /// The defaults: ten minutes of history, a resume point each five seconds.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, boot_id: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            way: Some(Way::Device),
            boot_id: boot_id.into(),
            resume: None,
            any_facility: false,
            history_after_us: 600_000_000,
            tell_every_us: 5_000_000,
            file_poll_ms: 50,
            syslog_poll_ms: 1000,
        }
    }

    /// Where an earlier run of this boot stopped.
    pub(super) fn place(&self) -> Option<Place> {
        let resume = self.resume.as_ref()?;
        (resume.boot_id == self.boot_id).then_some(resume.place)
    }
}

/// Why following ended.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The log cannot be opened: absent, or not permitted (CAP_SYSLOG). Try again later.
    #[error("open {path}: {source}")]
    Open {
        /// The log's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Neither way is open: the one is absent or refused, so is the other (CAP_SYSLOG, seccomp).
    #[error("open {path}: {device}; syslog(2): {source}")]
    Both {
        /// The log's path.
        path: PathBuf,
        /// What the system said of the device.
        device: io::Error,
        /// What it said of syslog(2).
        source: io::Error,
    },
    /// Reading or waiting failed. Open anew.
    #[error("read {path}: {source}")]
    Read {
        /// The log's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Opens the log by the first way that is open.
pub(super) fn open_log(
    options: &FollowOptions,
) -> Result<(Way, Box<dyn RecordInput>), FollowError> {
    let syslog = || syslog(options.place().unwrap_or_default());
    let path = || options.path.clone();
    if options.way == Some(Way::Syslog) {
        let failed = |source| FollowError::Read {
            path: SYSLOG.into(),
            source,
        };
        return syslog().map(|ring| (Way::Syslog, ring)).map_err(failed);
    }
    match input::open(&options.path) {
        Ok(input) => Ok((Way::Device, input)),
        Err(device) if options.way.is_none() && closed(&device) => match syslog() {
            Ok(ring) => Ok((Way::Syslog, ring)),
            Err(source) => Err(FollowError::Both {
                path: path(),
                device,
                source,
            }),
        },
        Err(source) => Err(FollowError::Open {
            path: path(),
            source,
        }),
    }
}

/// The running kernel's log by syslog(2); what is after `place` is new.
///
/// # Errors
/// What the system said, or that the log cannot be followed this way.
pub fn syslog(place: Place) -> io::Result<Box<dyn RecordInput>> {
    Ok(Box::new(Ring::open(Box::new(klogctl::read_all), place)?))
}

/// Whether the device is not there for this process: absent, or refused by the device cgroup, by
/// `kernel.dmesg_restrict` or by a mount.
fn closed(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied)
}
