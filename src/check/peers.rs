//! Which rails are alike, so that what most of them are may be asked of the others.

use super::{Context, PortView};
use crate::check::roles::kind;
use crate::observe::Function;
use std::borrow::Cow;

/// What each of the rails that are like one shows, that one with them.
pub fn among<T>(
    context: &Context<'_>,
    port: &PortView<'_>,
    shows: impl Fn(&PortView<'_>) -> Option<T>,
) -> Vec<T> {
    let peers = context.rails().filter(|other| alike(port, other));
    peers.filter_map(shows).collect()
}

/// Whether what one rail has may be asked of the other: both of a known driver and model, the same
/// ones, boards of one kind where that can be read, in the same place on their cards.
pub fn alike(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    let same_layer = a.layer().is_none() || b.layer().is_none() || a.layer() == b.layer();
    same_layer && alike_but_for_the_layer(a, b)
}

/// The same of ports of one card, in whichever places on it.
pub fn alike_on_one_card(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    let slot = |port: &PortView<'_>| port.device.pci.map(|pci| pci.slot());
    slot(a).is_some() && slot(a) == slot(b) && of_same_board(a, b)
}

/// The same, whichever link layer they are set to. Asked of each pair of rails by each attribute: what
/// is cheap to compare comes first.
pub fn alike_but_for_the_layer(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    same_place(a, b) && of_same_board(a, b)
}

fn of_same_board(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    let boards = (a.device.board_id.as_ref(), b.device.board_id.as_ref());
    let board = !matches!(boards, (Some(a), Some(b)) if a != b);
    let rails = a.rail && b.rail && a.device.function == b.device.function;
    rails && board && make(a).is_some_and(|made| make(b) == Some(made))
}

/// Driver and model, where both are known.
fn make<'a>(port: &PortView<'a>) -> Option<(&'a str, Cow<'a, str>)> {
    Some((kind::driver(port.device)?, kind::model(port.device)?))
}

/// Whether driver and model of a port's device are known, where it has any.
pub fn is_of_known_make(port: &PortView<'_>) -> bool {
    port.device.function == Function::Software || make(port).is_some()
}

/// The second ports of eight cards are not held against the first ones.
fn same_place(a: &PortView<'_>, b: &PortView<'_>) -> bool {
    let functions = (a.device.pci, b.device.pci);
    let same = !matches!(functions, (Some(a), Some(b)) if a.function != b.function);
    same && a.port.number == b.port.number
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Node, key};

    #[test]
    fn the_second_port_of_a_card() {
        let mut node = Node::infiniband();
        node.devices[1].pci = "0000:18:00.1".parse().ok();
        node.devices[2].pci = "0000:19:00.1".parse().ok();
        node.devices[3].pci = None;
        node.tick(1);
        let context = node.context();
        let second = |i| {
            let mut ports = context.ports().iter();
            let port = ports.find(|port| port.key == key(i)).unwrap();
            is_second(&context, port)
        };
        // Of the third card only the second function is there, the fourth has no place on the bus.
        assert_eq!(
            [0, 1, 2, 3, 4].map(second),
            [false, true, false, false, false]
        );
    }
}
