//! What a whole log comes to. Bounded however long it is and however many processes and
//! communicators it names; those longest silent are forgotten first.

use super::event::{Comm, Event, Net, Phase, Record, Transport};
use super::group::{Group, GroupKey, Seat};
use super::process::{Process, Stage};
use super::tally::{Place, Tally};
use super::trouble::Trouble;
use std::collections::{BTreeMap, BTreeSet};

/// How much is kept of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processes.
    pub processes: usize,
    /// Communicators.
    pub groups: usize,
    /// Ranks of one communicator.
    pub seats: usize,
}

impl Limits {
    /// One container's log: the ranks of one node.
    pub const CONTAINER: Limits = Limits {
        processes: 64,
        groups: 32,
        seats: 256,
    };
    /// A file, which may hold a whole job.
    pub const FILE: Limits = Limits {
        processes: 4096,
        groups: 512,
        seats: 16384,
    };
}

/// Bytes of a line that are kept as evidence.
const EVIDENCE_BYTES: usize = 300;

/// Names of things that a line may hold any number of: hosts, variables, interfaces.
const MAX_NAMES: usize = 64;

/// When a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time<'a> {
    /// Nobody knows.
    #[default]
    Unknown,
    /// As its frame says, RFC 3339.
    Text(&'a str),
    /// When it was read.
    At(jiff::Timestamp),
}

impl Time<'_> {
    /// As a moment.
    pub fn stamp(self) -> Option<jiff::Timestamp> {
        match self {
            Time::Unknown => None,
            Time::Text(text) => text.parse().ok(),
            Time::At(at) => Some(at),
        }
    }
}

/// A line that shows something, with its number from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Number.
    pub number: u64,
    /// Text, cut.
    pub text: String,
}

/// What a line of evidence shows; of each the first is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shows {
    /// The choice of a network.
    Choice(Net),
    /// A connection.
    Over(Transport, bool),
    /// How many nodes or ranks there are.
    Span,
    /// Verbs devices.
    Devices,
    /// A variable that decides.
    Env(&'static str),
    /// A plugin's word.
    Plugin(Net),
    /// GPUDirect RDMA on or off.
    Gdr(bool),
    /// Init ended.
    Complete,
    /// Trouble.
    Trouble(Trouble),
}

/// Link layers of verbs devices that were listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// InfiniBand (Omni-Path prints the same).
    Ib,
    /// RoCE (iWARP prints the same).
    Roce,
}

/// The state of one log.
#[derive(Debug, Clone, PartialEq)]
pub struct NcclLog {
    limits: Limits,
    /// NCCL's version, the highest one told.
    pub version: Option<String>,
    /// Hosts, by number.
    pub hosts: Vec<String>,
    /// Processes by host and pid.
    pub processes: BTreeMap<(u32, u32), Process>,
    /// Communicators.
    pub groups: BTreeMap<GroupKey, Group>,
    /// All connections.
    pub whole: Tally,
    /// Link layers of verbs devices, by the net's number; nodes may differ.
    pub links: BTreeSet<(u32, Link)>,
    /// Some device was listed with this link.
    pub link_kinds: BTreeSet<Link>,
    /// A device of RoCE's by name or GID was told of, without a list.
    pub roce_hint: bool,
    /// Lines about trouble, by kind.
    pub troubles: BTreeMap<Trouble, u64>,
    /// NICs for which GPUDirect RDMA was said to be on, and off.
    pub gdr_on: u64,
    /// …
    pub gdr_off: u64,
    /// Ranks of the largest communicator that connections name (RCCL).
    pub named_ranks: Option<u32>,
    /// A variable was printed as `NAME=VALUE`, by a script mostly: sockets are asked for, verbs off.
    pub printed_socket: bool,
    /// …
    pub printed_ib_off: bool,
    /// Ranks of the largest ring whose order was printed.
    pub ring_ranks: Option<u32>,
    /// Hosts of nccl-tests' table, by rank.
    pub test_ranks: BTreeMap<u32, u32>,
    /// Process and device of each of its ranks.
    test_seats: BTreeMap<u32, (u32, String)>,
    /// It has a rank twice: tables of several runs.
    pub test_runs: bool,
    /// Machines share a name: one interface has several addresses.
    pub shared_names: bool,
    /// Address of each host's interfaces.
    addresses: BTreeMap<(u32, u64), u64>,
    /// Interfaces of bootstrap and TCP.
    pub interfaces: BTreeSet<String>,
    /// Variables told, by name.
    pub env: BTreeMap<String, String>,
    /// Errors on their way up, in view.
    pub trails: u64,
    /// Trails out of init.
    pub init_trails: u64,
    /// The longest init told, in seconds.
    pub init_seconds: Option<f64>,
    /// Lines of NCCL's.
    pub records: u64,
    /// … that nobody taught us.
    pub unknown: u64,
    /// When a line was last printed, if lines tell.
    pub last: Option<jiff::Timestamp>,
    evidence: BTreeMap<Shows, Line>,
}

