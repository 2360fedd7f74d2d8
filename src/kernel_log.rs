//! The thread that follows the kernel log for the agent.

use crate::clock::Clock;
use crate::config::{AgentSettings, KmsgSource};
use crate::host::Host;
use crate::observe::{FaultKind, Reading};
use crate::source::kernel_log::{
    Delivery, FollowError, FollowOptions, HISTORY, KmsgFollower, KmsgItem, ReadMethod, ResumeState,
};
use crate::supervise::{self, Supervisor, Task};
use crate::units::Millis;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// News of the kernel log.
#[derive(Debug)]
pub enum Update {
    /// What was read, and the moment of an event's record on the agent's clock.
    Read(Millis, Delivery),
    /// The state of the log itself: the way it is read, once it is; absent where no kernel log exists
    /// under this root.
    Health(Reading<ReadMethod>),
}

/// Where the log is and how it is read.
#[derive(Debug, Clone)]
pub struct Settings {
    options: FollowOptions,
    /// Whether it is a running kernel's log, whose stamps follow the monotonic clock.
    live: bool,
    /// How long the machine of a directory tree was up when the tree was taken.
    taken_at: Option<Millis>,
}

/// Stack of the thread, in bytes: regular expressions are compiled there, for a file in the device's place.
const STACK: usize = 512 * 1024;

/// How far a record's stamp may exceed the uptime that was read before it; the kernel's clock may also be
/// ahead by a hundredth of that time.
const READ_LATER: Duration = Duration::from_secs(60);

impl Settings {
    /// Settings for a host. Without a boot id a resume point could be of any boot and is ignored.
    /// `taken_at`: the uptime of a directory tree; by it, the records that it holds have an age.
    pub fn new(
        host: &Host,
        agent: &AgentSettings,
        boot_id: Option<&str>,
        taken_at: Option<Millis>,
        resume: Option<ResumeState>,
    ) -> Self {
        let path = &agent.kmsg;
        let way = match agent.kmsg_source {
            // syslog(2) reads this machine's log, not that of a tree taken from another.
            _ if !host.is_live() => Some(ReadMethod::Device),
            KmsgSource::Device => Some(ReadMethod::Device),
            KmsgSource::Syslog => Some(ReadMethod::Syslog),
            KmsgSource::Auto => None,
        };
        Settings {
            options: FollowOptions {
                path: host.path(path.strip_prefix("/").unwrap_or(path)),
                way,
                boot_id: boot_id.unwrap_or_default().into(),
                resume: resume.filter(|resume| boot_id.is_some() && !resume.boot_id.is_empty()),
                complete: false,
                any_facility: agent.kmsg_all_facilities,
            },
            live: host.is_live(),
            taken_at,
        }
    }

    /// Moment of a record on the agent's clock. A tree's log may come from another machine, whose
    /// clock stood at `end`; without it, a record counts from when it is read. The kernel stamps by
    /// local_clock, which no NTP corrects: over weeks it loses or gains minutes. But a record
    /// is not older than `since`, when all that was there had been read, nor younger than now. A stamp of
    /// zero is none: log readers may leave it out.
    fn moment(&self, of: &KmsgItem, end: Option<Millis>, (since, now): (Millis, Millis)) -> Millis {
        let stamp = Millis(of.through.place.last_ts_us.unwrap_or(0) / 1000);
        match end {
            _ if self.live => stamp.max(since).min(now),
            Some(end) if stamp > Millis(0) => now.minus(end.since(stamp)),
            _ => now,
        }
    }
}

/// Starts the thread. Updates go to `tx`, in order; a slow receiver makes the thread wait, and the
/// log counts its own overrun. The thread ends when the receiver is gone.
pub(crate) fn spawn<T: From<Update> + Send + 'static>(
    supervisor: &Supervisor,
    settings: Settings,
    clock: Clock,
    tx: Sender<T>,
) {
    // Also after a panic no event is handed over twice.
    let settings = Mutex::new(settings);
    supervisor.thread(supervise::KERNEL_LOG, STACK, move |task| {
        let mut settings = settings.lock().unwrap_or_else(PoisonError::into_inner);
        while !tx.is_closed() {
            let Err(error) = follow(&mut settings, clock, &tx, task) else {
                break;
            };
            let health = Update::Health(unfollowed(&error));
            if tx.blocking_send(health.into()).is_err() {
                break;
            }
            task.beat();
            let retry = Duration::from_secs(if settings.live { 10 } else { 1 });
            std::thread::sleep(retry);
        }
        Ok(())
    });
}

