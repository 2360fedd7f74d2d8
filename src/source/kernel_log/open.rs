//! Options for following the kernel log, and opening it by the device or by syslog(2).

use std::{io, path::PathBuf};

use super::ring::SyslogRing;
use super::{Position, RecordInput, ResumeState, input, klogctl};
use crate::settings_macro::words;

/// Name of syslog(2) in errors.
pub(super) const SYSLOG: &str = "syslog(2)";

words! {
    /// Ways to read the log.
    ReadMethod {
        /// The device, or a file in its place.
        Device = "device",
        /// syslog(2): the running kernel's log, whatever the path.
        Syslog = "syslog",
    }
}

/// Where the log is, how it is read and where reading resumes.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// `/dev/kmsg`, or a growing file in its place.
    pub path: PathBuf,
    /// The way; `None`: the device, or syslog(2) where it is absent or not permitted.
    pub way: Option<ReadMethod>,
    /// The running kernel's boot id, which record numbers belong to.
    pub boot_id: String,
    /// How far an earlier run read; `None` at the very first start.
    pub resume: Option<ResumeState>,
    /// A file in the device's place will not grow: its last line counts without an end, too.
    pub complete: bool,
    /// Accept records that user space wrote. For tests only: any process could then fake a fault.
    pub any_facility: bool,
}

impl FollowOptions {
    /// Follows the device at `path` from its start.
    #[cfg(test)]
    pub fn new(path: impl Into<PathBuf>, boot_id: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            way: Some(ReadMethod::Device),
            boot_id: boot_id.into(),
            resume: None,
            complete: false,
            any_facility: false,
        }
    }

    /// Where an earlier run of this boot stopped.
    pub(super) fn place(&self) -> Option<Position> {
        let resume = self.resume.as_ref()?;
        (resume.boot_id == self.boot_id).then_some(resume.place)
    }
}

/// Why following cannot start or ended. Try again later: the log may appear, or be permitted.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct FollowError {
    /// The step that failed, with path.
    pub(super) what: String,
    /// The system's answer: absent, not permitted (CAP_SYSLOG, seccomp), or a failed read.
    pub source: io::Error,
}

/// Opens the log by the first way that works.
pub(super) fn open_log(
    options: &FollowOptions,
) -> Result<(ReadMethod, Box<dyn RecordInput>), FollowError> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let by_syslog = |what: String| match syslog(options.place().unwrap_or_default()) {
        Ok(ring) => Ok((ReadMethod::Syslog, ring)),
        Err(source) => Err(FollowError { what, source }),
    };
    if options.way == Some(ReadMethod::Syslog) {
        return by_syslog(format!("read {SYSLOG}"));
    }
    let path = options.path.display();
    match input::open(&options.path, options.complete) {
        Ok(input) => Ok((ReadMethod::Device, input)),
        // Absent, or refused by the device cgroup, `kernel.dmesg_restrict` or a mount.
        Err(device)
            if options.way.is_none() && matches!(device.kind(), NotFound | PermissionDenied) =>
        {
            by_syslog(format!("open {path}: {device}; {SYSLOG}"))
        }
        Err(source) => {
            let what = format!("open {path}");
            Err(FollowError { what, source })
        }
    }
}

/// The running kernel's log by syslog(2); records after `place` are new.
///
/// # Errors
/// The system's answer, or that the log cannot be followed this way.
pub fn syslog(place: Position) -> io::Result<Box<dyn RecordInput>> {
    Ok(Box::new(SyslogRing::open(
        Box::new(klogctl::read_all),
        place,
    )?))
}
