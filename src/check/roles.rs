//! Which ports are rails: the compute fabric that gangs run over, as against storage and management
//! NICs. Without configuration; configuration overrides.
//!
//! Rules, the first that fits decides:
//! 1. `rails.exclude`, then `rails.include` (once anything is included, nothing else is a rail).
//!    What is excluded port by port still counts as of its kind below.
//! 2. Never a rail: SMI sub-devices; VFs and sub-functions whose parent is on this host; NICs that
//!    carry the default route; software devices beside hardware ones.
//! 3. Bare metal with GPUs behind PCIe switches: for each GPU the nearest NICs below the same root
//!    port (PIX, PXB). If NICs of one kind serve every GPU that has one, other kinds are no rails.
//! 4. Else: the kind of NIC that brings the most bandwidth (best rate seen x ports). A kind that was
//!    never up counts as if it were as fast as the fastest: rather an unproven fabric than a
//!    management NIC taken for one.
//!
//! All of it is judged from what devices *are*, remembered in [`History::fabric`] and `best_rate`,
//! never from what their links do now: a fault does not change a role.

mod nearness;

use crate::glob::{Glob, any_matches};
use crate::observe::fabric::{SeenFabric, remember};
use crate::observe::history::History;
use crate::observe::rdma::{Function, LinkLayer, PortState, RdmaDevice, RdmaPort};
use crate::observe::snapshot::Snapshot;
use crate::section::section;
use crate::units::{BitsPerSec, DeviceKey, PortKey};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// More interfaces with a default route than this, and the route does not tell a management NIC
/// from a rail (each RoCE rail got one by DHCP).
const MAX_ROUTES: usize = 2;

/// What a port is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Compute fabric: gangs run over it.
    Rail,
    /// Another NIC with RDMA: storage, management, an uncabled second port.
    Other,
}

/// Role of one port and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleFacts {
    /// The role.
    pub role: Role,
    /// One line: which rule decided.
    pub why: String,
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

/// What there is to prove that the fabric is well, besides the absence of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// Roles of all ports that the snapshot shows, and of those of vanished devices.
pub fn roles(
    snapshot: &Snapshot,
    history: &History,
    overrides: &RoleOverrides,
) -> BTreeMap<PortKey, RoleFacts> {
    let mut fabric = history.fabric.clone();
    remember(&mut fabric, snapshot);
    roles_in(&fabric, snapshot, history, overrides)
}

/// The same where the history has taken in this snapshot already.
pub fn roles_of_taken_in(
    snapshot: &Snapshot,
    history: &History,
    overrides: &RoleOverrides,
) -> BTreeMap<PortKey, RoleFacts> {
    roles_in(&history.fabric, snapshot, history, overrides)
}

fn roles_in(
    fabric: &BTreeMap<DeviceKey, SeenFabric>,
    snapshot: &Snapshot,
    history: &History,
    overrides: &RoleOverrides,
) -> BTreeMap<PortKey, RoleFacts> {
    let ports: Vec<Port<'_>> = fabric
        .values()
        .flat_map(|seen| {
            seen.device.ports.iter().map(|port| Port {
                key: seen.device.port_key(port.number),
                seen,
                device: &seen.device,
                port,
            })
        })
        .collect();
    let mut roles = BTreeMap::new();
    let told = overridden(&ports, overrides);
    let ports = barred(ports, fabric, &mut roles);
    let ports = without_excluded_kinds(ports, &told);
    let virtual_machine = snapshot
        .pci
        .as_ref()
        .is_some_and(|pci| pci.value.virtual_machine);
    let near = if virtual_machine {
        BTreeMap::new()
    } else {
        nearness::nearest(&ports)
    };
    if near.is_empty() {
        by_bandwidth(&ports, history, &mut roles);
    } else {
        nearness::by_nearness(&ports, &near, &mut roles);
    }
    roles.extend(told);
    roles
}

/// What proves the fabric, by the roles.
pub fn proof(
    snapshot: &Snapshot,
    history: &History,
    roles: &BTreeMap<PortKey, RoleFacts>,
) -> Proof {
    let mut proof = Proof {
        enumerated: snapshot.devices.is_some(),
        ..Proof::default()
    };
    for (device, port) in crate::observe::history::ports_of(snapshot) {
        let key = device.port_key(port.number);
        if roles.get(&key).is_none_or(|facts| facts.role != Role::Rail) {
            continue;
        }
        proof.rails += 1;
        let state = snapshot
            .links
            .get(&key)
            .and_then(|link| link.value.state.value());
        let Some(state) = state else {
            continue;
        };
        proof.read += 1;
        let was_active = history.port(&key).is_some_and(|port| port.ever_active);
        if was_active || matches!(state, PortState::Active | PortState::ActiveDefer) {
            proof.proven += 1;
        }
    }
    proof
}

struct Port<'a> {
    key: PortKey,
    seen: &'a SeenFabric,
    device: &'a RdmaDevice,
    port: &'a RdmaPort,
}

impl<'a> Port<'a> {
    fn matches(&self, patterns: &[Glob]) -> bool {
        any_matches(patterns, &self.device.name)
            || any_matches(
                patterns,
                &format!("{}/{}", self.device.name, self.port.number),
            )
            || self
                .device
                .pci
                .is_some_and(|pci| any_matches(patterns, &pci.to_string()))
            || self
                .port
                .netdev
                .as_deref()
                .is_some_and(|netdev| any_matches(patterns, netdev))
    }

