//! Rule 4: rails by the bandwidth of their kind.

use super::kind::{NicKind, kinds};
use super::{Open, Role, RolePort, decide};
use crate::observe::{Function, History, LinkLayer, remembered::RATE};
use crate::units::{BitsPerSec, PortKey};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The best rate of a port, in this boot or as remembered.
fn best_rate(port: &RolePort<'_>, history: &History) -> Option<BitsPerSec> {
    let of_boot = history.ports.get(&port.key).and_then(|seen| seen.best_rate);
    let (part, identity) = (port.key.to_string(), port.device.identity());
    let remembered = history.remembered.best(&part, identity, RATE);
    of_boot.max(remembered.map(BitsPerSec))
}

/// Rule 4: without GPUs to go by, the model with most ports at the highest rate.
pub(super) fn by_bandwidth(open: &mut Open<'_>, virtual_machine: bool) {
    let (ports, history) = (&open.ports, open.history);
    let kinds = kinds(ports).into_iter().map(|kind| {
        let alike = || ports.iter().filter(|port| port.kind().fits(&kind));
        let rate = alike().filter_map(|port| best_rate(port, history)).max();
        let count = alike().count() as u64;
        (kind, count, rate)
    });
    let kinds: Vec<_> = kinds.collect();
    let fastest = kinds.iter().filter_map(|(_, _, rate)| *rate).max();
    let best = kinds.iter().max_by_key(|(kind, count, rate)| {
        let assumed = rate.or(fastest).map_or(1, |rate| rate.0);
        let total = assumed.saturating_mul(*count);
        let is_ethernet = kind.link_layer == Some(LinkLayer::Ethernet);
        (total, !is_ethernet, rate.is_some(), Reverse(kind))
    });
    let Some((best, count, rate)) = best else {
        return;
    };
    let driver = best.driver.unwrap_or("unknown driver");
    let model = best.model.as_deref().unwrap_or("unknown model");
    let told = rate.map_or("never seen up".to_string(), |rate| format!("at {rate}"));
    let slower = slower_boards(ports, best, history);
    let odd = match virtual_machine {
        true => BTreeSet::new(),
        false => in_another_mode(ports, best, (history, &open.carriers)),
    };
    for port in ports {
        let board = port.device.board_id.as_deref();
        let (role, why) = if board.is_some_and(|board| slower.contains(board)) {
            let why = "of the rails' kind, but its boards are slower: another use";
            (Role::Other, why.to_string())
        } else if port.kind().fits(best) || odd.contains(&port.key) {
            let why =
                format!("one of {count} alike ({driver} {model}, {told}), the most bandwidth here");
            (Role::Rail, why)
        } else {
            let why = format!("less bandwidth than the {count} of {driver} {model}");
            (Role::Other, why)
        };
        decide(&mut open.roles, port, role, why);
    }
}

/// Ports that are of the rails' board and in another mode: one or two, where three or more rails are of it.
/// Not those that were up in theirs, which is meant then, nor those of a card by which the node is reached.
fn in_another_mode<'a>(
    ports: &'a [RolePort<'_>],
    rails: &NicKind<'_>,
    (history, carriers): (&History, &[RolePort<'_>]),
) -> BTreeSet<&'a PortKey> {
    let board = |of: &RolePort<'_>| of.device.board_id.clone();
    let is_odd = |port: &&RolePort<'a>| {
        let (kind, card) = (port.kind(), port.card());
        let of_rails = |rail: &&RolePort<'_>| rail.kind().fits(rails) && board(rail) == board(port);
        let differs = kind.is_complete() && kind.is_of_make(rails) && !kind.fits(rails);
        (differs && board(port).is_some() && port.device.function == Function::Physical)
            && best_rate(port, history).is_none()
            && carriers.iter().all(|of| of.card() != card)
            && ports.iter().filter(of_rails).count() >= 3
    };
    let odd = ports.iter().filter(is_odd).map(|port| &port.key);
    let odd: BTreeSet<&PortKey> = odd.collect();
    Some(odd).filter(|odd| odd.len() <= 2).unwrap_or_default()
}

/// Boards of one kind, two or more and fewer than half, that were up and never as fast as the rest:
/// what one model is sold as twice, for the fabric and for storage. One odd board is not that.
fn slower_boards<'a>(
    ports: &'a [RolePort<'_>],
    kind: &NicKind<'_>,
    history: &History,
) -> BTreeSet<&'a str> {
    let mut boards: BTreeMap<&str, (usize, Option<BitsPerSec>)> = BTreeMap::new();
    for port in ports.iter().filter(|port| port.kind().fits(kind)) {
        if let Some(board) = port.device.board_id.as_deref() {
            let (count, rate) = boards.entry(board).or_default();
            *count += 1;
            *rate = (*rate).max(best_rate(port, history));
        }
    }
    let all: usize = boards.values().map(|(count, _)| count).sum();
    let best = boards.values().filter_map(|(_, rate)| *rate).max();
    boards.retain(|_, (count, rate)| {
        *count >= 2 && *count * 2 < all && rate.is_some_and(|rate| Some(rate) < best)
    });
    boards.into_keys().collect()
}
