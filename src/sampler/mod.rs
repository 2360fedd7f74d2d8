//! Runs every source off the async threads: each subject has one read in flight at most, a deadline,
//! and its own descriptors. A read that hangs becomes a stalled observation; it delays nobody.

pub mod assemble;
pub mod pool;
pub mod reads;
pub mod schedule;

use crate::glob::{self, Glob};
use crate::host::Host;
use crate::observe::counters::PmaSkip;
use crate::observe::history::ports_of;
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::Fault;
use crate::observe::snapshot::{Snapshot, SourceHealth};
use crate::units::{Millis, PortKey};
use pool::Pool;
use reads::{
    CountersRead, DcbRead, DevicesRead, EthtoolRead, GidsRead, GpuDirectRead, LinkRead, NetdevRead,
    Output, PciRead, Read, panicked,
};
use schedule::{Ended, Pace, Schedule, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

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
    pool: Pool<Done>,
}

/// Monotonic time in milliseconds from an origin.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: tokio::time::Instant,
    offset: Millis,
}

impl Clock {
    /// A clock that reads `now` at this moment. Uses tokio's clock, which tests can pause.
    pub fn starting_at(now: Millis) -> Self {
        Clock {
            origin: tokio::time::Instant::now(),
            offset: now,
        }
    }

    /// Now.
    pub fn now(&self) -> Millis {
        self.offset.plus(self.origin.elapsed())
    }

    /// The instant of a moment.
    pub fn instant(&self, at: Millis) -> tokio::time::Instant {
        self.origin + at.since(self.offset)
    }
}

impl Sampler {
    /// A sampler of `host`. `restricted` names ports that earlier runs found restricted.
    pub fn new(
        host: Arc<Host>,
        plan: Plan,
        clock: Clock,
        restricted: impl IntoIterator<Item = PortKey>,
    ) -> Self {
        let mut sampler = Sampler {
            snapshot: Snapshot {
                boot_id: assemble::boot_id(&host),
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
            plan,
            pool: Pool::new(),
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

    /// Facts as of the last call of [`Sampler::run_until_change`].
    pub fn snapshot(&mut self, wall: Option<jiff::Timestamp>) -> &Snapshot {
        self.snapshot.at = self.clock.now();
        self.snapshot.wall = wall;
        assemble::sources(&mut self.snapshot, &self.schedule);
        &self.snapshot
    }

    /// Health of the kernel log, which is followed elsewhere.
    pub fn set_kernel_log(&mut self, fault: Option<Fault>, absent: bool) {
        let ok = fault.is_none() && !absent;
        let health = SourceHealth {
            source: "kernel_log".into(),
            subject: "".into(),
            last_ok: ok.then(|| self.clock.now()),
            micros: 0,
            stalled_since: None,
            fault,
            absent,
        };
        self.snapshot.sources.insert("kernel_log".into(), health);
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

    /// Whether every source has answered: counters twice (a rate needs two samples), the rest once.
    pub fn full_window(&self) -> bool {
        self.snapshot.devices.is_some()
            && self.schedule.answered(|subject| match subject {
                Subject::Counters(_) | Subject::Ethtool(_) => 2,
                _ => 1,
            })
    }

    /// Whether every source has answered once or is stalled: enough for a single look.
    pub fn looked_once(&self) -> bool {
        self.schedule.answered(|_| 1) && self.schedule.quiet()
    }

    /// A network device changed (an rtnetlink event).
    pub fn netdev_changed(&mut self, name: &str) {
        let now = self.clock.now();
        let subject = Subject::Netdev(name.to_string());
        let mut known = self.schedule.contains(&subject);
        self.schedule.wake(&subject, now);
        let owners: Vec<String> = ports_of(&self.snapshot)
            .filter(|(_, port)| port.netdev.as_deref() == Some(name))
            .map(|(device, _)| device.key.0.clone())
            .collect();
        for owner in owners {
            known = true;
            self.schedule.wake(&Subject::Link(owner.clone()), now);
        }
        if !known {
            // A new or renamed device may belong to a port: enumerate. Strangers (veth of pods)
            // come and go all day, so only if RDMA ports without a network device exist.
            let missing = ports_of(&self.snapshot).any(|(_, port)| {
                port.netdev
                    .as_ref()
                    .is_none_or(|name| !self.snapshot.netdevs.contains_key(name))
            });
            if missing {
                self.schedule.wake(&Subject::Devices, now);
            }
        }
    }

    /// DCB settings changed: statistics may have other names now.
    pub fn dcb_changed(&mut self) {
        let now = self.clock.now();
        let subjects: Vec<Subject> = self.readers.keys().cloned().collect();
        for subject in subjects {
            if matches!(subject, Subject::Dcb(_) | Subject::Ethtool(_)) {
                self.schedule.wake(&subject, now);
                if let Some((_, Some(reader))) = self.readers.get_mut(&subject) {
                    reader.invalidate();
                }
            }
        }
    }

    /// RDMA devices came, went or changed: enumerate now.
    pub fn devices_changed(&mut self) {
        let now = self.clock.now();
        self.schedule.wake(&Subject::Devices, now);
    }

    /// Events were lost: read everything that events would have told of.
    pub fn resync(&mut self) {
        let now = self.clock.now();
        let subjects: Vec<Subject> = self.readers.keys().cloned().collect();
        for subject in subjects {
            if matches!(
                subject,
                Subject::Devices | Subject::Link(_) | Subject::Netdev(_)
            ) {
                self.schedule.wake(&subject, now);
            }
        }
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
    fn work(&mut self, subject: Subject) -> Option<(bool, pool::Work<Done>)> {
        let (generation, slot) = self.readers.get_mut(&subject)?;
        let generation = *generation;
        let mut reader = slot.take()?;
        let host = Arc::clone(&self.host);
        let urgent = self.schedule.is_woken(&subject);
        let work = move || {
            #[expect(clippy::disallowed_methods, reason = "the duration of a read")]
            let start = std::time::Instant::now();
            let output = catch_unwind(AssertUnwindSafe(|| reader.read(&host))).map_err(|_| ());
            Done {
                subject,
                generation,
                reader,
                output,
                took: start.elapsed(),
            }
        };
        Some((urgent, Box::new(work)))
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
                    device: crate::units::DeviceKey(done.subject.name().to_string()),
                    port: *port,
                };
                if self.skips.insert(key, PmaSkip::Restricted).is_none() {
                    self.newly_restricted = true;
                }
            }
        }
        let before = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value));
        let netdevs = match &output {
            Output::Devices { netdevs, .. } => Some(netdevs.clone()),
            _ => None,
        };
        assemble::put(&mut self.snapshot, &done.subject, output, now);
        if let Some(netdevs) = netdevs {
            self.follow_devices(before.as_deref(), &netdevs);
        }
    }

