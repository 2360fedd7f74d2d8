//! What is remembered of the RDMA devices themselves, so that what a device *is* can be told while
//! it is down, renamed, reset or gone: a fault must not change it.

use super::{Distance, LinkLayer, NetdevFacts, RdmaDevice, Reading, Snapshot};
use crate::units::{DeviceKey, Millis};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Devices remembered; a node has tens, with virtual functions some hundreds.
const MAX_DEVICES: usize = 512;

/// A default route is forgotten when the link has been up without it for this long: a network
/// restart brings it back sooner, a route that moved elsewhere does not come back.
const ROUTE_KEPT: Duration = Duration::from_secs(15 * 60);

/// Kept moments of routes are rounded down to this; shorter than [`ROUTE_KEPT`], so that a route
/// outlives a restart of the agent.
const ROUTE_ROUNDED: Duration = Duration::from_secs(10 * 60);

/// One device as it was last seen well.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeenFabric {
    /// As last enumerated; what the kernel no longer tells (a name of a network device that went to
    /// another namespace, a board id that could not be read) stays as it was.
    pub device: RdmaDevice,
    /// The nearest that it was ever seen to each GPU, by the GPU's address.
    pub distances: BTreeMap<String, Distance>,
    /// Ports whose network device (or the bond above it) carries the default route: the interface
    /// with the route, and when the route was last seen.
    pub routes: BTreeMap<u32, (String, Millis)>,
    /// Ports that may carry the default route of a virtual switch, which does not tell its NIC.
    #[serde(default)]
    pub maybe_routes: BTreeMap<u32, (String, Millis)>,
    /// When it was last enumerated.
    pub last_seen: Millis,
}

/// Takes what a snapshot says of devices into the memory. The same snapshot twice changes nothing.
pub fn remember(memory: &mut BTreeMap<DeviceKey, SeenFabric>, snapshot: &Snapshot) {
    if let Some(devices) = &snapshot.devices {
        for device in devices.value.iter() {
            let seen = (memory.entry(device.key.clone())).or_insert_with(|| SeenFabric {
                device: device.clone(),
                ..SeenFabric::default()
            });
            seen.last_seen = devices.at;
            update(&mut seen.device, device);
        }
        while memory.len() > MAX_DEVICES
            && let Some((least, _)) = memory.iter().min_by_key(|(_, seen)| worth(seen))
        {
            memory.remove(&least.clone());
        }
    }
    for seen in memory.values_mut() {
        remember_distances(seen, snapshot);
        remember_routes(seen, snapshot);
    }
}

/// What is kept longest: physical functions next to GPUs, then other whole NICs, then what hangs on
/// these; of equals the one that was seen last.
fn worth(seen: &SeenFabric) -> (bool, bool, Millis) {
    let device = &seen.device;
    let is_whole = device.function.is_whole() && device.smi_parent.is_none();
    let is_near = seen.distances.values().any(|distance| distance.is_near());
    (is_whole, is_near, seen.last_seen)
}

/// What to keep over a restart. Moments that move with every read are rounded, so that a node where
/// nothing happens does not write its state again and again.
pub fn to_keep(memory: &BTreeMap<DeviceKey, SeenFabric>) -> BTreeMap<DeviceKey, SeenFabric> {
    let round = |at: Millis| Millis(at.0 - at.0 % ROUTE_ROUNDED.as_millis() as u64);
    let mut memory = memory.clone();
    for seen in memory.values_mut() {
        seen.last_seen = Millis(0);
        let routes = seen.routes.values_mut();
        (routes.chain(seen.maybe_routes.values_mut())).for_each(|(_, at)| *at = round(*at));
    }
    memory
}

/// Takes the newer description, except where it tells less than the older one did.
fn update(old: &mut RdmaDevice, new: &RdmaDevice) {
    if old == new {
        return;
    }
    let before = std::mem::replace(old, new.clone());
    if old.driver == "unknown" {
        old.driver = before.driver;
    }
    if old.pci_id.is_none() {
        old.function = before.function;
    }
    if old.manages_switches.value().is_none() {
        old.manages_switches = before.manages_switches;
    }
    old.pci = old.pci.or(before.pci);
    old.pci_id = old.pci_id.take().or(before.pci_id);
    old.board_id = old.board_id.take().or(before.board_id);
    old.hca_type = old.hca_type.take().or(before.hca_type);
    old.sys_image_guid = old.sys_image_guid.take().or(before.sys_image_guid);
    for was in before.ports {
        match old.ports.iter_mut().find(|port| port.number == was.number) {
            Some(port) => {
                port.netdev = port.netdev.take().or(was.netdev);
                if port.link_layer == LinkLayer::Unspecified {
                    port.link_layer = was.link_layer;
                }
            }
            None => old.ports.push(was),
        }
    }
    old.ports.sort_by_key(|port| port.number);
}

