//! The thread that follows the kernel log for the agent.

use crate::clock::Clock;
use crate::config::{AgentSettings, KmsgSource};
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind};
use crate::source::kernel_log::follow::{
    Delivery, FollowError, FollowOptions, KmsgFollower, KmsgItem, Stopper, Way,
};
use crate::source::kernel_log::state::ResumeState;
use crate::units::Millis;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    /// The way it is read; none: the first that is open.
    pub way: Option<Way>,
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
    fn options(&self, resume: Option<ResumeState>) -> FollowOptions {
        let mut options = FollowOptions::new(&self.path, &self.boot_id);
        options.way = self.way;
        options.any_facility = self.any_facility;
        options.resume = resume;
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

/// News of the kernel log, in order.
#[derive(Debug)]
pub enum Update {
    /// A decoded record.
    Event {
        /// Moment of the record, on the agent's clock.
        at: Millis,
        /// The decoded event.
        item: Box<KmsgItem>,
        /// Its place: saved together with its consequences.
        through: ResumeState,
    },
    /// The log was read up to here, with no event since the last one.
    Through(ResumeState),
    /// So many more records were overwritten before they were read.
    Lost(u64),
    /// The log's own health.
    Health {
        /// Why it cannot be followed, if so.
        fault: Option<Fault>,
        /// This root has no kernel log.
        absent: bool,
        /// The way it is read, once it is.
        via: Option<Way>,
    },
}

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

/// Starts following. Events and the log's own health go to `tx`, in order; where they are not taken
/// in as fast as they come, the thread waits, and the log's own overrun is counted.
pub fn spawn<M: From<Update> + Send + 'static>(
    mut settings: Settings,
    clock: Clock,
    tx: mpsc::Sender<M>,
) -> Handle {
    let handle = Handle::default();
    let stopper = Arc::clone(&handle.stopper);
    crate::blocking::spawn("kmsg", move || {
        let tell = |update: Update| tx.blocking_send(update.into()).is_ok();
        while !tx.is_closed() {
            let mut reached = settings.resume.take();
            let options = settings.options(reached.clone());
            let follow = || follow(&settings, options, &mut reached, &stopper, clock, &tell);
            let Some(health) = health_after(catch_unwind(AssertUnwindSafe(follow))) else {
                return;
            };
            settings.resume = reached;
            if !tell(health) {
                return;
            }
            std::thread::sleep(if settings.live { RETRY[0] } else { RETRY[1] });
        }
    });
    handle
}

/// What to tell of the log when following it has ended; none if it was asked to end.
fn health_after(ended: std::thread::Result<Result<(), FollowError>>) -> Option<Update> {
    let (fault, absent) = match ended {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => fault_of(&error),
        Err(_) => {
            let fault = Fault {
                kind: FaultKind::Other,
                detail: "its reader panicked; this is a bug in selvage".into(),
            };
            (Some(fault), false)
        }
    };
    Some(Update::Health {
        fault,
        absent,
        via: None,
    })
}

/// Follows; `reached` is how far, also when this ends by a panic: nothing is told twice.
fn follow(
    settings: &Settings,
    options: FollowOptions,
    reached: &mut Option<ResumeState>,
    stopper: &Mutex<Option<Stopper>>,
    clock: Clock,
    tell: &dyn Fn(Update) -> bool,
) -> Result<(), FollowError> {
    let mut follower = KmsgFollower::open(options)?;
    *stopper.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower.stopper());
    let stats = follower.stats();
    let way = follower.way();
    let now_us = || clock.now().0.saturating_mul(1000);
    let mut told_lost = 0;
    let mut told_well = false;
    let mut deliver = |delivery: Option<Delivery>| {
        // Opening it says little: it is well once it was read.
        if !std::mem::replace(&mut told_well, true) {
            tracing::info!(way = way.name(), "the kernel log is read");
            tell(Update::Health {
                fault: None,
                absent: false,
                via: Some(way),
            });
        }
        match delivery {
            Some(Delivery::Item(item)) => {
                let through = ResumeState {
                    boot_id: settings.boot_id.clone(),
                    place: item.place,
                };
                *reached = Some(through.clone());
                tell(Update::Event {
                    at: settings.moment(&item, clock.now()),
                    item,
                    through,
                });
            }
            Some(Delivery::Through(state)) => {
                *reached = Some(state.clone());
                tell(Update::Through(state));
            }
            None => {}
        }
        let lost = stats.lost.load(Ordering::Relaxed);
        if lost != told_lost {
            tell(Update::Lost(lost - told_lost));
            told_lost = lost;
        }
    };
    follower.drain(now_us(), &mut |delivery| deliver(Some(delivery)))?;
    deliver(None);
    follower.run(now_us, |delivery| deliver(Some(delivery)))
}

