//! One instant of the node.

use super::{
    Advertisement, DcbFacts, Dot1xFacts, EthtoolFacts, Fault, GidTable, GpuDirectFacts, LinkFacts,
    Neighbor, NetdevFacts, PciFacts, PortCounters, RdmaDevice, Reading, Stamped, VfLinks,
};
use crate::units::{Millis, PortKey};
use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

/// What was last read from every source, with the age of each part. Cheap to clone: parts that did
/// not change are shared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Now, on the monotonic clock.
    pub at: Millis,
    /// Now, in wall time; for display.
    pub wall: Option<jiff::Timestamp>,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: Option<String>,
    /// Whether the root is a running kernel's (else: a directory tree, where what is missing may
    /// simply not have been captured).
    pub live: bool,
    /// RDMA devices; `None` until the first enumeration ended well.
    pub devices: Option<Stamped<Arc<Vec<RdmaDevice>>>>,
    /// State, rate and LID of each port.
    pub links: BTreeMap<PortKey, Arc<Stamped<LinkFacts>>>,
    /// Counters of each port.
    pub counters: BTreeMap<PortKey, Arc<Stamped<PortCounters>>>,
    /// GID tables of ports that have one.
    pub gids: BTreeMap<PortKey, Arc<Stamped<GidTable>>>,
    /// Network devices of RDMA ports (and those above and next to them), by name.
    pub netdevs: BTreeMap<String, Arc<Stamped<NetdevFacts>>>,
    /// ethtool statistics by network device.
    pub ethtool: BTreeMap<String, Arc<Stamped<Reading<EthtoolFacts>>>>,
    /// DCB settings by network device.
    pub dcb: BTreeMap<String, Arc<Stamped<Reading<DcbFacts>>>>,
    /// 802.1X by network device, of those that have a supplicant.
    pub dot1x: BTreeMap<String, Arc<Stamped<Reading<Dot1xFacts>>>>,
    /// What switches last said of themselves, by network device, whether it still holds or not.
    pub lldp: BTreeMap<String, Arc<Stamped<Advertisement>>>,
    /// What the other ends of InfiniBand ports last answered, whether it still holds or not.
    pub umad: BTreeMap<PortKey, Arc<Stamped<Advertisement>>>,
    /// Link states of virtual functions, by the network device of their physical function; only
    /// where there are any.
    pub vf_links: BTreeMap<String, Arc<Stamped<Reading<VfLinks>>>>,
    /// The last scan of the PCI bus.
    pub pci: Option<Arc<Stamped<PciFacts>>>,
    /// Drivers and modules of the GPUDirect path.
    pub gpudirect: Option<Arc<Stamped<GpuDirectFacts>>>,
    /// Whether an RDMA device belongs to one network namespace, where the kernel told: then devices
    /// that were given to pods are not visible from here, and are not lost.
    pub netns_exclusive: Option<bool>,
    /// Health of each source, by source and subject (`link/0000:19:00.0`).
    pub sources: BTreeMap<Arc<str>, SourceHealth>,
}

impl Snapshot {
    /// Speed of an interface, in Mb/s. A bond tells the sum of its legs': of one, the slowest leg's.
    pub fn speed_of(&self, netdev: &str) -> Option<u64> {
        let speed = |name: &str| self.netdevs.get(name)?.value.speed_mbps.value().copied();
        let lowers = &self.netdevs.get(netdev)?.value.lowers;
        let slowest = lowers.iter().filter_map(|leg| speed(leg)).min();
        slowest.or_else(|| speed(netdev).filter(|_| lowers.is_empty()))
    }

    /// Health of a source for a subject (or a part of it, `eth0/…`), or for the whole node.
    pub fn health(&self, source: &str, subject: &str) -> Option<&SourceHealth> {
        let whole = self.sources.get(source);
        if subject.is_empty() {
            return whole;
        }
        let parts = format!("{source}/{subject}/");
        let own = self.sources.get(parts.trim_end_matches('/'));
        let part = || {
            let from = (Bound::Included(parts.as_str()), Bound::Unbounded);
            let (name, health) = self.sources.range::<str, _>(from).next()?;
            name.starts_with(&parts).then_some(health)
        };
        own.or_else(part).or(whole)
    }

