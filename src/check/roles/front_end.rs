//! The NIC by which the node is reached, and its card: no rails.

use super::pcie_affinity::is_near;
use super::{Port, Role, Roles, decide, without};
use crate::observe::fabric::SeenFabric;
use crate::observe::pci::PciFacts;
use crate::observe::rdma::{Function, LinkLayer};
use crate::units::DeviceKey;
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
pub(super) fn without_bluefields<'p>(
    ports: Vec<Port<'p>>,
    pci: Option<&PciFacts>,
    roles: &mut Roles,
) -> Vec<Port<'p>> {
    let of_bluefield = |id: &String| id.starts_with("15b3:a2d");
    let is_bluefield = |port: &Port<'p>| port.device.pci_id.as_ref().is_some_and(of_bluefield);
    let bluefields = ports.iter().filter(|port| is_bluefield(port));
    let cards: BTreeSet<String> = bluefields.map(Port::card).collect();
    let few = pci.is_some_and(|pci| is_sold_with_nics(pci) && cards.len() < pci.gpus.len());
    let why = "BlueField of a machine whose rails are other NICs";
    without(ports, |port| few && is_bluefield(port), why, roles)
}

/// Where default routes go.
pub(super) struct Routes<'a> {
    known: BTreeSet<&'a str>,
    virtual_machine: bool,
}

impl<'a> Routes<'a> {
    pub(super) fn of(fabric: &'a BTreeMap<DeviceKey, SeenFabric>, virtual_machine: bool) -> Self {
        let is_hardware = |seen: &&SeenFabric| seen.device.function != Function::Software;
        let hardware = fabric.values().filter(is_hardware);
        let routes = hardware.flat_map(|seen| seen.routes.values());
        Routes {
            known: routes.map(|(interface, _)| interface.as_str()).collect(),
            virtual_machine,
        }
    }

    /// The default route that a port carries, where that makes it a management NIC.
    pub(super) fn by(&self, port: &Port<'a>) -> Option<&'a str> {
        let (interface, _) = port.seen.routes.get(&port.port.number)?;
        (self.known.len() <= MAX_ROUTES).then_some(interface)
    }

    fn near_a_gpu(&self, port: &Port<'_>) -> bool {
        !self.virtual_machine && port.seen.distances.values().any(|d| is_near(*d))
    }

    /// Leaves out the ports that may carry the route of a virtual switch: rather no fabric than a
    /// management NIC taken for one. Not those next to a GPU, and not many, as rails can be ports of
    /// that switch, too. Those left out are added to the `carriers` of the route.
    pub(super) fn without_possible<'p>(
        &self,
        ports: Vec<Port<'p>>,
        carriers: &mut Vec<Port<'p>>,
        roles: &mut Roles,
    ) -> Vec<Port<'p>> {
        let may = |port: &Port<'p>| -> Option<&'p str> {
            let (interface, _) = port.seen.maybe_routes.get(&port.port.number)?;
            let told = self.known.contains(interface.as_str()) || port.device.is_gvnic();
            (!told && !self.near_a_gpu(port)).then_some(interface)
        };
        if ports.iter().filter_map(may).count() > MAX_ROUTES {
            return ports;
        }
        let (open, possible): (Vec<_>, Vec<_>) =
            (ports.into_iter()).partition(|port| may(port).is_none());
        for port in possible {
            let interface = may(&port).unwrap_or_default();
            let why = format!("may carry the default route, a port of {interface}'s switch");
            decide(roles, &port, Role::Other, why);
            carriers.push(port);
        }
        open
    }

    /// Leaves out the other Ethernet ports of a card by which the node is reached, where it is the only
    /// card, and no GPU is next to it: nothing tells them from spare ones. `carriers`: the
    /// ports that carry the route; `told`: those that the operator decided.
    pub(super) fn without_sisters<'p>(
        &self,
        ports: Vec<Port<'p>>,
        (carriers, told): (&[Port<'p>], &Roles),
        roles: &mut Roles,
    ) -> Vec<Port<'p>> {
        let candidates = || ports.iter().filter(|port| !told.contains_key(&port.key));
        let cards: BTreeSet<String> = candidates().map(Port::card).collect();
        let sister = |port: &Port<'p>| {
            port.layer == LinkLayer::Ethernet
                && !self.near_a_gpu(port)
                && (carriers.iter())
                    .any(|of| of.card() == port.card() && of.kind().fits(&port.kind()))
        };
        if cards.len() != 1 || !candidates().all(sister) {
            return ports;
        }
        let why = "next to the port with the default route, on the same card, and the only one";
        without(ports, |_| true, why, roles)
    }
}
