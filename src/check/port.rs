//! One port with the known facts about it, as checks judge it and outputs show it.

use super::Weight;
use super::roles::{Proof, Role, RoleFacts, Roles, kind};
use crate::observe::history::ports_of;
use crate::observe::{
    Dot1xFacts, History, LinkFacts, LinkLayer, Neighbor, NetdevFacts, PhysState, PortHistory,
    PortState, RdmaDevice, RdmaPort, Snapshot, Track, true_rate,
};
use crate::units::{BitsPerSec, Millis, PortKey};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::time::Duration;

/// One port with the known facts about it.
#[derive(Debug, Clone)]
pub struct PortView<'a> {
    /// RDMA device that the port belongs to.
    pub device: &'a RdmaDevice,
    /// Facts about the port itself.
    pub port: &'a RdmaPort,
    /// Identity of the port, stable over renames.
    pub key: PortKey,
    /// For people: `mlx5_3/1`.
    pub subject: String,
    /// Whether it is a rail: gangs run over it.
    pub rail: bool,
    /// Its role, and why; `None` before the first evaluation.
    pub role: Option<&'a RoleFacts>,
    /// Its state as last read, unless that is too old to go by.
    pub link: Option<&'a LinkFacts>,
    /// Its network device's facts, unless too old.
    pub netdev: Option<&'a NetdevFacts>,
    /// Its network device's speed ([`Snapshot::speed_of`]).
    speed_mbps: Option<u64>,
    /// What its network device's supplicant says (802.1X), as of its last read. Another supplicant's
    /// failure says nothing of this one; a read that hangs leaves nothing known.
    pub dot1x: Option<&'a Dot1xFacts>,
    /// Of a rail: what is at the other end of its cable, or was before its link went down (LLDP, or
    /// umad on InfiniBand).
    pub neighbor: Option<&'a Neighbor>,
    /// What earlier snapshots showed of the port; `None` before the first one.
    pub history: Option<&'a PortHistory>,
    /// The past of its network device's statistics, by the names of
    /// [`EthtoolFacts::counts`](crate::observe::EthtoolFacts::counts).
    pub statistics: Option<&'a BTreeMap<String, Track>>,
}

