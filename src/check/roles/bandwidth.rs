//! Rule 4: rails by the bandwidth of their kind.

use super::kind::{Kind, kinds};
use super::{Port, Role, Roles, decide};
use crate::observe::history::History;
use crate::observe::rdma::LinkLayer;
use crate::observe::remembered::RATE;
use crate::units::BitsPerSec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The best rate of a port, in this boot or as remembered.
fn best_rate(port: &Port<'_>, history: &History) -> Option<BitsPerSec> {
    let of_boot = history.ports.get(&port.key).and_then(|seen| seen.best_rate);
    let (part, identity) = (port.key.to_string(), port.device.identity());
    let remembered = history.remembered.best(&part, identity, RATE);
    of_boot.max(remembered.map(BitsPerSec))
}

/// Rule 4: without GPUs to go by, the model with most ports at the highest rate.
pub(super) fn by_bandwidth(ports: &[Port<'_>], history: &History, roles: &mut Roles) {
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
        (
            assumed.saturating_mul(*count),
            kind.link_layer == Some(LinkLayer::Infiniband),
            rate.is_some(),
            Reverse(kind),
        )
    });
    let Some((best, count, rate)) = best else {
        return;
    };
    let driver = best.driver.unwrap_or("unknown driver");
    let model = best.model.as_deref().unwrap_or("unknown model");
    let told = rate.map_or("never seen up".to_string(), |rate| format!("at {rate}"));
    let slower = slower_boards(ports, best, history);
    for port in ports {
        let board = port.device.board_id.as_deref();
        if board.is_some_and(|board| slower.contains(board)) {
            let why = "of the rails' kind, but its boards are slower: another use";
            decide(roles, port, Role::Other, why);
        } else if port.kind().fits(best) {
            let why =
                format!("one of {count} alike ({driver} {model}, {told}), the most bandwidth here");
            decide(roles, port, Role::Rail, why);
        } else {
            let why = format!("less bandwidth than the {count} of {driver} {model}");
            decide(roles, port, Role::Other, why);
        }
    }
}

/// Boards of one kind, two or more and fewer than half, that were up and never as fast as the rest:
/// what one model is sold as twice, for the fabric and for storage. One odd board is not that.
fn slower_boards<'a>(
    ports: &'a [Port<'_>],
    kind: &Kind<'_>,
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
