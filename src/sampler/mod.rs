//! Runs every source off the async threads: each subject has one read in flight at most, a deadline,
//! and its own descriptors. A read that hangs becomes a stalled observation; it delays nobody.

mod clock;
mod discovery;
mod events;
pub mod pool;
pub mod reading;
pub mod reads;
pub mod schedule;
pub mod snapshot_update;
pub mod suspects;

pub use clock::Clock;
pub use discovery::excluded;

use crate::glob::Glob;
use crate::host::Host;
use crate::observe::counters::PmaSkip;
use crate::observe::reading::{Fault, Reading};
use crate::observe::snapshot::{Snapshot, SourceHealth};
use crate::units::{DeviceKey, Millis, PortKey};
use pool::Pool;
use reading::{Output, panicked};
use reads::{DevicesRead, GpuDirectRead, Read};
use schedule::{Ended, Pace, Schedule, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The source of pods' logs, as reports name it.
const POD_LOGS: &str = "pod_logs";

/// How often each source is read, and what is left alone.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Port state.
    pub link: Duration,
    /// Counters of RDMA ports.
    pub counters: Duration,
    /// ethtool statistics.
    pub ethtool: Duration,
    /// Network devices.
    pub netdev: Duration,
    /// Enumeration of RDMA devices.
    pub devices: Duration,
    /// GID tables.
    pub gids: Duration,
    /// PCI.
    pub pci: Duration,
    /// Drivers and modules.
    pub gpudirect: Duration,
    /// DCB settings.
    pub dcb: Duration,
    /// 802.1X.
    pub dot1x: Duration,
    /// Deadline of each read.
    pub deadline: Duration,
    /// Ask RDMA netlink where the kernel has it.
    pub netlink: bool,
    /// Only the PMA counters that checks and metrics use (each file is a firmware command).
    pub essential_only: bool,
    /// Devices whose PMA counters are never opened: name globs.
    pub exclude: Vec<Glob>,
}

/// What ended, with its reader, which comes back to be used again.
struct Done {
    subject: Subject,
    generation: u64,
    reader: Box<dyn Read>,
    output: Result<Output, ()>,
    took: Duration,
}

/// The sampler.
pub struct Sampler {
    host: Arc<Host>,
    plan: Plan,
    clock: Clock,
    schedule: Schedule,
    readers: BTreeMap<Subject, (u64, Option<Box<dyn Read>>)>,
    generation: u64,
    snapshot: Snapshot,
    skips: BTreeMap<PortKey, PmaSkip>,
    newly_restricted: bool,
    /// Network devices as last enumerated.
    netdevs: BTreeSet<String>,
    /// What an earlier run of this boot saw, until the first look has been compared with it.
    remembered: Remembered,
    /// Readers to be told that names may have changed, before their next read: one that is out just
    /// now may have looked too early.
    outdated: BTreeSet<Subject>,
    pool: Pool<Done>,
    /// Reads that were handed over, until a thread was seen to have taken them up.
    handed: Vec<Handed>,
}

/// A read on its way to a thread, which sets the moment when it begins.
struct Handed {
    subject: Subject,
    generation: u64,
    began: Arc<OnceLock<Millis>>,
}

/// Devices and GPUs (by address) that an earlier run saw.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    /// RDMA devices.
    pub devices: BTreeSet<DeviceKey>,
    /// GPUs.
    pub gpus: BTreeSet<String>,
}

impl Sampler {
    /// A sampler of `host`, in the boot of `boot_id`. `restricted` names ports that earlier runs found restricted.
    pub fn new(
        host: Arc<Host>,
        plan: Plan,
        clock: Clock,
        boot_id: Option<String>,
        restricted: impl IntoIterator<Item = PortKey>,
    ) -> Self {
        let mut sampler = Sampler {
            snapshot: Snapshot {
                boot_id,
                live: host.is_live(),
                ..Snapshot::default()
            },
            host,
            clock,
            schedule: Schedule::default(),
            readers: BTreeMap::new(),
            generation: 0,
            skips: restricted
                .into_iter()
                .map(|key| (key, PmaSkip::Restricted))
                .collect(),
            newly_restricted: false,
            netdevs: BTreeSet::new(),
            remembered: Remembered::default(),
            outdated: BTreeSet::new(),
            plan,
            pool: Pool::new(),
            handed: Vec::new(),
        };
        let netlink = sampler.plan.netlink;
        sampler.add(
            Subject::Devices,
            sampler.plan.devices,
            Box::new(DevicesRead { netlink }),
        );
        sampler.add(
            Subject::GpuDirect,
            sampler.plan.gpudirect,
            Box::new(GpuDirectRead),
        );
        sampler
    }

