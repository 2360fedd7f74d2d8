//! Every source that the sampler reads: one row each in [`SOURCES`], with its reader below.
//!
//! How to add one: "Add a source" in CONTRIBUTING.md.

use crate::config::{Config, Intervals};
use crate::glob::any_matches;
use crate::host::Host;
use crate::observe::{
    Advertisement, BareNic, EthtoolFacts, Fault, FaultKind, Function, Ipv4Facts, LinkFacts,
    LinkLayer, OvsRoute, PciFacts, PciFunction, PmaSkip, PortCounters, RdmaDevice, Reading,
    Snapshot, Stamped,
};
use crate::source::netlink::{NetlinkError, dcb, rdma};
use crate::source::{
    counters, dot1x, ethtool, gids, gpudirect, gvnic, infiniband, link, lldp, netdev, ovs, parse,
    pci, replay, routes, umad, vf,
};
use crate::units::{Bdf, DeviceKey, Millis, PortKey, Span};
use ReadClass::{HeldBack, Plain, Rates, Vital};
use Scope::{Device, Interface, Inventoried, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The `rate` file (firmware commands) is read when the state changed and every so many reads.
const RATE_EVERY: u32 = 15;

/// Reads of an interface for one read of the routing tables, which can be long.
const ROUTES_EVERY: u32 = 12;

/// Intervals for which an answer of `umad` holds: one or two may get lost.
const UMAD_HOLDS: u32 = 3;

/// What a source has one subject for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole node, from the start.
    Node,
    /// The whole node, once devices are known, and again when they change.
    Inventoried,
    /// Each RDMA device, by device key.
    Device,
    /// Each network device of an RDMA port, by name.
    Interface,
}

/// What sets a source apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadClass {
    /// No special treatment.
    Plain,
    /// It says whether the node has its rails and GPUs: read as long as anything is.
    Vital,
    /// Not started while another read of the same device hangs: both ask one driver, which is
    /// likely to keep a second thread as well.
    HeldBack,
    /// Held back, and its numbers are rates, which need two reads.
    Rates,
}

/// One source: what it is called, how often it is read, and how.
pub struct Source {
    /// As in metrics and the report.
    pub name: &'static str,
    /// What is read separately: the node, each device or each interface.
    pub scope: Scope,
    /// How often each subject is read.
    pub interval: Interval,
    /// What sets it apart.
    pub manner: ReadClass,
    /// Makes the reader of one subject; none where that device does not have the source.
    pub reader: MakeReader,
}

/// A blocking read of one subject. Each owns its sockets, so that a hung read holds up no other.
pub type SourceReader = Box<dyn FnMut(&Host) -> Sample + Send>;

/// What one read gave: how it went, and what merges its facts into the snapshot. Facts that could
/// not be read at all leave the last ones where they are: their age and the source's health show it.
pub struct Sample {
    /// How the read went, for the source's own health.
    pub ended: Reading<()>,
    /// Merges the facts and says what that changed.
    pub merge: Merge,
}

/// What merging a sample led to.
#[derive(Debug, Default)]
pub struct Changes {
    /// Facts changed: the node is to be judged again.
    pub changed: bool,
    /// The sample shows less than the one before, as a reset does for a moment: read again before
    /// that is believed.
    pub doubt: bool,
    /// A port or interface that was read before is gone: it was removed or renamed.
    pub left: bool,
    /// Ports whose PMA counters answered EINVAL and must not be opened again.
    pub restricted: Vec<PortKey>,
    /// Network devices, after an enumeration that succeeded.
    pub netdevs: Option<BTreeSet<String>>,
}

impl From<bool> for Changes {
    fn from(changed: bool) -> Self {
        Changes {
            changed,
            ..Changes::default()
        }
    }
}

/// Merges what was read at that moment into the snapshot.
pub type Merge = Box<dyn FnOnce(&mut Snapshot, Millis) -> Changes + Send>;

/// What readers are made from.
pub struct Inventory<'a> {
    /// How sources are to be read.
    pub config: &'a Config,
    /// RDMA devices as last enumerated.
    pub devices: &'a [RdmaDevice],
    /// Network devices of their ports, and those below them (legs of a bond).
    pub netdevs: &'a BTreeSet<String>,
    /// Ports whose PMA counters answered EINVAL.
    pub restricted: &'a BTreeSet<PortKey>,
}

