//! Where GPUs and NICs hang.

use super::table::Body;
use crate::simulate::build::{bdf, bridge, function};
use crate::simulate::presets::RAILS;
use crate::simulate::spec::{NodeSpec, PciSpec};
use crate::units::Bdf;

/// A place for a function, with the port above it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) at: Bdf,
    parent: Option<Bdf>,
    numa: i32,
}

impl Place {
    /// A function there.
    pub(super) fn function(&self, id: (u16, u16), class: u32, driver: &str) -> PciSpec {
        function(self.at, self.parent, id, class, driver, self.numa)
    }
}

/// Roots of cards that are no rails, off the GPUs' switches: bus of the root port, and the card's.
const OTHERS: [(u8, u8, i32); 3] = [(0x26, 0x29, 0), (0xa7, 0xaa, 1), (0xe8, 0xeb, 1)];

/// Domains of a Grace tray's sockets with rails, with GPUs, with other cards.
const GRACE_RAILS: [u32; 4] = [0x0, 0x2, 0x10, 0x12];
const GRACE_GPUS: [u32; 4] = [0x8, 0x9, 0x18, 0x19];
const GRACE_OTHERS: [u32; 3] = [0x6, 0x16, 0x7];

/// Buses of a switch's root port, and NUMA node, of so many switches.
fn switches(count: u8) -> Vec<(u8, i32)> {
    let every = RAILS.len() / usize::from(count.max(1));
    RAILS
        .iter()
        .step_by(every.max(1))
        .map(|&(bus, _, _, numa)| (bus, numa))
        .collect()
}

/// Where rail `n` of `usual` hangs: slot, card of so many ports in the slot, port of the card. Rails
/// beyond the usual number are further cards.
fn spread(n: u32, (usual, ports): (u32, u32), slots: u32) -> (usize, u8, u8) {
    let each = (usual / slots.max(1)).max(1);
    let (slot, card, port) = if n < usual {
        (n / each, n % each / ports, n % each % ports)
    } else {
        let further = each.div_ceil(ports) + (n - usual) / slots;
        ((n - usual) % slots, further, 0)
    };
    (slot as usize, card as u8, port as u8)
}

/// A root port at the first function of a bus, once.
fn root(spec: &mut NodeSpec, at: Bdf, numa: i32) -> Bdf {
    if !spec.pci.contains_key(&at.to_string()) {
        spec.add_pci(bridge(at, None, numa));
    }
    at
}

/// Below the switch at `bus`: a port for each device, made at its first function.
fn below_switch(spec: &mut NodeSpec, bus: u8, numa: i32, device: u8, at: Bdf) -> Place {
    let top = root(spec, bdf(0, bus, 1, 0), numa);
    let (up, down) = (bdf(0, bus + 1, 0, 0), bdf(0, bus + 2, device, 0));
    for (at, above) in [(up, top), (down, up)] {
        if !spec.pci.contains_key(&at.to_string()) {
            spec.add_pci(bridge(at, Some(above), numa));
        }
    }
    Place {
        at,
        parent: Some(down),
        numa,
    }
}

/// The place of GPU `n` of `all`.
pub(super) fn gpu(spec: &mut NodeSpec, body: Body, n: u32, all: u32) -> Option<Place> {
    match body {
        Body::Switches(count) => {
            let switches = switches(count);
            let each = (all / switches.len().max(1) as u32).max(1);
            let (bus, numa) = *switches.get((n / each) as usize)?;
            let on_switch = (n % each) as u8;
            let at = bdf(0, bus + 6 + on_switch, 0, 0);
            Some(below_switch(spec, bus, numa, 8 + on_switch, at))
        }
        Body::Grace => grace(spec, *GRACE_GPUS.get(n as usize)?, bdf(0, 1, 0, 0)),
        Body::Guest => Some(guest(bdf(0, 4 + n as u8, 0, 0))),
    }
}

/// The place of rail `n`, where there are usually so many, on cards of so many ports.
pub(super) fn rail(spec: &mut NodeSpec, body: Body, n: u32, usual: (u32, u32)) -> Option<Place> {
    match body {
        Body::Switches(count) => {
            let switches = switches(count);
            let (slot, card, port) = spread(n, usual, switches.len() as u32);
            let (bus, numa) = *switches.get(slot)?;
            let at = bdf(0, bus + 3 + card, 0, port);
            Some(below_switch(spec, bus, numa, card, at))
        }
        Body::Grace => {
            let (slot, card, port) = spread(n, usual, GRACE_RAILS.len() as u32);
            let domain = *GRACE_RAILS.get(slot)? + 0x20 * u32::from(card);
            grace(spec, domain, bdf(0, 3, 0, port))
        }
        Body::Guest => Some(guest(bdf(0, 0x90 + n as u8, 0, 0))),
    }
}

/// The place of other port `n`: two to a card.
pub(super) fn other(spec: &mut NodeSpec, body: Body, n: usize) -> Option<Place> {
    let port = (n % 2) as u8;
    if body == Body::Grace {
        return grace(spec, *GRACE_OTHERS.get(n / 2)?, bdf(0, 3, 0, port));
    }
    let (bus, card, numa) = *OTHERS.get(n / 2)?;
    let parent = root(spec, bdf(0, bus, 1, 0), numa);
    Some(Place {
        at: bdf(0, card, 0, port),
        parent: Some(parent),
        numa,
    })
}

fn grace(spec: &mut NodeSpec, domain: u32, at: Bdf) -> Option<Place> {
    let numa = i32::from(domain & 0x10 != 0);
    let parent = root(spec, bdf(domain, 0, 0, 0), numa);
    Some(Place {
        at: Bdf { domain, ..at },
        parent: Some(parent),
        numa,
    })
}

fn guest(at: Bdf) -> Place {
    Place {
        at,
        parent: None,
        numa: 0,
    }
}
