//! The thread that follows the kernel log for the agent.

use crate::agent::Wake;
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind};
use crate::sampler::Clock;
use crate::source::kernel_log::follow::{
    Delivery, FollowError, FollowOptions, KmsgFollower, KmsgItem, Stopper,
};
use crate::source::kernel_log::state::ResumeState;
use crate::units::Millis;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Where the log is and how it is taken.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The log.
    pub path: PathBuf,
    /// Boot that its record numbers belong to.
    pub boot_id: String,
    /// Whether it is a running kernel's log, whose stamps follow the monotonic clock.
    pub live: bool,
    /// Take records that user space wrote (tests).
    pub any_facility: bool,
    /// Where an earlier run stopped.
    pub resume: Option<ResumeState>,
}

impl Settings {
    fn options(&self) -> FollowOptions {
        let mut options = FollowOptions::new(&self.path, &self.boot_id);
        options.any_facility = self.any_facility;
        options.resume = self.resume.clone();
        options
    }

    /// Moment of a record on the agent's clock. A tree's log may come from another machine: its
    /// records count from when they are read.
    fn moment(&self, item: &KmsgItem, now: Millis) -> Millis {
        if self.live {
            now.min(Millis(item.ts_us / 1000))
        } else {
            now
        }
    }
}

/// Time between attempts to open a log that cannot be followed, live and in a tree.
const RETRY: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(1)];

/// Ends the thread.
#[derive(Debug, Default)]
pub struct Handle {
    stopper: Arc<Mutex<Option<Stopper>>>,
}

impl Handle {
    /// Asks the follower to end.
    pub fn stop(&self) {
        let stopper = self.stopper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stopper) = stopper.as_ref() {
            stopper.stop();
        }
    }
}

/// Starts following. Events and the log's own health go to `tx`, in order.
pub fn spawn(mut settings: Settings, clock: Clock, tx: mpsc::UnboundedSender<Wake>) -> Handle {
    let handle = Handle::default();
    let stopper = Arc::clone(&handle.stopper);
    crate::thread::spawn("kmsg", move || {
        while !tx.is_closed() {
            let Err(error) = follow(&mut settings, &stopper, clock, &tx) else {
                return;
            };
            let (fault, absent) = fault_of(&error);
            let sent = tx.send(Wake::KernelLog {
                lost: None,
                fault,
                absent,
            });
            if sent.is_err() {
                return;
            }
            std::thread::sleep(if settings.live { RETRY[0] } else { RETRY[1] });
        }
    });
    handle
}

fn follow(
    settings: &mut Settings,
    stopper: &Mutex<Option<Stopper>>,
    clock: Clock,
    tx: &mpsc::UnboundedSender<Wake>,
) -> Result<(), FollowError> {
    let mut follower = KmsgFollower::open(settings.options())?;
    *stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower.stopper());
    let stats = follower.stats();
    let mut told_lost = 0;
    let _ = tx.send(Wake::KernelLog {
        lost: None,
        fault: None,
        absent: false,
    });
    let mut resume = None;
    let ended = follower.run(
        || clock.now().0.saturating_mul(1000),
        |delivery| {
            match delivery {
                Delivery::Item(item) => {
                    let _ = tx.send(Wake::Kernel {
                        at: settings.moment(&item, clock.now()),
                        item,
                    });
                }
                Delivery::Through(state) => {
                    resume = Some(state.clone());
                    let _ = tx.send(Wake::KernelThrough(state));
                }
            }
            let lost = stats.lost.load(Ordering::Relaxed);
            if lost != told_lost {
                let _ = tx.send(Wake::KernelLog {
                    lost: Some(lost - told_lost),
                    fault: None,
                    absent: false,
                });
                told_lost = lost;
            }
        },
    );
    settings.resume = resume.or(settings.resume.take());
    ended
}

/// Reads what the log holds now and does not wait: for a single look.
///
/// # Errors
/// Why it cannot be read. `None`: there is no log under this root.
pub fn read_existing(
    settings: &Settings,
    now: Millis,
) -> Result<Option<Vec<(Millis, KmsgItem)>>, Fault> {
    let mut items = Vec::new();
    let mut read = || -> Result<(), FollowError> {
        let mut follower = KmsgFollower::open(settings.options())?;
        follower.drain(now.0.saturating_mul(1000), &mut |delivery| {
            if let Delivery::Item(item) = delivery {
                items.push((settings.moment(&item, now), *item));
            }
        })
    };
    match read() {
        Ok(()) => Ok(Some(items)),
        Err(error) => match fault_of(&error) {
            (Some(fault), _) => Err(fault),
            (None, _) => Ok(None),
        },
    }
}

/// What a failure to follow means: no log under this root (a container or capture without one), or
/// a fault.
pub fn fault_of(error: &FollowError) -> (Option<Fault>, bool) {
    let (FollowError::Open { source, .. } | FollowError::Read { source, .. }) = error;
    let kind = match source.kind() {
        std::io::ErrorKind::NotFound => return (None, true),
        std::io::ErrorKind::PermissionDenied => FaultKind::Denied,
        _ => FaultKind::Other,
    };
    let fault = Fault {
        kind,
        detail: error.to_string(),
    };
    (Some(fault), false)
}

/// Settings for a host.
pub fn settings(
    host: &Host,
    path: &std::path::Path,
    any_facility: bool,
    resume: Option<ResumeState>,
) -> Settings {
    Settings {
        path: host.path(path.strip_prefix("/").unwrap_or(path)),
        boot_id: crate::sampler::assemble::boot_id(host).unwrap_or_default(),
        live: host.is_live(),
        any_facility,
        resume,
    }
}