type Interval = fn(&Intervals) -> Span;
type MakeReader = fn(&Inventory<'_>, &str) -> Option<SourceReader>;

const fn row(
    name: &'static str,
    scope: Scope,
    manner: ReadClass,
    interval: Interval,
    reader: MakeReader,
) -> Source {
    Source {
        name,
        scope,
        manner,
        interval,
        reader,
    }
}

/// All sources, by name.
pub static SOURCES: &[Source] = &[
    row("counters", Device, Rates, |of| of.counters, counters_reader),
    row("dcb", Interface, HeldBack, |of| of.dcb, dcb_reader),
    row("devices", Node, Vital, |of| of.devices, devices_reader),
    row("dot1x", Inventoried, Plain, |of| of.dot1x, dot1x_reader),
    row("ethtool", Interface, Rates, |of| of.ethtool, ethtool_reader),
    row("gids", Device, HeldBack, |of| of.gids, gids_reader),
    row("gpudirect", Node, Plain, |of| of.gpudirect, gpu_reader),
    row("link", Device, Vital, |of| of.link, link_reader),
    row("lldp", Inventoried, Plain, |of| of.lldp, lldp_reader),
    row("netdev", Interface, Plain, |of| of.netdev, netdev_reader),
    row("pci", Inventoried, Vital, |of| of.pci, pci_reader),
    row("umad", Device, HeldBack, |of| of.umad, umad_reader),
    row("vf_links", Interface, HeldBack, |of| of.pci, vfs_reader),
];

/// Stands for an unknown name; none is, since names come from [`SOURCES`].
static UNKNOWN: Source = row("", Node, Plain, |of| of.devices, |_, _| None);

/// The source of a name.
pub fn source(name: &str) -> &'static Source {
    (SOURCES.iter().find(|source| source.name == name)).unwrap_or(&UNKNOWN)
}

impl Source {
    /// Reads needed before the first full window has been seen.
    pub fn samples(&self) -> u64 {
        1 + u64::from(self.manner == Rates)
    }

    /// Whether one read of it waits for another of the same device.
    pub fn is_held_back(&self) -> bool {
        matches!(self.manner, HeldBack | Rates)
    }
}

impl Sample {
    /// A read that ended so, merged by `merge`.
    pub fn of(
        ended: Reading<()>,
        merge: impl FnOnce(&mut Snapshot, Millis) -> Changes + Send + 'static,
    ) -> Self {
        let merge = Box::new(merge);
        Sample { ended, merge }
    }

    /// A read that panicked: a bug of ours must not look like a healthy source.
    pub fn panicked() -> Self {
        let fault = Fault::other("the reader panicked; this is a bug in selvage");
        Sample::of(Reading::Failed(fault), |_, _| Changes::default())
    }
}

fn stamped<T>(at: Millis, value: T) -> Arc<Stamped<T>> {
    Arc::new(Stamped { at, value })
}

/// How a read went.
fn ended<T>(reading: &Reading<T>) -> Reading<()> {
    match reading {
        Reading::Value(_) | Reading::NotObservable => Reading::Value(()),
        Reading::Absent => Reading::Absent,
        Reading::Failed(fault) => Reading::Failed(fault.clone()),
    }
}

/// Failed if any part failed: a neighbour's good answer does not hide it.
fn first_fault<'a, T: 'a>(readings: impl Iterator<Item = &'a Reading<T>>) -> Reading<()> {
    let mut ends = readings.map(ended);
    let failed = ends.find(|end| matches!(end, Reading::Failed(_)));
    failed.unwrap_or(Reading::Value(()))
}

fn device_of<'a>(inventory: &Inventory<'a>, key: &str) -> Option<&'a RdmaDevice> {
    (inventory.devices.iter()).find(|device| device.key.0 == key)
}

/// Facts of a device's ports, by the ports' keys.
fn by_port<T>(device: &RdmaDevice, facts: impl IntoIterator<Item = (u32, T)>) -> Vec<(PortKey, T)> {
    let facts = facts.into_iter();
    let keyed = facts.map(|(port, facts)| (device.port_key(port), facts));
    keyed.collect()
}

