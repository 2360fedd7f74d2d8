//! The NIC by which the node is reached, and its card: no rails.

use super::{Open, Role, RolePort, Roles, decide, pcie_affinity::most_common};
use crate::observe::{Function, LinkLayer, PciFacts};
use crate::units::PortKey;
use std::collections::{BTreeMap, BTreeSet};

/// More interfaces with a default route than this, and the route does not tell a management NIC
/// from a rail (each RoCE rail got one by DHCP). As many ports of a virtual switch may carry its.
const MAX_ROUTES: usize = 2;

/// GPUs that are sold with NICs on their board or tray, and BlueFields for the rest: GB200, GB300, B300.
const GPUS_WITH_NICS: &[&str] = &["10de:2941", "10de:31c2", "10de:31c3", "10de:3182"];

/// Whether it is a whole machine with such GPUs.
pub(in crate::check) fn is_sold_with_nics(pci: &PciFacts) -> bool {
    let mut gpus = pci.gpu_functions();
    !pci.virtual_machine && gpus.any(|(_, gpu)| GPUS_WITH_NICS.contains(&gpu.id.as_str()))
}

/// Leaves out BlueFields of machines whose rails are other NICs, also where these are gone or cannot be
/// read. With a card for each GPU they may be the rails.
pub(super) fn without_bluefields(open: &mut Open<'_>) {
    let of_bluefield = |id: &String| id.starts_with("15b3:a2d");
    let is_bluefield = |port: &RolePort<'_>| port.device.pci_id.as_ref().is_some_and(of_bluefield);
    let bluefields = open.ports.iter().filter(|port| is_bluefield(port));
    let cards: BTreeSet<String> = bluefields.map(RolePort::card).collect();
    let few = |pci: &PciFacts| is_sold_with_nics(pci) && cards.len() < pci.gpus.len();
    if open.pci.is_some_and(few) {
        let why = "BlueField of a machine whose rails are other NICs";
        open.leave_out(is_bluefield, why);
    }
}

/// Where default routes go that make a NIC the node's front end.
pub(super) struct Routes<'a> {
    by: BTreeMap<PortKey, &'a str>,
    known: BTreeSet<&'a str>,
    virtual_machine: bool,
}

impl<'a> Routes<'a> {
    /// InfiniBand ports (IPoIB) and rails have routes, too, and stay what they are.
    pub(super) fn of(ports: &[RolePort<'a>], virtual_machine: bool) -> Self {
        let front_ends = ports.iter().filter(|port| {
            port.device.function != Function::Software
                && port.layer != LinkLayer::Infiniband
                && (virtual_machine || !is_like_the_rails(port, ports))
        });
        let by: BTreeMap<PortKey, &str> = front_ends
            .filter_map(|port| Some((port.key.clone(), port.route()?)))
            .collect();
        Routes {
            known: by.values().copied().collect(),
            by,
            virtual_machine,
        }
    }

    /// The default route that a port carries, where that makes it a management NIC.
    pub(super) fn by(&self, port: &RolePort<'a>) -> Option<&'a str> {
        let interface = self.by.get(&port.key).copied();
        interface.filter(|_| self.known.len() <= MAX_ROUTES)
    }

    fn near_a_gpu(&self, port: &RolePort<'_>) -> bool {
        !self.virtual_machine && port.seen.distances.values().any(|d| d.is_near())
    }

    /// Leaves out the ports that may carry the route of a virtual switch: missing a fabric is
    /// better than mistaking a management NIC for one. Not those next to a GPU, and not many, as rails can
    /// be ports of that switch, too.
    pub(super) fn without_possible<'p>(&self, open: &mut Open<'p>) {
        let may = |port: &RolePort<'p>| -> Option<&'p str> {
            let (interface, _) = port.seen.maybe_routes.get(&port.port.number)?;
            let told = self.known.contains(interface.as_str()) || port.device.is_gvnic();
            (!told && !self.near_a_gpu(port)).then_some(interface)
        };
        if open.ports.iter().filter_map(may).count() > MAX_ROUTES {
            return;
        }
        for port in (open.ports).extract_if(.., |port| may(port).is_some()) {
            let interface = may(&port).unwrap_or_default();
            let why = format!("may carry the default route, a port of {interface}'s switch");
            decide(&mut open.roles, &port, Role::Other, why);
            open.carriers.push(port);
        }
    }

    /// Leaves out the other Ethernet ports of a card by which the node is reached, where it is the only
    /// card, and no GPU is next to it: nothing tells them from spare ones. `given`: those that the
    /// operator decided.
    pub(super) fn without_sisters(&self, open: &mut Open<'_>, given: &Roles) {
        let candidates = || (open.ports.iter()).filter(|port| !given.contains_key(&port.key));
        let cards: BTreeSet<String> = candidates().map(RolePort::card).collect();
        let sister = |port: &RolePort<'_>| {
            port.layer == LinkLayer::Ethernet
                && !self.near_a_gpu(port)
                && (open.carriers.iter())
                    .any(|of| of.card() == port.card() && of.kind().fits(&port.kind()))
        };
        if cards.len() == 1 && candidates().all(sister) {
            let why = "next to the port with the default route, on the same card, and the only one";
            open.leave_out(|_| true, why);
        }
    }
}

/// Fewest ports of one make of which a majority says what is usual.
const MAJORITY: usize = 3;

/// Whether a port's GPU has no more of its make next to it than is usual: then it is a rail to which the
/// network gave a route (DHCP), however many others have one. A route by a bond or VLAN is meant.
fn is_like_the_rails(port: &RolePort<'_>, ports: &[RolePort<'_>]) -> bool {
    let near =
        |of: &RolePort<'_>, gpu: &str| of.seen.distances.get(gpu).is_some_and(|d| d.is_near());
    let is_like =
        |of: &&RolePort<'_>| of.make() == port.make() && of.device.function == port.device.function;
    let like: Vec<_> = ports.iter().filter(is_like).collect();
    let gpus = port.seen.distances.keys();
    let nearby = |gpu: &String| like.iter().filter(|of| near(of, gpu)).count();
    let usual = most_common(gpus.clone().map(nearby));
    let mut own = gpus.filter(|gpu| near(port, gpu));
    let is_direct = port.route() == port.port.netdev.as_deref();
    is_direct && like.len() >= MAJORITY && own.any(|gpu| Some(nearby(gpu)) <= usual)
}