    /// What is at the other end of a port's cable, given the port's network device; of a bond, at that
    /// of its first leg by name that was ever heard: its legs usually reach two switches. While the
    /// port is up, only what still holds; else what was there last.
    pub fn neighbor(
        &self,
        port: &PortKey,
        netdev: Option<&str>,
        port_is_up: bool,
    ) -> Option<&Neighbor> {
        let (_, heard) = self.cables(port, netdev).next()?;
        (self.holds(heard) || !port_is_up).then_some(&heard.value.neighbor)
    }

    /// What is at the other end of each cable of a port, as far as it still holds, by interface: its
    /// network device (without one, an empty name), or the legs of a bond.
    pub fn neighbors<'a>(
        &'a self,
        port: &PortKey,
        netdev: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a str, &'a Neighbor)> {
        let holding = (self.cables(port, netdev)).filter(|(_, heard)| self.holds(heard));
        holding.map(|(name, heard)| (name, &heard.value.neighbor))
    }

    /// A bond's own name is not a cable: some kernels repeat there what a leg heard.
    fn cables<'a: 'n, 'n>(
        &'a self,
        port: &PortKey,
        netdev: Option<&'n str>,
    ) -> impl Iterator<Item = (&'n str, &'a Stamped<Advertisement>)> {
        let answered = self.umad.get(port).into_iter();
        let answered = answered.map(move |answer| (netdev.unwrap_or_default(), &**answer));
        let is_leg = move |of: &NetdevFacts| netdev.is_some() && of.master.as_deref() == netdev;
        let is_bond = self.netdevs.values().any(|facts| is_leg(&facts.value));
        let is_its = move |name: &str| match self.netdevs.get(name) {
            Some(facts) if is_bond => is_leg(&facts.value),
            _ => netdev == Some(name) && !is_bond,
        };
        let heard = self.lldp.iter().filter(move |(name, _)| is_its(name));
        answered.chain(heard.map(|(name, heard)| (name.as_str(), &**heard)))
    }

    fn holds(&self, heard: &Stamped<Advertisement>) -> bool {
        self.at < heard.at.plus(heard.value.ttl)
    }

    /// Whether what was read of a subject `at` a moment can be gone by `now`: it is not older than
    /// `stale_after`, or its source neither stalls nor fails. A source that simply has a long
    /// interval keeps its value.
    pub fn is_fresh(
        &self,
        at: Millis,
        (source, subject): (&str, &str),
        now: Millis,
        stale_after: Duration,
    ) -> bool {
        let health = || self.health(source, subject);
        now.since(at) <= stale_after || health().is_none_or(|health| !health.fails())
    }
}

/// How one source's last read of one subject went.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SourceHealth {
    /// The source: a row of the sampler's table, or `kernel_log`.
    pub source: Arc<str>,
    /// Subject within it (a device key, an interface), empty for the whole node.
    pub subject: Arc<str>,
    /// Last read that ended well.
    pub last_ok: Option<Millis>,
    /// How long the last finished read took, in microseconds.
    pub micros: u64,
    /// A read is out beyond its deadline since then; it may be stuck in the kernel.
    pub stalled_since: Option<Millis>,
    /// Why the last read failed, if it did.
    pub fault: Option<Fault>,
    /// The kernel or tree does not have this source at all.
    pub absent: bool,
    /// How it is read, where there is more than one way: of the kernel log `device` (`/dev/kmsg`,
    /// or a file in its place) or `syslog` (syslog(2)).
    pub via: Option<Arc<str>>,
}