/// RDMA netlink for a device that has an index there, where the kernel may be asked.
fn client_for(host: &Host, device: &RdmaDevice, netlink: bool) -> Option<(rdma::Client, u32)> {
    let index = device.index?;
    let client = (netlink && host.is_live()).then(|| rdma::Client::open().ok());
    Some((client??, index))
}

fn devices_reader(inventory: &Inventory<'_>, _: &str) -> Option<SourceReader> {
    let netlink = inventory.config.uses_netlink();
    let mut managers = BTreeMap::new();
    Some(Box::new(move |host| {
        let mut devices = infiniband::enumerate(host);
        if let Reading::Value(devices) = &mut devices {
            for device in devices {
                let known = managers.entry(device.key.clone());
                let manages = known.or_insert_with(|| infiniband::manages_switches(host, device));
                device.manages_switches = manages.clone();
            }
        }
        read_devices(host, devices, netlink)
    }))
}

fn read_devices(host: &Host, mut devices: Reading<Vec<RdmaDevice>>, netlink: bool) -> Sample {
    let (mut told, mut is_listed) = (None, !netlink || !host.is_live());
    if netlink
        && host.is_live()
        && let Ok(mut client) = rdma::Client::open()
    {
        told = client
            .system()
            .ok()
            .and_then(|system| system.netns_exclusive);
        if let (Reading::Value(devices), Ok(known)) = (&mut devices, client.devices()) {
            is_listed = true;
            for device in devices.iter_mut() {
                let same = known.iter().find(|known| known.name == device.name);
                device.index = same.map(|known| known.index);
            }
        }
    }
    if let Reading::Value(devices) = &mut devices {
        devices.extend(gvnic::enumerate(host));
    }
    let by_parameter =
        || Some(parse::word(host, "sys/module/ib_core/parameters/netns_mode")? == "N");
    let netns_exclusive = told.or_else(by_parameter);
    let netdevs = devices.value().map(|found| netdev::of_rdma(host, found));
    let unread = (devices.value().into_iter().flatten()).find_map(|device| device.unread.clone());
    let ended = match infiniband::left_out(host).or(unread) {
        Some(fault) if devices.value().is_some() => Reading::Failed(fault),
        _ => ended(&devices),
    };
    Sample::of(ended, move |snapshot, at| {
        snapshot.netns_exclusive = netns_exclusive.or(snapshot.netns_exclusive);
        let Reading::Value(mut devices) = devices else {
            return Changes::default();
        };
        let before = snapshot.devices.take().map(|before| before.value);
        let known = before.as_ref().map_or(&[][..], |before| before.as_slice());
        keep_missing_uverbs(&mut devices, known);
        // Where the kernel did not answer, another index would say that all were registered again.
        for device in devices.iter_mut().filter(|_| !is_listed) {
            let before = known.iter().find(|before| before.key == device.key);
            device.index = before.and_then(|before| before.index);
        }
        let still = |key: &DeviceKey| devices.iter().any(|device| device.key == *key);
        let doubt = known.iter().any(|device| !still(&device.key));
        // An unchanged list keeps its allocation, so that others can compare cheaply.
        let same = before.filter(|before| **before == devices);
        let value = same.unwrap_or_else(|| Arc::new(devices));
        snapshot.devices = Some(Stamped { at, value });
        Changes {
            changed: true,
            doubt,
            netdevs,
            ..Changes::default()
        }
    })
}

/// A uverbs device that was missing is still missing where the class can no longer be read: a fault is
/// not cleared by its evidence becoming unreadable.
fn keep_missing_uverbs(devices: &mut [RdmaDevice], before: &[RdmaDevice]) {
    for device in devices {
        let was = |old: &RdmaDevice| old.key == device.key && old.uverbs == Reading::Absent;
        if device.uverbs == Reading::NotObservable && before.iter().any(was) {
            device.uverbs = Reading::Absent;
        }
    }
}

