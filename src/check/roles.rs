//! Which ports are rails: the compute fabric that gangs run over, as against storage and management
//! NICs. Without configuration; configuration overrides.
//!
//! Rules, the first that fits decides:
//! 1. `rails.exclude`, then `rails.include` (once anything is included, nothing else is a rail).
//!    What is excluded port by port still counts as of its kind below.
//! 2. Never a rail: SMI sub-devices; what manages NVSwitches (by VPD; where that cannot be read, four
//!    of more ConnectX-7 with consecutive GUIDs, on boards of B200 or B300 GPUs); ports 1, 2, 4, … of 12-port devices; VFs and sub-functions whose parent is on this host; NICs that
//!    carry the default route, also below a virtual switch, unless they are InfiniBand, or of the make and
//!    in the place of rails next to the other GPUs; software devices where hardware ones exist;
//!    Ethernet on machines of a shape that has no fabric. The other ports of the card with the
//!    default route are none without another card, and no GPU next to it.
//! 3. Bare metal with GPUs behind PCIe switches: for each GPU the nearest NICs below the same root
//!    port (PIX, PXB). If NICs of one kind serve most GPUs, other kinds, and slower models that serve as
//!    many, are rails only where a GPU has fewer of that kind than is usual. A NIC of the rails' make in a place like theirs is one without a GPU.
//!    Where NICs without an RDMA device (driver gone) sit there instead, nothing else is promoted.
//! 4. Else: the kind of NIC that brings the most bandwidth (best rate seen x ports). A kind that was
//!    never up counts as if it were as fast as the fastest: rather an unproven fabric than a
//!    management NIC taken for one. On bare metal one or two ports of the rails' board in another mode are
//!    rails, too, and BlueFields next to GB200, GB300 and B300 none, unless there is one for each GPU.
//!
//! Google's gVNICs do no RDMA: they are rails only where no RDMA device found, with GPUs, and four
//! or more of them next to the node's own (A3 High and Mega), or any where the shape is known. The
//! node's own never is, also where all have default routes.
//!
//! Before 3: of cards with an InfiniBand and an Ethernet port (VPI), the Ethernet port is not a rail.
//!
//! All of it is judged from what devices *are*, remembered in [`History::fabric`] and `best_rate`,
//! never from what their links do now: a fault does not change a role.

mod bandwidth;
mod driverless;
pub(super) mod front_end;
mod gvnic;
pub mod kind;
pub(super) mod pcie_affinity;

use crate::glob::{Glob, any_matches};
use crate::observe::remembered::LINK_LAYER;
use crate::observe::{
    Function, History, LinkLayer, PciFacts, RdmaDevice, RdmaPort, Reading, SeenFabric, Snapshot,
    is_guid_set,
};
use crate::settings_macro::section;
use crate::units::{DeviceKey, PortKey};
use front_end::Routes;
use kind::NicKind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a port is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Compute fabric: gangs run over it.
    Rail,
    /// Another NIC with RDMA: storage, management, an uncabled second port.
    Other,
}

/// Role of one port and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoleFacts {
    /// Rail or not, and by which rule.
    pub role: Role,
    /// One line: which rule decided.
    pub why: String,
}

/// The role of each port, and why.
pub type Roles = BTreeMap<PortKey, RoleFacts>;

/// Keys of the ports that are rails, those of devices that are gone among them.
pub fn rail_keys(roles: &Roles) -> impl Iterator<Item = &PortKey> {
    let rails = roles.iter().filter(|(_, facts)| facts.role == Role::Rail);
    rails.map(|(key, _)| key)
}

section! {
    /// What the operator says about roles. Patterns are over the device's name (`mlx5_0`), the port
    /// (`mlx5_0/1`), the PCI address (`0000:19:00.0`) or the network device (`ibs1`).
    RoleOverrides {
        /// Patterns over device name, DEVICE/PORT, PCI address or network device. When there are
        /// any: these are the rails, and no others.
        include: Vec<Glob> = Vec::new(),
        /// Patterns of ports that are never rails.
        exclude: Vec<Glob> = Vec::new(),
    }
}