/// Follows until the receiver is gone; the settings' resume point is kept up to date.
fn follow<T: From<Update>>(
    settings: &mut Settings,
    clock: Clock,
    tx: &Sender<T>,
    task: &Task,
) -> Result<(), FollowError> {
    let mut follower = KmsgFollower::open(settings.options.clone())?;
    let via = follower.way;
    let send = |update: Update| {
        let _ = tx.blocking_send(update.into());
    };
    let mut healthy = false;
    // What a tree holds already has an age; what is added counts from then on.
    let mut end = settings.taken_at;
    let mut since = Millis(0);
    // Opening proves little: the log is healthy once it was read.
    let mut report_healthy = || {
        if !std::mem::replace(&mut healthy, true) {
            tracing::info!(via = via.as_str(), "following the kernel log");
            send(Update::Health(Reading::Value(via)));
        }
    };
    while !tx.is_closed() {
        task.beat();
        let (began, before) = (clock.now(), follower.records);
        follower.drain(began.0.saturating_mul(1000), &mut |mut delivery| {
            report_healthy();
            let now = clock.now();
            let mut at = now;
            match &mut delivery {
                Delivery::Item(item) => {
                    at = settings.moment(item, end, (since, now));
                    if end.is_some() {
                        item.historic = now.since(at) > HISTORY;
                    }
                    settings.options.resume = Some(item.through.clone());
                }
                Delivery::Through(state) => settings.options.resume = Some(state.clone()),
                Delivery::Lost(_) | Delivery::Rebooted => {}
            }
            send(Update::Read(at, delivery));
        })?;
        end = None;
        since = began;
        report_healthy();
        let idle = follower.records == before;
        let took = idle.then(|| clock.now().since(began));
        follower.wait(took.unwrap_or_default())?;
    }
    Ok(())
}

/// Everything that the log held, and the way it was read.
pub type Existing = (ReadMethod, Vec<(Millis, KmsgItem)>);

/// Reads what the log holds now and does not wait: for `selvage check`. Absent where no log exists under
/// this root.
pub fn read_existing(settings: &Settings, now: Millis) -> Reading<Existing> {
    existing(settings, now).unwrap_or_else(|error| unfollowed(&error))
}

fn existing(settings: &Settings, now: Millis) -> Result<Reading<Existing>, FollowError> {
    let mut items = Vec::new();
    let mut options = settings.options.clone();
    options.complete = true;
    let mut follower = KmsgFollower::open(options)?;
    follower.drain(now.0.saturating_mul(1000), &mut |delivery| match delivery {
        Delivery::Item(item) => items.push(*item),
        Delivery::Rebooted => items.clear(),
        Delivery::Lost(_) | Delivery::Through(_) => {}
    })?;
    let newest = follower.newest_us().map(|newest| Millis(newest / 1000));
    // Without an uptime, the log's end is the latest moment that is known of the machine.
    let end = settings.taken_at.or(newest);
    let is_beyond = |stamp_us: u64| {
        let late = |up| Millis(stamp_us / 1000).since(up) > READ_LATER + up.since(Millis(0)) / 100;
        settings.taken_at.is_some_and(late)
    };
    if is_beyond(follower.steady_us) {
        let message = "its stamps go beyond the uptime: it is of another boot";
        return Ok(Reading::failed(FaultKind::Other, message));
    }
    // Of an earlier boot, in a log that was filtered and does not tell where this one began.
    items.retain(|item| !is_beyond(item.through.place.last_ts_us.unwrap_or(0)));
    let dated = items.into_iter().map(|mut item| {
        let at = settings.moment(&item, end, (Millis(0), now));
        item.historic = now.since(at) > HISTORY;
        (at, item)
    });
    Ok(Reading::Value((follower.way, dated.collect())))
}