fn link_reader(inventory: &Inventory<'_>, key: &str) -> Option<SourceReader> {
    let device = device_of(inventory, key)?.clone();
    if device.is_gvnic() {
        return Some(Box::new(move |host| {
            link_sample(vec![(device.port_key(1), gvnic::read_link(host, &device))])
        }));
    }
    let netlink = inventory.config.uses_netlink();
    let mut reader = link::LinkReader::new(&device, RATE_EVERY);
    let mut client = None;
    Some(Box::new(move |host| {
        let client = client.get_or_insert_with(|| client_for(host, &device, netlink));
        let known = client.as_mut().and_then(|(client, index)| {
            let count = u32::try_from(device.ports.len()).unwrap_or(u32::MAX);
            let ports = client.ports(*index, &device.name, count);
            let ports = ports.inspect_err(|error| {
                tracing::debug!(device = %device.name, %error, "RDMA netlink PORT_GET failed");
            });
            ports.ok()
        });
        let read = reader.read(host, &known.unwrap_or_default());
        link_sample(by_port(&device, read))
    }))
}

fn link_sample(ports: Vec<(PortKey, LinkFacts)>) -> Sample {
    let ended = first_fault(ports.iter().map(|(_, facts)| &facts.state));
    Sample::of(ended, move |snapshot, at| {
        let mut changes = Changes::default();
        for (key, facts) in ports {
            let gone = match &facts.state {
                Reading::Absent => true,
                Reading::Failed(fault) => fault.kind == FaultKind::Gone,
                Reading::Value(_) | Reading::NotObservable => false,
            };
            let before = snapshot.links.get(&key);
            changes.left |= gone && before.is_some_and(|link| link.value.state.value().is_some());
            changes.changed |= put(&mut snapshot.links, key, facts, at);
        }
        changes
    })
}

fn counters_reader(inventory: &Inventory<'_>, key: &str) -> Option<SourceReader> {
    // A gVNIC's counters are its interface's; each read of an NVSwitch manager's is an error in the
    // kernel log.
    let device = device_of(inventory, key)?;
    if device.is_gvnic() || device.manages_switches == Reading::Value(true) {
        return None;
    }
    let device = device.clone();
    let config = inventory.config;
    let excludes = |name: &str| any_matches(&config.counters.exclude, name);
    let by_address = device.pci.is_some_and(|pci| excludes(&pci.to_string()));
    let excluded = excludes(&device.name) || by_address;
    let restricted = |port: u32| inventory.restricted.contains(&device.port_key(port));
    let skip = |port: u32| match excluded {
        true => Some(PmaSkip::Excluded),
        false => restricted(port).then_some(PmaSkip::Restricted),
    };
    let mut reader = counters::CounterReader::new(&device, !config.counters.full, skip);
    let (netlink, mut client) = (config.uses_netlink(), None);
    // Ports whose counters netlink has; the others are not asked again.
    let asked = device.ports.iter().filter(|_| !excluded);
    let mut asked: BTreeSet<u32> = asked.map(|port| port.number).collect();
    Some(Box::new(move |host| {
        let client = client.get_or_insert_with(|| client_for(host, &device, netlink));
        let hardware = netlink_counters(client, &device.name, &mut asked);
        let ports = reader.read(host, hardware);
        let all = ports.iter().flat_map(|(_, counters)| {
            let PortCounters { pma, hw, .. } = counters;
            pma.values().chain(hw.values())
        });
        let ended = first_fault(all);
        let ports = by_port(&device, ports);
        let is_restricted = |facts: &PortCounters| facts.pma_skipped == Some(PmaSkip::Restricted);
        let restricted = ports.iter().filter(|(_, facts)| is_restricted(facts));
        let restricted = restricted.map(|(key, _)| key.clone()).collect();
        Sample::of(ended, move |snapshot, at| {
            let mut changed = false;
            for (key, counters) in ports {
                let alike = PortCounters::is_like;
                changed |= put_by(&mut snapshot.counters, key, counters, at, alike);
            }
            Changes {
                changed,
                restricted,
                ..Changes::default()
            }
        })
    }))
}

/// Hardware counters by port, of the ports `asked`; those that netlink has none of leave that list.
fn netlink_counters(
    client: &mut Option<(rdma::Client, u32)>,
    device: &str,
    asked: &mut BTreeSet<u32>,
) -> BTreeMap<u32, BTreeMap<String, u64>> {
    let mut hardware = BTreeMap::new();
    if let Some((client, index)) = client {
        asked.retain(|port| match client.counters(*index, device, *port) {
            Ok(counters) => {
                hardware.insert(*port, counters);
                true
            }
            Err(NetlinkError::NotAvailable) => false,
            Err(error) => {
                tracing::debug!(device, port, %error, "RDMA netlink STAT_GET failed");
                true
            }
        });
    }
    hardware
}