    /// What is missing of this is looked for a few times more before the first full window ends: a
    /// restart of the agent is no recovery.
    pub fn remember(&mut self, remembered: Remembered) {
        self.remembered = remembered;
    }

    /// Facts as of the last call of [`Sampler::run_until_change`].
    pub fn snapshot(&mut self, wall: Option<jiff::Timestamp>) -> &Snapshot {
        self.snapshot.at = self.clock.now();
        self.snapshot.wall = wall;
        snapshot_update::sources(&mut self.snapshot, &self.schedule);
        &self.snapshot
    }

    /// Health of the kernel log, which is followed elsewhere.
    pub fn set_kernel_log(
        &mut self,
        fault: Option<Fault>,
        absent: bool,
        via: Option<&'static str>,
    ) {
        let ok = fault.is_none() && !absent;
        let health = SourceHealth {
            source: "kernel_log".into(),
            subject: "".into(),
            last_ok: ok.then(|| self.clock.now()),
            micros: 0,
            stalled_since: None,
            fault,
            absent,
            via: via.map(Into::into),
        };
        self.snapshot.sources.insert("kernel_log".into(), health);
    }

    /// Health of the pods' logs, which are followed elsewhere; `stalled`: how long a read has been
    /// out, if too long.
    pub fn set_pod_logs(&mut self, fault: Option<Fault>, absent: bool, stalled: Option<Duration>) {
        let now = self.clock.now();
        let health = SourceHealth {
            source: POD_LOGS.into(),
            subject: "".into(),
            last_ok: (fault.is_none() && !absent && stalled.is_none()).then_some(now),
            micros: 0,
            stalled_since: stalled.map(|stalled| now.minus(stalled)),
            fault,
            absent,
            via: None,
        };
        self.snapshot.sources.insert(POD_LOGS.into(), health);
    }

    /// Ports found restricted so far; `true` if there are new ones since the last call.
    pub fn restricted(&mut self) -> (bool, Vec<PortKey>) {
        let new = std::mem::take(&mut self.newly_restricted);
        let ports = self
            .skips
            .iter()
            .filter(|(_, skip)| **skip == PmaSkip::Restricted)
            .map(|(key, _)| key.clone())
            .collect();
        (new, ports)
    }

    /// Whether every source has answered: counters twice (a rate needs two samples), the rest once,
    /// and nothing that was there before is still being looked for.
    pub fn full_window(&self) -> bool {
        let now = self.clock.now();
        self.snapshot.devices.is_some()
            && !self.schedule.in_doubt(&Subject::Devices, now)
            && !self.schedule.in_doubt(&Subject::Pci, now)
            && self.schedule.answered(|subject| match subject {
                Subject::Counters(_) | Subject::Ethtool(_) => 2,
                _ => 1,
            })
    }

    /// Whether every source has answered once or is stalled: enough for a single look.
    pub fn looked_once(&self) -> bool {
        self.schedule.answered(|_| 1) && self.schedule.quiet()
    }

    /// Runs reads until facts have changed or something newly stalled. Cancel safe.
    pub async fn run_until_change(&mut self) {
        loop {
            let now = self.clock.now();
            let due = self.schedule.start_due(now);
            let work: Vec<_> = due
                .into_iter()
                .filter_map(|subject| self.work(subject))
                .collect();
            self.pool.submit(now, work);
            self.pool.attend(now);
            self.note_begun();
            if self.schedule.mark_stalled(now) {
                return;
            }
            let wake = [self.schedule.next_attention(), self.pool.next_attention()]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or_else(|| now.plus(Duration::from_secs(1)));
            tokio::select! {
                () = self.pool.news() => {}
                () = tokio::time::sleep_until(self.clock.instant(wake)) => {}
            }
            let done = self.pool.take();
            if done.is_empty() {
                continue;
            }
            for done in done {
                self.take(done);
            }
            return;
        }
    }