impl<'a> PortView<'a> {
    /// All ports of a snapshot as of `now`, without their past, in the order of the devices. What is older
    /// than `stale_after`, because its source is stalled or failing, is left out.
    pub fn all(
        snapshot: &'a Snapshot,
        roles: &'a Roles,
        (now, stale_after): (Millis, Duration),
    ) -> impl Iterator<Item = PortView<'a>> {
        let supplicant = snapshot.health("dot1x", "");
        let hangs = supplicant.is_some_and(|health| health.stalled_since.is_some());
        ports_of(snapshot).map(move |(device, port)| {
            let key = device.port_key(port.number);
            let name = port.netdev.as_deref();
            let is_fresh = |at, of| snapshot.is_fresh(at, of, now, stale_after);
            let link = snapshot.links.get(&key);
            let link = link.filter(|link| is_fresh(link.at, ("link", &key.device.0)));
            let netdev = name.and_then(|name| {
                let netdev = snapshot.netdevs.get(name)?;
                is_fresh(netdev.at, ("netdev", name)).then_some(&netdev.value)
            });
            let dot1x = name.filter(|_| !hangs);
            let role = roles.get(&key);
            let mut view = PortView {
                device,
                port,
                subject: format!("{}/{}", device.name, port.number),
                rail: role.is_some_and(|role| role.role == Role::Rail),
                role,
                link: link.map(|link| &link.value),
                netdev,
                speed_mbps: netdev.and_then(|_| snapshot.speed_of(name?)),
                dot1x: dot1x.and_then(|name| snapshot.dot1x.get(name)?.value.value()),
                neighbor: None,
                history: None,
                statistics: None,
                key,
            };
            let neighbor = snapshot.neighbor(&view.key, name, view.is_active());
            view.neighbor = neighbor.filter(|_| view.rail);
            view
        })
    }

    /// With what earlier snapshots showed.
    pub(super) fn with_past(mut self, history: &'a History) -> Self {
        let netdev = self.port.netdev.as_ref();
        self.statistics = netdev.and_then(|name| history.netdevs.get(name));
        self.history = history.ports.get(&self.key);
        self
    }

    /// EFA hard-codes its port's state (efa_query_port): it is never evidence.
    pub fn is_efa(&self) -> bool {
        self.device.driver.starts_with("efa")
    }

    /// RoCE, that is Ethernet without iWARP (node type 4, RNIC) and without gVNICs.
    pub fn is_roce(&self) -> bool {
        self.port.link_layer == LinkLayer::Ethernet
            && self.device.node_type != Some(4)
            && !self.device.is_gvnic()
    }

    /// A gVNIC whose interface a pod has: nothing of it can be seen from here, and nothing is wrong.
    pub fn is_in_a_pod(&self) -> bool {
        self.device.is_gvnic() && self.port.netdev.is_none()
    }

    /// Its logical state, if that was read.
    pub fn state(&self) -> Option<PortState> {
        self.link?.state.value().copied()
    }

    /// Its physical state, if that was read.
    pub fn phys_state(&self) -> Option<PhysState> {
        self.link?.phys_state.value().copied()
    }

    /// Its logical state, with the physical one where it is known not to be up.
    pub fn state_text(&self) -> String {
        let state = self.state().map_or("unknown", PortState::as_str);
        let phys = self.phys_state().map_or("unknown", PhysState::as_str);
        match self.is_active() || self.state().is_none() {
            true => state.to_string(),
            false => format!("{state}/{phys}"),
        }
    }

    /// Its rate, only while it is up, and where the port lies the network device's ([`true_rate`]).
    pub fn rate(&self) -> Option<BitsPerSec> {
        let told = self.link.filter(|_| self.is_active())?.rate.value()?.rate;
        let (layer, driver) = (self.port.link_layer, &self.device.driver);
        true_rate(layer, driver, told, self.speed_mbps)
    }

    /// The rate to go by: none of EFA's.
    pub fn judged_rate(&self) -> Option<BitsPerSec> {
        self.rate().filter(|_| !self.is_efa())
    }

    /// Whether it is known to carry traffic.
    pub fn is_active(&self) -> bool {
        self.state().is_some_and(PortState::is_up)
    }

    /// Whether it has a link, for all that is known: it carries traffic, or waits for a subnet manager.
    pub fn may_be_linked(&self) -> bool {
        self.state() != Some(PortState::Down)
    }

    /// Its link layer, where it was read or, as with EFA, there is none.
    pub fn layer(&self) -> Option<LinkLayer> {
        kind::layer(self.device, self.port.link_layer)
    }

    /// Whether its link layer is InfiniBand's.
    pub fn is_infiniband(&self) -> bool {
        self.port.link_layer == LinkLayer::Infiniband
    }

    /// Whether it was active at some moment of this boot.
    pub fn was_up(&self) -> bool {
        self.history.is_some_and(|history| history.ever_active)
    }

    /// Address of its PCI function, if it has one.
    pub fn address(&self) -> Option<String> {
        Some(self.device.pci?.to_string())
    }

    /// Weight of what is said of it: only rails move the verdict.
    pub fn weight(&self) -> Weight {
        Weight::counting_if(self.rail)
    }

    /// One of its counters, if it was ever read: PMA by file name, hardware counters as `hw.NAME`.
    pub fn counter(&self, name: &str) -> Option<&'a Track> {
        self.history?.counters.get(name)
    }

    /// A statistic of its network device.
    pub fn statistic(&self, name: &str) -> Option<&'a Track> {
        self.statistics?.get(name)
    }

    /// Statistics of its network device's priorities: priority, name and past of each.
    pub fn priority_statistics(&self) -> impl Iterator<Item = (u8, &'a str, &'a Track)> {
        let named = |(name, track): (&'a String, &'a Track)| {
            let (priority, statistic) = name.strip_prefix("prio")?.split_once('.')?;
            Some((priority.parse().ok()?, statistic, track))
        };
        let all = self.statistics.into_iter();
        all.flat_map(|tracks| tracks.range::<str, _>((Included("prio"), Excluded("priq"))))
            .filter_map(named)
    }

    /// Moment of the last link edge that was seen.
    pub fn last_edge(&self) -> Option<Millis> {
        self.history?.edges.back().map(|(at, _)| *at)
    }
}

/// What proves the fabric, by the roles.
pub fn proof(snapshot: &Snapshot, history: &History, roles: &Roles) -> Proof {
    let mut proof = Proof {
        enumerated: snapshot.devices.is_some(),
        ..Proof::default()
    };
    let ports = PortView::all(snapshot, roles, (snapshot.at, Duration::MAX));
    for rail in ports.filter(|port| port.rail) {
        let rail = rail.with_past(history);
        let state = rail.state();
        // A pod has its interface, and it was up before that.
        let in_use = rail.is_in_a_pod() && rail.was_up();
        let is_up = in_use || state.is_some_and(|state| rail.was_up() || state.is_up());
        proof.rails += 1;
        proof.read += usize::from(in_use || state.is_some());
        proof.proven += usize::from(is_up);
    }
    proof
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, link};
    use super::*;
    use crate::observe::Reading;

    #[test]
    fn a_state_that_cannot_be_read_proves_nothing_but_in_a_pod() {
        let mut node = Node::roce();
        let counted = |node: &Node| {
            let proof = proof(&node.snapshot, &node.history, &node.roles);
            (proof.rails, proof.read, proof.proven)
        };
        assert_eq!(counted(&node), (8, 8, 8));
        let mut unread = link(200, 1);
        unread.state = Reading::NotObservable;
        unread.phys_state = Reading::NotObservable;
        node.set_link(3, unread);
        node.tick(1);
        assert_eq!(counted(&node), (8, 7, 7));
        // A pod has the interface of a gVNIC that was up.
        node.devices[3].driver = "gve".into();
        node.devices[3].ports[0].netdev = None;
        node.tick(1);
        assert_eq!(counted(&node), (8, 8, 8));
        node.history = Default::default();
        assert_eq!(counted(&node), (8, 7, 7), "never up");
    }
}