fn gids_reader(inventory: &Inventory<'_>, key: &str) -> Option<SourceReader> {
    let device = device_of(inventory, key).filter(|device| !device.is_gvnic())?;
    let device = device.clone();
    Some(Box::new(move |host| {
        let ports = device.ports.iter().map(|port| port.number);
        let tables = ports.map(|port| (port, gids::read(host, &device, port)));
        let tables = by_port(&device, tables);
        let ended = first_fault(tables.iter().map(|(_, table)| table));
        Sample::of(ended, move |snapshot, at| {
            let mut changed = false;
            for (key, table) in tables {
                changed |= match table {
                    Reading::Value(table) => put(&mut snapshot.gids, key, table, at),
                    // The kernel answered that there is none (any more).
                    Reading::Absent | Reading::NotObservable => {
                        snapshot.gids.remove(&key).is_some()
                    }
                    Reading::Failed(_) => false,
                };
            }
            changed.into()
        })
    }))
}

fn netdev_reader(_: &Inventory<'_>, name: &str) -> Option<SourceReader> {
    let name = name.to_string();
    let mut routes_in = 0;
    let mut last = netdev::Last::default();
    let mut routed: (bool, Option<OvsRoute>) = (false, None);
    let mut ipv4 = Ipv4Facts::default();
    Some(Box::new(move |host| {
        let mut facts = netdev::read(host, &name, &mut last);
        if routes_in > 0 {
            routes_in -= 1;
        } else if let Reading::Value(routes) = routes::default_route_devices(host) {
            routes_in = ROUTES_EVERY;
            let over_master = (facts.master.as_ref()).is_some_and(|name| routes.contains(name));
            let default = routes.contains(&name) || over_master;
            routed = (default, ovs::route_over(host, &routes, &name));
            ipv4 = routes::ipv4(host, &name);
        }
        (facts.default_route, facts.ovs_route) = routed.clone();
        facts.ipv4 = ipv4.clone();
        let name = name.clone();
        Sample::of(ended(&facts.carrier), move |snapshot, at| {
            let before = snapshot.netdevs.get(&name);
            let was_there = before.is_some_and(|before| before.value.ifindex.is_some());
            Changes {
                left: was_there && facts.ifindex.is_none(),
                changed: put(&mut snapshot.netdevs, name, facts, at),
                ..Changes::default()
            }
        })
    }))
}

/// A part of the snapshot that has a subject for each key.
type ByKey<K, T> = BTreeMap<K, Arc<Stamped<T>>>;

fn of_interface<T: PartialEq + Send + Sync + 'static>(
    name: &str,
    read: fn(&Host, &str) -> Reading<T>,
    field: fn(&mut Snapshot) -> &mut ByKey<String, Reading<T>>,
    alike: fn(&Reading<T>, &Reading<T>) -> bool,
) -> Option<SourceReader> {
    let name = name.to_string();
    Some(Box::new(move |host| {
        let facts = read(host, &name);
        let name = name.clone();
        Sample::of(ended(&facts), move |snapshot, at| match facts {
            // Most interfaces have no virtual functions, say.
            Reading::Absent => field(snapshot).remove(&name).is_some().into(),
            facts => put_by(field(snapshot), name, facts, at, alike).into(),
        })
    }))
}

fn dcb_reader(_: &Inventory<'_>, name: &str) -> Option<SourceReader> {
    let read = |host: &Host, name: &str| match host.is_live() {
        true => dcb::read(name),
        false => replay::json(host, &replay::json_path("dcb", name)),
    };
    of_interface(name, read, |snapshot| &mut snapshot.dcb, PartialEq::eq)
}

fn ethtool_reader(_: &Inventory<'_>, name: &str) -> Option<SourceReader> {
    let read = |host: &Host, name: &str| match host.is_live() {
        true => ethtool::read(name),
        false => replay::ethtool(host, name),
    };
    let alike = |was: &Reading<EthtoolFacts>, is: &Reading<EthtoolFacts>| match (was, is) {
        (Reading::Value(was), Reading::Value(is)) => is.is_like(was),
        _ => was == is,
    };
    of_interface(name, read, |snapshot| &mut snapshot.ethtool, alike)
}

