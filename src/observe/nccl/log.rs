//! The state of one log. Its size is bounded for any length and any number of processes and
//! communicators; those silent for longest are dropped first.

mod comms;
mod kinds;
mod lists;
mod process_hints;

pub use kinds::{DeviceErrors, EvidenceKind, EvidenceLine, LogLimits};

use super::event::{Comm, Connection, InitSeconds, Phase, Time};
use super::{ChannelCounts, Event, Failure, Group, GroupKey, HostPid, Link, Net, Process, Record};
use crate::units::start;
use std::collections::{BTreeMap, BTreeSet};

/// Longest line of evidence that is kept, in bytes.
const EVIDENCE_BYTES: usize = 300;

/// Most names that are kept of hosts, variables, interfaces and other lists.
const MAX_NAMES: usize = 64;

/// Most devices with errors that are kept: a node has 8 rails or 16.
const MAX_DEVICES: usize = 32;

/// The state of one log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NcclLog {
    limits: LogLimits,
    /// NCCL's version, the highest in the log.
    pub version: Option<String>,
    /// Names of hosts; other fields refer to them by index.
    pub hosts: Vec<String>,
    /// Processes by their place.
    pub processes: BTreeMap<HostPid, Process>,
    /// Communicators by their id, up to the limit.
    pub groups: BTreeMap<GroupKey, Group>,
    /// Ranks in all groups together.
    seated: usize,
    /// All connections of the log.
    pub channels: ChannelCounts,
    /// Link layers of verbs devices, by the net's device number; nodes may differ.
    pub links: BTreeSet<(u32, Link)>,
    /// Link layers that any listed device has.
    pub link_kinds: BTreeSet<Link>,
    /// A device name or a GID shows RoCE, without a list of devices.
    pub roce_hint: bool,
    /// Number of lines by failure.
    pub failures: BTreeMap<Failure, u64>,
    /// Errors of RDMA operations, by the device that the lines name.
    pub device_errors: BTreeMap<String, DeviceErrors>,
    /// A communicator reaches other nodes over NVLink (MNNVL).
    pub mnnvl: bool,
    /// Number of NICs for which GPUDirect RDMA is reported as enabled.
    pub gdr_on: u64,
    /// Number of NICs for which GPUDirect RDMA is reported as disabled.
    pub gdr_off: u64,
    /// Ranks of the largest communicator that connections name (RCCL only).
    pub named_ranks: Option<u32>,
    /// A script printed `NCCL_NET=Socket`.
    pub printed_socket: bool,
    /// A script printed `NCCL_IB_DISABLE=1`.
    pub printed_ib_off: bool,
    /// Ranks of the largest ring whose order was printed.
    pub ring_ranks: Option<u32>,
    /// Process and device of each rank in nccl-tests' list.
    pub test_ranks: BTreeMap<u32, (HostPid, String)>,
    /// The list names a rank twice: it contains several runs.
    pub test_runs: bool,
    /// More lines than a communicator has ranks were left out for one that is like them but for its numbers (Ray).
    pub folded: bool,
    /// Machines share a name: one interface has several addresses.
    pub shared_names: bool,
    /// Address and the one before it, by host, interface and process; texts are hashed.
    addresses: BTreeMap<(u32, u64, u32), (u64, Option<u64>)>,
    /// Interfaces of bootstrap and TCP.
    pub interfaces: BTreeSet<String>,
    /// Environment variables that NCCL printed.
    pub env: BTreeMap<String, String>,
    /// Duration of the longest init in seconds.
    pub init_seconds: Option<f64>,
    /// Number of NCCL lines.
    pub records: u64,
    /// Number of NCCL lines that no parser rule recognised.
    pub unknown: u64,
    /// Time of the last line, if lines have times.
    pub last: Option<jiff::Timestamp>,
    /// The first line of each kind of evidence.
    pub evidence: BTreeMap<EvidenceKind, EvidenceLine>,
}

impl NcclLog {
    /// A log without lines, bounded by `limits`.
    pub fn new(limits: LogLimits) -> Self {
        NcclLog {
            limits,
            ..NcclLog::default()
        }
    }

    /// Whether the log has any line of NCCL's.
    pub fn is_nccl(&self) -> bool {
        self.records > 0 || self.version.is_some()
    }