/// What the machine's shape says of roles, where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShapeSays {
    /// Nothing, or no shape is known.
    #[default]
    Nothing,
    /// The rails are gVNICs.
    Gvnics,
    /// No port can be compute fabric.
    NoFabric,
}

/// What there is to prove that the fabric is well, other than the absence of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Proof {
    /// RDMA devices have been enumerated.
    pub enumerated: bool,
    /// Rail ports there are now.
    pub rails: usize,
    /// Of these, those whose state was read.
    pub read: usize,
    /// Of these, those that were active at some moment of this boot. (Not "now": that a rail is down
    /// is for the checks to say, when they believe it.)
    pub proven: usize,
}

/// Roles of all ports that the snapshot shows, and of those of vanished devices; the history holds this
/// snapshot already.
pub fn assign_roles(
    snapshot: &Snapshot,
    history: &History,
    (overrides, says): (&RoleOverrides, ShapeSays),
) -> Roles {
    let all_of = |seen| RolePort::all_of(seen, history);
    let pci = snapshot.pci.as_ref().map(|pci| &pci.value);
    let mut open = Open {
        history,
        pci,
        ports: history.fabric.values().flat_map(all_of).collect(),
        carriers: Vec::new(),
        roles: Roles::new(),
    };
    let on_bus = pci.is_some_and(|pci| !pci.gpus.is_empty());
    let gpus = on_bus || !history.gpus.is_empty();
    let virtual_machine = pci.is_some_and(|pci| pci.virtual_machine);
    let told = overridden(&open.ports, overrides);
    let routes = Routes::of(&open.ports, virtual_machine);
    barred(&mut open, &routes);
    routes.without_possible(&mut open);
    let no_fabric = says == ShapeSays::NoFabric;
    gvnic::unless_the_fabric(&mut open, gpus && !no_fabric, says == ShapeSays::Gvnics);
    if no_fabric {
        // Other ports are more than the table knows of, and stay.
        let is_ethernet = |port: &RolePort<'_>| port.layer == LinkLayer::Ethernet;
        open.leave_out(is_ethernet, "machines of this shape have no fabric");
    }
    without_excluded_kinds(&mut open.ports, &told);
    routes.without_sisters(&mut open, &told);
    without_those_of_another_layer(&mut open);
    let bare = driverless::in_a_rails_place(pci);
    let near = match virtual_machine {
        true => BTreeMap::new(),
        false => pcie_affinity::nearest(&open.ports, &bare),
    };
    if near.is_empty() && driverless::hold_the_fabric(&bare, &open.ports, virtual_machine) {
        let why = "NICs in the fabric's place have no RDMA device; this is another one";
        open.leave_out(|_| true, why);
    } else if near.is_empty() {
        front_end::without_bluefields(&mut open);
        bandwidth::by_bandwidth(&mut open, virtual_machine);
    } else {
        pcie_affinity::by_nearness(&mut open, &near);
    }
    open.roles.extend(told);
    open.roles
}

/// The ports whose role is still open, the facts of the node, and the roles found so far.
struct Open<'a> {
    history: &'a History,
    pci: Option<&'a PciFacts>,
    ports: Vec<RolePort<'a>>,
    /// Ports that carry the default route, or may.
    carriers: Vec<RolePort<'a>>,
    roles: Roles,
}

impl<'a> Open<'a> {
    /// Leaves out the ports that `is` takes, which are not rails.
    fn leave_out(&mut self, is: impl Fn(&RolePort<'a>) -> bool, why: &str) {
        for port in self.ports.extract_if(.., |port| is(port)) {
            decide(&mut self.roles, &port, Role::Other, why);
        }
    }
}

struct RolePort<'a> {
    key: PortKey,
    seen: &'a SeenFabric,
    device: &'a RdmaDevice,
    port: &'a RdmaPort,
    /// Its link layer, as remembered where it is: a rail that was set to another one is still a rail.
    layer: LinkLayer,
}