    /// Adds and drops subjects as devices come and go.
    fn follow_devices(&mut self, before: Option<&Vec<RdmaDevice>>, netdevs: &BTreeSet<String>) {
        let Some(devices) = self.snapshot.devices.as_ref().map(|d| Arc::clone(&d.value)) else {
            return;
        };
        let unchanged: BTreeSet<&str> = devices
            .iter()
            .filter(|device| before.is_some_and(|before| before.contains(device)))
            .map(|device| device.key.0.as_str())
            .collect();
        let keep = |subject: &Subject| match subject {
            Subject::Devices | Subject::GpuDirect | Subject::Pci => true,
            Subject::Link(key) | Subject::Counters(key) | Subject::Gids(key) => {
                unchanged.contains(key.as_str())
            }
            Subject::Netdev(name) | Subject::Ethtool(name) | Subject::Dcb(name) => {
                netdevs.contains(name)
            }
        };
        self.schedule.retain(keep);
        self.readers.retain(|subject, _| keep(subject));
        assemble::forget(&mut self.snapshot, &devices, netdevs);

        let plan = self.plan.clone();
        for device in devices.iter() {
            if unchanged.contains(device.key.0.as_str())
                && self.schedule.contains(&Subject::Link(device.key.0.clone()))
            {
                continue;
            }
            let key = device.key.0.clone();
            let skip = self.skips_of(device);
            let link = LinkRead::new(device, plan.netlink);
            let counters = CountersRead::new(device, plan.netlink, plan.essential_only, skip);
            self.add(Subject::Link(key.clone()), plan.link, Box::new(link));
            self.add(
                Subject::Counters(key.clone()),
                plan.counters,
                Box::new(counters),
            );
            let gids = GidsRead {
                device: device.clone(),
            };
            self.add(Subject::Gids(key), plan.gids, Box::new(gids));
        }
        for name in netdevs {
            if self.schedule.contains(&Subject::Netdev(name.clone())) {
                continue;
            }
            let netdev = NetdevRead::new(name);
            self.add(Subject::Netdev(name.clone()), plan.netdev, Box::new(netdev));
            self.add(
                Subject::Ethtool(name.clone()),
                plan.ethtool,
                Box::new(EthtoolRead::new(name)),
            );
            let dcb = DcbRead { name: name.clone() };
            self.add(Subject::Dcb(name.clone()), plan.dcb, Box::new(dcb));
        }
        let rdma: BTreeSet<_> = devices.iter().filter_map(|device| device.pci).collect();
        let same = before.is_some_and(|before| {
            before
                .iter()
                .filter_map(|device| device.pci)
                .collect::<BTreeSet<_>>()
                == rdma
        });
        if !same || !self.schedule.contains(&Subject::Pci) {
            self.schedule.retain(|subject| *subject != Subject::Pci);
            self.add(Subject::Pci, plan.pci, Box::new(PciRead { rdma }));
        }
    }

    fn skips_of(&self, device: &RdmaDevice) -> BTreeMap<u32, PmaSkip> {
        let excluded = excluded(&self.plan.exclude, device);
        device
            .ports
            .iter()
            .filter_map(|port| {
                let skip = if excluded {
                    Some(PmaSkip::Excluded)
                } else {
                    self.skips.get(&device.port_key(port.number)).copied()
                };
                skip.map(|skip| (port.number, skip))
            })
            .collect()
    }
}

/// Whether the operator excludes the device from counter reads, by name or PCI address.
pub fn excluded(exclude: &[Glob], device: &RdmaDevice) -> bool {
    glob::any_matches(exclude, &device.name)
        || device
            .pci
            .is_some_and(|pci| glob::any_matches(exclude, &pci.to_string()))
}