impl SourceHealth {
    /// Whether the last read failed, or is out beyond its deadline.
    pub fn fails(&self) -> bool {
        self.fault.is_some() || self.stalled_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(switch: &str, ttl: u64) -> Arc<Stamped<Advertisement>> {
        let neighbor = Neighbor {
            switch: switch.into(),
            switch_port: "swp1".into(),
            description: None,
            ids: Default::default(),
        };
        let ttl = Duration::from_secs(ttl);
        let at = Millis(0);
        let value = Advertisement { neighbor, ttl };
        Arc::new(Stamped { at, value })
    }

    fn leg(master: &str) -> Arc<Stamped<NetdevFacts>> {
        let master = Some(master.to_string());
        let value = NetdevFacts {
            master,
            ..NetdevFacts::default()
        };
        let at = Millis(0);
        Arc::new(Stamped { at, value })
    }

    fn port() -> PortKey {
        RdmaDevice::at("0000:19:00.0").port_key(1)
    }

    fn named<'a>(snapshot: &'a Snapshot, name: &str, up: bool) -> Option<&'a str> {
        let found = snapshot.neighbor(&port(), Some(name), up);
        found.map(|found| found.switch.as_str())
    }

    #[test]
    fn a_bond_reaches_what_its_leg_reaches() {
        let netdevs = [("eth0", "bond1"), ("eth1", "bond0")];
        let switches = [("eth0", "leaf-0"), ("eth1", "leaf-1")];
        let snapshot = Snapshot {
            netdevs: netdevs
                .map(|(name, master)| (name.into(), leg(master)))
                .into(),
            lldp: switches
                .map(|(name, switch)| (name.into(), heard(switch, 120)))
                .into(),
            ..Snapshot::default()
        };
        assert_eq!(named(&snapshot, "bond0", true), Some("leaf-1"));
        assert_eq!(named(&snapshot, "eth0", true), Some("leaf-0"));
        assert_eq!(named(&snapshot, "bond2", true), None);
    }

    #[test]
    fn a_bond_keeps_to_one_leg() {
        let mut snapshot = Snapshot {
            netdevs: ["eth0", "eth1"]
                .map(|name| (name.into(), leg("bond0")))
                .into(),
            // What is heard as the bond came by one of its legs.
            lldp: [("bond0".into(), heard("leaf-1", 120))].into(),
            ..Snapshot::default()
        };
        assert_eq!(named(&snapshot, "bond0", true), None);
        snapshot.lldp.insert("eth1".into(), heard("leaf-1", 120));
        assert_eq!(named(&snapshot, "bond0", true), Some("leaf-1"));
        snapshot.lldp.insert("eth0".into(), heard("leaf-0", 60));
        assert_eq!(named(&snapshot, "bond0", true), Some("leaf-0"));
        let legs = |snapshot: &Snapshot| -> Vec<String> {
            let key = port();
            let cables = snapshot.neighbors(&key, Some("bond0"));
            cables.map(|(leg, _)| leg.to_string()).collect()
        };
        let both = legs(&snapshot);
        assert_eq!(both, ["eth0", "eth1"]);
        // The first leg is silent, the second one is not: no other switch comes in its place.
        snapshot.at = Millis::from_secs(60);
        assert_eq!(named(&snapshot, "bond0", true), None);
        assert_eq!(named(&snapshot, "bond0", false), Some("leaf-0"));
        assert_eq!(legs(&snapshot), ["eth1"]);
    }
    #[test]
    fn an_answer_holds_for_its_port_with_and_without_a_network_device() {
        let mut snapshot = Snapshot::default();
        snapshot.umad.insert(port(), heard("leaf-1", 180));
        for netdev in [None, Some("ib0")] {
            let switch = |snapshot: &Snapshot, up| {
                let found = snapshot.neighbor(&port(), netdev, up);
                found.map(|found| found.switch.clone())
            };
            snapshot.at = Millis::from_secs(179);
            assert_eq!(switch(&snapshot, true).as_deref(), Some("leaf-1"));
            let cables: Vec<_> = snapshot.neighbors(&port(), netdev).collect();
            assert_eq!(cables[0].0, netdev.unwrap_or_default());
            assert_eq!(cables.len(), 1);
            snapshot.at = Millis::from_secs(180);
            assert_eq!(switch(&snapshot, true), None);
            assert_eq!(switch(&snapshot, false).as_deref(), Some("leaf-1"));
            assert_eq!(snapshot.neighbors(&port(), netdev).count(), 0);
        }
        let other = RdmaDevice::at("0000:2a:00.0").port_key(1);
        assert_eq!(snapshot.neighbor(&other, Some("ib0"), false), None);
    }
}