    /// Bytes of memory that it holds, roughly.
    pub fn held(&self) -> usize {
        let texts = (self.hosts.iter()).chain(self.interfaces.iter());
        let texts = texts.chain(self.env.iter().flat_map(|(name, value)| [name, value]));
        let texts = texts.chain(self.evidence.values().map(|line| &line.text));
        let texts = texts.chain(self.device_errors.values().map(|errors| &errors.first));
        let texts = texts.chain(self.test_ranks.values().map(|(_, device)| device));
        let sizes = texts.map(|text| text.capacity() + 2 * size_of::<String>());
        let texts: usize = sizes.sum();
        let processes: usize = self.processes.values().map(Process::held).sum();
        let groups: usize = self.groups.values().map(Group::held).sum();
        let numbers = 32 * (2 * self.addresses.len() + self.test_ranks.len() + self.links.len());
        size_of::<Self>() + texts + processes + groups + numbers + self.channels.held()
    }

    /// Applies a line that means the same from any process, also of another program: version, list of
    /// ranks, errors.
    pub fn apply_loose(&mut self, event: &Event<'_>, text: &str, number: u64) {
        match *event {
            Event::Version(version) => self.version(version),
            Event::TestRank(entry) => {
                let (rank, host, process) = (entry.rank, self.host(entry.host), entry.pid);
                let place = HostPid { host, process };
                if let Some((known, _)) = self.test_ranks.get(&rank) {
                    self.test_runs |= *known != place;
                } else if self.test_ranks.len() < self.limits.seats {
                    let device = start(entry.device, 32).to_string();
                    self.test_ranks.insert(rank, (place, device));
                }
                self.show(EvidenceKind::Span, text, number);
            }
            Event::Failure(failure) => self.failure(failure, text, number),
            Event::DeviceFailure(failure, device) => {
                self.failure(failure, text, number);
                self.device_error(device, text);
            }
            Event::Env { name, value } => self.printed(name, value, text, number),
            _ => {}
        }
    }

    /// Applies a record; `number` is its line number from 1.
    pub fn apply(&mut self, record: &Record<'_>, number: u64, time: Time<'_>) {
        self.records += 1;
        let host = self.host(record.who.host);
        let process = record.who.pid.unwrap_or(u32::MAX);
        let place = HostPid { host, process };
        self.make_room(place);
        let printer = self.processes.entry(place).or_default();
        printer.last_line = self.records;
        printer.lines += 1;
        if printer.is_of_gin(record) {
            return;
        }
        printer.apply(&record.event);
        printer.ofi_spoke |= record.text.starts_with("NET/OFI ");
        // GPUDirect is looked up for the NICs of the chosen net (src/graph/topo.cc).
        let of_chosen = matches!(record.event, Event::Gdr { .. });
        let of_verbs = |start: &&str| record.text.starts_with(*start);
        printer.ib_at_work |= of_chosen && ["NET/IB", "NET/gIB", "NET/SPCX"].iter().any(of_verbs);
        printer.fast_socket |= record.who.location.starts_with("net_fastsocket");
        if record.who.location.contains("tcpx") {
            printer.speaks = Some(Net::Tcpx);
        }
        if let Some(kind) = EvidenceKind::of(&record.event) {
            self.show(kind, record.text, number);
        }
        self.apply_event(record, place, number, time);
        let at = match time {
            Time::At(at) => Some(at),
            // Parsing the time of every line would be most of the work.
            Time::Text(_) if matches!(record.event, Event::Comm(_)) => time.stamp(),
            _ => None,
        };
        self.last = self.last.max(at);
    }

    /// What a record shows about more than its process.
    fn apply_event(&mut self, record: &Record<'_>, place: HostPid, number: u64, time: Time<'_>) {
        let text = record.text;
        match record.event {
            Event::Version(version) => self.version(version),
            Event::Env { name, value } => self.env(place, name, value, text, number),
            Event::Bootstrap(list) | Event::SocketInterfaces(list) => {
                self.interfaces(list);
                let begins = matches!(record.event, Event::Bootstrap(_));
                self.addressed(place, list, begins);
            }
            Event::IbDevices(list) => self.devices(list),
            Event::IbQueuePair(link) => self.link_kinds.extend([link]),
            Event::IbDevice(name) => self.roce_hint |= name.starts_with("roce"),
            Event::IbNone => self.failure(Failure::NoDevice, text, number),
            Event::Connection(connection) => self.connection(&connection, record, place),
            Event::RingOrder(ranks) => {
                self.ring_ranks = self.ring_ranks.max(Some(ranks));
                self.rank_printed(0, record, place);
            }
            Event::Clique(ranks) => {
                self.mnnvl = true;
                if let Some(channels) = self.channels_of(place, record.who.tid) {
                    channels.joined_by_nvlink(ranks);
                }
            }
            Event::Trees(rank) => self.rank_printed(rank, record, place),
            Event::Gdr { enabled, no_module } => {
                self.gdr_on += u64::from(enabled);
                self.gdr_off += u64::from(!enabled);
                if no_module {
                    self.failure(Failure::GdrDisabled, text, number);
                }
            }
            Event::Comm(comm) => self.comm(&comm, record, place, number, time),
            Event::InitSeconds(init) => self.init_took(place, record.who.tid, init),
            Event::Failure(failure) | Event::DeviceFailure(failure, _) => {
                self.about_verbs(place, failure, text);
                self.apply_loose(&record.event, text, number);
            }
            Event::PluginNotFound(_) => {
                self.show(EvidenceKind::Failure(Failure::PluginMissing), text, number);
            }
            Event::NetFailed(name)
                if !matches!(name, "IB" | "Socket") && !self.lacks_verbs(name, place) =>
            {
                self.failure(Failure::PluginInit, text, number);
            }
            Event::ErrorTrace { file } => self.traced(place, record, file, number),
            Event::Unknown => self.unknown += 1,
            _ => {}
        }
    }