/// What the log held at a single look, and the way it was read.
pub type Look = (Way, Vec<(Millis, KmsgItem)>);

/// Reads what the log holds now and does not wait: for a single look.
///
/// # Errors
/// Why it cannot be read. `None`: there is no log under this root.
pub fn read_existing(settings: &Settings, now: Millis) -> Result<Option<Look>, Fault> {
    let mut items = Vec::new();
    let mut read = || -> Result<Way, FollowError> {
        let mut follower = KmsgFollower::open(settings.options(None))?;
        follower.drain(now.0.saturating_mul(1000), &mut |delivery| {
            if let Delivery::Item(item) = delivery {
                items.push((settings.moment(&item, now), *item));
            }
        })?;
        Ok(follower.way())
    };
    match read() {
        Ok(way) => Ok(Some((way, items))),
        Err(error) => match fault_of(&error) {
            (Some(fault), _) => Err(fault),
            (None, _) => Ok(None),
        },
    }
}

/// What a failure to follow means: no log under this root (a container or capture without one), or
/// a fault.
pub fn fault_of(error: &FollowError) -> (Option<Fault>, bool) {
    let (FollowError::Open { source, .. }
    | FollowError::Read { source, .. }
    | FollowError::Both { source, .. }) = error;
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

/// Settings for a host. Without a boot id, a resume point could be of any boot: it is left aside.
pub fn settings(
    host: &Host,
    agent: &AgentSettings,
    boot_id: Option<&str>,
    resume: Option<ResumeState>,
) -> Settings {
    let path = &agent.kmsg;
    let way = match agent.kmsg_source {
        // syslog(2) tells of this machine, not of the one that a tree was taken from.
        _ if !host.is_live() => Some(Way::Device),
        KmsgSource::Device => Some(Way::Device),
        KmsgSource::Syslog => Some(Way::Syslog),
        KmsgSource::Auto => None,
    };
    Settings {
        path: host.path(path.strip_prefix("/").unwrap_or(path)),
        way,
        boot_id: boot_id.unwrap_or_default().into(),
        live: host.is_live(),
        any_facility: agent.kmsg_all_facilities,
        resume: resume.filter(|resume| boot_id.is_some() && !resume.boot_id.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::kernel_log::state::Place;
    use crate::source::testtree::TestTree;

    #[test]
    fn a_resume_point_without_a_boot_is_left_aside() {
        let host = TestTree::new().host();
        let agent = AgentSettings::default();
        let resume = |boot_id: &str| ResumeState {
            boot_id: boot_id.into(),
            place: Place::numbered(7, 0),
        };
        for (then, now, kept) in [
            ("", None, false),
            ("a", None, false),
            ("", Some("a"), false),
            ("a", Some("a"), true),
            // Of another boot: it tells that this is not the first start.
            ("b", Some("a"), true),
        ] {
            let settings = settings(&host, &agent, now, Some(resume(then)));
            assert_eq!(settings.resume.is_some(), kept, "{then:?} {now:?}");
        }
    }

    #[test]
    fn a_tree_is_never_read_by_the_machines_own_log() {
        let mut agent = AgentSettings::default();
        for source in [KmsgSource::Auto, KmsgSource::Device, KmsgSource::Syslog] {
            agent.kmsg_source = source;
            let settings = settings(&TestTree::new().host(), &agent, None, None);
            assert_eq!(settings.way, Some(Way::Device), "{source:?}");
        }
    }

    #[test]
    fn both_ways_refused_is_told_of_both() {
        let refused = |kind: std::io::ErrorKind| FollowError::Both {
            path: "/dev/kmsg".into(),
            device: std::io::ErrorKind::NotFound.into(),
            source: kind.into(),
        };
        let (fault, absent) = fault_of(&refused(std::io::ErrorKind::PermissionDenied));
        let fault = fault.unwrap();
        assert_eq!((fault.kind, absent), (FaultKind::Denied, false));
        assert!(fault.detail.contains("/dev/kmsg") && fault.detail.contains("syslog(2)"));
    }

    #[test]
    fn a_reader_that_panicked_is_not_well() {
        let health = health_after(Err(Box::new("a bug")));
        let Some(Update::Health { fault, absent, .. }) = health else {
            panic!("{health:?}");
        };
        assert!(fault.is_some() && !absent);
        assert!(health_after(Ok(Ok(()))).is_none());
    }
}