fn vfs_reader(_: &Inventory<'_>, name: &str) -> Option<SourceReader> {
    of_interface(name, vf::links, |all| &mut all.vf_links, PartialEq::eq)
}

fn dot1x_reader(inventory: &Inventory<'_>, _: &str) -> Option<SourceReader> {
    let names = inventory.netdevs.clone();
    if names.is_empty() {
        return None;
    }
    Some(Box::new(move |host| {
        let found = dot1x::read(host, &names);
        let ended = match &found {
            Reading::Value(found) => first_fault(found.values()),
            other => ended(other),
        };
        Sample::of(ended, move |snapshot, at| {
            // Without an answer no supplicant runs (any more).
            let found = found.value().cloned().unwrap_or_default();
            let before = snapshot.dot1x.iter();
            let same = (before.map(|(name, facts)| (name, &facts.value))).eq(&found);
            let found = found.into_iter();
            let found = found.map(|(name, facts)| (name, stamped(at, facts)));
            snapshot.dot1x = found.collect();
            (!same).into()
        })
    }))
}

fn lldp_reader(inventory: &Inventory<'_>, _: &str) -> Option<SourceReader> {
    let names = inventory.netdevs.clone();
    if !inventory.config.agent.lldp || names.is_empty() {
        return None;
    }
    let (mut listener, mut warned) = (None, false);
    Some(Box::new(move |host| {
        let open = (listener.take()).map_or_else(|| lldp::Listener::open(host), Reading::Value);
        let heard = open.and_then(|mut open| match open.read(&names) {
            Ok(heard) => {
                listener = Some(open);
                Reading::Value(heard)
            }
            Err(errno) => Reading::Failed(Fault::other(format!("packet socket: {}", errno.desc()))),
        });
        if let Reading::Failed(fault) = &heard
            && !std::mem::replace(&mut warned, true)
        {
            tracing::warn!(error = %fault.detail, "LLDP cannot be received");
        }
        Sample::of(ended(&heard), move |snapshot, at| {
            let mut changed = false;
            for (name, said) in heard.into_value().into_iter().flatten() {
                let before = snapshot.lldp.get(&name).map(|before| &before.value);
                if let Some(known) = said.after(before) {
                    changed |= put_heard(&mut snapshot.lldp, name, known, at);
                }
            }
            changed.into()
        })
    }))
}

fn umad_reader(inventory: &Inventory<'_>, key: &str) -> Option<SourceReader> {
    let device = device_of(inventory, key)?.clone();
    let mut layers = device.ports.iter().map(|port| port.link_layer);
    // A virtual function of this host is not a rail.
    if !inventory.config.agent.umad
        || device.function == Function::VirtualOfHost
        || !layers.any(|layer| layer == LinkLayer::Infiniband)
    {
        return None;
    }
    let ttl = inventory.config.intervals.umad.duration() * UMAD_HOLDS;
    Some(Box::new(move |host| {
        let found = umad::neighbors(host, &device);
        let ended = ended(&found);
        let found = found.into_value().unwrap_or_default().into_iter();
        let answers = found.map(|(port, neighbor)| (port, Advertisement { neighbor, ttl }));
        let keyed = by_port(&device, answers);
        Sample::of(ended, move |snapshot, at| {
            let keyed = keyed.into_iter();
            let new = keyed.map(|(key, answer)| put_heard(&mut snapshot.umad, key, answer, at));
            new.fold(false, |any, new| any | new).into()
        })
    }))
}

fn gpu_reader(_: &Inventory<'_>, _: &str) -> Option<SourceReader> {
    Some(Box::new(|host| {
        let facts = gpudirect::read(host);
        Sample::of(ended(&facts.modules), move |snapshot, at| {
            let before = snapshot.gpudirect.replace(stamped(at, facts.clone()));
            before.is_none_or(|before| before.value != facts).into()
        })
    }))
}