fn remember_distances(seen: &mut SeenFabric, snapshot: &Snapshot) {
    let (Some(pci), Some(address)) = (&snapshot.pci, seen.device.pci) else {
        return;
    };
    let Some(distances) = pci.value.distances.get(&address.to_string()) else {
        return;
    };
    for (gpu, distance) in distances {
        let known = seen.distances.get(gpu);
        if known.is_none_or(|known| distance < known) {
            seen.distances.insert(gpu.clone(), *distance);
        }
    }
}

fn remember_routes(seen: &mut SeenFabric, snapshot: &Snapshot) {
    for port in &seen.device.ports {
        let Some(netdev) = &port.netdev else { continue };
        let (sure, maybe) = default_route_above(netdev, snapshot);
        let facts = snapshot.netdevs.get(netdev);
        let up = facts.is_some_and(|facts| facts.value.carrier == Reading::Value(true));
        for (routes, now) in [(&mut seen.routes, sure), (&mut seen.maybe_routes, maybe)] {
            if let Some(now) = now {
                routes.insert(port.number, now);
                continue;
            }
            let is_kept = |at: Millis| snapshot.at.since(at) <= ROUTE_KEPT;
            routes.retain(|number, (_, at)| !up || *number != port.number || is_kept(*at));
        }
    }
}

/// An interface with a default route, and when that was seen.
type Route = Option<(String, Millis)>;

/// The interface that carries the default route: this one, or a bond, bridge or VLAN above it; and
/// the virtual switch's that may.
fn default_route_above(netdev: &str, snapshot: &Snapshot) -> (Route, Route) {
    let mut maybe = None;
    let mut visited: BTreeSet<&str> = BTreeSet::new();
    let mut to_visit = vec![netdev];
    while let Some(name) = to_visit.pop() {
        let Some((name, facts)) = snapshot.netdevs.get_key_value(name) else {
            continue;
        };
        if !visited.insert(name) {
            continue;
        }
        if facts.value.default_route {
            return (Some((name.clone(), facts.at)), None);
        }
        match &facts.value.ovs_route {
            Some(route) if route.sure => return (Some((route.port.clone(), facts.at)), None),
            Some(route) => maybe = Some((route.port.clone(), facts.at)),
            None => {}
        }
        to_visit.extend(facts.value.master.as_deref());
        let is_above = |of: &NetdevFacts| of.lowers.iter().any(|lower| lower == name);
        let above = (snapshot.netdevs.iter()).filter(|(_, of)| is_above(&of.value));
        to_visit.extend(above.map(|(above, _)| above.as_str()));
    }
    (None, maybe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Function;

    /// A device as enumerated, out of its JSON: only what matters here is set.
    fn device(driver: &str, pci_id: Option<&str>) -> RdmaDevice {
        serde_json::from_value(serde_json::json!({
            "key": "0000:19:00.0", "name": "mlx5_0", "index": null, "pci": "0000:19:00.0",
            "driver": driver, "pci_id": pci_id, "node_type": 1, "firmware": null,
            "board_id": null, "hca_type": null, "node_guid": null, "sys_image_guid": null,
            "function": "physical", "sriov": null, "smi_parent": null, "numa_node": 0,
            "uverbs": "absent", "ports": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_rail_that_is_gone_is_kept_over_any_number_of_virtual_functions() {
        let mut memory = BTreeMap::new();
        let snapshot = |second: u64, devices: Vec<RdmaDevice>| Snapshot {
            devices: Some(crate::observe::Stamped {
                at: Millis::from_secs(second),
                value: std::sync::Arc::new(devices),
            }),
            ..Snapshot::default()
        };
        remember(&mut memory, &snapshot(1, vec![device("mlx5_core", None)]));
        let virtual_functions = (0..2 * MAX_DEVICES).map(|n| RdmaDevice {
            key: DeviceKey(format!("0000:18:00.0/{n}")),
            function: Function::VirtualOfHost,
            ..device("mlx5_core", None)
        });
        remember(&mut memory, &snapshot(2, virtual_functions.collect()));
        assert_eq!(memory.len(), MAX_DEVICES);
        assert!(memory.contains_key(&DeviceKey("0000:19:00.0".into())));
    }

    #[test]
    fn a_device_that_is_read_while_it_goes_stays_what_it_was() {
        let mut seen = device("mlx5_core", Some("15b3:1021"));
        update(&mut seen, &device("unknown", None));
        assert_eq!(seen.driver, "mlx5_core");
        assert_eq!(seen.pci_id.as_deref(), Some("15b3:1021"));
        update(&mut seen, &device("vfio-pci", None));
        assert_eq!(seen.driver, "vfio-pci");
    }
}
