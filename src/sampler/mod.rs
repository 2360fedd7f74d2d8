//! Runs every source off the async threads: each subject has at most one read in flight, with a
//! deadline. A hung read becomes a stalled observation and delays no other.

pub mod pool;
pub mod schedule;
pub mod sources;

use crate::clock::Clock;
use crate::config::Config;
use crate::host::Host;
use crate::observe::{Memory, RdmaDevice, Reading, Snapshot, SourceHealth, history};
use crate::units::{DeviceKey, PortKey};
use pool::Pool;
use schedule::{Began, Pace, Schedule, Subject};
use sources::{Inventory, ReadClass, SOURCES, Sample, Scope, Source, SourceReader};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{sync::Arc, time::Duration};

/// The first full window waits so long for a bus whose read is slow, as on a busy machine: without its
/// facts no node is ready.
const FIRST_BUS_WITHIN: Duration = Duration::from_secs(60);

/// What came of reading a source that is followed elsewhere, such as the kernel log or pods' logs: the way
/// it is read, where there are several. `None` before the first look.
pub type Followed = Option<Reading<Option<&'static str>>>;

/// What reads that ended brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// No sample of counters, and nothing that differs.
    Nothing,
    /// Newer samples of counters, which differ at most in how much was moved.
    Sampled,
    /// Facts or a source's health have changed: the node is to be judged again.
    Changed,
}

/// A read that ended, with its reader, which comes back to be used again.
struct Done {
    subject: Subject,
    began: Began,
    reader: SourceReader,
    sample: Sample,
    took: Duration,
}

/// Reads the node's sources and keeps the snapshot of what they gave.
pub struct Sampler {
    host: Arc<Host>,
    /// How often each source is read, and what is left alone.
    config: Config,
    clock: Clock,
    schedule: Schedule,
    /// Every subject's reader, unless it is out on a read.
    readers: BTreeMap<Subject, Option<SourceReader>>,
    snapshot: Snapshot,
    /// Ports whose PMA counters must not be opened.
    restricted: BTreeSet<PortKey>,
    /// Network devices as last enumerated.
    netdevs: BTreeSet<String>,
    /// Devices and GPUs (by address) that an earlier run of this boot saw, until the first sample has been
    /// compared with them.
    remembered_devices: BTreeSet<DeviceKey>,
    remembered_gpus: BTreeSet<String>,
    pool: Pool<Done>,
}