impl<'a> RolePort<'a> {
    fn all_of(seen: &'a SeenFabric, history: &History) -> impl Iterator<Item = Self> {
        let device = &seen.device;
        device.ports.iter().map(move |port| {
            let key = device.port_key(port.number);
            let memory = &history.remembered;
            let was = memory.best(&key.to_string(), device.identity(), LINK_LAYER);
            let mut known = [LinkLayer::Infiniband, LinkLayer::Ethernet].into_iter();
            let layer = known.find(|layer| Some(*layer as u64) == was);
            let layer = layer.unwrap_or(port.link_layer);
            RolePort {
                key,
                seen,
                device,
                port,
                layer,
            }
        })
    }

    fn matches(&self, patterns: &[Glob]) -> bool {
        let names = [
            Some(self.device.name.clone()),
            Some(format!("{}/{}", self.device.name, self.port.number)),
            self.device.pci.map(|pci| pci.to_string()),
            self.port.netdev.clone(),
        ];
        (names.iter().flatten()).any(|name| any_matches(patterns, name))
    }

    fn kind(&self) -> NicKind<'a> {
        NicKind::of(self.device, self.layer)
    }

    /// The interface with a default route that it carries.
    fn route(&self) -> Option<&'a str> {
        let route = self.seen.routes.get(&self.port.number);
        route.map(|(interface, _)| interface.as_str())
    }

    /// The card that it is on: its place in the machine.
    fn card(&self) -> String {
        (self.device.pci).map_or_else(|| self.device.key.to_string(), |pci| pci.slot())
    }

    /// Its make to the batch: what an operator excludes altogether.
    fn make(&self) -> (NicKind<'a>, Option<&'a str>) {
        (self.kind(), self.device.board_id.as_deref())
    }
}

fn decide(roles: &mut Roles, port: &RolePort<'_>, role: Role, why: impl Into<String>) {
    let why = why.into();
    roles.insert(port.key.clone(), RoleFacts { role, why });
}

/// Rule 1: the operator's include and exclude lists.
fn overridden(ports: &[RolePort<'_>], overrides: &RoleOverrides) -> Roles {
    let mut told = Roles::new();
    for port in ports {
        if port.matches(&overrides.exclude) {
            decide(&mut told, port, Role::Other, "configured: rails.exclude");
        } else if port.matches(&overrides.include) {
            decide(&mut told, port, Role::Rail, "configured: rails.include");
        } else if !overrides.include.is_empty() {
            decide(&mut told, port, Role::Other, "not in rails.include");
        }
    }
    told
}

/// A kind of NIC that is excluded altogether makes place for the next. One excluded port of a kind
/// does not: else the storage NIC next to a rail would be promoted when that rail is excluded.
fn without_excluded_kinds(ports: &mut Vec<RolePort<'_>>, told: &Roles) {
    let open = ports.iter().filter(|port| !told.contains_key(&port.key));
    let open: BTreeSet<_> = open.map(RolePort::make).collect();
    ports.retain(|port| open.contains(&port.make()));
}

/// Leaves out the Ethernet ports of cards that have an InfiniBand one, too (VPI): they are for storage or
/// management. Where few of the cards with several ports are so, a port is in the wrong mode rather than
/// meant for something else, and stays.
fn without_those_of_another_layer(open: &mut Open<'_>) {
    let mut cards: BTreeMap<String, Vec<LinkLayer>> = BTreeMap::new();
    for port in &open.ports {
        let layers = cards.entry(port.card()).or_default();
        layers.push(port.layer);
    }
    cards.retain(|_, layers| layers.len() > 1);
    let several = cards.len();
    cards.retain(|_, layers| {
        layers.contains(&LinkLayer::Infiniband) && layers.contains(&LinkLayer::Ethernet)
    });
    let are_meant = cards.len() * 2 >= several;
    let is_of_these = |port: &RolePort<'_>| are_meant && cards.contains_key(&port.card());
    let is_other = |port: &RolePort<'_>| port.layer == LinkLayer::Ethernet && is_of_these(port);
    let why = "Ethernet port of a card whose InfiniBand port is there, too";
    open.leave_out(is_other, why);
}

/// Rule 2: ports that are never rails.
fn barred<'a>(open: &mut Open<'a>, routes: &Routes<'a>) {
    let fabric = &open.history.fabric;
    let is_hardware = |of: &RdmaDevice| of.function != Function::Software && !of.is_gvnic();
    let hardware = fabric.values().any(|seen| is_hardware(&seen.device));
    let managers = switch_managers(open);
    for port in std::mem::take(&mut open.ports) {
        let device = port.device;
        let is_software = device.function == Function::Software;
        let why = if let Some(parent) = &device.smi_parent {
            format!("management sub-device of {parent}")
        } else if device.manages_switches == Reading::Value(true) {
            "manages NVSwitches (its VPD says SW_MNG)".into()
        } else if managers.contains(&device.key) {
            "its role is not known: it may manage NVSwitches, and its VPD cannot be read".into()
        } else if device.is_multi_plane() && !port.port.number.is_multiple_of(3) {
            "of a multi-plane device, whose data ports are 3, 6, 9 and 12".into()
        } else if is_software && hardware {
            "software device where hardware ones exist".into()
        } else if is_software {
            let why = "software device, and no hardware one exists";
            decide(&mut open.roles, &port, Role::Rail, why);
            continue;
        } else if parent_on_host(device, fabric) {
            "virtual function or sub-function of a device on this host".into()
        } else if let Some(interface) = routes.by(&port).filter(|_| !device.is_gvnic()) {
            let why = format!("carries the default route ({interface})");
            decide(&mut open.roles, &port, Role::Other, why);
            open.carriers.push(port);
            continue;
        } else {
            open.ports.push(port);
            continue;
        };
        decide(&mut open.roles, &port, Role::Other, why);
    }
}