impl NcclLog {
    /// An empty log.
    pub fn new(limits: Limits) -> Self {
        NcclLog {
            limits,
            version: None,
            hosts: Vec::new(),
            processes: BTreeMap::new(),
            groups: BTreeMap::new(),
            whole: Tally::default(),
            links: BTreeSet::new(),
            link_kinds: BTreeSet::new(),
            roce_hint: false,
            troubles: BTreeMap::new(),
            gdr_on: 0,
            gdr_off: 0,
            named_ranks: None,
            printed_socket: false,
            printed_ib_off: false,
            ring_ranks: None,
            test_ranks: BTreeMap::new(),
            test_seats: BTreeMap::new(),
            test_runs: false,
            shared_names: false,
            addresses: BTreeMap::new(),
            interfaces: BTreeSet::new(),
            env: BTreeMap::new(),
            trails: 0,
            init_trails: 0,
            init_seconds: None,
            records: 0,
            unknown: 0,
            last: None,
            evidence: BTreeMap::new(),
        }
    }

    /// Whether any line of NCCL's was seen.
    pub fn is_nccl(&self) -> bool {
        self.records > 0 || self.version.is_some()
    }

    /// Lines that show something, by what they show.
    pub fn evidence(&self) -> &BTreeMap<Shows, Line> {
        &self.evidence
    }

