//! What a whole log comes to. Bounded however long it is and however many processes and
//! communicators it names; those longest silent are forgotten first.

mod comms;
mod kinds;
mod lists;
mod tells;

pub use kinds::{Limits, Line, Link, Shows, Time};

use super::event::{Comm, Event, Net, Phase, Record};
use super::group::{Group, GroupKey, Seat};
use super::process::{Process, Stage};
use super::tally::{Place, Tally};
use super::trouble::Trouble;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a line that are kept as evidence.
const EVIDENCE_BYTES: usize = 300;

/// Names of things that a line may hold any number of: hosts, variables, interfaces.
const MAX_NAMES: usize = 64;

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
    /// Communicators that reach other nodes over NVLink (MNNVL).
    pub mnnvl: bool,
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
            mnnvl: false,
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
