//! Google's virtual NICs: an ordinary interface on most machines, the GPUs' fabric on some.

use super::{Open, Role, RolePort, decide};

/// Fewest gVNICs next to the node's own that are a fabric: A3 High has four.
const FEWEST: usize = 4;

/// Leaves gVNICs out, unless they are the only fabric that there can be. `gpus`: some were seen
/// this boot. `told`: machines of this shape have no other fabric, so one that came up with fewer
/// has fewer rails, not none.
pub(super) fn unless_the_fabric(open: &mut Open<'_>, gpus: bool, told: bool) {
    let gvnics = open.ports.extract_if(.., |port| port.device.is_gvnic());
    let mut gvnics: Vec<RolePort<'_>> = gvnics.collect();
    let mut devices = open.history.fabric.values().map(|seen| &seen.device);
    let rdma = devices.any(|device| !device.is_gvnic());
    if let Some((own, why)) = own(&gvnics) {
        decide(&mut open.roles, &gvnics.remove(own), Role::Other, why);
    }
    if !rdma && gpus && (told || gvnics.len() >= FEWEST) {
        open.ports = gvnics;
        return;
    }
    let why = match rdma {
        true => "a gVNIC next to RDMA devices",
        false => "a gVNIC: an ordinary interface of the machine",
    };
    for port in gvnics {
        decide(&mut open.roles, &port, Role::Other, why);
    }
}

/// The node's own: the one with the default route, of several the first on the bus, where Google
/// puts it. Secondary networks may hand out default routes as well.
fn own(gvnics: &[RolePort<'_>]) -> Option<(usize, String)> {
    let route = |port: &RolePort<'_>| {
        let (interface, _) = port.seen.routes.get(&port.port.number)?;
        Some(interface.clone())
    };
    let routed = gvnics.iter().filter(|port| route(port).is_some()).count();
    let rank = |port: &RolePort<'_>| (routed > 0 && route(port).is_none(), port.device.pci);
    let (place, port) = (gvnics.iter().enumerate()).min_by_key(|(_, port)| rank(port))?;
    let why = match route(port) {
        Some(interface) => format!("carries the default route ({interface})"),
        None => "the machine's first gVNIC: its own interface".to_string(),
    };
    Some((place, why))
}