    fn kind(&self) -> Kind<'a> {
        Kind {
            driver: &self.device.driver,
            model: self
                .device
                .pci_id
                .as_deref()
                .or(self.device.hca_type.as_deref()),
            board: self.device.board_id.as_deref(),
            link_layer: self.port.link_layer,
        }
    }
}

type Roles = BTreeMap<PortKey, RoleFacts>;

fn decide(roles: &mut Roles, port: &Port<'_>, role: Role, why: impl Into<String>) {
    let why = why.into();
    roles.insert(port.key.clone(), RoleFacts { role, why });
}

/// Rule 1.
fn overridden(ports: &[Port<'_>], overrides: &RoleOverrides) -> Roles {
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
/// does not: else the storage NIC beside a rail would be promoted when that rail is excluded.
fn without_excluded_kinds<'a>(ports: Vec<Port<'a>>, told: &Roles) -> Vec<Port<'a>> {
    let open: BTreeSet<Kind<'a>> = ports
        .iter()
        .filter(|port| !told.contains_key(&port.key))
        .map(Port::kind)
        .collect();
    let mut ports = ports;
    ports.retain(|port| open.contains(&port.kind()));
    ports
}

/// Rule 2. Gives the ports that are still open.
fn barred<'a>(
    ports: Vec<Port<'a>>,
    fabric: &BTreeMap<DeviceKey, SeenFabric>,
    roles: &mut Roles,
) -> Vec<Port<'a>> {
    let hardware = fabric
        .values()
        .any(|seen| seen.device.function != Function::Software);
    let routes: BTreeSet<&str> = fabric
        .values()
        .filter(|seen| seen.device.function != Function::Software)
        .flat_map(|seen| seen.routes.values())
        .map(|(interface, _)| interface.as_str())
        .collect();
    let mut open = Vec::new();
    for port in ports {
        let device = port.device;
        let route = port.seen.routes.get(&port.port.number);
        let why = if let Some(parent) = &device.smi_parent {
            format!("management sub-device of {parent}")
        } else if device.function == Function::Software {
            if !hardware {
                let why = "software device, and there is no hardware one";
                decide(roles, &port, Role::Rail, why);
                continue;
            }
            "software device beside hardware ones".to_string()
        } else if parent_on_host(device, fabric) {
            "virtual function or sub-function of a device on this host".to_string()
        } else if let Some((interface, _)) = route.filter(|_| routes.len() <= MAX_ROUTES) {
            format!("carries the default route ({interface})")
        } else {
            open.push(port);
            continue;
        };
        decide(roles, &port, Role::Other, why);
    }
    open
}

/// Whether a VF's or sub-function's parent is an RDMA device here: then the parent is the rail.
fn parent_on_host(device: &RdmaDevice, fabric: &BTreeMap<DeviceKey, SeenFabric>) -> bool {
    let mut physical = fabric
        .values()
        .map(|seen| &seen.device)
        .filter(|other| other.function == Function::Physical);
    match device.function {
        Function::SubFunction => {
            device.pci.is_some() && physical.any(|parent| parent.pci == device.pci)
        }
        Function::VirtualOfHost => {
            let card = device.sys_image_guid.as_deref().filter(|guid| is_set(guid));
            physical.any(|parent| {
                parent.driver == device.driver
                    && (parent.sriov.is_some_and(|sriov| sriov.enabled > 0)
                        || (card.is_some() && parent.sys_image_guid.as_deref() == card))
            })
        }
        Function::Physical | Function::VirtualInGuest | Function::Software => false,
    }
}

/// A GUID of zeros is what a VF has before it is given one.
fn is_set(guid: &str) -> bool {
    guid.chars().any(|c| c != '0' && c != ':')
}

/// What makes NICs alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'a> {
    driver: &'a str,
    model: Option<&'a str>,
    board: Option<&'a str>,
    link_layer: LinkLayer,
}

/// Rule 4.
fn by_bandwidth(ports: &[Port<'_>], history: &History, roles: &mut Roles) {
    let mut kinds: BTreeMap<Kind<'_>, (u64, Option<BitsPerSec>)> = BTreeMap::new();
    for port in ports {
        let (count, rate) = kinds.entry(port.kind()).or_default();
        *count += 1;
        *rate = (*rate).max(history.port(&port.key).and_then(|seen| seen.best_rate));
    }
    let fastest = kinds.values().filter_map(|(_, rate)| *rate).max();
    let best = kinds
        .iter()
        .max_by_key(|(kind, (count, rate))| {
            let assumed = rate.or(fastest).map_or(1, |rate| rate.0);
            (
                assumed.saturating_mul(*count),
                kind.link_layer == LinkLayer::Infiniband,
                rate.is_some(),
                Reverse(**kind),
            )
        })
        .map(|(kind, (count, rate))| (*kind, *count, *rate));
    let Some((best, count, rate)) = best else {
        return;
    };
    let model = best.model.unwrap_or("unknown model");
    let told = rate.map_or("never seen up".to_string(), |rate| format!("at {rate}"));
    for port in ports {
        if port.kind() == best {
            let why = format!(
                "one of {count} alike ({} {model}, {told}), the most bandwidth here",
                best.driver
            );
            decide(roles, port, Role::Rail, why);
        } else {
            let why = format!("less bandwidth than the {count} of {} {model}", best.driver);
            decide(roles, port, Role::Other, why);
        }
    }
}

#[cfg(test)]
#[path = "roles_tests.rs"]
mod tests;
