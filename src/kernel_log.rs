//! The thread that follows the kernel log for the agent.

use crate::agent::Wake;
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::sampler::Clock;
use crate::source::kernel_log::follow::{
    Delivery, FollowError, FollowOptions, KmsgFollower, KmsgItem, Stopper,
};
use crate::source::kernel_log::state::ResumeState;
use crate::source::tree;
use crate::units::Millis;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Where the log is and how it is taken.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Path below the host root, normally `dev/kmsg`.
    pub path: std::path::PathBuf,
    /// Take records that user space wrote (tests).
    pub any_facility: bool,
    /// Where an earlier run stopped.
    pub resume: Option<ResumeState>,
}

/// Time between attempts to open a log that cannot be followed.
const RETRY: Duration = Duration::from_secs(10);

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
pub fn spawn(
    settings: Settings,
    host: &Host,
    clock: Clock,
    tx: mpsc::UnboundedSender<Wake>,
) -> Handle {
    let handle = Handle::default();
    let stopper = Arc::clone(&handle.stopper);
    let live = host.is_live();
    let boot_id = crate::sampler::assemble::boot_id(host).unwrap_or_default();
    crate::agent::spawn_thread("kmsg", move || {
        let mut resume = settings.resume.clone();
        while !tx.is_closed() {
            let mut options = FollowOptions::new(&settings.path, &boot_id);
            options.any_facility = settings.any_facility;
            options.resume = resume.clone();
            let error = match follow(options, &stopper, clock, live, &tx, &mut resume) {
                Ok(()) => return,
                Err(error) => error,
            };
            let _ = tx.send(health_of(&error));
            if matches!(tree::classify_io(&error), Reading::Absent) && !live {
                // A tree without a log: it may still get one (the demo), but nobody waits for it.
                std::thread::sleep(Duration::from_millis(500));
            } else {
                std::thread::sleep(RETRY);
            }
        }
    });
    handle
}