    /// Counts a connection, for the log and for the communicator that the thread works on.
    fn connection(&mut self, connection: &Connection<'_>, record: &Record<'_>, place: HostPid) {
        let printer = record.who.pid.map(|_| place);
        self.channels.connection(connection, printer);
        self.named_ranks = self.named_ranks.max(connection.nranks);
        let process = self.processes.get_mut(&place);
        let Some(process) = process.filter(|_| record.who.tid.is_some()) else {
            return;
        };
        // It still works: who took its rank is of another communicator, which runs at the same time.
        if std::mem::take(&mut process.stale) {
            let own = self.groups.values_mut().filter(|group| group.holds(place));
            own.for_each(|group| group.superseded = false);
        }
        if let Some(channels) = self.channels_of(place, record.who.tid) {
            channels.connection(connection, printer);
        }
    }

    /// The connections of the communicator that a thread works on.
    fn channels_of(&mut self, place: HostPid, tid: Option<u32>) -> Option<&mut ChannelCounts> {
        let (process, tid) = self.processes.get_mut(&place).zip(tid)?;
        match process.thread(tid).and_then(|thread| thread.group) {
            Some(key) => (self.groups.get_mut(&key)).map(|group| &mut group.channels),
            None => process.pending(tid),
        }
    }

    /// A line shows which rank its process is.
    fn rank_printed(&mut self, rank: u32, record: &Record<'_>, place: HostPid) {
        if record.who.pid.is_some() {
            self.channels.place(rank, place);
        }
    }

    fn failure(&mut self, failure: Failure, text: &str, number: u64) {
        *self.failures.entry(failure).or_default() += 1;
        self.show(EvidenceKind::Failure(failure), text, number);
    }

    fn device_error(&mut self, device: &str, text: &str) {
        if self.device_errors.len() >= MAX_DEVICES && !self.device_errors.contains_key(device) {
            return;
        }
        let name = start(device, 64).into();
        let errors = self.device_errors.entry(name).or_default();
        errors.lines += 1;
        if errors.first.is_empty() {
            errors.first = start(text, EVIDENCE_BYTES).into();
        }
    }

    fn show(&mut self, kind: EvidenceKind, text: &str, number: u64) {
        self.evidence.entry(kind).or_insert_with(|| EvidenceLine {
            line: number,
            text: start(text, EVIDENCE_BYTES).into(),
        });
    }

    fn host(&mut self, name: &str) -> u32 {
        let end = name.char_indices().nth(MAX_NAMES);
        let name = end.map_or(name, |(end, _)| name.get(..end).unwrap_or_default());
        let found = self.hosts.iter().rposition(|host| host == name);
        let at = found.unwrap_or_else(|| {
            // One host more changes no verdict.
            if self.hosts.len() < self.limits.processes {
                self.hosts.push(name.to_string());
            }
            self.hosts.len() - 1
        });
        u32::try_from(at).unwrap_or_default()
    }

    /// Keeps the highest version; NCCL itself reports ranks of different versions as a failure.
    fn version(&mut self, version: &str) {
        let number = |version: &str| -> Vec<u32> {
            let parts = version.split('.').take(4);
            parts.map(|part| part.parse().unwrap_or_default()).collect()
        };
        let higher = |known: &String| number(known) < number(version);
        if self.version.as_ref().is_none_or(higher) {
            self.version = Some(start(version, 32).into());
        }
    }

    fn make_room(&mut self, place: HostPid) {
        if self.processes.len() < self.limits.processes || self.processes.contains_key(&place) {
            return;
        }
        // Drop several at a time: finding the one that is silent for longest visits all.
        let mut last: Vec<u64> = self.processes.values().map(|p| p.last_line).collect();
        last.sort_unstable();
        let limit = last.get(last.len() / 8).copied().unwrap_or_default();
        self.processes.retain(|_, p| p.last_line > limit);
    }
}