/// What a failure to follow stands for: a fault, or that no log exists under this root, as in a
/// container or a capture without one.
fn unfollowed<T>(error: &FollowError) -> Reading<T> {
    let kind = match error.source.kind() {
        ErrorKind::NotFound => return Reading::Absent,
        ErrorKind::PermissionDenied => FaultKind::Denied,
        _ => FaultKind::Other,
    };
    Reading::failed(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{KernelEvent, KernelEventKind, Note};
    use crate::source::kernel_log::state::Position;
    use crate::source::testtree::TestTree;

    #[test]
    fn a_resume_point_without_a_boot_is_ignored() {
        let host = TestTree::new().host();
        let agent = AgentSettings::default();
        let resume = |boot_id: &str| ResumeState {
            boot_id: boot_id.into(),
            place: Position::numbered(7, 0),
        };
        for (then, now, kept) in [
            ("", None, false),
            ("a", None, false),
            ("", Some("a"), false),
            ("a", Some("a"), true),
            // Of another boot: it proves that this is not the first start.
            ("b", Some("a"), true),
        ] {
            let settings = Settings::new(&host, &agent, now, None, Some(resume(then)));
            assert_eq!(settings.options.resume.is_some(), kept, "{then:?} {now:?}");
        }
    }

    #[test]
    fn records_of_a_tree_have_their_own_age() {
        let tree = TestTree::new();
        let (now, uptime) = (Millis::from_secs(1_000_000), Millis::from_secs(10_000));
        let xid =
            |secs: u64| format!("3,{secs},{secs}000000,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n");
        let idle = |secs: u64| format!("6,{secs},{secs}000000,-;idle\n");
        let bare = "NVRM: Xid (PCI:0000:3b:00): 79, x";
        for (log, taken_at, want) in [
            (xid(9_000), Some(uptime), vec![999_000]),
            // Without an uptime the log's end is as late as is known.
            (xid(9_000) + &idle(9_500), None, vec![999_500]),
            // The kernel's clock is ahead of the uptime.
            (xid(10_150), Some(uptime), vec![1_000_000]),
            // Of another boot: before the stamps fall.
            (
                xid(9_000) + &idle(1) + &xid(8_000),
                Some(uptime),
                vec![998_000],
            ),
            (xid(9_000) + &idle(1), None, vec![]),
            // One stamp that is off is of no other boot: its number is the next one.
            (xid(9_000) + "6,9001,0,-;x\n", Some(uptime), vec![999_000]),
            (
                xid(9_000) + "6,9001,999999999999999,-;x\n",
                Some(uptime),
                vec![999_000],
            ),
            // Without the line's end.
            (xid(9_000).trim_end().into(), Some(uptime), vec![999_000]),
            // As other readers of the log write it, also behind a byte order mark.
            (
                format!("\u{feff}{}", xid(9_000)),
                Some(uptime),
                vec![999_000],
            ),
            (
                format!("[ 9000.000000] {bare}\n"),
                Some(uptime),
                vec![999_000],
            ),
            (
                format!("Nov 28 10:00:01 n1 kernel: [ 9000.000000] {bare}\n"),
                Some(uptime),
                vec![999_000],
            ),
            (
                format!(
                    "{{\"_TRANSPORT\":\"kernel\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"9000000000\",\"MESSAGE\":\"{bare}\"}}\n"
                ),
                Some(uptime),
                vec![999_000],
            ),
            // Without a stamp nothing is known of its age.
            (format!("{bare}\n"), Some(uptime), vec![1_000_000]),
            (
                format!("[Fri Nov 28 10:00:01 2025] {bare}\n"),
                Some(uptime),
                vec![1_000_000],
            ),
            // Of another boot.
            (
                format!("[ 9000.000000] {bare}\n[    0.000000] Linux version 6.8.0 (x)\n"),
                Some(uptime),
                vec![],
            ),
            // The same, where nothing shows the start of this one.
            (
                format!("[90000.000000] {bare}\n[ 9000.000000] NVRM: x\n"),
                Some(uptime),
                vec![],
            ),
            // By a program.
            (
                format!("[ 9000.000000] x\nNov 28 10:00:01 n1 healthd: {bare}\n"),
                Some(uptime),
                vec![],
            ),
        ] {
            tree.bytes("dev/kmsg", log.as_bytes());
            let (host, agent) = (tree.host(), AgentSettings::default());
            let settings = Settings::new(&host, &agent, None, taken_at, None);
            let read = read_existing(&settings, now).into_value();
            let at = |(at, item): &(Millis, KmsgItem)| {
                assert_eq!(item.historic, now.since(*at) > HISTORY);
                at.0 / 1000
            };
            let items = read.unwrap().1;
            assert_eq!(items.iter().map(at).collect::<Vec<_>>(), want, "{log}");
        }
        // Beyond the uptime, the log says nothing of this boot.
        tree.file("dev/kmsg", &xid(90_000));
        let settings = Settings::new(
            &tree.host(),
            &AgentSettings::default(),
            None,
            Some(uptime),
            None,
        );
        assert!(matches!(read_existing(&settings, now), Reading::Failed(_)));
        // Nor does a file that is not a log say that nothing happened.
        for text in ["dmesg: Operation not permitted\n", "<html>", "\0\0\n\n"] {
            tree.bytes("dev/kmsg", text.as_bytes());
            let read = read_existing(&settings, now);
            assert!(matches!(read, Reading::Failed(_)), "{text}");
        }
        for empty in ["", "\n"] {
            tree.bytes("dev/kmsg", empty.as_bytes());
            assert!(read_existing(&settings, now).into_value().is_some());
        }
    }

    #[test]
    fn a_record_came_after_those_that_had_been_read() {
        let host = Host::new("/");
        let settings = Settings::new(&host, &AgentSettings::default(), None, None, None);
        let boot_id = String::new();
        for (stamp, since, now, want) in [
            (95, 90, 100, 95),
            // The kernel's clock is a minute behind, or ahead.
            (40, 99, 100, 99),
            (160, 99, 100, 100),
            // At the start nothing but the stamp is known.
            (40, 0, 100, 40),
        ] {
            let place = Position::numbered(1, stamp * 1_000_000);
            let boot_id = boot_id.clone();
            let item = KmsgItem {
                event: KernelEvent::new(KernelEventKind::Note(Note::GpuLost), "x"),
                through: ResumeState { boot_id, place },
                historic: false,
            };
            let between = (Millis::from_secs(since), Millis::from_secs(now));
            let at = settings.moment(&item, None, between);
            assert_eq!(at, Millis::from_secs(want), "{stamp} {since}");
        }
    }

    #[test]
    fn a_tree_is_never_read_by_the_machines_own_log() {
        let mut agent = AgentSettings::default();
        for source in [KmsgSource::Auto, KmsgSource::Device, KmsgSource::Syslog] {
            agent.kmsg_source = source;
            let settings = Settings::new(&TestTree::new().host(), &agent, None, None, None);
            assert_eq!(settings.options.way, Some(ReadMethod::Device), "{source:?}");
        }
    }
}