    fn add(&mut self, subject: Subject, interval: Duration, reader: Box<dyn Read>) {
        let pace = Pace {
            interval,
            deadline: self.plan.deadline,
        };
        self.generation += 1;
        self.readers
            .insert(subject.clone(), (self.generation, Some(reader)));
        self.schedule.add(subject, pace, self.clock.now());
    }

    /// The read of a subject, ready to be run elsewhere. After an event it is urgent.
    fn work(&mut self, subject: Subject) -> Option<pool::Job<Done>> {
        let (generation, slot) = self.readers.get_mut(&subject)?;
        let generation = *generation;
        let mut reader = slot.take()?;
        if self.outdated.remove(&subject) {
            reader.invalidate();
        }
        let host = Arc::clone(&self.host);
        let urgent = self.schedule.is_woken(&subject);
        let vital = subject.is_vital();
        let began = Arc::new(OnceLock::new());
        self.handed.push(Handed {
            subject: subject.clone(),
            generation,
            began: Arc::clone(&began),
        });
        let clock = self.clock;
        let work = move || {
            #[expect(clippy::disallowed_methods, reason = "the duration of a read")]
            let start = std::time::Instant::now();
            let _ = began.set(clock.now());
            let output = catch_unwind(AssertUnwindSafe(|| reader.read(&host))).map_err(|_| ());
            Done {
                subject,
                generation,
                reader,
                output,
                took: start.elapsed(),
            }
        };
        Some(pool::Job {
            urgent,
            vital,
            work: Box::new(work),
        })
    }

    /// Tells the schedule which reads were taken up: only those can hang.
    fn note_begun(&mut self) {
        let (schedule, readers) = (&mut self.schedule, &self.readers);
        self.handed.retain(|handed| {
            let known = readers.get(&handed.subject);
            if known.is_none_or(|(generation, _)| *generation != handed.generation) {
                return false;
            }
            match handed.began.get() {
                Some(at) => schedule.began(&handed.subject, *at),
                None => return true,
            }
            false
        });
    }

    fn take(&mut self, done: Done) {
        // A reader of an older generation belongs to a device that has gone or was re-registered.
        match self.readers.get_mut(&done.subject) {
            Some((generation, slot)) if *generation == done.generation => {
                *slot = Some(done.reader);
            }
            _ => return,
        }
        let now = self.clock.now();
        let ended = match &done.output {
            Ok(output) => output.ended(),
            Err(()) => Ended::Failed(panicked()),
        };
        self.schedule.end(&done.subject, now, done.took, ended);
        let Ok(output) = done.output else { return };
        if let Output::Counters { restricted, .. } = &output {
            for port in restricted {
                let key = PortKey {
                    device: DeviceKey(done.subject.name().to_string()),
                    port: *port,
                };
                if self.skips.insert(key, PmaSkip::Restricted).is_none() {
                    self.newly_restricted = true;
                }
            }
        }
        let before = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value));
        // An enumeration that failed says nothing of interfaces either.
        let netdevs = match &output {
            Output::Devices {
                devices: Reading::Value(_),
                netdevs,
                ..
            } => Some(netdevs.clone()),
            _ => None,
        };
        if snapshot_update::worse(&self.snapshot, &output) || self.lacks_remembered(&output) {
            self.schedule.doubt(&done.subject, now);
        }
        if snapshot_update::left(&self.snapshot, &done.subject, &output) {
            self.schedule.wake(&Subject::Devices, now);
        }
        snapshot_update::put(&mut self.snapshot, &done.subject, output, now);
        if let Some(netdevs) = netdevs {
            self.follow_devices(before.as_deref(), &netdevs);
        }
    }

    /// Whether a first look lacks what an earlier run saw.
    fn lacks_remembered(&mut self, output: &Output) -> bool {
        match output {
            Output::Devices {
                devices: Reading::Value(now),
                ..
            } => std::mem::take(&mut self.remembered.devices)
                .iter()
                .any(|key| !now.iter().any(|device| device.key == *key)),
            Output::Pci(Reading::Value(now)) => std::mem::take(&mut self.remembered.gpus)
                .iter()
                .any(|address| !now.gpus.iter().any(|gpu| gpu.to_string() == *address)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