    /// Takes in a line that is no record but known all the same: version, test table, last error.
    pub fn apply_loose(&mut self, event: &Event<'_>, text: &str, number: u64) {
        match event {
            Event::Version(version) => self.version(version),
            Event::TestRank {
                rank,
                host,
                pid,
                device,
            } => {
                let host = self.host(host);
                if let Some((known, _)) = self.test_seats.get(rank) {
                    self.test_runs |= *known != *pid || self.test_ranks.get(rank) != Some(&host);
                } else if self.test_ranks.len() < self.limits.seats {
                    self.test_ranks.insert(*rank, host);
                    self.test_seats.insert(*rank, (*pid, cut(device, 32)));
                }
                self.show(Shows::Span, text, number);
            }
            Event::Trouble(trouble) => self.trouble(*trouble, text, number),
            Event::Env { name, value } => match *name {
                "NCCL_NET" => {
                    self.printed_socket = value.eq_ignore_ascii_case("socket");
                    self.show(Shows::Env("NCCL_NET"), text, number);
                }
                "NCCL_IB_DISABLE" | "NCCL_IBEXT_DISABLE" => {
                    self.printed_ib_off = *value == "1";
                    self.show(Shows::Env("NCCL_IB_DISABLE"), text, number);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Takes in a record; `number` is its line's, from 1.
    pub fn apply(&mut self, record: &Record<'_>, number: u64, time: Time<'_>) {
        self.records += 1;
        let host = self.host(record.who.host);
        let pid = record.who.pid.unwrap_or(u32::MAX);
        let place = Place { host, process: pid };
        let known = record.who.pid.is_some().then_some(place);
        self.make_room(place);
        let process = self.processes.entry((host, pid)).or_default();
        process.host = host;
        process.last_line = number;
        let text = record.text;
        match record.event {
            Event::Version(version) => self.version(version),
            Event::Env { name, value } => self.env(place, name, value, text, number),
            Event::Bootstrap(list) => {
                process.stage = Stage::Bootstrap;
                process.begun = true;
                self.interfaces(list);
                self.addressed(host, list);
            }
            Event::PluginLoaded(name) => {
                process.ib_plugin |= Net::of(name) == Net::Ib || name.contains("RDMA Plugin");
                process.fast_socket |= Net::of(name) == Net::FastSocket;
            }
            Event::NoPlugin => process.no_plugin = true,
            Event::Plain => {}
            Event::Using(name) => {
                let net = Net::of(name);
                process.chosen = Some(net);
                process.stage = process.stage.max(Stage::Network);
                self.show(Shows::Choice(net), text, number);
            }
            Event::NetFailed(name) => {
                if Net::of(name) == Net::Ib {
                    process.ib_tried = true;
                } else if Net::of(name) == Net::Ofi {
                    process.ofi_failed = true;
                }
            }
            Event::IbDevices(list) => {
                process.ib_found = true;
                process.ib_tried = true;
                process.ib_none = false;
                self.devices(list);
                self.show(Shows::Devices, text, number);
            }
            Event::IbDevice(name) => {
                process.ib_found = true;
                process.ib_tried = true;
                self.roce_hint |= name.starts_with("roce");
                self.show(Shows::Devices, text, number);
            }
            Event::IbNone => {
                process.ib_none = true;
                process.ib_tried = true;
                self.trouble(Trouble::NoDevice, text, number);
            }
            Event::SocketInterfaces(list) => {
                // To 2.4.7 the bootstrap prints this in every run, before verbs are tried.
                process.socket_begun |= process.ib_none || process.ib_disabled;
                process.socket_listed = true;
                self.interfaces(list);
                self.addressed(host, list);
            }
            Event::OfiProvider(provider) => {
                process.ofi = true;
                let base = provider.split(';').next().unwrap_or(provider);
                process.ofi_tcp = matches!(base, "tcp" | "sockets" | "udp" | "net");
                self.show(Shows::Plugin(Net::Ofi), text, number);
            }
            Event::OfiProtocol => {
                process.ofi = true;
                self.show(Shows::Plugin(Net::Ofi), text, number);
            }
            Event::FastSocket => {
                process.fast_socket = true;
                self.show(Shows::Plugin(Net::FastSocket), text, number);
            }
            Event::PluginSpeaks(net) => {
                process.speaks = Some(net);
                self.show(Shows::Plugin(net), text, number);
            }
            Event::Connection(connection) => {
                process.stage = process.stage.max(Stage::Channels);
                self.whole.connection(&connection, known);
                self.named_ranks = self.named_ranks.max(connection.nranks);
                let tid = record.who.tid;
                let group = tid.and_then(|tid| process.thread(tid)?.group);
                if group.is_none()
                    && let Some(pending) = tid.and_then(|tid| process.pending(tid))
                {
                    pending.connection(&connection, known);
                }
                if let Some(group) = group.and_then(|key| self.groups.get_mut(&key)) {
                    group.tally.connection(&connection, known);
                }
                let shows = Shows::Over(connection.over, connection.gdr);
                self.show(shows, text, number);
            }
            Event::RingOrder(ranks) => {
                process.stage = process.stage.max(Stage::Topology);
                self.ring_ranks = self.ring_ranks.max(Some(ranks));
                if let Some(place) = known {
                    self.whole.place(0, place);
                }
            }
            Event::Trees(rank) => {
                process.stage = process.stage.max(Stage::Topology);
                if let Some(place) = known {
                    self.whole.place(rank, place);
                }
            }
            Event::Rings(gdr) => {
                process.stage = process.stage.max(Stage::Rings);
                if let Some(gdr) = gdr {
                    process.rings_gdr = Some(gdr);
                    self.show(Shows::Gdr(gdr), text, number);
                }
            }
            Event::Gdr { enabled, no_module } => {
                if enabled {
                    self.gdr_on += 1;
                } else {
                    self.gdr_off += 1;
                }
                self.show(Shows::Gdr(enabled), text, number);
                if no_module {
                    self.trouble(Trouble::GdrDisabled, text, number);
                }
            }
            Event::Comm(comm) => self.comm(&comm, record, place, number, time),
            Event::InitSeconds {
                rank,
                nranks,
                seconds,
            } => {
                let key = self.group_of(place, record.who.tid, nranks);
                if let Some(seat) = key
                    .and_then(|key| self.groups.get_mut(&key))
                    .and_then(|group| group.seats.get_mut(&rank))
                {
                    seat.seconds = Some(seconds);
                }
                if nranks > 1 {
                    self.init_seconds = Some(self.init_seconds.unwrap_or(0.0).max(seconds));
                }
            }
            Event::TestRank { .. } => {}
            Event::Trouble(trouble) => {
                self.about_verbs(place, trouble, text);
                self.trouble(trouble, text, number);
            }
            Event::Trail { file } => {
                self.trails += 1;
                self.init_trails += u64::from(file.ends_with("init.cc"));
            }
            Event::Unknown => self.unknown += 1,
        }
        if let Some(at) = match time {
            Time::At(at) => Some(at),
            // Reading each line's stamp would be most of the work.
            Time::Text(_) if matches!(record.event, Event::Comm(_)) => time.stamp(),
            _ => None,
        } {
            self.last = self.last.max(Some(at));
        }
    }

    /// What a trouble tells of verbs in the process that has it.
    fn about_verbs(&mut self, place: Place, trouble: Trouble, text: &str) {
        let Some(process) = self.processes.get_mut(&(place.host, place.process)) else {
            return;
        };
        match trouble {
            Trouble::LibibverbsMissing => process.ib_tried = true,
            Trouble::OpenDevice => process.ib_tried = true,
            Trouble::PluginInit => process.ofi_failed |= text.contains("OFI"),
            Trouble::IbError
            | Trouble::PortDown
            | Trouble::DeviceFatal
            | Trouble::QueuePair
            | Trouble::GidIndex
            | Trouble::Dmabuf => process.ib_at_work = true,
            Trouble::Memlock => process.ib_at_work |= text.contains("ibv_"),
            _ => {}
        }
        self.roce_hint |= text.contains("localGid");
    }

    fn env(&mut self, place: Place, name: &str, value: &str, text: &str, number: u64) {
        let Some(process) = self.processes.get_mut(&(place.host, place.process)) else {
            return;
        };
        let is_set = !matches!(value, "0" | "" | "false");
        let shows = match name {
            "NCCL_IB_DISABLE" | "NCCL_IBEXT_DISABLE" => {
                process.ib_disabled |= is_set;
                process.ib_tried = true;
                Some("NCCL_IB_DISABLE")
            }
            "NCCL_NET" => {
                process.asks_socket = value.eq_ignore_ascii_case("socket");
                Some("NCCL_NET")
            }
            "NCCL_P2P_DISABLE" | "NCCL_SHM_DISABLE" => {
                process.local_off |= is_set;
                None
            }
            "NCCL_P2P_LEVEL" => {
                process.local_off |= value.eq_ignore_ascii_case("LOC");
                None
            }
            "FI_PROVIDER" => {
                process.ofi_asked = true;
                Some("FI_PROVIDER")
            }
            _ => None,
        };
        if let (Some(shows), true) = (shows, is_set) {
            self.show(Shows::Env(shows), text, number);
        }
        if self.env.len() < MAX_NAMES || self.env.contains_key(name) {
            self.env.insert(cut(name, 64), cut(value, 128));
        }
    }

    fn comm(
        &mut self,
        comm: &Comm,
        record: &Record<'_>,
        place: Place,
        number: u64,
        time: Time<'_>,
    ) {
        let key = match comm.id {
            Some(id) => GroupKey {
                id,
                nranks: comm.nranks,
            },
            // Lines without an id belong to what the thread is at, if that is of the same size.
            None => self
                .group_of(place, record.who.tid, comm.nranks)
                .unwrap_or(GroupKey {
                    id: 0,
                    nranks: comm.nranks,
                }),
        };
        self.make_group(key);
        let room = self.seat(key, comm.rank);
        let group = self.groups.entry(key).or_default();
        group.last_line = number;
        group.nodes = group.nodes.max(comm.nodes);
        let known = group.seats.get(&comm.rank).copied();
        if let Some(before) = known.filter(|seat| seat.place != place) {
            group.mixed = true;
            if group.left.len() < MAX_NAMES {
                group.left.insert(before.place.host);
            }
        }
        if known.is_some() || room {
            let mut seat = known.filter(|seat| seat.place == place).unwrap_or(Seat {
                place,
                bus: None,
                started: None,
                start: false,
                complete: false,
                ended: false,
                aborted: false,
                seconds: None,
            });
            seat.bus = comm.bus.or(seat.bus);
            match comm.phase {
                Phase::Start => {
                    seat.started = time.stamp();
                    seat.start = true;
                    (seat.complete, seat.ended, seat.aborted) = (false, false, false);
                }
                Phase::Alive => {}
                Phase::Complete => {
                    seat.complete = true;
                    if let (None, Some(from), Some(to)) = (seat.seconds, seat.started, time.stamp())
                    {
                        let seconds = to.duration_since(from).as_secs_f64();
                        seat.seconds = (seconds >= 0.0).then_some(seconds);
                    }
                }
                Phase::Aborted => (seat.ended, seat.aborted) = (true, true),
                Phase::Destroyed => seat.ended = true,
            }
            if comm.nranks > 1
                && let Some(seconds) = seat.seconds
            {
                self.init_seconds = Some(self.init_seconds.unwrap_or(0.0).max(seconds));
            }
            group.seats.insert(comm.rank, seat);
        }
        let process = self.processes.get_mut(&(place.host, place.process));
        if process.is_some_and(|process| process.sits(comm.nranks, comm.rank)) {
            self.supersede(key, comm.rank, place);
            if let Some(group) = self.groups.get_mut(&key) {
                group.superseded = false;
            }
        }
        self.bind(place, record.who.tid, key);
        if comm.nodes.is_some() || comm.phase == Phase::Start {
            self.show(Shows::Span, record.text, number);
        }
        if comm.phase == Phase::Complete {
            self.show(Shows::Complete, record.text, number);
        }
    }

    /// A process that is new in a rank takes the place of those that had it on this host.
    fn supersede(&mut self, key: GroupKey, rank: u32, place: Place) {
        for (other, older) in &mut self.groups {
            if other.nranks == key.nranks && *other != key && !older.superseded {
                let same = older.seats.get(&rank);
                older.superseded = same.is_some_and(|seat| {
                    seat.place.host == place.host && seat.place.process != place.process
                });
            }
        }
    }

    /// The communicator that a thread is at, if it has so many ranks.
    fn group_of(&mut self, place: Place, tid: Option<u32>, nranks: u32) -> Option<GroupKey> {
        let process = self.processes.get_mut(&(place.host, place.process))?;
        let key = process.thread(tid?)?.group?;
        (key.nranks == nranks).then_some(key)
    }

    /// From here on a thread's connections are this communicator's, and those it made before.
    fn bind(&mut self, place: Place, tid: Option<u32>, key: GroupKey) {
        let thread = self
            .processes
            .get_mut(&(place.host, place.process))
            .zip(tid)
            .and_then(|(process, tid)| process.thread(tid));
        let Some(thread) = thread else { return };
        thread.group = Some(key);
        let pending = thread.pending.take();
        if let (Some(pending), Some(group)) = (pending, self.groups.get_mut(&key)) {
            group.tally.merge(&pending);
        }
    }

    fn trouble(&mut self, trouble: Trouble, text: &str, number: u64) {
        *self.troubles.entry(trouble).or_default() += 1;
        self.show(Shows::Trouble(trouble), text, number);
    }

    fn show(&mut self, shows: Shows, text: &str, number: u64) {
        self.evidence.entry(shows).or_insert_with(|| Line {
            number,
            text: cut(text, EVIDENCE_BYTES),
        });
    }

    fn host(&mut self, name: &str) -> u32 {
        let name = match name.char_indices().nth(MAX_NAMES) {
            Some((end, _)) => name.get(..end).unwrap_or_default(),
            None => name,
        };
        let found = self.hosts.iter().rposition(|host| host == name);
        let at = found.unwrap_or_else(|| {
            // Beyond so many, one more or less tells nothing new.
            if self.hosts.len() < self.limits.processes {
                self.hosts.push(name.to_string());
            }
            self.hosts.len() - 1
        });
        u32::try_from(at).unwrap_or_default()
    }

    /// The versions of one job are the same, or the difference is told of as trouble.
    fn version(&mut self, version: &str) {
        let number = |version: &str| -> Vec<u32> {
            let parts = version.split('.').take(4);
            parts.map(|part| part.parse().unwrap_or_default()).collect()
        };
        let higher = |known: &String| number(known) < number(version);
        if self.version.as_ref().is_none_or(higher) {
            self.version = Some(cut(version, 32));
        }
    }

    fn make_room(&mut self, place: Place) {
        let key = (place.host, place.process);
        if self.processes.len() < self.limits.processes || self.processes.contains_key(&key) {
            return;
        }
        // Some at once: looking for the one that is longest silent takes a look at all of them.
        let mut last: Vec<u64> = self.processes.values().map(|p| p.last_line).collect();
        last.sort_unstable();
        let limit = last.get(last.len() / 8).copied().unwrap_or_default();
        self.processes.retain(|_, p| p.last_line > limit);
    }

    fn make_group(&mut self, key: GroupKey) {
        if self.groups.len() >= self.limits.groups && !self.groups.contains_key(&key) {
            self.drop_group(None);
        }
    }

    /// Drops the group that is least worth keeping: the widest communicator is what a job is judged by.
    fn drop_group(&mut self, but: Option<GroupKey>) {
        let least = self
            .groups
            .iter()
            .filter(|(key, _)| Some(**key) != but)
            .min_by_key(|(key, group)| (!group.superseded, key.nranks, group.last_line));
        if let Some(key) = least.map(|(key, _)| *key) {
            self.groups.remove(&key);
        }
    }

    /// Whether there is room for a rank in a group. The groups share four times what one may have.
    fn seat(&mut self, key: GroupKey, rank: u32) -> bool {
        let Some(group) = self.groups.get(&key) else {
            return true;
        };
        if group.seats.contains_key(&rank) {
            return true;
        }
        if group.seats.len() >= self.limits.seats {
            return false;
        }
        let seated: usize = self.groups.values().map(|group| group.seats.len()).sum();
        if seated >= self.limits.seats.saturating_mul(4) {
            self.drop_group(Some(key));
        }
        true
    }

    /// `[0]mlx5_0:1/IB [1]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE}`: the link of each.
    fn devices(&mut self, list: &str) {
        let mut outer = None;
        let mut in_braces = false;
        for part in list.split('[').skip(1) {
            let Some((index, rest)) = part.split_once(']') else {
                continue;
            };
            let Ok(index) = index.parse::<u32>() else {
                continue;
            };
            if rest.starts_with('=') {
                outer = Some(index);
                in_braces = true;
                continue;
            }
            let index = if in_braces {
                outer.unwrap_or(index)
            } else {
                index
            };
            in_braces &= !rest.contains('}');
            let device = rest.trim_start().split([' ', ',', '}', ';']).next();
            let Some((_, link)) = device.and_then(|device| device.split_once('/')) else {
                continue;
            };
            let link = match link.split('/').next() {
                Some("IB") => Link::Ib,
                Some("RoCE") => Link::Roce,
                _ => continue,
            };
            self.link_kinds.insert(link);
            if self.links.len() < MAX_NAMES {
                self.links.insert((index, link));
            }
        }
    }

    /// Whether nccl-tests' table has one device of one host under two ranks.
    pub fn test_shares_devices(&self) -> bool {
        let devices: BTreeSet<(u32, &str)> = self
            .test_ranks
            .iter()
            .filter_map(|(rank, host)| Some((*host, self.test_seats.get(rank)?.1.as_str())))
            .collect();
        devices.len() < self.test_ranks.len()
    }

    /// Machines may share a name; the first address of an interface tells them apart.
    fn addressed(&mut self, host: u32, list: &str) {
        let mut told = BTreeSet::new();
        for (interface, address) in entries(list).take(16) {
            if address.is_empty() || !told.insert(interface) {
                continue;
            }
            let key = (host, hash(interface));
            let address = hash(address);
            match self.addresses.get(&key) {
                Some(known) => self.shared_names |= *known != address,
                None if self.addresses.len() < 4 * self.limits.processes => {
                    self.addresses.insert(key, address);
                }
                None => {}
            }
        }
    }

    fn interfaces(&mut self, list: &str) {
        for name in names(list) {
            if self.interfaces.len() >= MAX_NAMES {
                return;
            }
            if !self.interfaces.contains(name) {
                self.interfaces.insert(cut(name, 32));
            }
        }
    }
}

/// `[0]eth0:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>` or without numbers: `IF:ADDRESS<PORT>` each.
fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split_ascii_whitespace().take(32).filter_map(|word| {
        let word = match word.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.1,
            None => word,
        };
        let (interface, address) = word.split_once(':')?;
        let (address, _) = address.split_once('<')?;
        Some((interface, address))
    })
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    entries(list).map(|(name, _)| name)
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// At most so many bytes, whole characters.
fn cut(text: &str, bytes: usize) -> String {
    let end = text
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= bytes)
        .last()
        .unwrap_or(0);
    text.get(..end).unwrap_or_default().to_string()
}