impl Sampler {
    /// A sampler of `host`, in the boot of `boot_id`. `restricted` names ports that earlier runs found restricted.
    pub fn new(
        host: Arc<Host>,
        config: Config,
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
            restricted: restricted.into_iter().collect(),
            netdevs: BTreeSet::new(),
            remembered_devices: BTreeSet::new(),
            remembered_gpus: BTreeSet::new(),
            config,
            pool: Pool::default(),
        };
        for source in SOURCES.iter().filter(|source| source.scope == Scope::Node) {
            sampler.add(source, "", false);
        }
        sampler
    }

    /// Missing devices and GPUs of this are looked for a few times more before the first full window
    /// ends: a restart of the agent does not count as a recovery.
    pub fn remember(&mut self, memory: &Memory) {
        self.remembered_devices = memory.devices.keys().cloned().collect();
        self.remembered_gpus = memory.gpus.iter().cloned().collect();
    }

    /// Facts as of the last call of [`Sampler::run_until_news`].
    pub fn snapshot(&mut self, wall: Option<jiff::Timestamp>) -> &Snapshot {
        self.snapshot.at = self.clock.now();
        self.snapshot.wall = wall;
        schedule::report_health(&mut self.snapshot, &self.schedule);
        &self.snapshot
    }

    /// Sets the health of a source that is followed elsewhere, whose reader has made no progress for
    /// too long if it is `stalled`. Whether it has answered, or is not waited for.
    pub fn set_health(
        &mut self,
        source: &'static str,
        health: &Followed,
        stalled: Option<Duration>,
    ) -> bool {
        let (now, health) = (self.clock.now(), health.clone());
        let answered = health.is_some() || stalled.is_some();
        let via = health.as_ref().and_then(Reading::value).copied();
        let health = SourceHealth {
            source: source.into(),
            last_ok: (via.is_some() && stalled.is_none()).then_some(now),
            stalled_since: stalled.map(|stalled| now.minus(stalled)),
            absent: matches!(health, Some(Reading::Absent | Reading::NotObservable)),
            fault: health.and_then(Reading::into_fault),
            via: via.flatten().map(Into::into),
            ..SourceHealth::default()
        };
        self.snapshot.sources.insert(source.into(), health);
        answered
    }

    /// Ports found restricted so far, in order.
    pub fn restricted(&self) -> Vec<PortKey> {
        self.restricted.iter().cloned().collect()
    }

    /// Whether every source has answered: counters twice (a rate needs two samples), the rest once,
    /// and nothing that was there before is still being looked for.
    pub fn full_window(&self) -> bool {
        let now = self.clock.now();
        let in_doubt = |source| self.schedule.in_doubt(&Subject::new(source, ""), now);
        let bus = self.schedule.out_since(&Subject::new("pci", ""));
        let waits_for_bus = self.snapshot.pci.is_none()
            && bus.is_some_and(|since| now.since(since) < FIRST_BUS_WITHIN);
        self.snapshot.devices.is_some()
            && !waits_for_bus
            && !in_doubt("devices")
            && !in_doubt("pci")
            && (self.schedule).answered(|subject| sources::source(subject.source).samples())
    }

    /// Whether every source has answered once or is stalled: enough for a one-shot sample.
    pub fn sampled_once(&self) -> bool {
        self.schedule.answered(|_| 1) && self.schedule.quiet()
    }

    /// Runs reads until there is something to show. Cancel safe.
    pub async fn run_until_news(&mut self) -> News {
        loop {
            let news = self.step().await;
            if news != News::Nothing {
                return news;
            }
        }
    }

    /// Starts what is due and waits for the next answers or the next due time. Cancel safe.
    pub async fn step(&mut self) -> News {
        let now = self.clock.now();
        let due = self.schedule.start_due(now).into_iter();
        let work: Vec<_> = due.filter_map(|subject| self.work(subject)).collect();
        self.pool.submit(now, work);
        self.pool.attend(now);
        if self.schedule.mark_stalled(now) {
            return News::Changed;
        }
        let attention = [self.schedule.next_attention(), self.pool.next_attention()];
        let wake = attention.into_iter().flatten().min();
        let wake = wake.unwrap_or_else(|| now.plus(Duration::from_secs(1)));
        tokio::select! {
            () = self.pool.news() => {}
            () = tokio::time::sleep_until(self.clock.instant(wake)) => {}
        }
        let done = self.pool.take().into_iter();
        let news = done.map(|done| self.merge(done)).max();
        news.unwrap_or(News::Nothing)
    }

    /// Adds a source's subject, due at once, unless it does not apply. One that is there already stays as it
    /// is, or gets another reader.
    fn add(&mut self, source: &'static Source, name: &str, renew: bool) {
        let subject = Subject::new(source.name, name);
        if self.schedule.contains(&subject) && !renew {
            return;
        }
        let devices = self.snapshot.devices.as_ref();
        let inventory = Inventory {
            config: &self.config,
            devices: devices.map_or(&[], |devices| devices.value.as_slice()),
            netdevs: &self.netdevs,
            restricted: &self.restricted,
        };
        let Some(reader) = (source.reader)(&inventory, name) else {
            self.schedule.retain(|known| *known != subject);
            self.readers.remove(&subject);
            return;
        };
        let pace = Pace {
            interval: (source.interval)(&self.config.intervals).duration(),
            deadline: self.config.intervals.deadline.duration(),
        };
        self.readers.insert(subject.clone(), Some(reader));
        let now = self.clock.now();
        self.schedule.renew(&subject, now);
        self.schedule.add(subject, pace, now);
    }

    /// The read of a subject, ready to be run elsewhere. After an event it is urgent.
    fn work(&mut self, subject: Subject) -> Option<pool::ReadJob<Done>> {
        let mut reader = self.readers.get_mut(&subject)?.take()?;
        let began = Arc::clone(self.schedule.began(&subject)?);
        let host = Arc::clone(&self.host);
        let urgent = self.schedule.is_woken(&subject);
        let vital = sources::source(subject.source).manner == ReadClass::Vital;
        let clock = self.clock;
        let work = move || {
            #[expect(clippy::disallowed_methods, reason = "the duration of a read")]
            let start = std::time::Instant::now();
            let _ = began.set(clock.now());
            let sample = catch_unwind(AssertUnwindSafe(|| reader(&host)));
            Done {
                subject,
                began,
                reader,
                sample: sample.unwrap_or_else(|_| Sample::panicked()),
                took: start.elapsed(),
            }
        };
        Some(pool::ReadJob {
            urgent,
            vital,
            work: Box::new(work),
        })
    }

    /// Merges a finished read.
    fn merge(&mut self, done: Done) -> News {
        // Another reader's belongs to a device that has gone or was re-registered.
        let began = self.schedule.began(&done.subject);
        if !began.is_some_and(|began| Arc::ptr_eq(began, &done.began)) {
            return News::Nothing;
        }
        let place = self.readers.entry(done.subject.clone()).or_default();
        place.get_or_insert(done.reader);
        let now = self.clock.now();
        let (subject, sample) = (done.subject, done.sample);
        let health_changed = self.schedule.end(&subject, now, done.took, sample.ended);
        let before = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value));
        let changes = (sample.merge)(&mut self.snapshot, now);
        self.restricted.extend(changes.restricted);
        if changes.doubt || self.lacks_remembered(&subject) {
            self.schedule.doubt(&subject, now);
        }
        if changes.left {
            self.wake(&["devices"]);
        }
        if let Some(netdevs) = changes.netdevs {
            self.follow_devices(before.as_deref(), &netdevs);
        }
        match changes.changed || health_changed {
            true => News::Changed,
            // A rate is made of each sample, and shown.
            false if sources::source(subject.source).samples() > 1 => News::Sampled,
            false => News::Nothing,
        }
    }

    /// Adds and drops subjects after an enumeration. `before`: the devices of the one before.
    fn follow_devices(&mut self, before: Option<&Vec<RdmaDevice>>, netdevs: &BTreeSet<String>) {
        let Some(devices) = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value)) else {
            return;
        };
        let unchanged: BTreeSet<&str> = (devices.iter())
            .filter(|device| before.is_some_and(|before| before.contains(device)))
            .map(|device| device.key.0.as_str())
            .collect();
        let same_inventory = before == Some(&*devices) && *netdevs == self.netdevs;
        let keep = |subject: &Subject| match sources::source(subject.source).scope {
            Scope::Node | Scope::Inventoried => true,
            Scope::Device => unchanged.contains(subject.name.as_str()),
            Scope::Interface => netdevs.contains(&subject.name),
        };
        // The ports of a device that is gone or registered again may answer again.
        for old in before.into_iter().flatten() {
            let same = |of: &RdmaDevice| of.key == old.key && of.index == old.index;
            if !devices.iter().any(same) {
                self.restricted.retain(|port| port.device != old.key);
            }
        }
        let now = self.clock.now();
        let doubted = self.schedule.doubted(now);
        self.schedule.retain(keep);
        self.readers.retain(|subject, _| keep(subject));
        sources::forget(&mut self.snapshot, &devices, netdevs);
        self.netdevs.clone_from(netdevs);
        for source in SOURCES {
            let names: Vec<&str> = match source.scope {
                Scope::Node => Vec::new(),
                Scope::Inventoried => vec![""],
                Scope::Device => devices.iter().map(|device| device.key.0.as_str()).collect(),
                Scope::Interface => netdevs.iter().map(String::as_str).collect(),
            };
            // Of other devices it is another read.
            let renew = source.scope == Scope::Inventoried && !same_inventory;
            (names.into_iter()).for_each(|name| self.add(source, name, renew));
        }
        // A new subject still looks for what the one before missed.
        for subject in doubted {
            if !self.schedule.in_doubt(&subject, now) {
                self.schedule.doubt(&subject, now);
            }
        }
    }

    /// A network device changed (an rtnetlink event).
    pub fn netdev_changed(&mut self, name: &str) {
        let now = self.clock.now();
        let subject = Subject::new("netdev", name);
        let mut known = self.schedule.contains(&subject);
        self.schedule.wake(&subject, now);
        let ports = history::ports_of(&self.snapshot);
        for (device, _) in ports.filter(|(_, port)| port.netdev.as_deref() == Some(name)) {
            known = true;
            let link = Subject::new("link", &device.key.0);
            self.schedule.wake(&link, now);
        }
        let is_unseen = |name: &String| !self.snapshot.netdevs.contains_key(name);
        let netdevs = || history::ports_of(&self.snapshot).map(|(_, port)| port.netdev.as_ref());
        let lacks_any = netdevs().any(|name| name.is_none_or(is_unseen));
        // A new or renamed device may belong to a port: enumerate. Strangers (veth of pods)
        // come and go all day, so only if RDMA ports without a network device exist.
        if !known && lacks_any {
            self.wake(&["devices"]);
        }
    }

    /// An event says that what these sources read may have changed: all their subjects are read now.
    pub fn wake(&mut self, sources: &[&str]) {
        let now = self.clock.now();
        for subject in self.readers.keys() {
            if sources.contains(&subject.source) {
                self.schedule.wake(subject, now);
            }
        }
    }

    /// Whether a first sample lacks what an earlier run saw.
    fn lacks_remembered(&mut self, subject: &Subject) -> bool {
        match (subject.source, &self.snapshot.devices, &self.snapshot.pci) {
            ("devices", Some(now), _) => std::mem::take(&mut self.remembered_devices)
                .iter()
                .any(|key| !now.value.iter().any(|device| device.key == *key)),
            ("pci", _, Some(now)) => std::mem::take(&mut self.remembered_gpus)
                .iter()
                .any(|address| !now.value.gpus.iter().any(|gpu| gpu.to_string() == *address)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