fn pci_reader(inventory: &Inventory<'_>, _: &str) -> Option<SourceReader> {
    let rdma: BTreeSet<Bdf> = inventory.devices.iter().filter_map(|d| d.pci).collect();
    let rdma: Vec<Bdf> = rdma.into_iter().collect();
    Some(Box::new(move |host| {
        let facts = pci::scan(host, &rdma);
        let functions = || (facts.value().into_iter()).flat_map(|facts| facts.functions.values());
        let ends = [
            ended(&facts),
            first_fault(functions().map(|function| &function.config_dead)),
            first_fault(functions().map(|function| &function.current)),
        ];
        Sample::of(first_fault(ends.iter()), move |snapshot, at| {
            let Reading::Value(facts) = facts else {
                return Changes::default();
            };
            let before = snapshot.pci.replace(stamped(at, facts.clone()));
            Changes {
                changed: true,
                doubt: worse_bus(before.as_ref().map(|before| &before.value), &facts),
                ..Changes::default()
            }
        })
    }))
}

/// Puts a value in. True if it differs from the one before.
fn put<K: Ord, T: PartialEq>(map: &mut ByKey<K, T>, key: K, value: T, at: Millis) -> bool {
    put_by(map, key, value, at, PartialEq::eq)
}

/// Puts a value in. True if it is not like the one before.
fn put_by<K: Ord, T>(
    map: &mut ByKey<K, T>,
    key: K,
    value: T,
    at: Millis,
    alike: impl Fn(&T, &T) -> bool,
) -> bool {
    let before = map.get(&key);
    let changed = before.is_none_or(|before| !alike(&before.value, &value));
    map.insert(key, stamped(at, value));
    changed
}

/// The same of what a neighbor said: what no longer held is shown again at once.
fn put_heard<K: Ord>(
    map: &mut ByKey<K, Advertisement>,
    key: K,
    said: Advertisement,
    at: Millis,
) -> bool {
    let ended = |before: &Arc<Stamped<Advertisement>>| at >= before.at.plus(before.value.ttl);
    let had_ended = map.get(&key).is_some_and(ended);
    put(map, key, said, at) || had_ended
}

/// Whether a scan of the bus shows less than the one before: a GPU is missing, a function does not
/// answer any more, a PCIe link got slower or narrower.
pub fn worse_bus(before: Option<&PciFacts>, now: &PciFacts) -> bool {
    let gone = before.is_some_and(|before| before.gpus.iter().any(|gpu| !now.gpus.contains(gpu)));
    let bare = |(address, nic): (&String, &BareNic)| {
        let before = before.and_then(|before| before.bare.get(address));
        died(before.map(|nic| &nic.config_dead), &nic.config_dead)
    };
    gone || now.bare.iter().any(bare)
        || now.functions.iter().any(|(address, function)| {
            let before = before.and_then(|before| before.functions.get(address));
            is_worse(before, function)
        })
}

fn is_worse(before: Option<&PciFunction>, now: &PciFunction) -> bool {
    // GPUs (and the ports above them) slow down when idle; network controllers, class 02, do not.
    let keeps_speed = now.class.starts_with("02");
    let slower = before.is_some_and(|before| match (&before.current, &now.current) {
        (Reading::Value(was), Reading::Value(is)) => {
            is.width < was.width || (keeps_speed && is.megatransfers < was.megatransfers)
        }
        _ => false,
    });
    slower || died(before.map(|before| &before.config_dead), &now.config_dead)
}

/// Whether a config space reads all ones that did not before.
fn died(before: Option<&Reading<bool>>, now: &Reading<bool>) -> bool {
    let dead = Reading::Value(true);
    *now == dead && before != Some(&dead)
}

/// Drops facts of devices and interfaces that are gone, so that nothing stale is reported.
pub fn forget(snapshot: &mut Snapshot, devices: &[RdmaDevice], netdevs: &BTreeSet<String>) {
    let ports: BTreeSet<PortKey> = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(|port| device.port_key(port.number)))
        .collect();
    snapshot.links.retain(|key, _| ports.contains(key));
    snapshot.counters.retain(|key, _| ports.contains(key));
    snapshot.gids.retain(|key, _| ports.contains(key));
    snapshot.umad.retain(|key, _| ports.contains(key));
    snapshot.netdevs.retain(|name, _| netdevs.contains(name));
    snapshot.ethtool.retain(|name, _| netdevs.contains(name));
    snapshot.dcb.retain(|name, _| netdevs.contains(name));
    snapshot.dot1x.retain(|name, _| netdevs.contains(name));
    snapshot.lldp.retain(|name, _| netdevs.contains(name));
    snapshot.vf_links.retain(|name, _| netdevs.contains(name));
}