/// Functions that manage NVSwitches on one board.
const MANAGERS: usize = 4;

/// GPUs on boards whose NVSwitches are managed through ConnectX-7 functions: B200, B300.
const MANAGED_BOARDS: &[&str] = &["10de:2901", "10de:29bc", "10de:3182"];

/// Devices that may manage NVSwitches, where no VPD could be read: physical InfiniBand ConnectX-7
/// functions on such a board, four of which alone have consecutive GUIDs. Rails are a card each.
fn switch_managers<'a>(open: &Open<'a>) -> BTreeSet<&'a DeviceKey> {
    let mut gpus = open.pci.into_iter().flat_map(PciFacts::gpu_functions);
    let has_board = gpus.any(|(_, gpu)| MANAGED_BOARDS.contains(&gpu.id.as_str()));
    let unread = |device: &&RdmaDevice| {
        device.manages_switches.value().is_none()
            && device.pci_id.as_deref() == Some("15b3:1021")
            && device.function == Function::Physical
    };
    let devices = (open.history.fabric.values()).map(|seen| &seen.device);
    let guids = devices.filter(unread).filter_map(|device| {
        let guid = device.node_guid.as_deref()?.replace(':', "");
        Some((u64::from_str_radix(&guid, 16).ok()?, &device.key))
    });
    let mut by_guid: Vec<(u64, &DeviceKey)> = guids.collect();
    by_guid.sort_unstable();
    let runs = by_guid.chunk_by(|(a, _), (b, _)| a.checked_add(1) == Some(*b));
    let odd = |run: &&[_]| has_board && run.len() == MANAGERS && by_guid.len() >= 2 * MANAGERS;
    runs.filter(odd).flatten().map(|(_, key)| *key).collect()
}

/// Whether a VF's or sub-function's parent is an RDMA device here: then the parent is the rail.
fn parent_on_host(device: &RdmaDevice, fabric: &BTreeMap<DeviceKey, SeenFabric>) -> bool {
    let devices = fabric.values().map(|seen| &seen.device);
    let mut physical = devices.filter(|other| other.function == Function::Physical);
    match device.function {
        Function::SubFunction => {
            device.pci.is_some() && physical.any(|parent| parent.pci == device.pci)
        }
        Function::VirtualOfHost => {
            let card = (device.sys_image_guid.as_deref()).filter(|guid| is_guid_set(guid));
            physical.any(|parent| {
                parent.driver == device.driver
                    && (parent.sriov.is_some_and(|sriov| sriov.enabled > 0)
                        || (card.is_some() && parent.sys_image_guid.as_deref() == card))
            })
        }
        Function::Physical | Function::VirtualInGuest | Function::Software => false,
    }
}

#[cfg(test)]
mod tests;
