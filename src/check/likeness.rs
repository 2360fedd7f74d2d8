//! Which rails are alike, so that what most of them are may be asked of the others.

use super::{Context, PortView};
use crate::check::roles::kind::Kind;
use crate::observe::pci::Distance;
use crate::observe::rdma::LinkLayer;

/// How many of the rails like one are up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peers {
    /// Number of peers with an active link.
    pub up: usize,
    /// All, with the one that is asked about.
    pub of: usize,
}

impl Peers {
    /// The rails that are like `port`.
    pub fn of(context: &Context<'_>, port: &PortView<'_>) -> Peers {
        Self::that(context, port, |other| other.is_active())
    }

    /// The same by another question than whether they are up.
    pub fn that(
        context: &Context<'_>,
        port: &PortView<'_>,
        is: impl Fn(&PortView<'_>) -> bool,
    ) -> Peers {
        let alike = || context.rails().filter(|other| alike(port, other));
        Peers {
            up: alike().filter(|other| is(other)).count(),
            of: alike().count(),
        }
    }

    /// Whether they show that a port should be up: a strict majority, and three at least. Half of
    /// them may be all that is cabled.
    pub fn are_up(self) -> bool {
        self.up >= 3 && self.up * 2 > self.of
    }
}

/// Whether what one rail has may be asked of the other: both of a known driver and model, the same
/// ones, boards of one kind where that can be read, in the same place on their cards.
pub fn alike(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    let board = match (&a.device.board_id, &b.device.board_id) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let (kind, other) = (Kind::of(a.device, a.port), Kind::of(b.device, b.port));
    let known = |kind: &Kind<'_>| kind.driver.is_some() && kind.model.is_some();
    let made_alike = known(&kind) && known(&other) && kind.fits(&other) && board;
    a.rail && b.rail && made_alike && a.device.function == b.device.function && same_place(a, b)
}

/// The second ports of eight cards are not held against the first ones.
fn same_place(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    let functions = (a.device.pci, b.device.pci);
    let same = !matches!(functions, (Some(a), Some(b)) if a.function != b.function);
    same && a.port.number == b.port.number
}

/// Whether it was seen below one root port with a GPU. On guests the bus tells nothing.
fn near_gpu(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let guest = context.pci().is_some_and(|pci| pci.virtual_machine);
    let seen = context.history.fabric.get(&port.key.device);
    !guest
        && seen.is_some_and(|seen| {
            (seen.distances.values()).any(|at| matches!(at, Distance::Pix | Distance::Pxb))
        })
}

/// Whether its card has a port before it.
pub fn is_second(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let place = |port: &PortView<'_>| {
        let pci = port.device.pci?;
        Some((pci.slot(), pci.function, port.port.number))
    };
    let Some((slot, function, number)) = place(port) else {
        return port.port.number > 1;
    };
    (context.ports().iter().filter_map(place))
        .any(|other| other.0 == slot && (other.1, other.2) < (function, number))
}

/// The link layer that most rails in places like this one's have, where it is not this one's. A
/// layer that could not be read differs from nothing.
pub fn other_layer(context: &Context<'_>, port: &PortView<'_>) -> Option<(LinkLayer, usize)> {
    let own = port.port.link_layer;
    if own == LinkLayer::Unspecified {
        return None;
    }
    let make = Kind::of(port.device, port.port).without_layer();
    let near = near_gpu(context, port);
    let peers: Vec<LinkLayer> = context
        .rails()
        .filter(|other| same_place(port, other))
        .filter(|other| {
            make.fits(&Kind::of(other.device, other.port)) || (near && near_gpu(context, other))
        })
        .map(|other| other.port.link_layer)
        .collect();
    let count = |layer| peers.iter().filter(|other| **other == layer).count();
    let other = match own {
        LinkLayer::Infiniband => LinkLayer::Ethernet,
        _ => LinkLayer::Infiniband,
    };
    let others = count(other);
    (others >= 2 && others > 2 * count(own)).then_some((other, others))
}
